"""Locks with two phases, the peer of `epochs`: a transaction locks an entity when it first asks it, until its own end.

Wait-die prevents deadlocks: of two transactions the older one (with the smaller number) may wait for a lock, and the
younger one dies: what it did is dropped, and it starts again under its number. When a transaction has ended, the front
tells every bin to install or to drop its changes, and to release its locks.

>>> from sharedstate_lite.entities import Program, Reference, entity, transactional
>>> @entity
... class Counter:
...     def __init__(self, name: str):
...         self.name, self.n = name, 0
...     def __key__(self):
...         return self.name
...     @transactional
...     def add(self, n: int) -> int:
...         self.n += n
...         return self.n
>>> front = Locks(Program(Counter), 8)
>>> c = Reference("Counter", "c")
>>> front.run([AskMessage(0, c, "__init__", ("c",), None)])
{0: Counter['c']}
>>> front.run([AskMessage(n, c, "add", (1,), None) for n in (1, 2)]), front.deaths
({1: 1, 2: 2}, 1)

Source: Rosenkrantz, Stearns, Lewis, System level concurrency control for distributed database systems, TODS 1978.
"""

from __future__ import annotations

from collections.abc import Iterable

from .bins import AnswerMessage, AskMessage, EntityBin, EntityMessage, Name, State, bin_of, deliver, outcome
from .epochs import Copies
from .program import Program

_DIED = "Died", "", ""


class LockBin(EntityBin):
    """A bin whose entities are locked by one transaction at a time, which runs on copies."""

    keeps = True

    def __init__(self, program: Program, number: int, bins: int) -> None:
        super().__init__(program, number, bins)
        self.installed: dict[Name, State] = {}
        self._copies: dict[int, Copies] = {}
        self._owners: dict[Name, int] = {}
        self._waiting: dict[Name, list[AskMessage]] = {}

    def one(self, message: EntityMessage) -> Iterable[EntityMessage]:
        """Handle one message, unless its transaction has to wait for a lock, or to die."""
        if isinstance(message, AskMessage):
            name = message.who.cls, message.who.key
            owner = self._owners.setdefault(name, message.request)
            if message.request < owner:
                self._waiting.setdefault(name, []).append(message)
                return []
            if message.request > owner:
                return [AnswerMessage(message.request, None, _DIED, None)]
        self.state = self._copies.setdefault(message.request, Copies(self.installed))
        return [self.step(message)]

    def release(self, request: int, commit: bool) -> list[AskMessage]:
        """End a transaction here. Return the questions that have waited for its locks, the oldest first."""
        if (copies := self._copies.pop(request, None)) and commit:
            self.installed |= copies.written()
        held = [name for name, owner in self._owners.items() if owner == request]
        for name in held:
            del self._owners[name]
        return sorted((m for name in held for m in self._waiting.pop(name, [])), key=lambda m: m.request)


class Locks:
    """The front: it starts transactions, and tells the bins of their ends. Every request is a transaction.

    ``order`` has the requests as they have committed or failed, ``rounds`` counts the rounds of messages, and
    ``deaths`` the transactions that had to start again. ``told`` counts the messages of the front about ends, one a bin
    and round.
    """

    def __init__(self, program: Program, bins: int) -> None:
        self.program = program
        self.bins = [LockBin(program, number, bins) for number in range(bins)]
        self.order: list[int] = []
        self.rounds = self.deaths = self.told = 0

    def state(self) -> dict[Name, State]:
        """Return the states of all entities."""
        return {name: state for bin in self.bins for name, state in bin.installed.items()}

    def run(self, requests: Iterable[AskMessage]) -> dict[int, object]:
        """Run requests, whose numbers differ, to their ends. Return the values, or the exceptions that ended them."""
        begins = {request.request: request for request in requests}
        starts = list(begins.values())
        answers: dict[int, object] = {}
        ended: list[AnswerMessage] = []
        sent: list[tuple[int, EntityMessage]] = []
        while len(answers) < len(begins) or ended:
            self.rounds += 1
            self.told += len(self.bins) if ended else 0
            free = [
                (to, bin.release(end.request, end.error is None)) for end in ended for to, bin in enumerate(self.bins)
            ]
            sent = [(to, message) for to, messages in free for message in messages] + sent
            sent += [(bin_of(start.who, len(self.bins)), start) for start in starts]
            starts = [begins[end.request] for end in ended if end.error == _DIED]
            out = deliver(self.bins, sent)
            sent = [(to, message) for to, message in out if to >= 0]
            ended = [message for to, message in out if to < 0 and isinstance(message, AnswerMessage)]
            for end in ended:
                if end.error == _DIED:
                    self.deaths += 1
                else:
                    self.order.append(end.request)
                    answers[end.request] = outcome(self.program, end)
        return answers
