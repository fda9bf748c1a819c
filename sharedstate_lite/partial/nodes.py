"""The operators of a partial dataflow: changes come down, questions go up, answers come down.

An operator is asked for the rows of some keys of its output and answers in one response.
It may hold state for keys that were asked before (reduce, reader, and a join's side that
is itself an aggregate); a change to any other key is let fall, because the answer that
fills the key later will contain it. That is sound because of one invariant, kept by
every operator:

    a response on an edge equals the sum of all changes sent on that edge before it.

Base tables keep it trivially. A union or a join, whose two halves are answered at
different moments, keeps it by adding to a half that it holds the changes that arrive
meanwhile on that half's edge, and on no other (rule 22).

After Noria (Gjengset et al., OSDI 2018; Gjengset's thesis, 2021, for the races).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..changelog.changes import Changes
from ..dataflow.row_functions import apply
from ..engine.state_tables import StatePart
from ..engine.trace import Trace
from ..errors import ViewError
from ..kernels.join import Matches
from ..plan.lineage import copied_from, input_columns
from ..plan.nodes import Map, Node, Schema
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat
from ..storage.encoding import Strings, Words
from .filled_keys import FilledKeys, Mask

Position = dict[int, int]
"""PartialEdge out of a base table (by number) -> the epoch up to which its changes were taken in."""


@dataclass(eq=False)
class PartialEdge:
    """From ``source`` down to ``target``, whose input number ``slot`` it is.

    ``ask`` are the source's columns that the target asks by; ``at`` is the position of
    the last message that arrived.
    """

    number: int
    source: Upstream
    target: Downstream
    slot: int
    ask: tuple[int, ...]
    at: Position = field(default_factory=dict)


class Services(Protocol):
    """What an operator may use of its dataflow. :class:`~.scheduler.MessageScheduler` provides it."""

    now: int
    op: int
    clock: int
    epoch: int
    without: frozenset[str]
    trace: Trace
    nodes: dict[Any, PartialNode]
    join_node: Any

    @property
    def strings(self) -> Strings: ...
    def tag(self) -> int: ...
    def number(self) -> int: ...
    def send(self, kind: str, edge: PartialEdge, **what: Any) -> None: ...
    def among(self, keys: Words, wanted: Words, schema: Schema, columns: tuple[int, ...]) -> Any: ...
    def index(self, relation: str, columns: tuple[int, ...]) -> Arrangement: ...
    def fetch(self, edge: PartialEdge, columns: tuple[int, ...], keys: Words, at: Position) -> Matches: ...
    def changes(self, schema: Schema, delta: Delta, some: Mask) -> Callable[[], Changes]: ...
    def wrote(self, node: PartialNode, delta: Delta) -> None: ...
    def evicted(self, node: PartialNode, keys: Words, part: str) -> None: ...
    def answered(self, reader: ReaderNode, keys: Words) -> None: ...
    def state_parts(self) -> Iterator[StatePart]: ...
    def settle(self, node: PartialNode) -> None: ...
    def drain(self) -> None: ...


class PartialNode:
    """An operator of the graph. ``view`` is the view it was built for, ``ask`` the columns it is asked by."""

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        self.flow, self.name, self.plan, self.view, self.ask = flow, name, plan, view, ask
        self.inputs: list[PartialEdge] = []
        self.outputs: list[PartialEdge] = []
        self.filled: FilledKeys | None = None

    # State.

    def parts(self) -> list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]]:
        """State held: arrangement, kind, column names, and the keys that are filled in it."""
        return []

    def save(self) -> Any:
        """What :meth:`back` needs to undo everything since."""
        return None if self.filled is None else self.filled.copy()

    def back(self, saved: Any) -> None:
        """Undo."""
        self.filled = saved

    def drop(self, keys: Words) -> Words:
        """Make keys holes and forget their rows; returns those that were filled."""
        return keys[:, :0]

    def recode(self, moved: Words) -> None:
        """Strings have new codes."""
        if self.filled is not None:
            self.filled.recode(moved)

    # Services.

    def at(self) -> Position:
        """How far this operator has got."""
        return {number: epoch for edge in self.inputs for number, epoch in edge.at.items()}

    def send_change(self, delta: Delta) -> None:
        """Pass a change to everybody below."""
        if len(delta.diffs):
            for edge in self.outputs:
                self.flow.send("change", edge, delta=delta, at=self.at())

    def pass_evict(self, keys: Words | None) -> None:
        """Tell everybody below that these keys of ``ask`` (None: all) are no longer kept up to date."""
        if keys is None or keys.shape[1]:
            for edge in self.outputs:
                self.flow.send("evict", edge, keys=keys, at=self.at())

    def evict(self, keys: Words) -> None:
        """Make keys holes here, and below."""
        gone = self.drop(keys)
        if gone.shape[1]:
            self.flow.evicted(self, gone, self.name)
        self.pass_evict(keys)

    def keep_filled(self, filled: FilledKeys, delta: Delta, edge: PartialEdge) -> Delta:
        """The rows of a change on an edge whose key is filled; the rest falls."""
        kept = filled.mask(delta.rows[list(edge.ask)], self.flow.strings)
        fell = int((~kept).sum())
        if fell:
            rest = self.flow.changes(edge.source.plan.schema, delta, ~kept)
            self.flow.trace.record("dropped", self.name, rows=fell, payload=rest)
        return delta if not fell else delta.take(kept)


class Upstream(PartialNode, ABC):
    """An operator that is asked. ``tag`` names the upquery; ``keys`` are words int64[len(ask), q]."""

    @abstractmethod
    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        """A question from below; ``asked`` is the epoch in which it was first put."""


class Downstream(PartialNode, ABC):
    """An operator that asks, and takes changes."""

    @abstractmethod
    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        """A change from above; ``before`` is the edge's position without it."""

    @abstractmethod
    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        """The answer to an upquery of this operator's."""

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        """Keys (of the edge's ask columns) that the operator above cannot keep up to date any more; None for all."""
        self.pass_evict(keys)


