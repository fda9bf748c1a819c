"""A recorded run of an engine, step by step, as plain data. The stepper draws it.

In one *step*, one operator takes its waiting messages, changes its state and sends messages on
its outgoing edges. So a message moves along one edge a step: it is *sent* in one step, waits on
its edge, and is *taken* in a step of the operator at the other end. A message sent in step s
and taken in step t lies on its edge from step s to step t - 1. Under full and shared state an
operator acts once an epoch and takes the messages of all its inputs. Under partial state it
takes one message at a time.

Step 0 is the state before the first message. ``Recording.state(n)`` is what each operator
stores after step n. A *mark* on a row compares it with the state before the current message;
``now`` says that the row changed in this very step.

Two kinds of operators are left out, and messages pass them without a step: projections that
only pick columns, and sources whose rows are stored by the arrangement behind them.

A recording holds no engine. Rows are decoded on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from .messages import Message, Values
from .questions import Question

# --- state ------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of a table after a step.

    ``count`` is its multiplicity now, ``before`` its multiplicity before the current message.
    ``old`` has the values that it replaced, in a table with a unique key. ``now``: it changed in
    this step, not earlier in the message. ``looked_up``: it was read in this step. ``time`` is its
    epoch in a batch of an arrangement; ``compacted``: epochs up to ``time`` are merged into it.
    """

    values: Values
    count: int
    before: int
    old: Values | None = None
    now: bool = False
    looked_up: bool = False
    time: int | None = None
    compacted: bool = False

    @property
    def mark(self) -> str:
        """inserted, deleted, changed, or '' for an unchanged row."""
        if self.old is not None:
            return "changed"
        if self.count == self.before:
            return ""
        return "inserted" if not self.before else "deleted" if not self.count else "changed"


@dataclass(frozen=True)
class Key:
    """A key of a partial table that has no rows: filled and empty, or a hole that a message met.

    ``now``: it became so in this step; ``new``: in the current message.
    """

    key: Values
    filled: bool
    now: bool = False
    new: bool = False


@dataclass(frozen=True)
class Bag:
    """The values that a group stores for MAX or MIN, in order. Each of ``items`` has one value."""

    column: str
    items: tuple[Row, ...]
    total: int


@dataclass(frozen=True)
class Group:
    """A group of an aggregation, its last ``result``, and (full state) a bag for each column under MAX or MIN."""

    key: Values
    bags: tuple[Bag, ...]
    result: Row | None


@dataclass(frozen=True)
class RecordedBatch:
    """A batch of an arrangement: epochs [lower, upper). ``fresh``: it was appended or merged in this step."""

    lower: int
    upper: int
    rows: tuple[Row, ...]
    total: int
    fresh: bool = False


@dataclass(frozen=True)
class ReaderPosition:
    """The epoch at which a reader stands in an arrangement. ``before`` is where it stood before this step, or None."""

    reader: str
    time: int
    before: int | None
    external: bool = False
    """Whether it is a trace handle outside the engine (`messages.Hold`), which keeps since from passing it."""


@dataclass(frozen=True)
class ArrangementState:
    """An arrangement after a step: batches (oldest first), since and upper now and before the step, and readers."""

    batches: tuple[RecordedBatch, ...]
    since: int
    upper: int
    since_before: int
    upper_before: int
    readers: tuple[ReaderPosition, ...]


@dataclass(frozen=True)
class Table:
    """One piece of state of an operator after a step.

    ``form`` is rows, groups or arrangement, and says which fields are set: ``rows``; ``groups``
    with the names of their bags (``measures``) and ``results``; or ``arrangement`` with its
    consolidated ``rows``. ``caption`` distinguishes the tables of one operator (``info side``),
    else ''. ``key`` has the columns of its index. Rows and groups are in order of value. There are
    at most `MOST`: all that are marked first, then the first of the others. ``total`` counts
    all of them. A row deleted by the current message stays until the message ends, and is not
    counted.

    ``partial``: keys may be holes. ``keys`` are the keys without rows that a message met; every
    other key is a hole. ``parts`` are the names in ``engine.state()`` that this table shows, and
    ``stored`` and ``bytes`` are their sizes, with rows that a merge will cancel.
    """

    name: str
    form: str
    caption: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    total: int = 0
    groups: tuple[Group, ...] = ()
    measures: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    arrangement: ArrangementState | None = None
    partial: bool = False
    keys: tuple[Key, ...] = ()
    filled: int = 0
    """The number of filled keys, with rows or without."""
    parts: tuple[str, ...] = ()
    stored: int = 0
    bytes: int = 0


