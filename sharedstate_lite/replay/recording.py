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
from .recording_tables import MOST, Bag, Group, Key, Pin, Row, Ruler, Span, State, Table, Totals

# --- the graph ------------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    """An operator; fields as in :mod:`..plan.graph`. ``born`` is the message that brought it, 0 for the start;
    ``gone`` the message that took it away, None while it is there."""

    name: str
    kind: str
    title: str
    detail: str
    tables: tuple[str, ...]
    view: str
    born: int = 0
    gone: int | None = None


@dataclass(frozen=True)
class Edge:
    """Where messages run. ``kind`` is change, read (through a trace handle) or upquery (source asks target)."""

    source: str
    target: str
    kind: str
    born: int = 0
    gone: int | None = None


# --- what moves -----------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A row with its diff; ``kind`` is +I, -U, +U or -D where the rows have a unique key, else ''."""

    row: Values
    diff: int
    kind: str = ""


class Rows(Sequence[Change]):
    """Changes of one message, decoded when first looked at. ``len`` costs nothing; ``first(n)`` is cheap."""

    def __init__(self, count: int, make: Callable[[int], Sequence[Change]]) -> None:
        self._count, self._make = count, make

    def first(self, most: int) -> Sequence[Change]:
        """The first ``most`` changes."""
        return self._all[:most] if "_all" in self.__dict__ else self._make(most)

    @cached_property
    def _all(self) -> Sequence[Change]:
        return self._make(self._count)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __repr__(self) -> str:
        return f"Rows({list(self.first(6))!r}{', ...' if len(self) > 6 else ''})"


NONE = Rows(0, lambda _: ())


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
    rows: Rows = NONE
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
class Step:
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
    dropped: Rows = NONE
    emitted: Rows = NONE
    answer: tuple[Values, ...] | None = None
    hits: tuple[Values, ...] = ()
    holes: tuple[Values, ...] = ()
    question: Question | None = None


@dataclass(frozen=True)
class Told:
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
    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...]
    messages: tuple[Told, ...]
    steps: tuple[Step, ...]
    load: Callable[[int], Mapping[str, State]] = field(repr=False)
    count: Callable[[int], Totals] = field(repr=False)
    schemas: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, repr=False)
    """Relation -> its columns as (name, type): what a row may be typed as."""

    @property
    def last(self) -> int:
        """The number of the last step."""
        return len(self.steps)

    def step(self, number: int) -> Step | None:
        """Step ``number``, 1 to ``last``; None for 0, before the first message."""
        return self.steps[number - 1] if number else None

    def message_of(self, number: int) -> Told | None:
        """The message that a step belongs to; None for step 0."""
        step = self.step(number)
        return None if step is None else self.messages[step.message - 1]

    def state(self, number: int) -> Mapping[str, State]:
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

    def there(self, number: int) -> tuple[tuple[Operator, ...], tuple[Edge, ...]]:
        """The operators and edges that exist at step ``number``."""
        step = self.step(number)
        at = 0 if step is None else step.message
        here = [o for o in self.operators if o.born <= at and (o.gone is None or at < o.gone)]
        return tuple(here), tuple(e for e in self.edges if e.born <= at and (e.gone is None or at < e.gone))

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
    def _state(self) -> Callable[[int], Mapping[str, State]]:
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
    "NONE",
    "Bag",
    "Change",
    "Edge",
    "Group",
    "Key",
    "Move",
    "Operator",
    "Pin",
    "Recording",
    "Row",
    "Rows",
    "Ruler",
    "Span",
    "State",
    "Step",
    "Table",
    "Told",
    "Totals",
]
