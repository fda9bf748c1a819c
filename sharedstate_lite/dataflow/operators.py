"""The operators of a dataflow whose state is complete: what full and shared state run.

An operator takes the deltas of its inputs for one epoch and gives its own; what it
keeps are arrangements. Whose they are is the strategy's choice, made where the graph is
built (:mod:`.full`, :mod:`.shared`): a join is handed two :class:`Lookup` sides and the
arrangements among them that it has to write itself.

A view that arrives late is loaded: :meth:`Operator.contents` is everything an operator
has emitted so far, computed from state that is there, never from history.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import RowError
from ..kernels.aggregate import ReducePlan, ReduceState
from ..kernels.expr import evaluate
from ..kernels.join import Matches, delta_path, join_core, net, padding
from ..kernels.join_order import Step
from ..plan.nodes import Filter, Join, Map, Node, Reduce, Scan, Type
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat
from ..storage.encoding import Dictionary, Strings


def apply(node: Node, delta: Delta, strings: Strings) -> Delta:
    """A Filter or a Map applied to a delta. Raises RowError where a row that is not cancelled refuses."""
    if not len(delta.diffs):
        return Delta.empty(len(node.schema))
    nobody = np.zeros(len(delta.diffs), dtype=np.intp)
    _, rows, diffs = through(node, (nobody, delta.rows, delta.diffs[None, :]), strings)
    return Delta(rows, diffs[0])


def through(node: Node, found: Matches, strings: Strings) -> Matches:
    """A Filter or a Map applied to what a look-up found. Raises RowError where a row that is there refuses.

    Rows are not netted before: a row that went in an earlier epoch is found with its retraction until
    the two are merged, and where both sides of a join change, so are pairs that were never there
    together. They come to nothing, so what they overflow is no error, or it would depend on merges
    what is accepted. But that is asked only once something refuses.
    """
    owner, rows, diffs = found
    try:
        if isinstance(node, Filter):
            keep = np.flatnonzero(evaluate(node.predicate, rows, strings) == 1)
            return owner.take(keep), rows.take(keep, axis=1), diffs.take(keep, axis=1)
        assert isinstance(node, Map)
        return owner, np.stack([evaluate(e, rows, strings) for e in node.exprs]), diffs
    except RowError:
        types = tuple(c.type for c in node.inputs[0].schema)
        owner, rows, total = net(owner, rows, diffs[0], types, strings)
        if len(owner) == len(found[0]):
            raise
        return through(node, (owner, rows, total[None, :]), strings)


class Lookup:
    """A side of a join: an arrangement, and the Filters and Maps between it and the join.

    They are applied to what a look-up finds, so views with different WHERE clauses read
    the same arrangement (Materialize lifts them the same way).
    """

    def __init__(
        self, arrangement: Arrangement, chain: Sequence[Node], schema: Sequence[Any], dictionary: Dictionary
    ) -> None:
        self.arrangement, self.chain, self.columns, self.dictionary = arrangement, tuple(chain), len(schema), dictionary

    def match(self, keys: Any, at: int | None) -> Matches:
        """See :class:`~..kernels.join.Side`."""
        found = self.arrangement.match(keys, self.dictionary.strings, at)
        for node in self.chain:
            found = through(node, found, self.dictionary.strings)
        return found


@dataclass(eq=False)
class Operator(ABC):
    """A node of the graph: ``name`` is unique in the engine, ``users`` are the views that need it."""

    name: str
    node: Node
    inputs: list[Operator]
    dictionary: Dictionary
    users: set[str] = field(default_factory=set, kw_only=True)

    @abstractmethod
    def step(self, deltas: list[Delta], before: int) -> Delta:
        """This epoch's change, given the inputs'; ``before`` is the time before this epoch."""

    @abstractmethod
    def contents(self) -> Delta:
        """All that the operator has emitted up to now, as one delta."""

    def load(self) -> None:  # noqa: B027  (most operators have no state)
        """Fill the operator's own state from its inputs' contents."""

    def arrangements(self) -> list[tuple[Arrangement, str]]:
        """The operator's own arrangements, each with its kind in ``state()``."""
        return []

    @property
    def width(self) -> int:
        """Columns of what it emits."""
        return len(self.node.schema)


