"""The messages of a partial dataflow, and the edges they wait on.

Four kinds travel. Down: a ``change`` (rows with diffs), a ``response`` (all rows of the
keys asked for), an ``evict`` (keys that can no longer be kept up to date). Up: an
``upquery`` (keys). Each edge delivers in the order in which it was given; between edges
any order is possible, and the engine must be right in every one of them (rule 18).

Each message down also says how far its sender had got: for every edge out of a base
table, the epoch up to which changes had been taken in. A join reads its other side as
of that position, so that a change still under way there is met when it arrives, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from ..errors import Error
from ..storage.batch import Delta, concat
from ..storage.encoding import Words
from .nodes import PartialEdge, PartialNode, Position


@dataclass(eq=False)
class Message:
    """One message under way. ``tag`` ties a response to its upquery, ``op`` to the call that caused it."""

    number: int
    kind: str
    edge: PartialEdge
    op: int
    keys: Words | None = None
    delta: Delta | None = None
    tag: int = 0
    at: Position = field(default_factory=dict)
    asked: int = 0
    """For an upquery, the epoch in which it was first asked."""

    @property
    def ends(self) -> tuple[str, str]:
        """(sender, receiver)."""
        down = (self.edge.source.name, self.edge.target.name)
        return down[::-1] if self.kind == "upquery" else down

    @property
    def lane(self) -> tuple[int, bool]:
        """What it queues on: the edge, and whether it goes up."""
        return self.edge.number, self.kind == "upquery"


class InFlight:
    """All messages under way, in the order sent."""

    def __init__(self) -> None:
        self.queue: list[Message] = []
        self._sent = 0

    def send(self, message: Message) -> None:
        """Put a message on its edge."""
        self._sent += 1
        message.number = self._sent
        self.queue.append(message)

    def blocked_by(self, message: Message) -> Message | None:
        """The message that must arrive before this one, if there is one."""
        first = next(m for m in self.queue if m.lane == message.lane)
        return None if first is message else first

    def joined(self) -> tuple[list[Message], Message]:
        """What to deliver next so that an operator sees all of an epoch's change on an edge as one.

        Edges nearest to the base tables come first. Returns the changes that are part of the message, and
        the message, which is under way in their place.
        """
        # Edges are numbered as they are made, those into an operator before those out of it.
        lane = min(self.queue, key=lambda m: m.edge.number).lane
        down = list(takewhile(lambda m: m.kind in ("change", "evict"), (m for m in self.queue if m.lane == lane)))
        # Of a key that becomes a hole no change is wanted, so the evictions go first.
        evict = next((m for m in down if m.kind == "evict"), None)
        if evict is not None or len(down) < 2:
            return [], evict or next(m for m in self.queue if m.lane == lane)
        *before, last = down
        delta = concat([m.delta for m in down if m.delta is not None], len(last.edge.source.plan.schema))
        whole = replace(last, delta=delta)
        self.queue = [whole if m is last else m for m in self.queue if m not in before]
        return before, whole

    def __iter__(self) -> Iterator[Message]:
        return iter(self.queue)

    def __len__(self) -> int:
        return len(self.queue)


@dataclass(frozen=True)
class MessageInfo:
    """A message under way as a caller sees it: ``edge`` is (sender, receiver), ``key`` a list of keys or None."""

    edge: tuple[str, str]
    kind: str
    view: str
    key: list[tuple[Any, ...]] | None
    rows: int

    @classmethod
    def of(cls, message: Message, decode: Callable[[Words, PartialEdge], list[tuple[Any, ...]]]) -> MessageInfo:
        """The public face of a message."""
        key = None if message.keys is None else decode(message.keys, message.edge)
        rows = 0 if message.delta is None else len(message.delta.diffs)
        return cls(message.ends, message.kind, message.edge.target.view, key, rows)


class Pending:
    """An answer that waits for messages: ``done`` once nothing it caused is under way, then :meth:`result`."""

    def __init__(
        self,
        in_flight: InFlight,
        op: int,
        make: Callable[[], Any] | None,
        reader: PartialNode | None = None,
        keys: Words | None = None,
    ) -> None:
        self._in_flight, self._op, self._make, self._result = in_flight, op, make, None
        self.reader, self.keys, self.answered = reader, keys, False
        self._why: Error | None = None

    def answer(self, result: Any) -> None:
        """The answer is there; later changes do not alter it."""
        self._result, self.answered = result, True

    def refuse(self, why: Error) -> None:
        """There will be no answer, but this error: what would have been answered is taken back, or gone."""
        self._why, self._make, self.answered = why, None, False

    def mark(self) -> tuple[Any, bool]:
        """What :meth:`back` needs."""
        return self._result, self.answered

    def back(self, mark: tuple[Any, bool]) -> None:
        """Be as when it was marked: of an answer that came since, the messages are under way again."""
        self._result, self.answered = mark

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        if self._make is None:
            return self.answered
        return self.answered or all(m.op != self._op for m in self._in_flight)

    def result(self) -> Any:
        """The answer. Raises Error while it is not there, RowError if what was asked has been taken back."""
        if self._why is not None:
            raise type(self._why)(str(self._why))
        if not self.done:
            left = sum(m.op == self._op for m in self._in_flight)
            raise Error(f"the answer is not there yet: {left} of its messages are under way; deliver them, or resume()")
        if self._make is not None and not self.answered:
            self.answer(self._make())
        return self._result

    def __repr__(self) -> str:
        return f"Pending({'done' if self.done else 'waiting'})"
