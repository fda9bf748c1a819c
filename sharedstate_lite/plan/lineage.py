"""Column lineage: finds the input column that an output column copies.

A key can be looked up below an operator only if the operator copies the key's columns. Three parts of the kit use the
lineage of a key. Shared state uses it to arrange a base relation instead of a projection of it. Partial state uses it
to send upqueries down to the base tables. The engines on Spark use it to find out whether rows are already in the right
bin.

>>> from sharedstate_lite.sql.catalog import Catalog
>>> catalog = Catalog(visit="product STRING, length INT")
>>> plan = catalog.view("CREATE VIEW v AS SELECT length AS seconds, length / 60 AS minutes FROM visit").plan
>>> input_columns(plan, (0,)), input_columns(plan, (1,))
((1,), None)
>>> print(why_computed(plan, 0), why_computed(plan, 1), sep="; ")
None; is computed

In the literature, this is called where-provenance. Source: Buneman et al., Why and Where, ICDT 2001.
"""

from __future__ import annotations

from .nodes import Col, Filter, Join, Map, Node, Reduce, Scan, Union


def copied_from(node: Node, column: int) -> tuple[tuple[int, int], ...]:
    """Return the input columns that output ``column`` copies, as pairs (input number, column number).

    A union has one pair per input. Any other operator has at most one pair. The result is empty for a base relation, a
    computed column, an aggregate, and a column from the right side of a LEFT JOIN.
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
    """Return the input columns that the output ``columns`` copy, or None if one of them is not a copy.

    The result does not say which input a column belongs to, so it is meant for operators with one input.
    """
    found = [copied_from(node, column) for column in columns]
    return tuple(pairs[0][1] for pairs in found) if all(found) else None


def why_computed(node: Node, column: int) -> str | None:
    """Return the reason why output ``column`` is not a copy of base columns, such as "is computed".

    Return None if it is a copy.
    """
    if isinstance(node, Scan):
        return None
    copied = copied_from(node, column)
    if not copied:
        if isinstance(node, Join):
            return "comes from the right side of a LEFT JOIN"
        return "is an aggregate" if isinstance(node, Reduce) else "is computed"
    reasons = (why_computed(node.inputs[number], below) for number, below in copied)
    return next((reason for reason in reasons if reason is not None), None)
