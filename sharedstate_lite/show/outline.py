"""The operators of an engine that are worth drawing, from the two frames of ``engine.graph()``.

Left out are projections that only pick columns, and sources whose rows are stored by the
arrangement behind them. No operator that stores rows is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pandas as pd

Described = tuple[pd.DataFrame, pd.DataFrame]
"""What ``engine.graph()`` returns: operators and edges."""

_FUNCTION = re.compile(r"\b(max|min|sum|count|avg)\(")
_COLUMNS = re.compile(r'(?:[\w."]+(?:, )?)*')


@dataclass(frozen=True)
class OutlineOperator:
    """An operator to draw; fields as in the operators' frame."""

    name: str
    kind: str
    title: str
    detail: str
    tables: tuple[str, ...]
    view: str


@dataclass(frozen=True)
class OutlineEdge:
    """A change or a read from source to target, or an upquery from the asking operator to the asked one."""

    source: str
    target: str
    kind: str
    trace_edge: tuple[str, str]
    """Source and target in the trace, which differ if an operator between the two is left out."""


def outline(described: Described) -> tuple[list[OutlineOperator], list[OutlineEdge]]:
    """The operators to draw, and their edges."""
    frame, links = described
    operators = [
        OutlineOperator(
            r["name"], r["kind"], _FUNCTION.sub(_upper, r["title"]), r["detail"], tuple(r["tables"]), r["view"]
        )
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


def _upper(found: re.Match[str]) -> str:
    return found[0].upper()


def _without(
    removed: OutlineOperator, operators: list[OutlineOperator], edges: list[OutlineEdge]
) -> tuple[list[OutlineOperator], list[OutlineEdge]]:
    """The graph without one operator, its edges joined."""
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
    """The graph with a source shown as the first arrangement of its rows, if there is one."""
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