class Input(Operator):
    """A base relation: passes on the epoch's net change; its contents are the base table."""

    base: Callable[[], Arrangement | None]

    def step(self, deltas: list[Delta], before: int) -> Delta:
        return deltas[0]

    def contents(self) -> Delta:
        base = self.base()
        return Delta.empty(self.width) if base is None else base.contents(strings=self.dictionary.strings)


class Linear(Operator):
    """Filter and Map: no state."""

    def step(self, deltas: list[Delta], before: int) -> Delta:
        return apply(self.node, deltas[0], self.dictionary.strings)

    def contents(self) -> Delta:
        return apply(self.node, self.inputs[0].contents(), self.dictionary.strings)


class UnionAll(Operator):
    """UNION ALL: no state."""

    def step(self, deltas: list[Delta], before: int) -> Delta:
        return concat(deltas, self.width)

    def contents(self) -> Delta:
        return concat([i.contents() for i in self.inputs], self.width)


@dataclass(eq=False)
class Arrange(Operator):
    """Writes an arrangement and passes the change on: the only thing that has state under sharing."""

    arrangement: Arrangement = field(kw_only=True)
    kind: str = field(default="arrangement", kw_only=True)
    base: bool = field(default=False, kw_only=True)

    def step(self, deltas: list[Delta], before: int) -> Delta:
        # The base's batch is written when the epoch is checked, before the graph runs.
        if not self.base:
            self.arrangement.insert(deltas[0].rows, deltas[0].diffs, self.dictionary.strings)
        return deltas[0]

    def contents(self) -> Delta:
        return self.arrangement.contents(strings=self.dictionary.strings)

    def load(self) -> None:
        if not self.base:
            delta = self.inputs[0].contents()
            self.arrangement.load(self.arrangement.layout.body(delta.rows, delta.diffs, self.dictionary.strings))

    def arrangements(self) -> list[tuple[Arrangement, str]]:
        return [(self.arrangement, self.kind)]


@dataclass(eq=False)
class JoinOperator(Operator):
    """A join that may keep its inputs itself: ``owned`` are (number of the input, its arrangement)."""

    owned: list[tuple[int, Arrangement]] = field(default_factory=list, kw_only=True)

    def _write(self, deltas: list[Delta]) -> None:
        for side, arrangement in self.owned:
            arrangement.insert(deltas[side].rows, deltas[side].diffs, self.dictionary.strings)

    def load(self) -> None:
        for side, arrangement in self.owned:
            delta = self.inputs[side].contents()
            arrangement.load(arrangement.layout.body(delta.rows, delta.diffs, self.dictionary.strings))

    def arrangements(self) -> list[tuple[Arrangement, str]]:
        return [(a, "join") for _, a in self.owned]


