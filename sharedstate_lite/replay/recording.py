"""Data classes for a recorded run of an engine, step by step. The stepper draws them.

In one *step*, one operator takes its waiting messages, changes its state and sends messages on
its outgoing edges. A message therefore moves along one edge per step: it is *sent* in one step, waits
on its edge, and is *taken* in a later step of the operator at the other end. A message sent in step s
and taken in step t is on its edge from step s to step t - 1. Under full and shared state, an
operator acts once per epoch and takes the messages from all its inputs. Under partial state, it
takes one message at a time.

Step 0 is the state before the first message. ``Recording.state(n)`` returns the state of each operator
after step n, as JSON (docs/recording.md).

Two kinds of operators are not recorded, and messages pass through them without a step. These are projections
that only pick columns, and sources whose rows are stored by the arrangement that follows them.

A recording does not keep a reference to the engine. Rows of messages are decoded on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from ..errors import Error
from .messages import Message, Values
from .questions import Question

State = dict[str, Any]
"""The state of an operator after a step, as JSON: ``rows``, ``tables`` and ``waits`` (docs/recording.md)."""


@dataclass(frozen=True)
class Amount:
    """A number of rows, of bytes, and of rows before the current message."""

    rows: int = 0
    bytes: int = 0
    rows_before: int = 0


@dataclass(frozen=True)
class Totals:
    """What is stored after a step, in the columns of ``engine.bill()``."""

    durable: Amount = Amount()
    working: Amount = Amount()
    cached: Amount = Amount()


# --- the graph ------------------------------------------------------------------


@dataclass(frozen=True)
class RecordedOperator:
    """An operator, described as in `plan.graph`.

    ``added_at`` is the number of the message that installed it, or 0 if it existed from the start. ``removed_at`` is
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
    """An edge between operators.

    ``kind`` is ``change`` (source sends changes to target), ``read`` (target reads source through a trace handle)
    or ``upquery`` (source asks target).
    """

    source: str
    target: str
    kind: str
    added_at: int = 0
    removed_at: int | None = None


# --- messages and steps -----------------------------------------------------------


@dataclass(frozen=True)
class RowChange:
    """A row with its diff. ``kind`` is +I, -U, +U or -D for rows with a unique key, and '' otherwise."""

    row: Values
    diff: int
    kind: str = ""


class Rows(Sequence[RowChange]):
    """The changes in one message, decoded on first access.

    ``len`` does not decode any changes, and ``first(n)`` decodes at most n.
    """

    def __init__(self, count: int, make: Callable[[int], Sequence[RowChange]]) -> None:
        self._count, self._make = count, make

    def first(self, most: int) -> Sequence[RowChange]:
        """Return the first ``most`` changes."""
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

    ``kind`` is one of:

    - change: ``rows`` are changes with diffs;
    - upquery: asks for ``keys``, which are values of ``key_columns``;
    - response: ``rows`` are the answer for ``keys``;
    - evict: ``keys`` become holes; None stands for all keys.

    ``columns`` names the columns of the rows. ``sent`` and ``taken`` are step numbers; ``taken`` is None if the
    message never arrives. ``trace_edge`` and ``trace_rows`` are the edge and the number of rows of this message in the
    engine's trace, where hidden operators are included and rows are not consolidated.
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
        """Whether the message moves against the direction of changes."""
        return self.kind == "upquery"


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """One action of one operator.

    ``kind`` is one of:

    - arrive: rows are added to a base table;
    - change, upquery or response: an operator takes a message of this kind;
    - evict: an operator takes an evict message, or evicts keys itself;
    - read: a view is read;
    - seal: the epoch ends and, under shared state, since advances and batches merge;
    - install, drop, hold or pause: the engine applies a message of this kind;
    - deliver or resume: the engine applies a message of this kind, but no message was waiting on an edge;
    - refused: the engine refuses the message.

    ``operator`` is '' if the step does not belong to an operator. ``dropped`` are changes that were dropped because
    their keys are holes. ``emitted`` are the changes that a view emits. ``answer`` is the result of the read that
    this step completes. ``hits`` are the looked-up keys that were filled, and ``holes`` those that were not.
    ``caption`` describes the step in one sentence. ``question`` asks for its outcome in advance.
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

    ``epoch`` is the engine's epoch after the message. ``refused`` is the error if the engine refused the message,
    and '' otherwise. A refused message has one step and does not change the engine.
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
    """A run of one engine on a history of messages.

    ``operators`` and ``edges`` cover the entire run and include those of views installed later. `state` and
    `totals` are defined for steps 0 to ``last``. They are computed on demand and cached.
    """

    kind: str
    sql: tuple[str, ...]
    operators: tuple[RecordedOperator, ...]
    edges: tuple[RecordedEdge, ...]
    messages: tuple[RecordedMessage, ...]
    steps: tuple[RecordedStep, ...]
    load_state: Callable[[int], Mapping[str, State]] = field(repr=False)
    load_totals: Callable[[int], Totals] = field(repr=False)

    @property
    def last(self) -> int:
        """The number of the last step."""
        return len(self.steps)

    def check(self) -> None:
        """Raise Error if the engine refused a message."""
        for each in self.messages:
            if each.refused:
                raise Error(f"message {each.number}, {each.text}: {each.refused}")

    def step(self, number: int) -> RecordedStep | None:
        """Return step ``number``, from 1 to ``last``, or None for step 0."""
        return self.steps[number - 1] if number else None

    def caption(self, number: int) -> str:
        """Return the caption of a step. Step 0 has one too."""
        step = self.step(number)
        if step is not None:
            return step.caption
        return "Before the first message." if self.messages else "There are no messages."

    def message_of(self, number: int) -> RecordedMessage | None:
        """Return the message that a step belongs to, or None for step 0."""
        step = self.step(number)
        return None if step is None else self.messages[step.message - 1]

    def state(self, number: int) -> Mapping[str, State]:
        """Return the state of each operator after step ``number``, by the operator's name.

        Raises IndexError if the number is out of range.
        """
        return self._state(self._checked(number))

    def totals(self, number: int) -> Totals:
        """Return the rows and bytes stored after step ``number``. Raises IndexError if the number is out of range."""
        return self._totals(self._checked(number))

    def waiting(self, number: int) -> tuple[Move, ...]:
        """Return the messages waiting on edges after step ``number``, in the order they were sent."""
        return self._waiting.get(number, ())

    def trail(self, number: int) -> tuple[Move, ...]:
        """Return the messages taken since the current message of the history began, up to step ``number``."""
        step = self.step(number)
        if step is None:
            return ()
        first = self.messages[step.message - 1].first
        moves = {id(m): m for s in self.steps[first - 1 : number] for m in (*s.taken, *s.sent)}
        return tuple(m for m in moves.values() if m.taken is not None and m.taken <= number)

    def graph_at(self, number: int) -> tuple[tuple[RecordedOperator, ...], tuple[RecordedEdge, ...]]:
        """Return the operators and edges that exist at step ``number``."""
        step = self.step(number)
        at = 0 if step is None else step.message
        here = [o for o in self.operators if o.added_at <= at and (o.removed_at is None or at < o.removed_at)]
        return tuple(here), tuple(
            e for e in self.edges if e.added_at <= at and (e.removed_at is None or at < e.removed_at)
        )

    def _checked(self, number: int) -> int:
        if not 0 <= number <= self.last:
            raise IndexError(f"step {number} does not exist; this recording has steps 0 to {self.last}")
        return number

    @cached_property
    def _state(self) -> Callable[[int], Mapping[str, State]]:
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
