"""The operators of a partial graph. Changes and responses are sent down, and upqueries are sent up.

An *upquery* asks an operator for the rows of some keys of its output, and the operator sends one response. A reduce and
a reader cache rows for their *filled* keys, which are the keys asked for before. So does a join, for a side that
contains an aggregate. A change for any other key (a *hole*) is dropped, because the response that fills the key later
will include the change. This relies on an invariant that every operator maintains:

    a response on an edge equals the sum of all changes sent on that edge before it.

Base tables maintain the invariant because they store all rows. The inputs of a union or a join answer at different
times. If a change arrives from an input that has already answered, the operator adds the change to this answer, which
maintains the invariant (rule 22).

Source: Gjengset et al., Noria, OSDI 2018; Gjengset, Partial State in Dataflow-Based Materialized Views, MIT 2021.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..changelog.changes import Changes
from ..dataflow.row_functions import apply
from ..engine.events import EventLog
from ..engine.state_tables import StatePart
from ..errors import RowError, ViewError
from ..kernels.join import Matches
from ..plan.lineage import copied_from, input_columns
from ..plan.nodes import Map, Node, Schema
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta, Layout, concat
from ..storage.encoding import Dictionary, Words
from .failing_rows import without_failing_keys
from .filled_keys import FilledKeys, Mask

Position = dict[int, int]
"""The progress of an operator. It maps the number of each edge out of a base table to the last epoch received on it."""


ApplyLinear = Callable[[Node, Matches, Dictionary], Matches]
"""A function that applies a Filter or a Map to the rows that a lookup found."""


@dataclass(eq=False)
class PartialEdge:
    """An edge from ``source`` down to input ``slot`` of ``target``.

    ``ask`` are the columns of the source by which the target asks for rows. ``at`` is the position of the last message
    that the target received.
    """

    number: int
    source: Upstream
    target: Downstream
    slot: int
    ask: tuple[int, ...]
    at: Position = field(default_factory=dict)


class Services(Protocol):
    """The part of the engine that operators can use. :class:`~.scheduler.MessageScheduler` implements it."""

    now: int
    op: int
    clock: int
    epoch: int
    without: frozenset[str]
    trace: EventLog
    nodes: dict[Any, PartialNode]
    join_node: Any

    @property
    def strings(self) -> Dictionary: ...
    def tag(self) -> int: ...
    def number(self) -> int: ...
    def send(self, kind: str, edge: PartialEdge, **what: Any) -> None: ...
    def among(self, keys: Words, wanted: Words) -> Mask: ...
    def index(self, relation: str, columns: tuple[int, ...]) -> Arrangement: ...
    def fetch(
        self, edge: PartialEdge, columns: tuple[int, ...], keys: Words, at: Position, linear: ApplyLinear
    ) -> Matches: ...
    def changes(self, schema: Schema, delta: Delta, some: Mask) -> Callable[[], Changes]: ...
    def wrote(self, node: PartialNode, delta: Delta) -> None: ...
    def evicted(self, node: PartialNode, keys: Words, part: str) -> None: ...
    def answered(self, reader: ReaderNode, keys: Words) -> None: ...
    def state_parts(self) -> Iterator[StatePart]: ...
    def unfinished(self) -> set[int]: ...
    def settle(self, node: PartialNode) -> None: ...
    def drain(self) -> None: ...


class PartialNode:
    """The base class of operators.

    ``view`` is the view that the operator was built for, and ``ask`` are the output columns by which it is queried.
    """

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        self.flow, self.name, self.plan, self.view, self.ask = flow, name, plan, view, ask
        self.inputs: list[PartialEdge] = []
        self.outputs: list[PartialEdge] = []
        self.filled: FilledKeys | None = None

    # State.

    def parts(self) -> list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]]:
        """Return the parts of the state, each as (arrangement, kind, column names, its filled keys or None)."""
        return []

    def save(self) -> Any:
        """Return the state for :meth:`restore`. It does not include the arrangements."""
        return None if self.filled is None else self.filled.copy()

    def restore(self, saved: Any) -> None:
        """Restore a state that :meth:`save` returned."""
        self.filled = saved

    def drop(self, keys: Words) -> Words:
        """Turn keys into holes and delete their rows. Return the keys that were filled."""
        return keys[:, :0]

    def recode(self, moved: Words) -> None:
        """Replace each string code ``c`` in the filled keys with ``moved[c]``."""
        if self.filled is not None:
            self.filled.recode(moved)

    # Messages.

    def at(self) -> Position:
        """Return the position of this operator."""
        return {number: epoch for edge in self.inputs for number, epoch in edge.at.items()}

    def send_change(self, delta: Delta) -> None:
        """Send a change to the operators below."""
        if len(delta.diffs):
            for edge in self.outputs:
                self.flow.send("change", edge, delta=delta, at=self.at())

    def pass_evict(self, keys: Words | None) -> None:
        """Notify the operators below that keys of ``ask`` (None: all keys) are no longer maintained."""
        if keys is None or keys.shape[1]:
            for edge in self.outputs:
                self.flow.send("evict", edge, keys=keys, at=self.at())

    def evict(self, keys: Words) -> None:
        """Turn keys into holes in this operator and in the operators below."""
        evicted = self.drop(keys)
        if evicted.shape[1]:
            self.flow.evicted(self, evicted, self.name)
        self.pass_evict(keys)

    def keep_filled(self, filled: FilledKeys, delta: Delta, edge: PartialEdge) -> Delta:
        """Return the rows of a change whose keys are filled. All other rows are dropped."""
        kept = filled.mask(delta.rows[list(edge.ask)], self.flow.strings)
        dropped = int((~kept).sum())
        if dropped:
            rest = self.flow.changes(edge.source.plan.schema, delta, ~kept)
            self.flow.trace.record("dropped", self.name, rows=dropped, payload=rest)
        return delta if not dropped else delta.take(kept)


class Upstream(PartialNode, ABC):
    """An operator that answers upqueries. ``tag`` identifies an upquery, and ``keys`` are words int64[len(ask), q]."""

    @abstractmethod
    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        """Receive an upquery from below. ``asked`` is the epoch at which the read that triggered it began."""


class Downstream(PartialNode, ABC):
    """An operator that receives changes and sends upqueries."""

    @abstractmethod
    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        """Receive a change from above. ``before`` is the position of the edge before this change."""

    @abstractmethod
    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        """Receive the response to an upquery of this operator."""

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        """Receive the keys that the operator above no longer maintains (None: all keys)."""
        self.pass_evict(keys)


class InnerNode(Upstream, Downstream):
    """An operator between base tables and readers."""


class BaseNode(Upstream):
    """A base table. It stores all rows, with an index for each set of columns by which it is queried."""

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        # The table contains every change sent on this edge. Without the fix of rule 18, it is read as of epoch asked.
        at = asked if "rule18" in self.flow.without else None
        _, rows, diffs = self.flow.index(self.name_of_relation, edge.ask).match(keys, self.flow.strings, at)
        self.flow.send(
            "response", edge, keys=keys, delta=Delta(rows, diffs[0]), tag=tag, at={edge.number: self.flow.now}
        )

    @property
    def name_of_relation(self) -> str:
        """The name of the relation in the catalog."""
        return str(self.plan.relation)  # type: ignore[attr-defined]

    def publish(self, delta: Delta, epoch: int) -> None:
        """Send the change of an epoch down every edge."""
        for edge in self.outputs:
            self.flow.send("change", edge, delta=delta, at={edge.number: epoch})


class LinearNode(InnerNode):
    """A Filter or a Map. It does not cache any rows."""

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        super().__init__(flow, name, plan, view, ask)
        self.askers: dict[int, PartialEdge] = {}

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        self.askers[tag] = edge
        self.flow.send("upquery", self.inputs[0], keys=keys, tag=tag, asked=asked)

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        strings = self.flow.strings
        try:
            out = apply(self.plan, delta, strings)
        except RowError:
            out = apply(self.plan, without_failing_keys(self.plan, delta, edge.ask, strings), strings)
        self.send_change(out)

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        answer = apply(self.plan, delta, self.flow.strings)
        self.flow.send("response", self.askers.pop(tag), keys=keys, delta=answer, tag=tag, at=self.at())

    def save(self) -> Any:
        return dict(self.askers)

    def restore(self, saved: Any) -> None:
        self.askers = saved


@dataclass
class UnionUpquery:
    """An upquery that a union is answering, with one answer for each input (None if it has not been received)."""

    edge: PartialEdge
    keys: Words
    asked: int
    answers: list[Delta | None]
    tags: dict[int, int] = field(default_factory=dict)


class UnionNode(InnerNode):
    """A UNION ALL. It sends an upquery to every input, and combines the answers into one response (rule 22)."""

    def __init__(self, flow: Services, name: str, plan: Node, view: str, ask: tuple[int, ...]) -> None:
        super().__init__(flow, name, plan, view, ask)
        self.open_upqueries: dict[int, UnionUpquery] = {}

    def on_upquery(self, edge: PartialEdge, tag: int, keys: Words, asked: int) -> None:
        self.open_upqueries[tag] = UnionUpquery(edge, keys, asked, [None] * len(self.inputs))
        for slot in range(len(self.inputs)):
            self._ask(self.open_upqueries[tag], slot)

    def _ask(self, upquery: UnionUpquery, slot: int) -> None:
        tag = self.flow.tag()
        upquery.tags[tag] = slot
        upquery.answers[slot] = None
        self.flow.send("upquery", self.inputs[slot], keys=upquery.keys, tag=tag, asked=upquery.asked)

    def on_change(self, edge: PartialEdge, delta: Delta, before: Position) -> None:
        if "rule22" not in self.flow.without:
            for upquery in self.open_upqueries.values():
                answer = upquery.answers[edge.slot]
                if answer is not None:
                    wanted = self.flow.among(delta.rows[list(edge.ask)], upquery.keys)
                    upquery.answers[edge.slot] = concat([answer, delta.take(wanted)], len(self.plan.schema))
        self.send_change(delta)

    def on_response(self, edge: PartialEdge, tag: int, keys: Words, delta: Delta) -> None:
        for name, upquery in self.open_upqueries.items():
            if tag in upquery.tags:
                upquery.answers[upquery.tags.pop(tag)] = delta
                answers = [a for a in upquery.answers if a is not None]
                if len(answers) == len(self.inputs):
                    del self.open_upqueries[name]
                    answer = concat(answers, len(self.plan.schema))
                    self.flow.send("response", upquery.edge, keys=upquery.keys, delta=answer, tag=name, at=self.at())
                return

    def on_evict(self, edge: PartialEdge, keys: Words | None) -> None:
        for upquery in self.open_upqueries.values():
            # The stored answer can miss changes after this eviction, so ask this input again.
            if upquery.answers[edge.slot] is not None:
                self._ask(upquery, edge.slot)
        self.pass_evict(keys)

    def save(self) -> Any:
        return {
            t: UnionUpquery(q.edge, q.keys, q.asked, list(q.answers), dict(q.tags))
            for t, q in self.open_upqueries.items()
        }

    def restore(self, saved: Any) -> None:
        self.open_upqueries = saved


class ReaderNode(Downstream):
    """The operator from which a view is read. It caches the rows of keys that have been read before."""

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
        evicted = self.filled.remove(keys, self.flow.strings)
        if evicted.shape[1]:
            _, rows, diffs = self.rows.match(evicted, self.flow.strings)
            self.rows.insert(rows, -diffs[0], self.flow.strings)
            # A call whose messages are not all delivered would otherwise emit only a part of the key's change.
            for op in self.flow.unfinished() & self.emitted.keys():
                self.emitted[op] = [self._without(evicted, delta) for delta in self.emitted[op]]
        return evicted

    def _without(self, keys: Words, delta: Delta) -> Delta:
        return delta.take(~self.flow.among(delta.rows[list(self.ask)], keys))

    def parts(self) -> list[tuple[Arrangement, str, tuple[str, ...], FilledKeys | None]]:
        return [(self.rows, "reader", tuple(c.name for c in self.plan.schema), self.filled)]

    def save(self) -> Any:
        return self.filled.copy(), {op: list(d) for op, d in self.emitted.items()}

    def restore(self, saved: Any) -> None:
        self.filled, self.emitted = saved


def traced(plan: Map, ask: tuple[int, ...], view: str) -> tuple[int, ...]:
    """Return the input columns that a Map copies to its output columns ``ask``, by which a join looks up its rows.

    Raises ViewError if one of them is computed.
    """
    columns = input_columns(plan, ask)
    if columns is None:
        raise no_join(view, plan.schema, next(c for c in ask if not copied_from(plan, c)), "is computed")
    return columns


def no_join(view: str, schema: Schema, column: int, why: str) -> ViewError:
    """Return the error for a join column that does not come from a base table.

    ``why`` is the part of the message after the column's name, such as "is computed".
    """
    return ViewError(
        f"view {view} joins on column {schema[column].name}, which {why}, so an upquery cannot reach a base table; "
        "join on columns of base tables, or use full or shared state"
    )


def no_key(view: str, schema: Schema, column: int, why: str) -> ViewError:
    """Return the error for a key column that does not come from a base table; see :func:`no_join`."""
    return ViewError(
        f"view {view}: column {schema[column].name} {why}, so an upquery for one of its values cannot reach a base "
        "table; make base-table columns the key (the GROUP BY columns, otherwise the first column; in Python also "
        "key=[...]), or use full or shared state"
    )
