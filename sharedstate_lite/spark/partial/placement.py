"""Placement of a partial graph on Spark: the stage of each operator, and the bin of each row.

Each operator is in one stage and has a copy in each bin of the stage. The bin of an input row is selected by a hash of
some columns: the key columns for a reader or an aggregate, and the join key for a join. An edge is *local* if its rows
stay in their bin and stage. Messages on a local edge are passed in memory, as in process. Messages on other edges are
rows of the stream. Those that go down reach a later stage in the same micro-batch, and those that go up are input of
the next micro-batch (`scheduler`). Stage 0 is the driver, which answers upqueries for base tables.

A `Placement` is computed from an engine without rows, like a `Route` for full and shared state. Every process
therefore computes the same placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...engine.state_tables import StatePart
from ...errors import ViewError
from ...partial import describe
from ...partial.filled_keys import FilledKeys
from ...partial.join import JoinNode
from ...partial.nodes import BaseNode, LinearNode, PartialEdge, PartialNode, ReaderNode
from ...plan.lineage import input_columns
from ...plan.nodes import Join
from ...plan.view import View
from .nodes import BinGraph

Columns = tuple[int, ...]


class Placement:
    """The stages of a partial graph, and the columns that select the bins of its rows; see the module's docstring.

    In a bin, ``engine`` is the engine that runs in the bin. In the driver, it is an engine without rows.
    """

    def __init__(self, engine: BinGraph) -> None:
        self.engine = engine
        self.nodes: list[PartialNode] = list(engine.nodes.values())  # inputs before the operators that read them
        self.edges: dict[int, PartialEdge] = {e.number: e for n in self.nodes for e in n.inputs}
        self._routes: dict[PartialNode, tuple[Columns, ...]] = {}
        self._bin_columns: dict[PartialNode, list[Columns]] = {}
        for node in reversed(self.nodes):
            self._routes[node], self._bin_columns[node] = self._placed(node)
        self.stage_of: dict[PartialNode, int] = {}
        for node in self.nodes:
            self.stage_of[node] = self._stage(node)
        self.stages = max(self.stage_of.values())
        self.scattered: set[str] = set()  # equal rows of a view are in one bin, which the view's key selects

    def route(self, edge: PartialEdge) -> Columns:
        """Return the columns whose hash selects the bin to which a row on the edge is sent."""
        return self._routes[edge.target][edge.slot]

    def is_local(self, edge: PartialEdge) -> bool:
        """Return whether the rows on an edge stay in their bin and stage."""
        source = edge.source
        same = self.stage_of[source] == self.stage_of[edge.target]
        return same and not isinstance(source, BaseNode) and self._stays(source, self.route(edge))

    def is_keyed(self, node: PartialNode) -> bool:
        """Return whether all rows of a key in an upquery to ``node`` are in the bin that the key's hash selects."""
        return self._stays(node, node.ask)

    def at(self, stage: int) -> list[PartialNode]:
        """Return the operators of a stage."""
        return [n for n in self.nodes if self.stage_of[n] == stage]

    def parts(self, stage: int) -> dict[str, StatePart]:
        """Return the pieces of state of one stage, by the names that ``state()`` shows."""
        mine = {id(p[0]) for node in self.at(stage) for p in node.parts()}
        return {h.operator: h for h in self.engine.state_parts() if id(h.arrangement) in mine}

    def find_filled(self, operator: str) -> tuple[int, FilledKeys]:
        """Return the stage of an operator, and the empty FilledKeys of its state.

        Raises the same ViewError as an in-process engine if there is no such operator.
        """
        for node in self.nodes:
            filled = describe.filled_parts([node]).get(operator)
            if filled is not None:
                return self.stage_of[node], filled
        self.engine.filled(operator)
        raise AssertionError(operator)

    def _placed(self, node: PartialNode) -> tuple[tuple[Columns, ...], list[Columns]]:
        """Return the columns of each input that select the bin, and all tuples of output columns that select it too."""
        plan, asks = node.plan, tuple(e.ask for e in node.inputs)
        if isinstance(node, BaseNode):
            return (), []
        if isinstance(node, JoinNode):
            assert isinstance(plan, Join)
            wide = len(plan.left.schema)
            # Rows that a LEFT JOIN pads have no right key.
            right = [] if plan.outer else [tuple(wide + i for i in plan.right_keys)]
            return (plan.left_keys, plan.right_keys), [plan.left_keys, *right]
        if isinstance(node, LinearNode) and len(node.outputs) == 1 and node.outputs[0].target in self._routes:
            wanted = self.route(node.outputs[0])
            above = input_columns(plan, wanted)
            if above is not None:
                return (above,), [wanted]
        return asks, [] if isinstance(node, ReaderNode) else [node.ask]

    def _stays(self, node: PartialNode, columns: Columns) -> bool:
        if isinstance(node, ReaderNode):
            return True
        return any(sorted(columns) == sorted(kept) for kept in self._bin_columns[node])

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
    """Return the placement of a partial engine. Raises the same ViewErrors as an in-process engine."""
    engine = BinGraph(views, join, **options)
    if engine.catalog is None:
        raise ViewError("an engine on Spark needs views of a catalog; create them with catalog.view(...)")
    for relation in engine.catalog.relations:
        # Relations that no view uses also have a base table, so a retraction of an absent row is refused as in process.
        engine.base(relation)
    return Placement(engine)
