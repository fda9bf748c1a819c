"""A recorded run of an engine, step by step: what a stepper draws. Plain data.

The unit of stepping: in one step one operator takes what waits before it, changes its
state, and puts what it sends on its outgoing edges. So a message moves one edge a step:
it is *sent* in one step, waits on its edge, and is *taken* in the step of the operator at
the other end. Under full and shared state an operator acts once an epoch and takes the
messages of all its inputs; under partial state it takes one message at a time. A message
sent in step s and taken in step t lies on its edge from s to t - 1.

Step 0 is before the first message. ``Recording.state(step)`` is what every operator holds
after that step; marks compare it with the beginning of the message that the step belongs
to, and ``now`` says that the difference came in this very step.

Projections that only pick columns hold no state and are left out, as is a source whose
rows an arrangement behind it keeps: a message passes them without a step.

Made by :mod:`.`. Holds no engine; rows are decoded when they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import pandas as pd

from .messages import Message, Values
from .questions import Question

# --- what operators hold --------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of a table as it is after a step. ``count`` is how often it is there, ``before`` how often it was
    at the beginning of this message; ``old`` are the values that it replaced, where the table has a unique key.

    ``now``: it became so in this step, not earlier in the message. ``looked``: it was looked up in this step.
    ``time`` is the row's time in an arrangement's batch; ``folded`` says that times up to it are not told apart.
    """

    values: Values
    count: int
    before: int
    old: Values | None = None
    now: bool = False
    looked_up: bool = False
    time: int | None = None
    folded: bool = False

    @property
    def mark(self) -> str:
        """inserted, deleted, changed, or '' for a row that is as it was."""
        if self.old is not None:
            return "changed"
        if self.count == self.before:
            return ""
        return "inserted" if not self.before else "deleted" if not self.count else "changed"


@dataclass(frozen=True)
class Key:
    """A key of a partial table that has no rows. ``filled``: an answer without rows; else a hole that was met.

    ``now``: it became so in this step; ``new``: in this message.
    """

    key: Values
    filled: bool
    now: bool = False
    new: bool = False


@dataclass(frozen=True)
class Bag:
    """The values that a group keeps under MAX or MIN, in order: ``items`` have one value each."""

    column: str
    items: tuple[Row, ...]
    total: int


@dataclass(frozen=True)
class Group:
    """A group of a reduce: its ``key``, a bag for each column under MAX or MIN (full state), and its ``result``,
    the aggregates last said (None where there is none)."""

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
    """A reader's place on an arrangement's ruler: operators that read it, and readers that hold it open.

    ``before`` is where it stood at the beginning of the step; None: it was not there.
    """

    reader: str
    time: int
    before: int | None
    held: bool = False
    """A handle of somebody outside (see :class:`~.messages.Hold`), which keeps since from passing it."""


@dataclass(frozen=True)
class ArrangementState:
    """An arrangement in time: its batches, oldest first, since and upper, and who reads it where."""

    spans: tuple[RecordedBatch, ...]
    since: int
    upper: int
    since_before: int
    upper_before: int
    pins: tuple[ReaderPosition, ...]