@dataclass(eq=False)
class JoinCore(JoinOperator):
    """A binary join. Its inputs are the two delta streams, then whatever writes the sides (see :class:`Arrange`)."""

    sides: tuple[Lookup, Lookup] = field(kw_only=True)

    @property
    def _keys(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        assert isinstance(self.node, Join)
        return self.node.left_keys, self.node.right_keys

    @property
    def _types(self) -> tuple[Type, ...]:
        assert isinstance(self.node, Join)
        return tuple(self.node.left.schema[i].type for i in self.node.left_keys)

    def step(self, deltas: list[Delta], before: int) -> Delta:
        self._write(deltas)
        return self._change((deltas[0], deltas[1]), before)

    def _change(self, deltas: tuple[Delta, Delta], before: int) -> Delta:
        strings = self.dictionary.strings
        parts = [join_core(deltas, self.sides, self._keys, self._types, before, strings)]
        assert isinstance(self.node, Join)
        if self.node.outer:
            parts.append(padding(deltas, self.sides, self._keys, self._types, before, strings))
        return concat(parts, self.width)

    def contents(self) -> Delta:
        # All of the left against all of the right; an empty right delta leaves nothing for the other half.
        return self._change((self.inputs[0].contents(), Delta.empty(self.sides[1].columns)), 0)


Path = list[tuple[Step, Lookup]]
"""The look-ups of one input's change, in order; see :func:`~..kernels.join.delta_path`."""


@dataclass(eq=False)
class DeltaJoin(JoinOperator):
    """A join of n inputs without intermediate state: one path of half joins an input."""

    paths: list[Path] = field(kw_only=True)

    def step(self, deltas: list[Delta], before: int) -> Delta:
        self._write(deltas)
        parts = [
            delta_path(delta, number, path, before, self.dictionary.strings)
            for number, (delta, path) in enumerate(zip(deltas, self.paths, strict=False))
            if len(delta.diffs)
        ]
        return concat(parts, self.width)

    def contents(self) -> Delta:
        return delta_path(self.inputs[0].contents(), 0, self.paths[0], 0, self.dictionary.strings)


@dataclass(eq=False)
class ReduceCore(Operator):
    """GROUP BY and DISTINCT. Extremes come from ``multisets`` it writes itself (full) or from ``sources`` (shared)."""

    groups: ReduceState = field(kw_only=True)
    multisets: dict[int, Arrangement] = field(default_factory=dict, kw_only=True)
    sources: dict[int, Any] = field(default_factory=dict, kw_only=True)

    def step(self, deltas: list[Delta], before: int) -> Delta:
        assert isinstance(self.node, Reduce)
        if not len(deltas[0].diffs) and (self.node.keys or self.groups.output.runs):
            return Delta.empty(self.width)
        strings, layout = self.dictionary.strings, self.groups.plan.input
        body = layout.body(deltas[0].rows, deltas[0].diffs, strings)
        for column, multiset in self.multisets.items():
            if multiset.layout == layout:
                multiset.insert_body(body)
            else:
                rows = body[[*(1 + i for i in self.node.keys), 1 + column]]
                multiset.insert(rows, body[1 + layout.columns], strings)
        return self.groups.reduce_core(body, self.sources, strings).delta

    def contents(self) -> Delta:
        return self.groups.output.contents(strings=self.dictionary.strings)

    def load(self) -> None:
        self.step([self.inputs[0].contents()], 0)
        for arrangement, _ in self.arrangements():
            # What was written as this epoch's change was there before: it becomes the arrangement's first batch.
            body = arrangement.runs[-1].body if arrangement.runs else np.empty((2, 0), dtype=np.int64)
            arrangement.load(body)

    def arrangements(self) -> list[tuple[Arrangement, str]]:
        return [(a, "aggregate") for a in [*self.multisets.values(), *self.groups.arrangements]]


def own_multisets(node: Reduce, prefix: str, upper: int) -> dict[int, Arrangement]:
    """For each column under MAX or MIN: its values by group, in order."""
    plan = ReducePlan(node)
    key = tuple(range(len(plan.types)))
    # The other parts of a reduce have these names; a self-join brings columns of one name from both sides.
    taken = {"output", "accumulators", *(f"limbs{c}" for c in plan.floated)}
    out = {}
    for column in plan.extremes:
        name, kind = node.input.schema[column].name, node.input.schema[column].type
        part = next(n for n in (name, *(f"{name}#{i}" for i in range(2, len(taken) + 3))) if n not in taken)
        taken.add(part)
        out[column] = Arrangement(f"{prefix}.{part}", Layout((*plan.types, kind), key, len(key)), upper)
    return out


def label(node: Node) -> str:
    """A short name of what an operator's rows are, for state tables and pictures."""
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


__all__ = [
    "Arrange",
    "DeltaJoin",
    "JoinCore",
    "Linear",
    "Lookup",
    "Operator",
    "Path",
    "ReduceCore",
    "Input",
    "UnionAll",
    "label",
    "own_multisets",
]
