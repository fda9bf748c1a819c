"""The messages of reads under partial state: listed, counted, and delivered by hand or in every order.

    start        a new engine that has done some actions
    trace_read   one read: every upquery and every response
    trace_lines  the events of a trace as such lines
    edges        messages and rows on each edge
    pause        a paused engine; what some actions send waits
    race         a function that builds the same paused engine again
    pending      the messages that wait
    deliver      deliver the oldest message on an edge, or on each edge of a path
    orders       the same actions in every order of delivery that the edges allow

An action is an epoch (a mapping from relation to rows, as ``step`` takes it) or a point read ``(view, key)``. Full
and shared state answer a read from the view, so there is nothing to list; :mod:`.epochs` shows their epochs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

import sharedstate_lite as ss

from ..errors import Error
from ..plan.view import View
from .epochs import rows

Action = Mapping[str, Any] | tuple[str, Any]
"""An epoch to step, or a view and a key to read."""


def start(views: Sequence[View], actions: Iterable[Action], kind: str = "partial", **options: Any) -> Any:
    """A new engine of ``kind`` that has done the actions in order. Raises what an engine raises."""
    engine = ss.engine(kind, views, **options)
    for action in actions:
        _act(engine, action)
    return engine


def pause(engine: Any, *actions: Action) -> Any:
    """Pause the engine and do the actions; the messages that they send wait on their edges."""
    engine.pause()
    for action in actions:
        _act(engine, action)
    return engine


def race(views: Sequence[View], past: Sequence[Action], *actions: Action) -> Callable[..., Any]:
    """A function that builds the same engine each time; its arguments are the fixes to switch off.

    The engine has done ``past``. If there are ``actions``, it is then paused, and the messages that they send wait.
    """

    def begin(*without: str) -> Any:
        engine = start(views, past, without=without)
        return pause(engine, *actions) if actions else engine

    return begin


def _act(engine: Any, action: Action) -> None:
    if isinstance(action, Mapping):
        engine.step(action)
    else:
        view, key = action
        engine.read(view, key=key)


def trace_read(engine: Any, view: str, key: Any) -> pd.DataFrame:
    """Read a key; one row for each event. Columns: from, to, what; without ``to``, the event is inside an operator.

    Clears the engine's trace.
    """
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    engine.trace.clear()
    try:
        engine.read(view, key=key)
    finally:
        engine.trace.keep_rows = kept
    return trace_lines(engine)


def trace_lines(engine: Any) -> pd.DataFrame:
    """The events of a partial engine's trace as rows: from, to, what.

    An operator is shown by its title (JOIN, COUNT(*)) if that is unique, otherwise by its name. Projections are left
    out: a message through one is shown once.
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
    """The messages of the trace by edge, in order of first use: from, to, kind, messages, rows.

    ``rows`` counts keys for a question (upquery) and rows for an answer. Works for an engine on Spark too, where a
    question to all bins of an operator counts as one message for each bin.
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
    """max(length) as MAX(length)."""
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
        return f"answers {_few(moved.replace('+ ', ''))}" if moved else "answers: no rows"
    if event.name == "message":
        return f"evicts {keys or 'all'}" if event.note == "evict" else f"sends {_few(moved)}"
    return {
        "hole": "is asked: a hole",
        "hit": "is asked: filled, so no upquery is sent",
        "state": "writes to its state",
        "dropped": "drops what came for a hole",
        "evicted": "forgets keys: holes from now on",
    }.get(event.name, "")


def _few(text: str, most: int = 4) -> str:
    """The first rows of a text of rows, and the number of the others."""
    parts = text.split(", ")
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def pending(engine: Any) -> pd.DataFrame:
    """The messages that wait, in the order sent. Columns: from, to, kind, keys, rows."""
    lines = [
        [*m.edge, m.kind, ", ".join(" ".join(map(str, k)) for k in m.key or []), m.rows] for m in engine.messages()
    ]
    return pd.DataFrame(lines, columns=["from", "to", "kind", "keys", "rows"])


def deliver(engine: Any, *path: str) -> pd.DataFrame:
    """Deliver the oldest message on each edge of a path of operators, in a paused engine; return what still waits.

    A path of two names is one edge. Raises Error if no message waits on an edge when its turn comes.
    """
    for source, target in pairwise(path):
        edges = [m.edge for m in engine.messages()]
        if (source, target) not in edges:
            there = ", ".join(dict.fromkeys(f"{a} -> {b}" for a, b in edges)) or "none"
            raise Error(f"no message waits on {source} -> {target}. Edges with messages: {there}.")
        engine.deliver(edges.index((source, target)))
    return pending(engine)


def orders(engine: Any, actions: Sequence[Action], turns: int = 8) -> Iterator[Any]:
    """Yield one engine for each order in which the messages of the actions can be delivered.

    Works on copies of ``engine``. Each turn does the next action or delivers the oldest message of one edge; after
    ``turns`` turns the other messages are delivered oldest first.
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


__all__ = ["Action", "deliver", "edges", "orders", "pause", "pending", "race", "start", "trace_lines", "trace_read"]
