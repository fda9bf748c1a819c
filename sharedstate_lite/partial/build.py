"""Building and removing the operators of a partial graph.

There is one operator for each plan node and each set of columns by which the node is queried. Views that query a node
by the same columns share the operator. A key column that does not come from a base table is rejected here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dataflow.row_functions import apply_to_matches
from ..plan.lineage import why_computed
from ..plan.nodes import Filter, Join, Map, Node, Reduce, Scan, Union
from ..plan.view import View
from .base_reads import fetch, plan_upquery
from .join import JoinNode
from .nodes import (
    BaseNode,
    Downstream,
    InnerNode,
    LinearNode,
    PartialEdge,
    ReaderNode,
    Services,
    UnionNode,
    Upstream,
    no_join,
    no_key,
    traced,
)
from .reduce import ReduceNode


def add(flow: Services, view: View) -> None:
    """Build the operators of a view. Raises ViewError if a key column does not come from a base table."""
    for column in view.key:
        why = why_computed(view.plan, column)
        if why is not None:
            raise no_key(view.name, view.schema, column, why)
    root = build(flow, view.plan, view.key, view)
    reader = ReaderNode(flow, view.name, view.plan, view.name, view.key)
    flow.nodes["reader", view.name] = reader
    connect(flow, root, reader, view.key)


def build(flow: Services, node: Node, ask: tuple[int, ...], view: View) -> Upstream:
    """Return the operator of a plan node that answers upqueries by columns ``ask``. Create it if it does not exist."""
    if isinstance(node, Scan):
        if node.relation not in flow.nodes:
            flow.nodes[node.relation] = BaseNode(flow, node.relation, node, "", ())
        base = flow.nodes[node.relation]
        assert isinstance(base, Upstream)
        return base
    if (node, ask) in flow.nodes:
        known = flow.nodes[node, ask]
        assert isinstance(known, Upstream)
        return known
    kind, what, asks = _operator(flow, node, ask, view)
    below = [build(flow, n, columns, view) for n, columns in zip(node.inputs, asks, strict=True)]
    # The inputs are named first, so of two joins in a chain, the one whose output the other reads has the lower number.
    made = kind(flow, _name(flow, view, what), node, view.name, ask)
    for source, columns in zip(below, asks, strict=True):
        connect(flow, source, made, columns)
    flow.nodes[node, ask] = made
    if isinstance(made, JoinNode):
        made.prepare()
        _prime(flow, made)
    return made


def _operator(
    flow: Services, node: Node, ask: tuple[int, ...], view: View
) -> tuple[type[InnerNode], str, list[tuple[int, ...]]]:
    """Return the class of an operator, the stem of its name, and for each input the columns by which it is queried.

    Raises ViewError if a column of a join key does not come from a base table.
    """
    if isinstance(node, Filter):
        return LinearNode, "filter", [ask]
    if isinstance(node, Map):
        return LinearNode, "map", [traced(node, ask, view.name)]
    if isinstance(node, Union):
        return UnionNode, "union", [ask] * len(node.parts)
    if isinstance(node, Reduce):
        return ReduceNode, "group" if node.aggs else "distinct", [tuple(node.keys[i] for i in ask)]
    assert isinstance(node, Join)
    route = plan_upquery(node, ask)
    keys = (node.left_keys, node.right_keys)
    asks = [route.columns if side == route.primary else keys[side] for side in (0, 1)]
    for below, columns in zip(node.inputs, asks, strict=True):
        for column in columns:
            why = why_computed(below, column)
            if why is not None:
                raise no_join(view.name, below.schema, column, why)
    return flow.join_node, "join", asks


def _prime(flow: Services, node: JoinNode) -> None:
    """Create the indexes that the lookups of a join need. This must happen between epochs."""
    for side, edge in enumerate(node.inputs):
        if node.cached[side] is None:
            columns = node.keys[side]
            none = np.empty((len(columns), 0), dtype=np.int64)
            fetch(
                edge.source.plan, edge, columns, none, {}, flow.index, None, flow.strings, node.view, apply_to_matches
            )


def _name(flow: Services, view: View, what: str) -> str:
    taken = {n.name for n in flow.nodes.values()}
    return next(n for n in (f"{view.name}.{what}{i}" for i in range(1, len(taken) + 2)) if n not in taken)


def connect(flow: Services, source: Upstream, target: Downstream, ask: tuple[int, ...]) -> None:
    """Add an edge from ``source`` to ``target``. It starts at the position of its source."""
    edge = PartialEdge(flow.number(), source, target, len(target.inputs), ask)
    if isinstance(source, BaseNode):
        flow.index(source.name_of_relation, ask)
        edge.at = {edge.number: flow.epoch}
    else:
        edge.at = source.at()
    source.outputs.append(edge)
    target.inputs.append(edge)


def remove(flow: Services, view: View) -> None:
    """Remove the reader of a view, and all operators that are left without an output."""
    unused: list[Any] = [("reader", view.name)]
    while unused:
        for name in unused:
            node = flow.nodes.pop(name)
            for edge in node.inputs:
                edge.source.outputs.remove(edge)
        unused = [
            n for n, node in flow.nodes.items() if not node.outputs and not isinstance(node, ReaderNode | BaseNode)
        ]