class InnerNode(Upstream, Downstream):
    """An operator between base tables and readers."""


class BaseNode(Upstream):
    """A base table: always full, indexed by whatever is asked."""

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        # The base holds all that it has sent on this edge; without the fix, it answers as of the question.
        at = asked if "rule18" in self.flow.without else None
        _, rows, diffs = self.flow.index(self.name_of_relation, edge.ask).match(keys, self.flow.strings, at)
        self.flow.send(
            "response", edge, keys=keys, delta=Delta(rows, diffs[0]), tag=tag, at={edge.number: self.flow.now}
        )

    @property
    def name_of_relation(self) -> str:
        """The relation's name in the catalog."""
        return str(self.plan.relation)  # type: ignore[attr-defined]

    def publish(self, delta: Delta, epoch: int) -> None:
        """Send an epoch's change down every edge."""
        for edge in self.outputs:
            self.flow.send("change", edge, delta=delta, at={edge.number: epoch})


class LinearNode(InnerNode):
    """Filter or Map: passes everything on, applied."""

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        super().__init__(flow, name, plan, view, ask)
        self.askers: dict[int, PartialEdge] = {}

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        self.askers[tag] = edge
        self.flow.send("upquery", self.inputs[0], keys=keys, tag=tag, asked=asked)

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        self.send_change(apply(self.plan, delta, self.flow.strings))

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        answer = apply(self.plan, delta, self.flow.strings)
        self.flow.send("response", self.askers.pop(tag), keys=keys, delta=answer, tag=tag, at=self.at())

    def save(self) -> Any:
        return dict(self.askers)

    def back(self, saved: Any) -> None:
        self.askers = saved


@dataclass
class UnionUpquery:
    """A question to a union: the answers so far, one an input (None: not yet)."""

    edge: PartialEdge
    keys: Words
    asked: int
    answers: list[Delta | None]
    tags: dict[int, int] = field(default_factory=dict)


