"""The messages that are in flight on the edges of a partial graph.

There are four kinds. Three of them are sent down: a *change* (rows with diffs), a *response* (all rows of the keys in
an upquery), and an *evict* (keys that are no longer maintained). An *upquery* (keys) is sent up. Each edge is first in,
first out. Messages on different edges can arrive in any order, and the engine's results are correct in all of these
orders (rule 18).

Each message that is sent down contains the position of its sender, which is the last epoch received on each edge out of
a base table. When a change arrives at a join, the other side is read as of the position last received from that side. A
change that is still in flight there is not included. It is joined with this change when it arrives, so each pair of
changes is joined exactly once.
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
    """A message in flight. ``tag`` links a response to its upquery. ``op`` is the number of the call that caused it."""

    number: int
    kind: str
    edge: PartialEdge
    op: int
    keys: Words | None = None
    delta: Delta | None = None
    tag: int = 0
    at: Position = field(default_factory=dict)
    asked: int = 0
    """For an upquery, the epoch in which the read that caused it started."""

    @property
    def ends(self) -> tuple[str, str]:
        """The names of the sender and the receiver, as a pair."""
        down = (self.edge.source.name, self.edge.target.name)
        return down[::-1] if self.kind == "upquery" else down

    @property
    def lane(self) -> tuple[int, bool]:
        """The queue in which the message waits: the number of its edge, and whether it is sent up."""
        return self.edge.number, self.kind == "upquery"


class InFlight:
    """All messages in flight, in the order in which they were sent."""

    def __init__(self) -> None:
        self.queue: list[Message] = []
        self._sent = 0

    def send(self, message: Message) -> None:
        """Append a message."""
        self._sent += 1
        message.number = self._sent
        self.queue.append(message)

    def blocked_by(self, message: Message) -> Message | None:
        """Return the message that must be delivered before this one, or None."""
        first = next(m for m in self.queue if m.lane == message.lane)
        return None if first is message else first

    def joined(self) -> tuple[list[Message], Message]:
        """Return the next message to deliver. If it is a change, all changes that wait on its edge are combined in it.

        Edges nearest to the base tables come first. Returns a list of the other changes that were combined, and the
        message.
        """
        # Edges into an operator have lower numbers than those out of it.
        lane = min(self.queue, key=lambda m: m.edge.number).lane
        down = list(takewhile(lambda m: m.kind in ("change", "evict"), (m for m in self.queue if m.lane == lane)))
        # Changes for evicted keys would be dropped, so evictions are delivered first.
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
    """The public form of a message in flight. ``edge`` is (sender, receiver), and ``key`` is a list of keys or None."""

    edge: tuple[str, str]
    kind: str
    view: str
    key: list[tuple[Any, ...]] | None
    rows: int

    @classmethod
    def of(cls, message: Message, decode: Callable[[Words, PartialEdge], list[tuple[Any, ...]]]) -> MessageInfo:
        """Return the public form of a message. ``decode`` converts keys to values."""
        key = None if message.keys is None else decode(message.keys, message.edge)
        rows = 0 if message.delta is None else len(message.delta.diffs)
        return cls(message.ends, message.kind, message.edge.target.view, key, rows)


class PendingResult:
    """The result of a call on a paused engine.

    When all messages that the call caused are delivered, ``done`` is true and :meth:`result` returns the result.
    """

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
        """Set the result. Later changes do not affect it."""
        self._result, self.answered = result, True

    def refuse(self, why: Error) -> None:
        """Make :meth:`result` raise this error, because the call was rolled back or the engine was closed."""
        self._why, self._make, self.answered = why, None, False

    def mark(self) -> tuple[Any, bool]:
        """Return the current state, for :meth:`restore`."""
        return self._result, self.answered

    def restore(self, mark: tuple[Any, bool]) -> None:
        """Restore the state at a mark. The messages delivered since then are in flight again."""
        self._result, self.answered = mark

    @property
    def done(self) -> bool:
        """Whether the result is available."""
        if self._make is None:
            return self.answered
        return self.answered or all(m.op != self._op for m in self._in_flight)

    def result(self) -> Any:
        """Return the result. Raises Error if it is not available yet, and RowError if the call was rolled back."""
        if self._why is not None:
            raise type(self._why)(str(self._why))
        if not self.done:
            left = sum(m.op == self._op for m in self._in_flight)
            raise Error(
                f"the result is not available yet: {left} of its messages are in flight; deliver them or call resume()"
            )
        if self._make is not None and not self.answered:
            self.answer(self._make())
        return self._result

    def __repr__(self) -> str:
        return f"PendingResult({'done' if self.done else 'waiting'})"
