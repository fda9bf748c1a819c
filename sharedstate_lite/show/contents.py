"""Reads what an engine stores, and makes one panel for each operator of an outline. Each state table is read once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .outline import OutlineEdge, OutlineOperator
from .panel import ONE_WAY, TWO_WAYS, Panel
from .table import DrawnTable, Limits, counted, cut, grouped, shown
from .text import wrap

State = Callable[..., pd.DataFrame]
"""The method ``engine.state``. Without arguments, it returns a table of all state; with a name, it returns rows."""
READ_AT_MOST = 20_000
"""Tables with more rows are counted but not read, because a picture shows at most eight rows."""

_INSIDE = {"accumulators": "counts and sums", "limbs": "exact sums, in parts"}
"""Readable captions for the parts of an aggregation's state, by their names in ``state()``."""


@dataclass(frozen=True)
class EngineContents:
    """What an engine stores: the table that ``state()`` returned, and the rows of each state table by name."""

    held: pd.DataFrame
    rows: dict[str, pd.DataFrame]
    filled: dict[str, list[tuple[Any, ...]]]
    """The filled keys of each partial table, by the table's name."""

    def bill(self) -> str:
        """Return the rows of durable inputs, working state and cached answers as text."""
        columns = {"durable": "durable inputs", "working": "working state", "cached": "cached answers"}
        rows = {name: self.held.loc[self.held["bill"].str.contains(part), "rows"] for part, name in columns.items()}
        return " · ".join(f"{name} {counted(int(each.sum()), 'row')}" for name, each in rows.items())

    def of(self, names: Sequence[str]) -> int:
        """Return the number of rows in the state tables with these names."""
        return int(self.held.loc[self.held["operator"].isin(list(names)), "rows"].sum())


def read(operators: Sequence[OutlineOperator], state: State, filled: Callable[[str], Any] | None) -> EngineContents:
    """Read what an engine stores. ``filled`` is ``engine.filled`` for partial state, otherwise None."""
    held = state()
    size = dict(zip(held["operator"], held["rows"], strict=True))
    cached = set(held.loc[held["bill"] == "cached", "operator"])
    names = [t for o in operators for t in o.tables if t in size]
    rows = {t: state(t) for t in names if size[t] <= READ_AT_MOST}
    keys = {t: _keys(filled, t) for t in names if filled is not None and t in cached}
    return EngineContents(held, rows, {t: k for t, k in keys.items() if k is not None})


def _keys(filled: Callable[[str], Any], name: str) -> list[tuple[Any, ...]] | None:
    """Return the filled keys of a table, or None for a part of a table, which does not have its own keys."""
    try:
        keys = filled(name)
    except ValueError:
        return None
    return [k if isinstance(k, tuple) else (k,) for k in keys]


def panels(
    operators: Sequence[OutlineOperator], edges: Sequence[OutlineEdge], content: EngineContents, limits: Limits
) -> dict[str, Panel]:
    """Return a panel for each operator. If a join also stores a source's rows, the source shows only their number."""
    keeping = {o.name for o in operators if o.kind == "join" and o.tables}
    copied = {e.source for e in edges if e.target in keeping and e.kind == "change"}
    asking = {e.source for e in edges if e.kind == "upquery"}
    out = {}
    for o in operators:
        inputs = sum(e.target == o.name and e.kind != "upquery" for e in edges)
        ports = TWO_WAYS if o.name in asking else ONE_WAY
        if o.tables and not (o.kind == "source" and o.name in copied):
            tables = [_table(name, o, content, limits) for name in o.tables]
            out[o.name] = Panel(
                o.name, o.title, o.detail, content.of(o.tables), tables, [], inputs, limits.title, ports
            )
        else:
            detail, words, rows = _wordy(o, content, limits)
            out[o.name] = Panel(o.name, o.title, detail, rows, [], words, inputs, limits.title, ports)
    return out


def _wordy(o: OutlineOperator, content: EngineContents, limits: Limits) -> tuple[str, list[str], int | None]:
    """Return the detail, the lines of text and the row count of a panel without tables."""
    if o.kind == "source":
        return "", ["base", counted(content.of(o.tables), "row")], None
    if o.kind == "view":
        return "", ["rows stored", "upstream"], None
    if o.kind in ("filter", "map") and o.detail:
        return "", wrap(o.detail, limits.cell * 1.6, 3), None
    return o.detail, ["no state"], None


def _table(name: str, operator: OutlineOperator, content: EngineContents, limits: Limits) -> DrawnTable:
    entry = content.held[content.held["operator"] == name].iloc[0]
    frame = content.rows.get(name)
    part = re.sub(r"\d+$", "", name.rsplit(".", 1)[-1])
    caption = _caption(part, str(entry["relation"]), operator) if len(operator.tables) > 1 else ""
    if frame is None:
        return cut(pd.DataFrame(), int(entry["rows"]), limits, caption)
    key = tuple(str(k) for k in entry["key"])
    notes: list[str] = []
    partial = name in content.filled
    if partial:
        empty = _empty(frame, key, content.filled[name])
        notes = [f"{', '.join(map(shown, k))}: no rows" for k in empty[:2]]
        notes += [f"{counted(len(empty) - 2, 'more key')}: no rows"] if len(empty) > 2 else []
        notes.append("all other keys: holes" if len(frame) or notes else "all keys: holes")
    multiset = operator.kind == "reduce" and name.startswith(f"{operator.name}.") and part not in _INSIDE
    if multiset and key and list(frame.columns[len(key) + 1 :]) == ["diff"]:
        values = grouped(frame, len(key))
        return cut(values, len(values), limits, caption, notes, hole=partial)
    return cut(frame, len(frame), limits, caption, notes, hole=partial)


def _empty(frame: pd.DataFrame, key: tuple[str, ...], filled: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the filled keys that have no rows."""
    if any(k not in frame.columns for k in key):
        return []
    there = {tuple(map(shown, row)) for row in frame[list(key)].itertuples(index=False)}
    return [k for k in filled if tuple(map(shown, k)) not in there]


def _caption(part: str, relation: str, operator: OutlineOperator) -> str:
    if operator.kind == "join":
        relation = re.sub(r"^π\((\w+)\)$", r"\1", relation)  # a table without its unused columns
        return f"{relation} side" if relation.isidentifier() else relation
    return _INSIDE.get(part, part)