class UnionNode(InnerNode):
    """UNION ALL: asks all inputs, and sends one combined response."""

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        super().__init__(flow, name, plan, view, ask)
        self.open_upqueries: dict[int, UnionUpquery] = {}

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        self.open_upqueries[tag] = UnionUpquery(edge, keys, asked, [None] * len(self.inputs))
        for slot in range(len(self.inputs)):
            self._ask(self.open_upqueries[tag], slot)

    def _ask(self, question: UnionUpquery, slot: int) -> None:
        tag = self.flow.tag()
        question.tags[tag] = slot
        question.answers[slot] = None
        self.flow.send("upquery", self.inputs[slot], keys=question.keys, tag=tag, asked=question.asked)

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        if "rule22" not in self.flow.without:
            for question in self.open_upqueries.values():
                held = question.answers[edge.slot]
                if held is not None:
                    meant = self.flow.among(
                        delta.rows[list(edge.ask)], question.keys, edge.source.plan.schema, edge.ask
                    )
                    question.answers[edge.slot] = concat([held, delta.take(meant)], len(self.plan.schema))
        self.send_change(delta)

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        for name, question in self.open_upqueries.items():
            if tag in question.tags:
                question.answers[question.tags.pop(tag)] = delta
                answers = [a for a in question.answers if a is not None]
                if len(answers) == len(self.inputs):
                    del self.open_upqueries[name]
                    answer = concat(answers, len(self.plan.schema))
                    self.flow.send("response", question.edge, keys=question.keys, delta=answer, tag=name, at=self.at())
                return

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        for question in self.open_upqueries.values():
            # The half held here will miss changes from now on: ask for it again.
            if question.answers[edge.slot] is not None:
                self._ask(question, edge.slot)
        self.pass_evict(keys)

    def save(self) -> Any:
        return {
            t: UnionUpquery(q.edge, q.keys, q.asked, list(q.answers), dict(q.tags))
            for t, q in self.open_upqueries.items()
        }

    def back(self, saved: Any) -> None:
        self.open_upqueries = saved


class ReaderNode(Downstream):
    """Where a view is read: the rows of the keys that were read before."""

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        super().__init__(flow, name, plan, view, ask)
        self.rows = Arrangement(name, Layout(tuple(c.type for c in plan.schema), ask))
        self.filled: FilledKeys = FilledKeys(self.rows.layout.key_types)
        self.emitted: dict[int, list[Delta]] = {}

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        delta = self.keep_filled(self.filled, delta, edge)
        if len(delta.diffs):
            body = self.rows.insert(delta.rows, delta.diffs, self.flow.strings)
            self.flow.wrote(self, delta)
            self.emitted.setdefault(self.flow.op, []).append(self.rows.layout.delta(body))

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        fresh = keys.compress(~self.filled.mask(keys, self.flow.strings), axis=1)
        if fresh.shape[1]:
            self.rows.insert(delta.rows, delta.diffs, self.flow.strings)
            self.filled.add(fresh, self.flow.strings, self.flow.clock)
            self.flow.wrote(self, delta)
        self.flow.answered(self, keys)

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        self.evict(self.filled.keys if keys is None else keys)

    def drop(self, keys: Words) -> Words:
        gone = self.filled.remove(keys, self.flow.strings)
        if gone.shape[1]:
            _, rows, diffs = self.rows.match(gone, self.flow.strings)
            self.rows.insert(rows, -diffs[0], self.flow.strings)
        return gone

    def parts(self) -> list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]]:
        return [(self.rows, "reader", tuple(c.name for c in self.plan.schema), self.filled)]

    def save(self) -> Any:
        return self.filled.copy(), {op: list(d) for op, d in self.emitted.items()}

    def back(self, saved: Any) -> None:
        self.filled, self.emitted = saved


def traced(plan: Map, ask: tuple[int, ...], view: str) -> tuple[int, ...]:
    """The input columns behind output columns ``ask`` of a Map. Raises ViewError where one is computed."""
    columns = input_columns(plan, ask)
    if columns is None:
        raise untraceable(view, plan.schema, next(c for c in ask if not copied_from(plan, c)), "is computed")
    return columns


def untraceable(view: str, schema: Schema, column: int, why: str) -> ViewError:
    """The error for a key that an upquery cannot follow to the base tables."""
    return ViewError(
        f"view {view}: column {schema[column].name} {why}, "
        f"so an upquery for one of its values cannot be asked of a base table; "
        f"partial state needs a key of base columns: give the view key=[...], or use full or shared state"
    )
