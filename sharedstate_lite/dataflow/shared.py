"""Shared state: one arrangement for each relation and key, written once and read by every operator that needs it.

A join looks up rows in arrangements, and a reduce finds MAX and MIN in them, so neither has to store its own copy of
its inputs. The base table of a relation is its first arrangement. Filters and projections are applied to the rows that
are read from a base relation's arrangement. Views that differ only in these therefore share the arrangement.

A chain of joins is either *linear* or a *delta join*. In a linear chain, the output of each join is arranged for the
next one. A delta join does not have intermediate state, but needs an arrangement for each input and key. With
``join="auto"``, the engine chooses the delta join unless it requires more new arrangements than the linear chain.

Source: McSherry et al., Shared Arrangements, VLDB 2020; Materialize, Maintaining joins using few resources, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.state_tables import DURABLE, WORKING
from ..kernels.aggregate import ReducePlan, ReduceState
from ..kernels.join_order import Multiway, flatten
from ..kernels.minmax import Mask, Source, stored_extremes
from ..plan.lineage import input_columns
from ..plan.nodes import Filter, Join, Map, Node, Reduce, Scan, digest
from ..plan.view import View
from ..storage.arrangement import Arrangement
from ..storage.batch import Layout
from ..storage.encoding import Dictionary, Words
from .dataflow import Dataflow
from .labels import label
from .operators import Arrange, DeltaJoin, JoinCore, Lookup, Operator, ReduceCore


class LookupSource:
    """A source of MAX and MIN that looks up all rows of a group and applies filters and maps to them."""

    def __init__(self, lookup: Lookup, column: int, kind: Any) -> None:
        self.lookup, self.column, self.kind = lookup, column, kind

    def extremes(self, groups: Words, least: bool, strings: Dictionary) -> tuple[Words, Mask]:
        """Return the extreme value of each group; see :meth:`~..kernels.minmax.Source.extremes`."""
        owner, rows, diffs = self.lookup.match(groups, None)
        edge = np.full(groups.shape[1], -1)  # all rows are read
        best, exists, _ = stored_extremes(owner, rows[self.column], diffs[0], edge, self.kind, least, strings)
        return best, exists


class Shared(Dataflow):
    """The engine for shared state. ``join`` is "auto", "linear" or "delta"."""

    kind = "shared"

    def __init__(self, views: Sequence[View], join: str = "auto", **like: Any) -> None:
        self.chosen: dict[str, str] = {}
        super().__init__(views, join, **like)

    joins = ("auto", "linear", "delta")
    _base_kind = "arrangement"

    def _known(self, node: Node, view: View) -> Operator | None:
        return next((o for o in self.operators if not isinstance(o, Arrange) and o.node == node), None)

    # --- arrangements -----------------------------------------------------------

    def _lookup(self, node: Node, key: tuple[int, ...], view: View, order: int | None = None) -> tuple[Lookup, Arrange]:
        """Return a lookup of ``node`` by the columns ``key``, and the operator that arranges its rows.

        An existing operator is used if there is one.
        """
        target, columns, chain = lift(node, key)
        arrange = self._arranged(target, columns) or self._arrange(target, columns, view, None if chain else order)
        return Lookup(arrange.arrangement, chain, node.schema, self.dictionary), arrange

    def _arranged(self, node: Node, key: tuple[int, ...]) -> Arrange | None:
        for operator in self.operators:
            if isinstance(operator, Arrange) and operator.node == node and operator.arrangement.layout.key == key:
                return operator
        return None

    def _arrange(self, node: Node, key: tuple[int, ...], view: View, order: int | None) -> Arrange:
        below = self._build(node, view)
        name = self._arrangement_name(node, key)
        layout = Layout(tuple(c.type for c in node.schema), key, order)
        if not isinstance(node, Scan):
            made = Arrangement(name, layout, self.epoch + 1)
            return self._keep(Arrange(name, node, [below], self.dictionary, arrangement=made))
        base = self.bases.get(node.relation)
        used = any(isinstance(o, Arrange) and o.arrangement is base for o in self.operators)
        if base is not None and base.layout.key == key:
            return self._keep(Arrange(base.name, node, [below], self.dictionary, arrangement=base, base=True))
        made = Arrangement(name, layout, self.epoch + 1)
        # A restored base table keeps its key, even if the views that used it have been dropped. A base table with an
        # open handle also keeps its key, because a new arrangement would not contain its history.
        first = base is None or not (used or self._restoring or base.handles)
        if base is not None and first:
            # No operator reads the base table by its current key, so the new arrangement replaces it.
            delta = base.contents(strings=self.dictionary.strings)
            made.load(layout.body(delta.rows, delta.diffs, self.dictionary.strings))
        if first:
            self.bases[node.relation] = made
        return self._keep(Arrange(name, node, [below], self.dictionary, arrangement=made, base=first))

    def _keep(self, arrange: Arrange) -> Arrange:
        self._new(arrange)
        return arrange

    def _arrangement_name(self, node: Node, key: tuple[int, ...]) -> str:
        stem = f"{label(node)}[{', '.join(node.schema[i].name for i in key)}]"
        taken = {o.arrangement.name for o in self.operators if isinstance(o, Arrange)}
        return next(n for n in (stem, *(f"{stem}#{i}" for i in range(2, len(taken) + 3))) if n not in taken)

    # --- operators --------------------------------------------------------------

    def _join(self, node: Join, view: View) -> Operator:
        if not node.outer and self.join != "linear":
            joined = flatten(node)
            if len(joined.inputs) > 2 and self._choose(node, joined) == "delta":
                return self._delta_join(node, joined, view)
        sides = [self._lookup(i, k, view) for i, k in zip(node.inputs, (node.left_keys, node.right_keys), strict=True)]
        inputs = self._streams(node.inputs, [a for _, a in sides], view)
        name = self._name(view, node, "join")
        return self._new(JoinCore(name, node, inputs, self.dictionary, sides=(sides[0][0], sides[1][0])))

    def _streams(self, nodes: Sequence[Node], arranges: Sequence[Arrange], view: View) -> list[Operator]:
        """Return the operators that emit the changes of ``nodes``, then those of ``arranges`` not among them."""
        streams: list[Operator] = []
        for node in nodes:
            same = next((a for a in arranges if a.node == node), None)
            streams.append(same if same is not None else self._build(node, view))
        return [*streams, *(a for a in dict.fromkeys(arranges) if a not in streams)]

    def _delta_join(self, node: Join, joined: Multiway, view: View) -> Operator:
        looks = {
            (s.input, s.key): self._lookup(joined.inputs[s.input], s.key, view) for path in joined.paths for s in path
        }
        paths = [[(s, looks[s.input, s.key][0]) for s in path] for path in joined.paths]
        inputs = self._streams(joined.inputs, [a for _, a in looks.values()], view)
        return self._new(DeltaJoin(self._name(view, node, "delta"), node, inputs, self.dictionary, paths=paths))

    def _choose(self, node: Join, joined: Multiway) -> str:
        """Return "linear" or "delta". A restored engine uses the choice of the engine that wrote the checkpoint."""
        known = (self._like or {}).get("chosen", {}).get(digest(node))
        pays = self.join == "delta" or self._delta_pays(node, joined)
        self.chosen[digest(node)] = choice = known or ("delta" if pays else "linear")
        return choice

    def settings(self) -> dict[str, Any]:
        """Return the options and choices for a checkpoint; see :meth:`~..engine.engine.Engine.settings`."""
        return super().settings() | {"chosen": self.chosen}

    def _base_bill(self, base: Arrangement) -> tuple[str, ...]:
        looked_up = any(isinstance(o, Arrange) and o.arrangement is base for o in self.operators)
        return (DURABLE, WORKING) if looked_up else (DURABLE,)

    def _identity(self, operator: Operator, arrangement: Arrangement) -> str:
        role = arrangement.name.rsplit(".", 1)[-1] if isinstance(operator, ReduceCore) else str(arrangement.layout.key)
        return f"{digest(operator.node)}:{role}"

    def _delta_pays(self, node: Join, joined: Multiway) -> bool:
        def missing(wanted: set[tuple[Node, tuple[int, ...]]]) -> int:
            lifted = {lift(n, k)[:2] for n, k in wanted}
            return sum(self._arranged(n, k) is None for n, k in lifted)

        delta = {(joined.inputs[s.input], s.key) for path in joined.paths for s in path}
        linear = set()
        part: Node = node
        while isinstance(part, Join) and not part.outer:
            linear |= {(part.left, part.left_keys), (part.right, part.right_keys)}
            part = part.left
        return missing(delta) <= missing(linear)

    def _reduce(self, node: Reduce, view: View) -> Operator:
        plan = ReducePlan(node)
        name = self._name(view, node, "reduce" if node.aggs else "distinct")
        groups = ReduceState(node, name, self.epoch + 1)
        if not plan.extremes:
            inputs, sources = [self._build(node.input, view)], {}
        else:
            lookup, arrange = self._lookup(node.input, node.keys, view, plan.extremes[0])
            inputs = self._streams([node.input], [arrange], view)
            sources = {c: self._source(lookup, c, node) for c in plan.extremes}
        return self._new(ReduceCore(name, node, inputs, self.dictionary, groups=groups, sources=sources))

    def _source(self, lookup: Lookup, column: int, node: Reduce) -> Source | LookupSource:
        if lookup.chain:
            return LookupSource(lookup, column, node.input.schema[column].type)
        return Source(lookup.arrangement, column)

    def _check_time(self, view: str, at: int | None) -> None:
        if at is not None:
            self.readers[view].arrangement.check(at)


def lift(node: Node, key: tuple[int, ...]) -> tuple[Node, tuple[int, ...], list[Node]]:
    """Find the node to arrange for lookups of ``node`` by ``key``.

    It is the base relation below filters and maps if these copy the key columns, and otherwise ``node`` itself. Returns
    it with its key columns and the list of filters and maps to apply to its rows, in order.
    """
    chain: list[Node] = []
    at, columns = node, key
    while isinstance(at, Filter | Map):
        below = input_columns(at, columns)
        if below is None:
            return node, key, []
        columns = below
        chain.append(at)
        at = at.input
    if not isinstance(at, Scan) or len(set(columns)) < len(columns):
        return node, key, []
    return at, columns, chain[::-1]
