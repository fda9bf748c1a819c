"""Describes the operators of an engine and the edges between them, in two DataFrames for charts and the stepper.

    operators   name, kind, title, detail, tables, view
    edges       source, target, kind

The operators have the same names as in the engine's trace, so every message in the trace belongs to one of the edges.

The ``kind`` of an operator is source, arrange, join, reduce, distinct, filter, map, union or view. Its ``title`` and
``detail`` are the two lines of its label, such as "JOIN" and "on product". Its ``tables`` are the names of its tables
in ``engine.state()``. Its ``view`` is the view that it was created for.

The ``kind`` of an edge is change if it carries rows with diffs, read if the target reads through a trace handle, and
upquery if the source requests keys from the target.
"""

from __future__ import annotations

import pandas as pd

from .explain import aggregate, column_names, expression
from .nodes import Filter, Join, Map, Node, Reduce, Union

OPERATORS = ["name", "kind", "title", "detail", "tables", "view"]
EDGES = ["source", "target", "kind"]

Row = tuple[str, str, str, str, tuple[str, ...], str]


def describe(node: Node) -> tuple[str, str, str]:
    """Return the kind, the title and the detail of an operator in a plan."""
    if isinstance(node, Union):
        return "union", "UNION ALL", ""
    if not node.inputs:
        return "source", getattr(node, "relation", "?"), ""
    names = column_names(node) if isinstance(node, Join) else [c.name for c in node.inputs[0].schema]
    if isinstance(node, Filter):
        return "filter", "WHERE", expression(node.predicate, names)
    if isinstance(node, Map):
        return "map", "SELECT", ", ".join(expression(e, names) for e in node.exprs)
    if isinstance(node, Join):
        width = len(node.left.schema)
        pairs = [(names[a], names[width + b]) for a, b in zip(node.left_keys, node.right_keys, strict=True)]
        bare = [(a.rsplit(".")[-1], b.rsplit(".")[-1]) for a, b in pairs]
        on = ", ".join(x if x == y else f"{a} = {b}" for (a, b), (x, y) in zip(pairs, bare, strict=True))
        return "join", "LEFT JOIN" if node.outer else "JOIN", f"on {on}"
    assert isinstance(node, Reduce)
    by = ", ".join(names[k] for k in node.keys)
    if not node.aggs:
        return "distinct", "DISTINCT", by
    return "reduce", ", ".join(aggregate(a, names) for a in node.aggs), f"by {by}" if by else "over all rows"


def frames(operators: list[Row], edges: list[tuple[str, str, str]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the DataFrame of operators and the DataFrame of edges, without duplicate edges."""
    unique = list(dict.fromkeys(edges))
    return pd.DataFrame(operators, columns=OPERATORS), pd.DataFrame(unique, columns=EDGES)