MOST = 500
"""The number of rows or groups that a table has, unless more are marked."""


@dataclass(frozen=True)
class OperatorState:
    """What an operator stores after a step. ``rows`` and ``bytes`` are counted as by ``engine.state()``.

    ``pending_keys`` are keys of upqueries that it has not answered yet, ``pending_reads`` keys of
    reads that wait for an answer (partial state).
    """

    operator: str
    tables: tuple[Table, ...] = ()
    rows: int = 0
    bytes: int = 0
    base: bool = False
    pending_keys: tuple[Values, ...] = ()
    pending_reads: tuple[Values, ...] = ()


@dataclass(frozen=True)
class Totals:
    """Rows and bytes after a step, in base tables and in all other state.

    ``rows_before`` is the value of ``rows`` before the message.
    """

    rows: int
    bytes: int
    base_rows: int
    base_bytes: int
    rows_before: int


# --- the graph ------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedOperator:
    """An operator, described as in `plan.graph`.

    ``added_at`` is the number of the message that installed it, 0 for the start. ``removed_at`` is
    the number of the message that dropped it, or None.
    """

    name: str
    kind: str
    title: str
    detail: str
    tables: tuple[str, ...]
    view: str
    added_at: int = 0
    removed_at: int | None = None


@dataclass(frozen=True)
class RecordedEdge:
    """An edge between operators: change, read (through a trace handle) or upquery (source asks target)."""

    source: str
    target: str
    kind: str
    added_at: int = 0
    removed_at: int | None = None


# --- messages and steps -----------------------------------------------------------


@dataclass(frozen=True)
class RowChange:
    """A row with its diff. ``kind`` is +I, -U, +U or -D for rows with a unique key, else ''."""

    row: Values
    diff: int
    kind: str = ""


class Rows(Sequence[RowChange]):
    """The changes of one message, decoded on first access. ``len`` decodes none, ``first(n)`` at most n."""

    def __init__(self, count: int, make: Callable[[int], Sequence[RowChange]]) -> None:
        self._count, self._make = count, make

    def first(self, most: int) -> Sequence[RowChange]:
        """The first ``most`` changes."""
        return self._all[:most] if "_all" in self.__dict__ else self._make(most)

    @cached_property
    def _all(self) -> Sequence[RowChange]:
        return self._make(self._count)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __repr__(self) -> str:
        return f"Rows({list(self.first(6))!r}{', ...' if len(self) > 6 else ''})"


NO_ROWS = Rows(0, lambda _: ())


@dataclass(frozen=True, eq=False)
class Move:
    """A message on an edge from ``source`` to ``target``.

    ``kind`` is change (rows with diffs), upquery (asks for ``keys`` by ``key_columns``), response
    (``rows`` that answer ``keys``) or evict (``keys`` that become holes, None for all). ``columns``
    names the columns of the rows. ``sent`` and ``taken`` are step numbers; ``taken`` is None if the
    message never arrives. ``trace_edge`` is its edge in the engine's trace, and ``trace_rows`` the
    number of rows there, before consolidation.
    """

    number: int
    source: str
    target: str
    kind: str
    rows: Rows = NO_ROWS
    columns: tuple[str, ...] = ()
    keys: tuple[Values, ...] | None = None
    key_columns: tuple[str, ...] = ()
    sent: int = 0
    taken: int | None = None
    trace_edge: tuple[str, str] = ("", "")
    trace_rows: int = 0

    @property
    def upstream(self) -> bool:
        """Whether it moves against the direction of changes."""
        return self.kind == "upquery"


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """One action of one operator.

    ``kind`` is one of:

    - arrive: rows enter a base table; change, upquery, response: an operator takes such a message;
    - evict: an operator takes an eviction, or evicts by itself; read: a view is read;
    - seal: the epoch ends; under shared state since advances and batches merge;
    - install, drop, hold, pause; deliver and resume if no message was waiting; refused.

    ``operator`` is '' if the step belongs to none. ``dropped`` are changes discarded at holes.
    ``emitted`` are the changes that a view emits. ``answer`` is the result of the read that this
    step completes. ``hits`` and ``holes`` are keys that were looked up and found filled or not.
    ``caption`` describes the step in one sentence; ``question`` asks for its outcome beforehand.
    """

    number: int
    message: int
    epoch: int
    kind: str
    operator: str
    caption: str
    taken: tuple[Move, ...] = ()
    sent: tuple[Move, ...] = ()
    dropped: Rows = NO_ROWS
    emitted: Rows = NO_ROWS
    answer: tuple[Values, ...] | None = None
    hits: tuple[Values, ...] = ()
    holes: tuple[Values, ...] = ()
    question: Question | None = None


