"""Run an engine message by message, and say as a table what each message did.

    messages      the rows of some tables as messages
    engine_after  a new engine that has processed some messages, one in each epoch
    log           process more messages: what the view emitted, and how many rows each operator stores
    trace_epoch   one epoch in detail: the rows on each edge, and each write to state
    own_rows      the rows that an engine stores besides the base tables

A message is ``(relation, row, diff)``: one inserted or deleted row. These tables need operators that see every
change, so they are for full and shared state; :mod:`.reads` is for partial state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

import sharedstate_lite as ss

from ..changelog.changes import Changes
from ..engine.engine import Engine
from ..plan.view import View

Message = tuple[str, tuple[Any, ...], int]
"""Relation, row, diff."""


def messages(tables: Mapping[str, pd.DataFrame], diff: int = 1) -> list[Message]:
    """Each row of each table as a message, in order. A table may have its own ``diff`` column, as from `data.load`."""
    return [
        (relation, tuple(row), int(sign))
        for relation, table in tables.items()
        for *row, sign in _signed(table, diff).itertuples(index=False, name=None)
    ]


def _signed(table: pd.DataFrame, diff: int) -> pd.DataFrame:
    """The table with its diff as the last column."""
    signs = table["diff"] if "diff" in table else pd.Series(diff, index=table.index, dtype="int64")
    return table.drop(columns="diff", errors="ignore").astype(object).assign(diff=signs)


def engine_after(kind: str, views: Sequence[View], sent: Iterable[Message] = (), **options: Any) -> Engine:
    """A new engine of ``kind`` that has processed the messages, one in each epoch. Raises what an engine raises."""
    engine = ss.engine(kind, views, **options)
    for relation, row, diff in sent:
        engine.step({relation: [(row, diff)]})
    return engine


def own_rows(engine: Engine) -> int:
    """Rows held beside the base tables."""
    state = engine.state()
    return int(state.loc[~state["base"], "rows"].sum())


def log(engine: Engine, sent: Iterable[Message], view: str | None = None) -> pd.DataFrame:
    """Process the messages, one in each epoch; one row for each.

    Columns: epoch; message; ``joins send``: the rows that left a join; ``emitted``: the changes of ``view`` (by default
    the first) with their kinds; then for each operator with state the rows that it stores. Clears the engine's trace.
    """
    watched = view or next(iter(engine.views))
    lines = []
    for relation, row, diff in sent:
        out = _traced(engine, {relation: [(row, diff)]})
        joins = set(engine.graph()[0].query("kind == 'join'").name)
        left = [e.payload for e in engine.trace.named("message") if e.source in joins]
        state = engine.state()
        own = state[~state["base"]]
        told = f"{_sign(diff)}{relation} {' '.join(map(_word, row))}"
        line = {"epoch": engine.epoch, "message": told, "joins send": ", ".join(filter(None, map(rows, left)))}
        line["emitted"] = kinds(out[watched])
        lines.append(line | dict(zip(own["operator"], own["rows"], strict=True)))
    return pd.DataFrame(lines)


def trace_epoch(engine: Engine, inputs: Any) -> pd.DataFrame:
    """Step one epoch; one row for each message and each write to state.

    Columns: from, to, what. For a message, ``what`` has its rows, or the kinds of change if it reaches a view. For a
    write, ``to`` is empty and ``what`` has the number of rows. Clears the engine's trace.
    """
    out = _traced(engine, inputs)
    nodes, _ = engine.graph()
    title = {n.name: n.name if n.kind in ("source", "view") else _titled(n) for n in nodes.itertuples()}
    lines = []
    for event in engine.trace:
        if event.name == "message":
            final = out.get(event.target)
            said = rows(event.payload) if final is None else kinds(final)
            lines.append([title[event.source], title[event.target], said])
        elif event.name == "state":
            lines.append([title[event.source], "", f"writes {event.rows} to {event.target}"])
    return pd.DataFrame(lines, columns=["from", "to", "what"])


def rows(changes: Changes) -> str:
    """Rows with their signs, as text: ``+ Potato Eve 60, − Carrot Bob 50``."""
    frame = changes.to_pandas()
    values = frame.iloc[:, :-2].astype(object).itertuples(index=False, name=None)
    return ", ".join(f"{_sign(d)}{' '.join(map(_word, r))}" for r, d in zip(values, frame["diff"], strict=True))


def kinds(changes: Changes) -> str:
    """Rows with their kinds of change, as text: ``-U Vegetable 50, +U Vegetable 60``."""
    values = changes.to_pandas().iloc[:, :-2].astype(object).itertuples(index=False, name=None)
    return ", ".join(f"{k} {' '.join(map(_word, r))}" for k, r in zip(changes.kinds(), values, strict=True))


def _traced(engine: Engine, inputs: Any) -> dict[str, Changes]:
    """Step with an empty trace that keeps rows."""
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    engine.trace.clear()
    try:
        return engine.step(inputs)
    finally:
        engine.trace.keep_rows = kept


def _titled(node: Any) -> str:
    """The title of an operator as pictures show it, with functions in capitals."""
    return re.sub(r"\b[a-z]+(?=\()", lambda found: found[0].upper(), node.title) + f" {node.detail}"


def _sign(diff: int) -> str:
    return {1: "+ ", -1: "− "}.get(int(diff), f"{diff:+d} × ".replace("-", "−"))


def _word(value: Any) -> str:
    return "NULL" if value is None or value is pd.NA else str(value)


__all__ = ["Message", "engine_after", "kinds", "log", "messages", "own_rows", "rows", "trace_epoch"]
