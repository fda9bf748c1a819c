"""Where the operators of a partial graph live on Spark: stages, bins, and the edges between them.

A :class:`Placement` is worked out from an in-process engine without rows, like a
:class:`~..bins.route.Route` for the other strategies. An operator stands in one stage, a copy
in each bin, and a row of its input goes to the bin of some of its columns: a reader's and an
aggregate's by what they are asked by, a join's by the join key. An edge on which
rows stay in their bin is *near*: it is the core's, in memory. All other edges go through the
micro-batch, downwards to a later stage within it, upwards through the feedback edge.

Stage 0 is the driver: it answers what is asked of base tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...engine.state_tables import StatePart
from ...errors import ViewError
from ...partial import build
from ...partial.join import JoinNode
from ...partial.nodes import BaseNode, LinearNode, PartialEdge, PartialNode, ReaderNode
from ...plan.nodes import Col, Join, Map
from ...plan.view import View
from .nodes import BinGraph

Columns = tuple[int, ...]


class Placement:
    """See the module; ``engine`` is the blueprint, and in a bin the engine that runs there."""

    def __init__(self, engine: BinGraph) -> None:
        self.engine = engine
        self.views = list(engine.views)
        self.nodes: list[PartialNode] = list(engine.nodes.values())  # inputs come before what stands on them
        self.edges: dict[int, PartialEdge] = {e.number: e for n in self.nodes for e in n.inputs}
        self._routes: dict[PartialNode, tuple[Columns, ...]] = {}
        self._kept: dict[PartialNode, list[Columns]] = {}
        for node in reversed(self.nodes):
            self._routes[node], self._kept[node] = self._placed(node)
        self.stage_of: dict[PartialNode, int] = {}
        for node in self.nodes:
            self.stage_of[node] = self._stage(node)
        self.stages = max(self.stage_of.values())
        self.reader_stage = {n: self.stage_of[engine.reader(v)] for n, v in enumerate(engine.views.values())}

    def route(self, edge: PartialEdge) -> Columns:
        """The columns, of what an edge carries, whose hash is the bin that it goes to."""
        return self._routes[edge.target][edge.slot]

    def near(self, edge: PartialEdge) -> bool:
        """Whether rows stay in their bin."""
        source = edge.source
        same = self.stage_of[source] == self.stage_of[edge.target]
        return same and not isinstance(source, BaseNode) and self._stays(source, self.route(edge))

    def keyed(self, node: PartialNode) -> bool:
        """Whether a key that a node is asked by is known in one bin, that of the key's own hash."""
        return self._stays(node, node.ask)

    def at(self, stage: int) -> list[PartialNode]:
        """The operators of a stage."""
        return [n for n in self.nodes if self.stage_of[n] == stage]

    def parts(self, stage: int) -> dict[str, StatePart]:
        """The state of one stage: what ``state()`` calls it, and how it is told."""
        mine = {id(p[0]) for node in self.at(stage) for p in node.parts()}
        return {h.operator: h for h in self.engine.state_parts() if id(h.arrangement) in mine}

    def filled(self, operator: str) -> tuple[int, PartialNode, Any]:
        """The stage, the node and the filled keys of an operator. Raises ViewError, as in process, for others."""
        for node in self.nodes:
            for name, part in zip(build.part_names(node), node.parts(), strict=True):
                if name == operator and part[3] is not None:
                    return self.stage_of[node], node, part[3]
        self.engine.filled(operator)
        raise AssertionError(operator)

    def _placed(self, node: PartialNode) -> tuple[tuple[Columns, ...], list[Columns]]:
        """The columns of each input that choose the bin, and those of the output that then are the bin's."""
        plan, asks = node.plan, tuple(e.ask for e in node.inputs)
        if isinstance(node, BaseNode):
            return (), []
        if isinstance(node, JoinNode):
            assert isinstance(plan, Join)
            wide = len(plan.left.schema)
            # What a LEFT JOIN pads has no right key.
            right = [] if plan.outer else [tuple(wide + i for i in plan.right_keys)]
            return (plan.left_keys, plan.right_keys), [plan.left_keys, *right]
        if isinstance(node, LinearNode) and len(node.outputs) == 1 and node.outputs[0].target in self._routes:
            wanted = self.route(node.outputs[0])
            above = _lifted(plan, wanted)
            if above is not None:
                return (above,), [wanted]
        return asks, [] if isinstance(node, ReaderNode) else [node.ask]

    def _stays(self, node: PartialNode, columns: Columns) -> bool:
        if isinstance(node, ReaderNode):
            return True
        return any(sorted(columns) == sorted(kept) for kept in self._kept[node])

    def _stage(self, node: PartialNode) -> int:
        if isinstance(node, BaseNode):
            return 0
        return max(
            1
            if isinstance(e.source, BaseNode)
            else self.stage_of[e.source] + (not self._stays(e.source, self.route(e)))
            for e in node.inputs
        )


def place(views: Sequence[View], join: str, options: Mapping[str, Any]) -> Placement:
    """The placement of a partial engine over some views. Raises ViewError as the engine in process does."""
    engine = BinGraph(views, join, **options)
    if engine.catalog is None:
        raise ViewError("an engine on Spark needs views of a catalog; make them with catalog.view(...)")
    for relation in engine.catalog.relations:
        # A relation that no view uses is kept too, for the views that may come.
        engine.base(relation)
    return Placement(engine)


def _lifted(plan: Any, columns: Columns) -> Columns | None:
    """Which columns of a filter's or map's input some of its output are; None where one is computed."""
    if not isinstance(plan, Map):
        return columns
    exprs = [plan.exprs[i] for i in columns]
    return tuple(e.index for e in exprs if isinstance(e, Col)) if all(isinstance(e, Col) for e in exprs) else None


__all__ = ["Placement", "place"]
