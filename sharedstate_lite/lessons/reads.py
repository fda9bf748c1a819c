"""Asking a partial engine, and its messages taken in hand: what each read costs, as tables.

    begun       a new engine that has done some actions, each an epoch or a read
    asked       a read line by line: every question that went up, every answer that came down
    edges       what went along each edge, counted: questions and answers, messages and rows
    paused      an engine that stops, and sends what some actions make it send
    anew        the same engine begun, and paused, as often as wanted
    underway    the messages that then wait
    hand_over   deliver the oldest message on one edge, or on each edge of a path
    orders      the same actions in every order of delivery that the edges allow

An action is an epoch (a mapping from relation to rows, as ``step`` takes it) or a point
read, ``(view, key)``.

For a notebook, a terminal or a test: calls an engine as anybody would, and returns frames
of text and numbers. Full and shared state answer a read by themselves, so there is
nothing to tell of them here (see :mod:`.epochs` for their epochs).
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
"""What to do with an engine: an epoch to step, or a view and a key to read."""


def start(views: Sequence[View], actions: Iterable[Action], kind: str = "partial", **options: Any) -> Any:
    """A new engine of ``kind`` that has done the actions, in their order. Raises what an engine raises."""
    engine = ss.engine(kind, views, **options)
    for action in actions:
        _act(engine, action)
    return engine


def pause(engine: Any, *actions: Action) -> Any:
    """The same engine, paused, after the actions: what they send waits on its edges."""
    engine.pause()
    for action in actions:
        _act(engine, action)
    return engine


def race(views: Sequence[View], past: Sequence[Action], *actions: Action) -> Callable[..., Any]:
    """What begins the same race anew: called with the fixes to switch off, it gives a new engine.

    That engine has done ``past``; where there are ``actions`` it is then paused, and what they send waits.
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
    """Read a key and tell it line by line: who, to whom, and what. Earlier events of the trace are forgotten.

    Columns: from, to, what. A line without ``to`` says what an operator found or wrote.
    """
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    engine.trace.clear()
    try:
        engine.read(view, key=key)
    finally:
        engine.trace.keep_rows = kept
    return trace_lines(engine)


def trace_lines(engine: Any) -> pd.DataFrame:
    """The events of a partial engine's trace as lines: from, to, what.

    Operators are called by what they do (JOIN, COUNT(*)) where that is one operator alone,
    else by their names. What passes through a projection is told once, as it comes out.
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
    """The messages of the trace by edge, in the order of the first: from, to, kind, messages, rows.

    ``rows`` are keys where a question went up, and rows of data where an answer came down.
    Also for an engine on Spark, whose trace counts rows and carries none: there a question
    that goes to all bins of an operator is one message for each of them.
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
    """max(length) as SQL is mostly written: MAX(length)."""
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
        "hit": "is asked: filled, nobody else is asked",
        "state": "writes to its state",
        "dropped": "drops what came for a hole",
        "evicted": "forgets keys: holes from now on",
    }.get(event.name, "")


def _few(text: str, most: int = 4) -> str:
    """The first rows of a text of rows, and how many more there are."""
    parts = text.split(", ")
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def pending(engine: Any) -> pd.DataFrame:
    """The messages that wait, in the order sent: from, to, kind, keys, rows."""
    lines = [
        [*m.edge, m.kind, ", ".join(" ".join(map(str, k)) for k in m.key or []), m.rows] for m in engine.messages()
    ]
    return pd.DataFrame(lines, columns=["from", "to", "kind", "keys", "rows"])


def deliver(engine: Any, *path: str) -> pd.DataFrame:
    """Deliver the oldest message on each edge of a path of operators, of a paused engine; returns what then waits.

    Two names are one edge. Raises Error where no message waits on an edge when its turn comes.
    """
    for source, target in pairwise(path):
        edges = [m.edge for m in engine.messages()]
        if (source, target) not in edges:
            there = ", ".join(dict.fromkeys(f"{a} -> {b}" for a, b in edges)) or "none"
            raise Error(f"no message waits on {source} -> {target}; edges with messages: {there}")
        engine.deliver(edges.index((source, target)))
    return pending(engine)


def orders(engine: Any, actions: Sequence[Action], turns: int = 8) -> Iterator[Any]:
    """Engines, one for each order in which the actions' messages can be delivered.

    ``engine`` is copied, never touched. Each turn takes the next action or delivers the
    oldest message of one edge; after ``turns`` of them the rest goes oldest first.
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


__all__ = ["Action", "race", "trace_read", "start", "edges", "deliver", "orders", "pause", "trace_lines", "pending"]
