"""Selects the operators of an engine that are drawn, from the two data frames that ``engine.graph()`` returns.

Two kinds of operators are left out: projections that only select columns, and sources whose rows are stored by the
arrangement that follows them. Operators that store rows are always drawn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pandas as pd

from ..replay.texts import titled

Described = tuple[pd.DataFrame, pd.DataFrame]
"""The result of ``engine.graph()``: a data frame of operators and a data frame of edges."""

_COLUMNS = re.compile(r'(?:[\w."]+(?:, )?)*')


@dataclass(frozen=True)
class OutlineOperator:
    """An operator to draw. Its fields mean the same as the columns of the operators' data frame."""

    name: str
    kind: str
    title: str
    detail: str
    tables: tuple[str, ...]
    view: str


@dataclass(frozen=True)
class OutlineEdge:
    """An edge to draw: changes or reads from source to target, or upqueries that source sends to target."""

    source: str
    target: str
    kind: str
    trace_edge: tuple[str, str]
    """The edge's source and target in the trace, which differ from the fields if an operator was left out."""


def outline(described: Described) -> tuple[list[OutlineOperator], list[OutlineEdge]]:
    """Return the operators to draw and their edges."""
    frame, links = described
    operators = [
        OutlineOperator(r["name"], r["kind"], titled(r["title"]), r["detail"], tuple(r["tables"]), r["view"])
        for r in frame.to_dict("records")
    ]
    edges = [
        OutlineEdge(r["source"], r["target"], r["kind"], (r["source"], r["target"])) for r in links.to_dict("records")
    ]
    for operator in list(operators):
        if operator.kind == "map" and not operator.tables and _COLUMNS.fullmatch(operator.detail):
            operators, edges = _without(operator, operators, edges)
    for operator in list(operators):
        if operator.kind == "source" and not operator.tables:
            operators, edges = _moved(operator, operators, edges)
    return operators, edges


def _without(
    removed: OutlineOperator, operators: list[OutlineOperator], edges: list[OutlineEdge]
) -> tuple[list[OutlineOperator], list[OutlineEdge]]:
    """Return the graph without one operator. Its incoming edges are joined to its outgoing ones."""
    out: list[OutlineEdge] = []
    for edge in edges:
        if removed.name not in (edge.source, edge.target):
            out.append(edge)
        elif edge.source == removed.name:
            other = [e for e in edges if e.target == removed.name and (e.kind == "upquery") == (edge.kind == "upquery")]
            out += [replace(edge, source=e.source, kind="read" if e.kind == "read" else edge.kind) for e in other]
    return [o for o in operators if o != removed], out


def _moved(
    source: OutlineOperator, operators: list[OutlineOperator], edges: list[OutlineEdge]
) -> tuple[list[OutlineOperator], list[OutlineEdge]]:
    """Return the graph with a source replaced by the first arrangement of its rows, if there is one."""
    readers = [e.target for e in edges if e.source == source.name]
    first = next((o for o in operators if o.kind == "arrange" and o.name in readers), None)
    if first is None:
        return operators, edges
    merged = replace(first, kind="source", title=source.title)
    out = [
        replace(e, source=first.name) if e.source == source.name else e
        for e in edges
        if (e.source, e.target) != (source.name, first.name)
    ]
    return [merged if o == first else o for o in operators if o != source], out
