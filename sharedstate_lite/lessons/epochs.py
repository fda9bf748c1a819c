"""Walking an engine through messages, and telling as tables what each of them did.

    messages    the rows of some tables as messages, one row each
    played      a new engine that has taken some messages in, each as an epoch of its own
    walk        more messages through an engine: what each made the view emit, and who then holds how many rows
    travelled   one epoch in detail: every row that moved along an edge, every piece of state that was written
    own_rows    the rows that an engine holds beside the base tables

For a notebook, a terminal or a test: it calls an engine as anybody would, reads its trace
and its state, and returns frames of text and numbers. Draws nothing (that is
:mod:`..show`); needs operators that see every change, so full and shared state.

A message is ``(relation, row, diff)``: one row, coming or going.
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
    """Every row of every table as a message, in the order of the tables and of their rows.

    A table with a ``diff`` column, as :func:`data.load` gives, says the sign of each row itself.
    """
    return [
        (relation, tuple(row), int(sign))
        for relation, table in tables.items()
        for *row, sign in _signed(table, diff).itertuples(index=False, name=None)
    ]


def _signed(table: pd.DataFrame, diff: int) -> pd.DataFrame:
    """The table with its signs as the last column."""
    signs = table["diff"] if "diff" in table else pd.Series(diff, index=table.index, dtype="int64")
    return table.drop(columns="diff", errors="ignore").astype(object).assign(diff=signs)


def engine_after(kind: str, views: Sequence[View], sent: Iterable[Message] = (), **options: Any) -> Engine:
    """A new engine of ``kind`` that has taken the messages in, one an epoch. Raises what an engine raises."""
    engine = ss.engine(kind, views, **options)
    for relation, row, diff in sent:
        engine.step({relation: [(row, diff)]})
    return engine


def own_rows(engine: Engine) -> int:
    """Rows held beside the base tables."""
    state = engine.state()
    return int(state.loc[~state["base"], "rows"].sum())


def log(engine: Engine, sent: Iterable[Message], view: str | None = None) -> pd.DataFrame:
    """Send the messages, each an epoch; one line each.

    Columns: epoch, message, ``joins send`` (the rows that left a join), ``emitted`` (the
    changes of the view, by default the first one, by their kinds), and for each piece of
    state beside the base tables its rows after the message. Earlier events of the
    engine's trace are forgotten.
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
    """Step one epoch and tell it line by line: who, to whom, and the rows.

    Columns: from, to, what. A message says the rows that it carried; a line whose ``to``
    is empty says that an operator wrote to state of its own, and how many rows; the last
    ones say a view's changes by their kinds. Earlier events of the trace are forgotten.
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
    """Step with the rows kept in the trace, and nothing older in it."""
    kept, engine.trace.keep_rows = engine.trace.keep_rows, True
    engine.trace.clear()
    try:
        return engine.step(inputs)
    finally:
        engine.trace.keep_rows = kept


def _titled(node: Any) -> str:
    """An operator as pictures have it: functions in capitals."""
    return re.sub(r"\b[a-z]+(?=\()", lambda found: found[0].upper(), node.title) + f" {node.detail}"


def _sign(diff: int) -> str:
    return {1: "+ ", -1: "− "}.get(int(diff), f"{diff:+d} × ".replace("-", "−"))


def _word(value: Any) -> str:
    return "NULL" if value is None or value is pd.NA else str(value)


__all__ = ["Message", "kinds", "messages", "own_rows", "engine_after", "rows", "trace_epoch", "log"]
