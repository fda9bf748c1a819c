"""Runs an engine message by message, and lists the effects of each message in a table.

    messages      turns the rows of tables into messages
    engine_after  returns a new engine that has processed some messages, one per epoch
    log           processes messages and lists the emitted changes and the number of rows in each operator
    trace_epoch   processes one epoch and lists the rows on each edge and each write to state

A message is ``(relation, row, diff)``: one inserted or deleted row. These tables are for full and shared state, where
operators receive every change. For partial state, use :mod:`.reads`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

import sharedstate_lite as ss

from ..changelog.changes import Changes
from ..engine.engine import Engine
from ..errors import Error, shorten
from ..plan.view import View

Message = tuple[str, tuple[Any, ...], int]
"""An inserted or deleted row, as (relation, row, diff)."""


def messages(tables: Mapping[str, pd.DataFrame], diff: int = 1) -> list[Message]:
    """Turn each row of each table into a message, in order.

    The diffs come from the table's ``diff`` column if it has one, as in tables from `data.load`. Otherwise every diff
    is ``diff``.
    """
    return [
        (relation, tuple(row), int(sign))
        for relation, table in tables.items()
        for *row, sign in _signed(table, diff).itertuples(index=False, name=None)
    ]


def _signed(table: pd.DataFrame, diff: int) -> pd.DataFrame:
    """Return the table with the diff as its last column."""
    signs = table["diff"] if "diff" in table else pd.Series(diff, index=table.index, dtype="int64")
    return table.drop(columns="diff", errors="ignore").astype(object).assign(diff=signs)


def engine_after(kind: str, views: Sequence[View], sent: Iterable[Message] = (), **options: Any) -> Engine:
    """Return a new engine of ``kind`` that has processed the messages, one per epoch.

    The options are those of ``ss.engine``. Raises the same errors as ``ss.engine`` and ``step``.
    """
    engine = ss.engine(kind, views, **options)
    for relation, row, diff in sent:
        engine.step({relation: [(row, diff)]})
    return engine


def log(engine: Engine, sent: Iterable[Message]) -> pd.DataFrame:
    """Process the messages, one per epoch, and return one row for each.

    The columns are epoch and message, then ``joins send`` with the rows that joins sent, and ``emitted`` with the
    changes of the first view and their kinds. Each part of the working state and of the cached answers has one more
    column, with the number of its rows. Clears the engine's trace.
    """
    first = next(iter(engine.views))
    lines = []
    told = [sent] if isinstance(sent, tuple) and len(sent) == 3 and isinstance(sent[0], str) else list(sent)
    if wrong := next((each for each in told if not isinstance(each, tuple) or len(each) != 3), None):
        raise Error(f'{shorten(wrong)} is no message: write ("visit", ("Potato", "Eve", 60), +1)')
    for relation, row, diff in told:
        out = _traced(engine, {relation: [(row, diff)]})
        joins = set(engine.graph()[0].query("kind == 'join'").name)
        own = engine.state().query("bill != 'durable'")
        shown = f"{_sign(diff)}{relation} {' '.join(map(_word, row))}"
        sent_on = (rows(e.payload) for e in engine.trace.named("message") if e.source in joins)
        line = {"epoch": engine.epoch, "message": shown, "joins send": ", ".join(filter(None, sent_on))}
        line["emitted"] = kinds(out[first])
        lines.append(line | dict(zip(own["operator"], own["rows"], strict=True)))
    return pd.DataFrame(lines)


def trace_epoch(engine: Engine, inputs: Any) -> pd.DataFrame:
    """Step one epoch, and return one row for each message between operators and each write to state.

    The columns are from, to and what. For a message, ``what`` lists its rows, with their kinds of change if it goes to
    a view. For a write, ``to`` is empty and ``what`` contains the number of rows. Clears the engine's trace.
    """
    out = _traced(engine, inputs)
    title = {n.name: _titled(n) for n in engine.graph()[0].itertuples()}
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
    """Return rows with their signs as text, such as ``+ Potato Eve 60, − Carrot Bob 50``."""
    frame = changes.to_pandas()
    values = frame.iloc[:, :-2].astype(object).itertuples(index=False, name=None)
    return ", ".join(f"{_sign(d)}{' '.join(map(_word, r))}" for r, d in zip(values, frame["diff"], strict=True))


def kinds(changes: Changes) -> str:
    """Return rows with their kinds of change as text, such as ``-U Vegetable 50, +U Vegetable 60``."""
    values = changes.to_pandas().iloc[:, :-2].astype(object).itertuples(index=False, name=None)
    return ", ".join(f"{k} {' '.join(map(_word, r))}" for k, r in zip(changes.kinds(), values, strict=True))


def _traced(engine: Engine, inputs: Any) -> dict[str, Changes]:
    """Step the engine after clearing its trace, with a trace that keeps the rows of messages."""
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    engine.trace.clear()
    try:
        return engine.step(inputs)
    finally:
        engine.trace.keep_rows = kept


def _titled(node: Any) -> str:
    """Return the title of an operator as it is shown in pictures, with function names in capitals."""
    return (re.sub(r"\b[a-z]+(?=\()", lambda found: found[0].upper(), node.title) + f" {node.detail}").rstrip()


def _sign(diff: int) -> str:
    return {1: "+ ", -1: "− "}.get(int(diff), f"{diff:+d} × ".replace("-", "−"))


def _word(value: Any) -> str:
    return "NULL" if value is None or value is pd.NA else str(value)


__all__ = ["Message", "engine_after", "kinds", "log", "messages", "rows", "trace_epoch"]
