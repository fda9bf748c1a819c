"""Full state: every operator stores everything that it may need, and does not share its state.

A join stores both of its inputs. In a chain of joins, these include the output of the join below. For MAX and MIN, a
reduce stores every value of every group. Two views do not share any operators, unless one of them reads the other.

A join stores only the columns that the view reads (:mod:`..plan.prune`), and rows that are equal in these columns as
one row with a count. With ``columns="all"``, it stores all columns.

Source: Flink SQL (its planner's projections; StreamingJoinOperator with its state of record to count,
GroupAggFunction; for ``join="multi"`` on one common key, the multi-way join without intermediate state).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ViewError, shorten
from ..kernels.aggregate import ReduceState
from ..kernels.join_order import flatten
from ..kernels.minmax import Source
from ..plan.nodes import Join, Node, Reduce
from ..plan.prune import prune
from ..plan.view import View
from ..storage.arrangement import Arrangement
from ..storage.batch import Layout
from .dataflow import Dataflow
from .labels import label
from .operators import DeltaJoin, JoinCore, Lookup, Operator, ReduceCore, own_multisets


class Full(Dataflow):
    """The engine for full state.

    ``join`` is "linear", "multi", or "auto", which is the same as "linear". ``columns`` is "used" or "all".
    """

    kind = "full"
    joins = ("auto", "linear", "multi")

    def __init__(self, views: Sequence[View], join: str = "auto", *, columns: str = "used", **like: Any) -> None:
        if columns not in ("used", "all"):
            raise ViewError(f"columns={shorten(columns)} is not valid; a full engine stores 'used' or 'all' columns")
        self.columns = columns
        super().__init__(views, join, **like)

    def settings(self) -> dict[str, Any]:
        """Return the options for a checkpoint; see :meth:`~..engine.engine.Engine.settings`."""
        found = super().settings()
        return found | {"options": found["options"] | {"columns": self.columns}}

    def _plan(self, view: View) -> Node:
        if self.columns == "all":
            return view.plan
        return prune(view.plan, [v.plan for v in view.uses], chains=self.join != "multi")

    def _known(self, node: Node, view: View) -> Operator | None:
        # Only the output of another view is shared. All other operators are built again, even if an equal one exists.
        below = next((v for v in view.uses if v.plan == node), None)
        return None if below is None else self.readers[below.name].root

    def _join(self, node: Join, view: View) -> Operator:
        if self.join == "multi" and not node.outer:
            return self._multi(node, view)
        inputs = [self._build(i, view) for i in node.inputs]
        name = self._name(view, node, "join")
        owned = []
        for side, (below, key) in enumerate(zip(inputs, (node.left_keys, node.right_keys), strict=True)):
            owned.append((side, self._own(f"{name}.{('left', 'right')[side]}", below, key)))
        sides = tuple(Lookup(a, (), inputs[s].node.schema, self.dictionary) for s, a in owned)
        return self._new(JoinCore(name, node, inputs, self.dictionary, sides=(sides[0], sides[1]), owned=owned))

    def _own(self, name: str, below: Operator, key: tuple[int, ...]) -> Arrangement:
        return Arrangement(name, Layout(tuple(c.type for c in below.node.schema), key), self.epoch + 1)

    def _multi(self, node: Join, view: View) -> Operator:
        joined = flatten(node)
        keys = {step.input: step.key for path in joined.paths for step in path}
        if any(keys[step.input] != step.key for path in joined.paths for step in path):
            raise ViewError(
                f"view {view.name}: join='multi' requires the same key for all inputs, "
                f"but {label(node)} joins on several keys; use join='linear'"
            )
        inputs = [self._build(i, view) for i in joined.inputs]
        name = self._name(view, node, "join")
        owned = [(n, self._own(f"{name}.input{n + 1}", below, keys[n])) for n, below in enumerate(inputs)]
        looks = [Lookup(a, (), inputs[n].node.schema, self.dictionary) for n, a in owned]
        paths = [[(s, looks[s.input]) for s in path] for path in joined.paths]
        return self._new(DeltaJoin(name, node, inputs, self.dictionary, paths=paths, owned=owned))

    def _reduce(self, node: Reduce, view: View) -> Operator:
        below = self._build(node.input, view)
        name = self._name(view, node, "group" if node.aggs else "distinct")
        multisets = own_multisets(node, name, self.epoch + 1)
        groups = ReduceState(node, name, self.epoch + 1)
        sources = {c: Source(a, len(node.keys)) for c, a in multisets.items()}
        return self._new(
            ReduceCore(name, node, [below], self.dictionary, groups=groups, multisets=multisets, sources=sources)
        )