@dataclass(frozen=True)
class RecordedMessage:
    """A message of the history, numbered from 1, and its steps ``first`` to ``last``.

    ``epoch`` is the engine's epoch after it. ``refused`` is the error with which the engine refused
    it, else ''. A refused message has one step and changes nothing.
    """

    number: int
    message: Message
    text: str
    first: int
    last: int
    epoch: int
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Recording:
    """A run of one engine over a history of messages.

    ``operators`` and ``edges`` are those of the whole run, late views included. `state` and
    `totals` are computed on demand, for the steps 0 to ``last``, and cached.
    """

    kind: str
    sql: tuple[str, ...]
    operators: tuple[RecordedOperator, ...]
    edges: tuple[RecordedEdge, ...]
    messages: tuple[RecordedMessage, ...]
    steps: tuple[RecordedStep, ...]
    load_state: Callable[[int], Mapping[str, OperatorState]] = field(repr=False)
    load_totals: Callable[[int], Totals] = field(repr=False)

    @property
    def last(self) -> int:
        """The number of the last step."""
        return len(self.steps)

    def step(self, number: int) -> RecordedStep | None:
        """Step ``number`` from 1 to ``last``, or None for 0."""
        return self.steps[number - 1] if number else None

    def caption(self, number: int) -> str:
        """The caption of a step."""
        step = self.step(number)
        if step is not None:
            return step.caption
        return "Before the first message." if self.messages else "There is no message."

    def message_of(self, number: int) -> RecordedMessage | None:
        """The message that a step belongs to, or None for step 0."""
        step = self.step(number)
        return None if step is None else self.messages[step.message - 1]

    def state(self, number: int) -> Mapping[str, OperatorState]:
        """Operator -> what it stores after step ``number``. Raises IndexError for a number that is no step."""
        return self._state(self._checked(number))

    def totals(self, number: int) -> Totals:
        """Rows and bytes stored after step ``number``. Raises IndexError for a number that is no step."""
        return self._totals(self._checked(number))

    def waiting(self, number: int) -> tuple[Move, ...]:
        """The messages on edges after step ``number``, in the order sent."""
        return self._waiting.get(number, ())

    def trail(self, number: int) -> tuple[Move, ...]:
        """The messages that were sent and taken since the current message began."""
        step = self.step(number)
        if step is None:
            return ()
        first = self.messages[step.message - 1].first
        moves = {id(m): m for s in self.steps[first - 1 : number] for m in (*s.taken, *s.sent)}
        return tuple(m for m in moves.values() if m.taken is not None and m.taken <= number)

    def graph_at(self, number: int) -> tuple[tuple[RecordedOperator, ...], tuple[RecordedEdge, ...]]:
        """The operators and edges that exist at step ``number``."""
        step = self.step(number)
        at = 0 if step is None else step.message
        here = [o for o in self.operators if o.added_at <= at and (o.removed_at is None or at < o.removed_at)]
        return tuple(here), tuple(
            e for e in self.edges if e.added_at <= at and (e.removed_at is None or at < e.removed_at)
        )

    def _checked(self, number: int) -> int:
        if not 0 <= number <= self.last:
            raise IndexError(f"step {number}: this recording has steps 0 to {self.last}")
        return number

    @cached_property
    def _state(self) -> Callable[[int], Mapping[str, OperatorState]]:
        return lru_cache(maxsize=64)(self.load_state)

    @cached_property
    def _totals(self) -> Callable[[int], Totals]:
        return lru_cache(maxsize=4096)(self.load_totals)

    @cached_property
    def _waiting(self) -> dict[int, tuple[Move, ...]]:
        under: dict[int, Move] = {}
        out: dict[int, tuple[Move, ...]] = {}
        for step in self.steps:
            for move in step.taken:
                under.pop(move.number, None)
            under.update((m.number, m) for m in step.sent)
            if under:
                out[step.number] = tuple(under.values())
        return out
