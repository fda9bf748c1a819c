"""Short labels for the rows of an operator, in the notation of relational algebra."""

from __future__ import annotations

from ..plan.nodes import Filter, Join, Map, Node, Reduce, Scan


def label(node: Node) -> str:
    """Return the label of a plan node, which appears in state tables and pictures.

    >>> from sharedstate_lite.sql.catalog import Catalog
    >>> catalog = Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
    >>> label(catalog.view("CREATE VIEW v AS SELECT * FROM info JOIN visit USING (product)").plan)
    'π(info ⋈ visit)'
    """
    if isinstance(node, Scan):
        return node.relation
    if isinstance(node, Join):
        return f"{label(node.left)} {'⟕' if node.outer else '⋈'} {label(node.right)}"
    if isinstance(node, Reduce):
        return f"γ({label(node.input)})"
    if isinstance(node, Filter):
        return f"σ({label(node.input)})"
    if isinstance(node, Map):
        return f"π({label(node.input)})"
    return " ∪ ".join(label(i) for i in node.inputs)
