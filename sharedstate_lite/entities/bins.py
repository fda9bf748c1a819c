"""Bins of entities: messages in, messages out. A bin holds the entities of some keys and runs blocks on them.

A question to another entity is a message. It carries the frames of the methods that wait for its answer, so a bin keeps
no stack. There are no transactions here: each block runs where its entity is, once, and all or nothing of it happens,
but blocks of different requests interleave. This is what a dataflow engine with exactly-once delivery gives.

`rounds` delivers messages in memory: in a round every bin handles what was sent to it in the round before.

>>> from sharedstate_lite.entities import Program, entity
>>> @entity
... class Item:
...     def __init__(self, item_id: str, stock: int):
...         self.item_id, self.stock = item_id, stock
...     def __key__(self):
...         return self.item_id
...     def put(self, n: int) -> int:
...         self.stock += n
...         return self.stock
>>> program = Program(Item)
>>> bins = [EntityBin(program, number, 8) for number in range(8)]
>>> rounds(bins, [AskMessage(0, Item["apple"], "__init__", ("apple", 3), None)])
({0: Item['apple']}, 1)
>>> rounds(bins, [AskMessage(n, Item["apple"], "put", (2,), None) for n in (1, 2)])
({1: 5, 2: 7}, 1)

Source: Psarakis et al., Stateful Entities, EDBT 2024.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .blocks import Ask, Frame, Return, copied_frame
from .declare import Reference, check_state, copied, text_of
from .errors import MOST_BLOCKS, MOST_DEPTH, Refused
from .program import Program

FRONT = -1
"""The bin that answers of requests are sent to."""


class Waiting(NamedTuple):
    """A method that waits for an answer: its entity, the block that asked, where it goes on, and its frame."""

    who: Reference
    method: str
    block: int
    then: int
    name: str
    frame: Frame
    back: Waiting | None
    depth: int


class AskMessage(NamedTuple):
    """A question of a request; ``args`` is None for an attribute. ``back`` is None for the request itself."""

    request: int
    who: Reference
    what: str
    args: tuple[Any, ...] | None
    back: Waiting | None


class AnswerMessage(NamedTuple):
    """An answer to a question: a value, or an exception as the name of its class and one string."""

    request: int
    value: Any
    error: tuple[str, str] | None
    back: Waiting | None


EntityMessage = AskMessage | AnswerMessage


def bin_of(who: Reference, bins: int) -> int:
    """Return the number of the bin that an entity is in."""
    return zlib.crc32(f"{who.cls}/{who.key}".encode()) % bins


class EntityBin:
    """The entities of some keys: ``state`` has a dict for each (class, key)."""

    def __init__(self, program: Program, number: int, bins: int) -> None:
        self.program, self.number, self.bins = program, number, bins
        self.state: dict[tuple[str, str], dict[str, Any]] = {}

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle messages in their order, and return those for other bins and for the front.

        A message to an entity of this bin is handled at once.
        """
        out = []
        for message in messages:
            work = [message]
            while work:
                sent = self.one(work.pop())
                to = FRONT if sent.back is None and isinstance(sent, AnswerMessage) else self._bin(sent)
                if to == self.number:
                    work.append(sent)
                else:
                    out.append((to, sent))
        return out

    def _bin(self, message: EntityMessage) -> int:
        if isinstance(message, AskMessage):
            return bin_of(message.who, self.bins)
        assert message.back is not None
        return bin_of(message.back.who, self.bins)

    def one(self, message: EntityMessage) -> EntityMessage:
        """Handle one message: run blocks until the method asks or ends, and return what it sends."""
        if isinstance(message, AskMessage):
            return self._asked(message)
        back = message.back
        assert back is not None
        frame = copied_frame(back.frame)
        if message.error is None:
            frame[back.name] = message.value
            return self._run(message.request, back.who, back.method, back.then, frame, back.back)
        error = self.program.error(*message.error)
        found = self.program.machine(back.method, back.who.cls).caught(back.block, error, frame)
        if found is None:
            return AnswerMessage(message.request, None, message.error, back.back)
        return self._run(message.request, back.who, back.method, *found, back.back)

    def _asked(self, message: AskMessage) -> EntityMessage:
        request, who, what, args, back = message
        try:
            if ((who.cls, who.key) in self.state) == (what == "__init__"):
                raise Refused(f"{who.cls} {who.key} {'exists' if what == '__init__' else 'is unknown'}")
            if args is None:
                return AnswerMessage(request, copied(getattr(self._entity(who), what)), None, back)
            if back is not None and back.depth >= MOST_DEPTH:
                raise RecursionError(f"{MOST_DEPTH} questions wait for one another")
            frame = self.program.machine(what, who.cls).frame(copied(args))
        except MemoryError:
            raise
        except Exception as error:
            return AnswerMessage(request, None, text_of(error), back)
        self.state.setdefault((who.cls, who.key), {})
        return self._run(request, who, what, 0, frame, back)

    def _run(
        self, request: int, who: Reference, method: str, at: int, frame: Frame, back: Waiting | None
    ) -> EntityMessage:
        """Run blocks of one method from block ``at``. An exception that leaves them undoes what they did here."""
        blocks = self.program.machine(method, who.cls).blocks
        before = {name: copied(value) for name, value in self.state[who.cls, who.key].items()}
        me = self._entity(who)
        try:
            for _ in range(MOST_BLOCKS):
                step = blocks[at].run(me, frame)
                if isinstance(step, Return):
                    check_state(who.cls, self.state[who.cls, who.key])
                    return AnswerMessage(request, copied(step.value), None, back)
                if isinstance(step, Ask):
                    check_state(who.cls, self.state[who.cls, who.key])
                    depth = back.depth + 1 if back else 1
                    kept = copied_frame(step.frame)
                    waiting = Waiting(who, method, at, step.then, step.name, kept, back, depth)
                    return AskMessage(request, step.who, step.what, step.args, waiting)
                at, frame = step
            raise RuntimeError(f"{who.cls}.{method} has run {MOST_BLOCKS} blocks without a question or an end")
        except MemoryError:
            raise
        except Exception as error:
            if before or method != "__init__":
                self.state[who.cls, who.key] = before
            else:
                del self.state[who.cls, who.key]
            return AnswerMessage(request, None, text_of(error), back)

    def _entity(self, who: Reference) -> Any:
        me: Any = object.__new__(self.program.instances[who.cls])
        me.__dict__ = self.state[who.cls, who.key]
        return me


def rounds(bins: Sequence[EntityBin], requests: Iterable[AskMessage]) -> tuple[dict[int, Any], int]:
    """Deliver requests and all that they send. Return the answers by request, and the number of rounds.

    An answer is a value, or the exception that ended the request.
    """
    answers: dict[int, Any] = {}
    inbox: list[list[EntityMessage]] = [[] for _ in bins]
    for request in requests:
        inbox[bin_of(request.who, len(bins))].append(request)
    count = 0
    while any(inbox):
        count += 1
        sent = [bin.handle(messages) for bin, messages in zip(bins, inbox, strict=True)]
        inbox = [[] for _ in bins]
        for to, message in (each for out in sent for each in out):
            if to != FRONT:
                inbox[to].append(message)
            elif isinstance(message, AnswerMessage):
                answers[message.request] = bins[0].program.error(*message.error) if message.error else message.value
    return answers, count
