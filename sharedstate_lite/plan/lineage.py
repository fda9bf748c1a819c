"""Column lineage: the input column that an output column copies.

A key can be looked up below an operator only if the operator copies its columns. Shared state uses this to arrange a
base relation instead of a projection of it; partial state to send an upquery down to the base tables; Spark to see
that rows already are in the right bin.

>>> from sharedstate_lite.sql.catalog import Catalog
>>> catalog = Catalog(visit="product STRING, length INT")
>>> plan = catalog.view("CREATE VIEW v AS SELECT length AS seconds, length / 60 AS minutes FROM visit").plan
>>> input_columns(plan, (0,)), input_columns(plan, (1,))
((1,), None)
>>> print(why_computed(plan, 0), why_computed(plan, 1), sep="; ")
None; is computed

The term is that of data provenance: Buneman et al., Why and Where, ICDT 2001 (where-provenance).
"""

from __future__ import annotations

from .nodes import Col, Filter, Join, Map, Node, Reduce, Scan, Union


def copied_from(node: Node, column: int) -> tuple[tuple[int, int], ...]:
    """Return the (input number, input column) pairs that output ``column`` copies.

    A union has one pair per input, any other operator at most one. There is none for a base relation, a computed
    column, an aggregate, and the right side of a LEFT JOIN.
    """
    if isinstance(node, Union):
        return tuple((number, column) for number in range(len(node.parts)))
    if isinstance(node, Filter):
        return ((0, column),)
    if isinstance(node, Map):
        expr = node.exprs[column]
        return ((0, expr.index),) if isinstance(expr, Col) else ()
    if isinstance(node, Reduce):
        return ((0, node.keys[column]),) if column < len(node.keys) else ()
    if isinstance(node, Join):
        width = len(node.left.schema)
        if column < width:
            return ((0, column),)
        return () if node.outer else ((1, column - width),)
    return ()


def input_columns(node: Node, columns: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the columns that output ``columns`` copy of the one input of ``node``; None if one of them is computed."""
    found = [copied_from(node, column) for column in columns]
    return tuple(pairs[0][1] for pairs in found) if all(found) else None


def why_computed(node: Node, column: int) -> str | None:
    """Return None if output ``column`` copies columns of base relations, else the reason ("is computed")."""
    if isinstance(node, Scan):
        return None
    copied = copied_from(node, column)
    if not copied:
        if isinstance(node, Join):
            return "comes from the right side of a LEFT JOIN"
        return "is an aggregate" if isinstance(node, Reduce) else "is computed"
    reasons = (why_computed(node.inputs[number], below) for number, below in copied)
    return next((reason for reason in reasons if reason is not None), None)