@dataclass(frozen=True)
class Table:
    """One piece of state of an operator, after a step.

    ``form`` says which fields tell the contents: rows (``rows``), groups (``groups``, with
    ``measures`` and ``results`` as names of their bags and results), arrangement (``ruler``;
    ``rows`` are its consolidated contents as well). ``caption`` tells it apart from the
    operator's other tables (``info side``), else ''. ``key`` are the columns it is looked up
    by. ``rows`` (or groups) are in order of value, at most :data:`MOST` and then all that are
    marked and the first of the others; ``total`` counts them all. Rows deleted in this
    message stay until it ends, and are not in ``total``.

    ``partial``: keys may be holes; ``keys`` are those without rows that the trace has met,
    and all others are holes. ``parts`` are the names of ``engine.state()`` that it shows;
    ``stored`` and ``bytes`` are what those hold, rows that a merge will cancel included.
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
    """Keys that are filled, with rows or without."""
    parts: tuple[str, ...] = ()
    stored: int = 0
    bytes: int = 0


MOST = 500
"""Rows or groups that a table gives, unless more are marked."""


@dataclass(frozen=True)
class OperatorState:
    """What an operator holds after a step. ``rows`` and ``bytes`` as ``engine.state()`` counts them.

    ``asked``: keys that it was asked for and has not answered (partial). ``reads``: keys
    that reads of this view wait for.
    """

    operator: str
    tables: tuple[Table, ...] = ()
    rows: int = 0
    bytes: int = 0
    base: bool = False
    asked: tuple[Values, ...] = ()
    reads: tuple[Values, ...] = ()


@dataclass(frozen=True)
class Totals:
    """Rows and bytes held after a step: base tables, and own state beside them; and own rows when the message began."""

    rows: int
    bytes: int
    base_rows: int
    base_bytes: int
    rows_before: int


# --- the graph ------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedOperator:
    """An operator; fields as in :mod:`..plan.graph`. ``born`` is the message that brought it, 0 for the start;
    ``gone`` the message that took it away, None while it is there."""

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
    """Where messages run. ``kind`` is change, read (through a trace handle) or upquery (source asks target)."""

    source: str
    target: str
    kind: str
    added_at: int = 0
    removed_at: int | None = None


# --- what moves -----------------------------------------------------------------


@dataclass(frozen=True)
class RowChange:
    """A row with its diff; ``kind`` is +I, -U, +U or -D where the rows have a unique key, else ''."""

    row: Values
    diff: int
    kind: str = ""


class Rows(Sequence[RowChange]):
    """Changes of one message, decoded when first looked at. ``len`` costs nothing; ``first(n)`` is cheap."""

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
    """A message on an edge, from ``source`` to ``target`` the way it goes.

    ``kind``: change (rows with diffs), upquery (``keys`` asked for, by ``columns``), response
    (``rows`` that answer ``keys``), evict (``keys`` that become holes, None for all of them).
    ``columns`` are the names of the rows' columns. ``sent`` and ``taken`` are step numbers;
    ``taken`` is None where it is still under way at the end. ``traced`` is its edge in the
    engine's trace and ``weight`` the rows counted there, before those that cancel are netted.
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
    traced: tuple[str, str] = ("", "")
    weight: int = 0

    @property
    def up(self) -> bool:
        """Whether it goes against the stream."""
        return self.kind == "upquery"


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """One operator acts; see the module.

    ``kind``: arrive (rows come into a table), change (an operator takes changes), upquery
    (takes a question), response (takes an answer), evict (takes an eviction, or is told to
    evict), read (a view is read), seal (shared state: the epoch ends, since moves, batches
    merge; otherwise an epoch in which nobody acted), install, drop, hold, pause, deliver and
    resume (where nothing was waiting), refused. ``operator`` acts; '' for those that
    concern no single one. ``dropped`` are changes that were let fall at holes. ``emitted``
    is what a view tells its readers in this step, with kinds. ``answer`` is what a read
    returned, where this step completes one. ``hits`` and ``holes`` are keys that were met
    filled and not filled. ``caption`` says in one sentence what happened; ``question`` asks
    for it beforehand.
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
    """A message of the history and its steps, ``first`` to ``last``; a refused one has a single step.

    ``number`` counts from 1. ``epoch`` is the engine's epoch after it. ``refused`` says in
    plain words why the engine did not take it; it then changed nothing.
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

    ``operators`` and ``edges`` are those of the whole run, views that come later included.
    ``state(n)`` and ``totals(n)`` tell what is held after step n, 0 to ``last``; they are
    computed when asked for, and remembered.
    """

    kind: str
    sql: tuple[str, ...]
    operators: tuple[RecordedOperator, ...]
    edges: tuple[RecordedEdge, ...]
    messages: tuple[RecordedMessage, ...]
    steps: tuple[RecordedStep, ...]
    load: Callable[[int], Mapping[str, OperatorState]] = field(repr=False)
    count: Callable[[int], Totals] = field(repr=False)
    schemas: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, repr=False)
    """Relation -> its columns as (name, type): what a row may be typed as."""

    @property
    def last(self) -> int:
        """The number of the last step."""
        return len(self.steps)

    def step(self, number: int) -> RecordedStep | None:
        """Step ``number``, 1 to ``last``; None for 0, before the first message."""
        return self.steps[number - 1] if number else None

    def message_of(self, number: int) -> RecordedMessage | None:
        """The message that a step belongs to; None for step 0."""
        step = self.step(number)
        return None if step is None else self.messages[step.message - 1]

    def state(self, number: int) -> Mapping[str, OperatorState]:
        """What every operator holds after step ``number``, by operator."""
        return self._state(self._checked(number))

    def totals(self, number: int) -> Totals:
        """Rows and bytes held after step ``number``."""
        return self._totals(self._checked(number))

    def waiting(self, number: int) -> tuple[Move, ...]:
        """The messages on edges after step ``number``, in the order sent."""
        return self._waiting.get(number, ())

    def trail(self, number: int) -> tuple[Move, ...]:
        """What moved and was taken since the message of this step began: the grey chips."""
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

    def described(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The graph as the two frames of :mod:`..plan.graph`."""
        from ..plan.graph import EDGES, OPERATORS

        rows = [[getattr(o, c) for c in OPERATORS] for o in self.operators]
        return (
            pd.DataFrame(rows, columns=OPERATORS),
            pd.DataFrame([[e.source, e.target, e.kind] for e in self.edges], columns=EDGES),
        )

    def _checked(self, number: int) -> int:
        if not 0 <= number <= self.last:
            raise IndexError(f"step {number}: this recording has the steps 0 to {self.last}")
        return number

    @cached_property
    def _state(self) -> Callable[[int], Mapping[str, OperatorState]]:
        return lru_cache(maxsize=64)(self.load)

    @cached_property
    def _totals(self) -> Callable[[int], Totals]:
        return lru_cache(maxsize=4096)(self.count)

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


__all__ = [
    "MOST",
    "NO_ROWS",
    "Bag",
    "RowChange",
    "RecordedEdge",
    "Group",
    "Key",
    "Move",
    "RecordedOperator",
    "ReaderPosition",
    "Recording",
    "Row",
    "Rows",
    "ArrangementState",
    "RecordedBatch",
    "OperatorState",
    "RecordedStep",
    "Table",
    "RecordedMessage",
    "Totals",
]
