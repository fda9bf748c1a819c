"""Lists and counts the messages of reads under partial state, and delivers them in every order.

    start        returns a new engine that has performed some actions
    trace_read   performs one read and lists its upqueries and responses
    trace_lines  lists the events of an engine's trace in the same format
    edges        counts messages and rows on each edge
    orders       performs the same actions in every possible order of delivery

An action is an epoch (a mapping from relation to rows, as for ``step``) or a point read ``(view, key)``. Full
and shared state answer a read from the view and do not send messages. For their epochs, see :mod:`.epochs`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

import sharedstate_lite as ss

from ..plan.view import View
from .epochs import rows

Action = Mapping[str, Any] | tuple[str, Any]
"""An epoch to step, or a read as (view, key)."""


def start(views: Sequence[View], actions: Iterable[Action], kind: str = "partial", **options: Any) -> Any:
    """Return a new engine of ``kind`` that has performed the actions in order.

    The options are those of ``ss.engine``. Raises the same errors as the engine.
    """
    engine = ss.engine(kind, views, **options)
    for action in actions:
        _act(engine, action)
    return engine


def _act(engine: Any, action: Action) -> None:
    if isinstance(action, Mapping):
        engine.step(action)
    else:
        view, key = action
        engine.read(view, key=key)


def trace_read(engine: Any, view: str, key: Any) -> pd.DataFrame:
    """Read a key, and return one row for each event, with the columns from, to and what.

    If ``to`` is empty, the event happened inside an operator. Clears the engine's trace.
    """
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    engine.trace.clear()
    try:
        engine.read(view, key=key)
    finally:
        engine.trace.keep_rows = kept
    return trace_lines(engine)


def trace_lines(engine: Any) -> pd.DataFrame:
    """Return the events of a partial engine's trace, with the columns from, to and what.

    An operator is shown by its title (such as JOIN or COUNT(*)) if that is unique, and otherwise by its name.
    Projections are not shown, and a message that passes through a projection is listed once.
    """
    nodes, edges = engine.graph()
    shown = [n.name if n.kind in ("source", "view") else _capital(n.title) for n in nodes.itertuples()]
    called = {n: t if shown.count(t) == 1 else n for n, t in zip(nodes["name"], shown, strict=True)}
    maps = set(nodes.loc[nodes["kind"] == "map", "name"])
    above = {e.target: e.source for e in edges.itertuples() if e.target in maps and e.kind == "change"}
    below = {e.source: e.target for e in edges.itertuples() if e.source in maps and e.kind == "change"}
    lines = []
    for event in engine.trace:
        said = _said(event)
        if not said or event.target in maps:
            continue
        source, through = event.source, below if event.name == "upquery" else above
        while source in maps:
            source = through[source]
        lines.append([called[source], called.get(event.target, ""), said])
    return pd.DataFrame(lines, columns=["from", "to", "what"])


def edges(engine: Any) -> pd.DataFrame:
    """Count the messages in the trace by edge, with the columns from, to, kind, messages and rows.

    Edges are listed in the order of their first message. ``kind`` is question (an upquery), answer (a response), change
    or evict. For questions, ``rows`` is the number of keys. The function also works for an engine on Spark, where an
    upquery to all bins of an operator is counted as one message per bin.
    """
    told: dict[tuple[str, str, str], list[int]] = {}
    for event in engine.trace:
        if event.name in ("upquery", "response", "message"):
            kind = {"upquery": "question", "response": "answer"}.get(event.name, event.note or "change")
            count = told.setdefault((event.source, event.target, kind), [0, 0])
            count[0] += 1
            count[1] += event.rows
    lines = [[*edge, *count] for edge, count in told.items()]
    return pd.DataFrame(lines, columns=["from", "to", "kind", "messages", "rows"])


def _capital(title: str) -> str:
    """Write the function of a title in capitals, as in MAX(length) for max(length)."""
    function, bracket, rest = title.partition("(")
    return function.upper() + bracket + rest


def _said(event: Any) -> str:
    given = event.payload if isinstance(event.payload, dict) else {}
    keys = ", ".join(" ".join(map(str, key)) for key in given.get("key") or [])
    carried = given.get("rows")
    moved = rows(carried) if carried is not None else ""
    if event.name == "upquery":
        return f"asks for {keys or f'{event.rows} keys'}"
    if event.name == "response":
        return f"answers {_few(moved.replace('+ ', ''))}" if moved else "answers with no rows"
    if event.name == "message":
        return f"evicts {keys or 'all keys'}" if event.note == "evict" else f"sends {_few(moved)}"
    return {
        "hole": "has a hole for the key",
        "hit": "has the key, so it does not send an upquery",
        "state": "writes to its state",
        "dropped": "drops a change because its key is a hole",
        "evicted": "evicts keys, which become holes",
    }.get(event.name, "")


def _few(text: str, most: int = 4) -> str:
    """Shorten a comma-separated text of rows to its first ``most`` rows and the number of the others."""
    parts = text.split(", ")
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def orders(engine: Any, actions: Sequence[Action], turns: int = 8) -> Iterator[Any]:
    """Yield one engine for each order in which the messages of the actions can be delivered.

    Works on copies of ``engine``. Each turn performs the next action, or delivers the oldest message on one edge. After
    ``turns`` turns, the remaining actions are performed, and the remaining messages are delivered oldest first.
    """
    start = copy.deepcopy(engine)
    start.pause()
    yield from _branches(start, list(actions), turns)


def _branches(engine: Any, actions: list[Action], turns: int) -> Iterator[Any]:
    first: dict[tuple[str, str], int] = {}
    for number, message in enumerate(engine.messages()):
        first.setdefault(message.edge, number)
    if not turns or not (first or actions):
        for action in actions:
            _act(engine, action)
        engine.resume()
        yield engine
        return
    for number in first.values():
        branch = copy.deepcopy(engine)
        branch.deliver(number)
        yield from _branches(branch, actions, turns - 1)
    if actions:
        branch = copy.deepcopy(engine)
        _act(branch, actions[0])
        yield from _branches(branch, actions[1:], turns - 1)


__all__ = ["Action", "edges", "orders", "start", "trace_lines", "trace_read"]
