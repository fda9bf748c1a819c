"""The operators of full and shared state, which process every change.

In each epoch, an operator receives the changes of its inputs and returns the change of its output. It stores its state
in arrangements. The strategy decides which ones when it builds the graph (:mod:`.full`, :mod:`.shared`). For example, a
join receives two :class:`Lookup` sides, and the arrangements of those inputs that it must write itself.

The state of a view that is installed later is loaded with :meth:`Operator.contents`. From the current state of an
operator, this method computes the sum of all changes that the operator has emitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kernels.aggregate import ReducePlan, ReduceState
from ..kernels.join import Matches, delta_path, join_core, padding
from ..kernels.join_order import Step
from ..plan.nodes import Join, Node, Reduce, Type
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat
from ..storage.encoding import DictionaryRef
from .row_functions import apply, apply_to_matches


class Lookup:
    """A side of a join: an arrangement, and the Filters and Maps between it and the join.

    The Filters and Maps are applied to the rows that a lookup finds. Views with different WHERE clauses can therefore
    share an arrangement, as in Materialize.
    """

    def __init__(
        self, arrangement: Arrangement, chain: Sequence[Node], schema: Sequence[Any], dictionary: DictionaryRef
    ) -> None:
        self.arrangement, self.chain, self.columns, self.dictionary = arrangement, tuple(chain), len(schema), dictionary
        self.stored = None if chain else arrangement

    def match(self, keys: Any, at: int | None) -> Matches:
        """Find the rows with these keys; see :meth:`~..kernels.join.Side.match`."""
        found = self.arrangement.match(keys, self.dictionary.strings, at)
        for node in self.chain:
            found = apply_to_matches(node, found, self.dictionary.strings)
        return found


@dataclass(eq=False)
class Operator(ABC):
    """A node of the dataflow graph. Its ``name`` is unique in the engine. ``users`` are the views that need it."""

    name: str
    node: Node
    inputs: list[Operator]
    dictionary: DictionaryRef
    users: set[str] = field(default_factory=set, kw_only=True)
    eager = False
    """Whether the operator runs in an epoch without input. Without GROUP BY, no rows have an aggregate too."""

    def __post_init__(self) -> None:
        self.width = len(self.node.schema)
        """The number of output columns."""

    @abstractmethod
    def step(self, deltas: list[Delta], before: int) -> Delta:
        """Process the changes of the inputs in this epoch, and return the change of the output.

        ``before`` is the previous epoch.
        """

    @abstractmethod
    def contents(self) -> Delta:
        """Return the sum of all changes that the operator has emitted."""

    def load(self) -> None:  # noqa: B027  (most operators have no state)
        """Fill the state of a new operator from the contents of its inputs."""

    def arrangements(self) -> list[tuple[Arrangement, str]]:
        """Return the arrangements that the operator writes, each with its kind in ``state()``."""
        return []


class Input(Operator):
    """A base relation, which emits the consolidated input of each epoch."""

    base: Callable[[], Arrangement | None]

    def step(self, deltas: list[Delta], before: int) -> Delta:
        return deltas[0]

    def contents(self) -> Delta:
        base = self.base()
        return Delta.empty(self.width) if base is None else base.contents(strings=self.dictionary.strings)


class Linear(Operator):
    """A Filter or a Map. It does not have any state."""

    def step(self, deltas: list[Delta], before: int) -> Delta:
        return apply(self.node, deltas[0], self.dictionary.strings)

    def contents(self) -> Delta:
        return apply(self.node, self.inputs[0].contents(), self.dictionary.strings)


class UnionAll(Operator):
    """A UNION ALL. It does not have any state."""

    def step(self, deltas: list[Delta], before: int) -> Delta:
        return concat(deltas, self.width)

    def contents(self) -> Delta:
        return concat([i.contents() for i in self.inputs], self.width)


@dataclass(eq=False)
class Arrange(Operator):
    """An operator that writes each change to an arrangement and passes it on.

    Under shared state, joins do not have any other state.
    """

    arrangement: Arrangement = field(kw_only=True)
    kind: str = field(default="arrangement", kw_only=True)
    base: bool = field(default=False, kw_only=True)

    def step(self, deltas: list[Delta], before: int) -> Delta:
        # A base table is written when the epoch is checked, before the graph runs.
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
    """The base class of joins.

    ``owned`` contains a pair (input number, arrangement) for each input that the join arranges itself.
    """

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
    """A binary join.

    Its inputs are the two streams of changes, followed by those :class:`Arrange` operators that it only reads.
    """

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
        parts = [join_core(deltas, self.sides, self._keys, before, strings)]
        assert isinstance(self.node, Join)
        if self.node.outer:
            parts.append(padding(deltas, self.sides, self._keys, self._types, before, strings))
        return concat(parts, self.width)

    def contents(self) -> Delta:
        # Join the contents of the left input with the right side. The change on the right is empty.
        return self._change((self.inputs[0].contents(), Delta.empty(self.sides[1].columns)), 0)


Path = list[tuple[Step, Lookup]]
"""The lookups that join a change of one input, in order; see :func:`~..kernels.join.delta_path`."""


@dataclass(eq=False)
class DeltaJoin(JoinOperator):
    """A join of n inputs without intermediate state. It has one path of half joins for each input."""

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
    """A GROUP BY or a DISTINCT. It reads MAX and MIN from ``sources``.

    Under full state, these are the ``multisets``, which the operator writes itself.
    """

    groups: ReduceState = field(kw_only=True)
    multisets: dict[int, Arrangement] = field(default_factory=dict, kw_only=True)
    sources: dict[int, Any] = field(default_factory=dict, kw_only=True)
    eager = True

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
            # The batch just written becomes the first batch, because its rows existed before this epoch.
            body = arrangement.runs[-1].body if arrangement.runs else np.empty((2, 0), dtype=np.int64)
            arrangement.load(body)

    def arrangements(self) -> list[tuple[Arrangement, str]]:
        return [(a, "aggregate") for a in [*self.multisets.values(), *self.groups.arrangements]]


@dataclass(frozen=True)
class Reader:
    """The arrangement from which a view is read, and the numbers of the view's columns in it.

    If ``own`` is true, the arrangement belongs to the view. Otherwise, it is the output of the view's last reduce,
    which contains the same rows.
    """

    root: Operator
    arrangement: Arrangement
    columns: tuple[int, ...]
    own: bool


def own_multisets(node: Reduce, prefix: str, upper: int) -> dict[int, Arrangement]:
    """Create an arrangement for each column of a MAX or MIN. It contains the column's values, sorted in each group."""
    plan = ReducePlan(node)
    key = tuple(range(len(plan.types)))
    # The other parts of a reduce use these names. Above a self-join, two columns can also have the same name.
    taken = {"output", "accumulators", *(f"limbs{c}" for c in plan.floated)}
    out = {}
    for column in plan.extremes:
        name, kind = node.input.schema[column].name, node.input.schema[column].type
        part = next(n for n in (name, *(f"{name}#{i}" for i in range(2, len(taken) + 3))) if n not in taken)
        taken.add(part)
        out[column] = Arrangement(f"{prefix}.{part}", Layout((*plan.types, kind), key, len(key)), upper)
    return out


__all__ = [
    "Arrange",
    "DeltaJoin",
    "JoinCore",
    "Linear",
    "Lookup",
    "Operator",
    "Path",
    "Reader",
    "ReduceCore",
    "Input",
    "UnionAll",
    "own_multisets",
]
