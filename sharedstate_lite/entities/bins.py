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

import traceback
import zlib
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

from .declare import Reference, check_state, copied, text_of
from .errors import MOST_BLOCKS, MOST_DEPTH, Refused
from .machine import Ask, Frame, Return, copied_frame
from .program import Program

READ = 2
"""``inside`` of the messages of a request that must not change an entity."""
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
    """A question of a request; ``args`` is None for an attribute. ``back`` is None for the request itself.

    ``inside`` says that the question belongs to a transaction, here and in `AnswerMessage`; or it is READ.
    """

    request: int
    who: Reference
    what: str
    args: tuple[Any, ...] | None
    back: Waiting | None
    inside: int = False


class AnswerMessage(NamedTuple):
    """An answer to a question: a value, or an exception as the name of its class, one string, and where it was raised.

    The place is empty for an exception of the runtime: ``shop.py:12 in User.buy``.
    """

    request: int
    value: Any
    error: tuple[str, str, str] | None
    back: Waiting | None
    inside: int = False


EntityMessage = AskMessage | AnswerMessage
Name = tuple[str, str]
"""The class and the key of an entity."""
State = dict[str, Any]


def bin_of(who: Reference, bins: int) -> int:
    """Return the number of the bin that an entity is in."""
    return zlib.crc32(f"{who.cls}/{who.key}".encode()) % bins


class EntityBin:
    """The entities of some keys: ``state`` has a dict for each (class, key). ``received`` counts messages."""

    keeps = False

    def __init__(self, program: Program, number: int, bins: int) -> None:
        self.program, self.number, self.bins = program, number, bins
        self.state: MutableMapping[Name, State] = {}
        self.received = 0

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle messages in their order, and return those for other bins and for the front.

        A message to an entity of this bin is handled at once.
        """
        out = []
        for message in messages:
            self.received += 1
            work = [message]
            while work:
                for sent in self.one(work.pop()):
                    if (to := self.bin_of(sent)) == self.number:
                        work.append(sent)
                    else:
                        out.append((to, sent))
        return out

    def bin_of(self, message: EntityMessage) -> int:
        """Return the number of the bin that a message is for, or FRONT."""
        if isinstance(message, AskMessage):
            return bin_of(message.who, self.bins)
        return bin_of(message.back.who, self.bins) if message.back else FRONT

    def one(self, message: EntityMessage) -> Iterable[EntityMessage]:
        """Handle one message, and return what it sends."""
        return [self.step(message)]

    def step(self, message: EntityMessage) -> EntityMessage:
        """Run blocks until the method asks or ends, and return what it sends."""
        if isinstance(message, AskMessage):
            return self._asked(message)
        back = message.back
        assert back is not None
        frame = copied_frame(back.frame)
        if message.error is None:
            frame[back.name] = message.value
            return self._run(message.request, back.who, back.method, back.then, frame, back.back)
        error = self.program.error(*message.error[:2])
        found = self.program.machine(back.method, back.who.cls).caught(back.block, error, frame)
        if found is None:
            return AnswerMessage(message.request, None, message.error, back.back)
        return self._run(message.request, back.who, back.method, *found, back.back)

    def _asked(self, message: AskMessage) -> EntityMessage:
        request, who, what, args, back, _ = message
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
            return AnswerMessage(request, None, (*text_of(error), ""), back)
        self.state.setdefault((who.cls, who.key), {})
        return self._run(request, who, what, 0, frame, back)

    def _run(
        self, request: int, who: Reference, method: str, at: int, frame: Frame, back: Waiting | None
    ) -> EntityMessage:
        """Run blocks of one method from block ``at``. An exception that leaves them undoes what they did here.

        If ``keeps`` is True it undoes nothing: a caller can catch it, and who it leaves undoes the transaction.
        """
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
            if method == "__init__" and not before:
                del self.state[who.cls, who.key]
            elif not self.keeps:
                self.state[who.cls, who.key] = before
            return AnswerMessage(request, None, (*text_of(error), self._place(who.cls, method, error)), back)

    def _place(self, cls: str, method: str, error: Exception) -> str:
        file, traced = self.program.declared[cls].file, error.__traceback__
        lines = [line for frame, line in traceback.walk_tb(traced) if frame.f_code.co_filename == file]
        return f"{file}:{lines[-1]} in {cls}.{method}" if lines else f"{cls}.{method}"

    def _entity(self, who: Reference) -> Any:
        me: Any = object.__new__(self.program.instances[who.cls])
        me.__dict__ = self.state[who.cls, who.key]
        return me


def outcome(program: Program, answer: AnswerMessage) -> Any:
    """Return the value of an answer, or its exception, with a note on where it was raised."""
    if answer.error is None:
        return answer.value
    error = program.error(*answer.error[:2])
    if place := answer.error[2]:
        error.add_note(f"raised at {place}")
    return error


def rounds(bins: Sequence[EntityBin], requests: Iterable[AskMessage]) -> tuple[dict[int, Any], int]:
    """Deliver requests and all that they send. Return the answers by request, and the number of rounds.

    An answer is a value, or the exception that ended the request.
    """
    answers: dict[int, Any] = {}
    count = 0
    for ended in deliveries(bins, requests):
        count += 1
        answers |= {answer.request: outcome(bins[0].program, answer) for answer in ended}
    return answers, count


def deliver(bins: Sequence[EntityBin], sent: Iterable[tuple[int, EntityMessage]]) -> list[tuple[int, EntityMessage]]:
    """Deliver one round of messages, each with the bin that it is for. Return what the bins send."""
    inbox: list[list[EntityMessage]] = [[] for _ in bins]
    for to, message in sent:
        inbox[to].append(message)
    return [each for bin, messages in zip(bins, inbox, strict=True) for each in bin.handle(messages)]


def deliveries(bins: Sequence[EntityBin], requests: Iterable[AskMessage]) -> Iterator[list[AnswerMessage]]:
    """Deliver requests and all that they send, round by round. Yield the answers to requests of each round."""
    sent: list[tuple[int, EntityMessage]] = [(bin_of(request.who, len(bins)), request) for request in requests]
    while sent:
        out = deliver(bins, sent)
        sent = [each for each in out if each[0] != FRONT]
        yield [message for to, message in out if to == FRONT and isinstance(message, AnswerMessage)]
