"""Building the graph of partial operators, and walking it.

One operator for each plan node and the columns it is asked by, so views that ask for the
same reuse it. A key that cannot be followed to base columns is refused here, by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..dataflow.labels import label
from ..errors import ViewError
from ..plan import graph
from ..plan.lineage import why_computed
from ..plan.nodes import Filter, Join, Map, Node, Reduce, Scan, Union, digest
from ..plan.view import View
from ..storage.arrangement import Arrangement
from ..storage.encoding import Words
from .base_reads import fetch, plan_upquery
from .join import JoinNode
from .nodes import (
    BaseNode,
    Downstream,
    InnerNode,
    LinearNode,
    PartialEdge,
    PartialNode,
    ReaderNode,
    UnionNode,
    Upstream,
    traced,
    untraceable,
)
from .reduce import ReduceNode

if TYPE_CHECKING:
    from .filled_keys import FilledKeys
    from .nodes import Services


def add(flow: Services, view: View) -> None:
    """Build what a view needs. Raises ViewError where its key cannot be traced."""
    for column in view.key:
        why = why_computed(view.plan, column)
        if why is not None:
            raise untraceable(view.name, view.schema, column, why)
    root = build(flow, view.plan, view.key, view)
    reader = ReaderNode(flow, view.name, view.plan, view.name, view.key)
    flow.nodes["reader", view.name] = reader
    connect(flow, root, reader, view.key)


def build(flow: Services, node: Node, ask: tuple[int, ...], view: View) -> Upstream:
    """The operator that answers for columns ``ask`` of a plan node."""
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
    # Named after its inputs, so that of two joins the lower one is the first.
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
    """The class of a node's operator, the stem of its name, and the columns it asks each input by."""
    if isinstance(node, Filter):
        return LinearNode, "filter", [ask]
    if isinstance(node, Map):
        return LinearNode, "map", [traced(node, ask, view.name)]
    if isinstance(node, Union):
        return UnionNode, "union", [ask] * len(node.parts)
    if isinstance(node, Reduce):
        return ReduceNode, "group" if node.aggs else "distinct", [tuple(node.keys[i] for i in ask)]
    assert isinstance(node, Join)
    asked = plan_upquery(node, ask)
    keys = (node.left_keys, node.right_keys)
    asks = [asked.columns if side == asked.primary else keys[side] for side in (0, 1)]
    for below, columns in zip(node.inputs, asks, strict=True):
        for column in columns:
            why = why_computed(below, column)
            if why is not None:
                raise ViewError(
                    f"view {view.name}: it joins on column {below.schema[column].name}, which {why}, so an upquery "
                    f"cannot be asked of a base table; join on base columns, or use full or shared state"
                )
    return flow.join_node, "join", asks


def _prime(flow: Services, node: JoinNode) -> None:
    """Make the indexes that the join's look-ups will need, while there is no epoch in hand."""
    for side, edge in enumerate(node.inputs):
        if node.cached[side] is None:
            columns = node.keys[side]
            none = np.empty((len(columns), 0), dtype=np.int64)
            fetch(edge.source.plan, edge, columns, none, {}, flow.index, None, flow.strings, node.view)


def _name(flow: Services, view: View, what: str) -> str:
    taken = {n.name for n in flow.nodes.values()}
    return next(n for n in (f"{view.name}.{what}{i}" for i in range(1, len(taken) + 2)) if n not in taken)


def connect(flow: Services, source: Upstream, target: Downstream, ask: tuple[int, ...]) -> None:
    """A new edge; it begins at the position that its source has reached."""
    edge = PartialEdge(flow.number(), source, target, len(target.inputs), ask)
    if isinstance(source, BaseNode):
        flow.index(source.name_of_relation, ask)
        edge.at = {edge.number: flow.epoch}
    else:
        edge.at = source.at()
    source.outputs.append(edge)
    target.inputs.append(edge)


def remove(flow: Services, view: View) -> None:
    """Take a view's reader away, and every operator that nobody reads any more."""
    gone: list[Any] = [("reader", view.name)]
    while gone:
        for name in gone:
            node = flow.nodes.pop(name)
            for edge in node.inputs:
                edge.source.outputs.remove(edge)
        gone = [n for n, node in flow.nodes.items() if not node.outputs and not isinstance(node, ReaderNode | BaseNode)]


def touch(reader: ReaderNode, keys: Words) -> None:
    """Note the use of a key at the reader and in the state above it that goes by the same key."""
    node: PartialNode = reader
    while True:
        if node.filled is not None:
            node.filled.touch(keys, reader.flow.strings, reader.flow.clock)
        above = _congruent(node)
        if above is None:
            return
        if isinstance(node, JoinNode):
            held = node.cached[node.route.primary]
            if held is not None:
                held[2].touch(keys, reader.flow.strings, reader.flow.clock)
        node = above


def _congruent(node: PartialNode) -> PartialNode | None:
    """The operator above that is asked by the same keys, if there is one."""
    if isinstance(node, JoinNode):
        return None if node.route.rest else node.inputs[node.route.primary].source
    if isinstance(node, UnionNode | BaseNode):
        return None
    return node.inputs[0].source


def top_of_chain(reader: ReaderNode) -> PartialNode:
    """The highest operator of the reader's own view that holds state by the reader's key."""
    best: PartialNode = reader
    node: PartialNode | None = reader
    while node is not None and node.view == reader.view:
        best = node if node.filled is not None else best
        node = _congruent(node)
    return best


def part_names(node: PartialNode) -> list[str]:
    """Names for ``state()``: an operator's main part goes by the operator's name."""
    parts = node.parts()
    main = len(parts) - 1 if node.filled is not None else -1
    return [node.name if i == main else p[0].name for i, p in enumerate(parts)]


def filled_parts(nodes: Iterable[PartialNode]) -> dict[str, FilledKeys]:
    """The sets of filled keys under the names that ``state()`` has for what they are keys of."""
    parts = ((name, part[3]) for n in nodes for name, part in zip(part_names(n), n.parts(), strict=True))
    return {name: filled for name, filled in parts if filled is not None}


def identity(node: PartialNode, arrangement: Arrangement) -> str:
    """A name for checkpoints that does not depend on which views came and went."""
    if isinstance(node, ReaderNode):
        return f"reader:{node.name}"
    return f"{digest(node.plan)}:{node.ask}:{arrangement.name.rsplit('.', 1)[-1]}"


def relation_of(node: PartialNode) -> str:
    """What an operator's rows are rows of, for ``state()``."""
    if isinstance(node, ReaderNode):
        return node.name
    return label(node.plan.inputs[0] if isinstance(node, ReduceNode) else node.plan)


def described(flow: Services) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The graph as two frames (see :mod:`..plan.graph`). Every edge carries changes down and upqueries up."""
    rows: list[graph.Row] = []
    edges: list[tuple[str, str, str]] = []
    bases = {h.relation: h.operator for h in flow.state_parts() if h.base}
    for node in flow.nodes.values():
        kind, title, detail = graph.describe(node.plan)
        tables = tuple(part_names(node))
        if isinstance(node, BaseNode):
            tables = tuple(name for relation, name in bases.items() if relation == node.name_of_relation)
        if isinstance(node, ReaderNode):
            kind, title, detail = "view", node.name, ""
        rows.append((node.name, kind, title, detail, tables, node.view))
        for edge in node.inputs:
            edges += [(edge.source.name, node.name, "change"), (node.name, edge.source.name, "upquery")]
    return graph.frames(rows, edges)
