"""Deterministic epochs: transactions over bins of entities, serializable in an order that the front reports.

In the first pass of an epoch every transaction runs on copies of the entities that it touches. When all have ended, a
transaction is in conflict if it touched an entity that an earlier one has written, or that has changed since it was
copied. Those without conflicts are installed. The others are gathered: the entities that they touched are sent to the
front, which runs these transactions one after the other, and sends the entities back. A transaction that touches an
entity that was not sent is deferred; it comes first in the next epoch. With ``gather=False`` all that are in conflict
are deferred: this is Aria without its fallback.

A method that is not `transactional` has no isolation: each of its blocks is a transaction of one block, which is
installed where it has run. If such a method asks for a transactional one, that one commits before the method goes on.

>>> from sharedstate_lite.entities import Program, Reference, entity, transactional
>>> @entity
... class Account:
...     def __init__(self, name: str, balance: int):
...         self.name, self.balance = name, balance
...     def __key__(self):
...         return self.name
...     def get(self, n: int):
...         self.balance += n
...     @transactional
...     def pay(self, n: int, to: Account):
...         self.balance -= n
...         to.get(n)
>>> front = Epochs(Program(Account), 8)
>>> a, b = Reference("Account", "a"), Reference("Account", "b")
>>> _ = front.run([AskMessage(n, who, "__init__", (who.key, 9), None) for n, who in enumerate((a, b))])
>>> _ = front.run([AskMessage(2, a, "pay", (1, b), None), AskMessage(3, b, "pay", (5, a), None)])
>>> front.order, front.gathered, front.state()[a.cls, a.key]["balance"]
([2, 3], 1, 13)

Source: Lu et al., Aria, VLDB 2020, for the first pass and its conflicts (here without reordering); Psarakis et al.,
Styx, SIGMOD 2025, for epochs over entities, and a fallback that orders what is in conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from .bins import FRONT, AnswerMessage, AskMessage, EntityBin, EntityMessage, Name, State, bin_of, deliver, outcome
from .declare import Reference, copied
from .program import Program


class _NotHere(BaseException):
    """A transaction at the front touches an entity that was not gathered."""


class Copies(MutableMapping[Name, State]):
    """The entities as one transaction sees them: copied at its first touch, with its own changes.

    ``base`` is not changed. ``found`` has what the transaction found there, None for an entity that is absent, and
    ``mine`` has the copies. If the base is ``lent``, it has only the entities that were gathered.
    """

    def __init__(self, base: Mapping[Name, State | None], lent: bool = False) -> None:
        self.base, self.lent = base, lent
        self.found: dict[Name, State | None] = {}
        self.mine: dict[Name, State] = {}

    def __contains__(self, name: object) -> bool:
        if name not in self.found:
            assert isinstance(name, tuple)
            if self.lent and name not in self.base:
                raise _NotHere
            found = self.found[name] = self.base.get(name)
            if found is not None:
                self.mine[name] = {attribute: copied(value) for attribute, value in found.items()}
        return name in self.mine

    def __getitem__(self, name: Name) -> State:
        if name not in self:
            raise KeyError(name)
        return self.mine[name]

    def __setitem__(self, name: Name, state: State) -> None:
        self.mine[name] = state

    def __delitem__(self, name: Name) -> None:
        del self.mine[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(self.mine)

    def __len__(self) -> int:
        return len(self.mine)

    def written(self) -> dict[Name, State]:
        """Return the entities that the transaction has created or changed. ``repr`` tells True from 1."""
        return {name: state for name, state in self.mine.items() if repr(state) != repr(self.found[name])}


class EpochBin(EntityBin):
    """A bin whose transactions run on copies. ``installed`` has the state of its entities; a state is never changed,
    but replaced, so that a transaction can see that it is another one."""

    def __init__(self, program: Program, number: int, bins: int) -> None:
        super().__init__(program, number, bins)
        self.installed: dict[Name, State] = {}
        self.copies: dict[int, Copies] = {}

    def bin_of(self, message: EntityMessage) -> int:
        """Return the number of the bin that a message is for. A transaction is begun at the front."""
        begins = isinstance(message, AskMessage) and not message.inside and is_transaction(self.program, message)
        return FRONT if begins else super().bin_of(message)

    def one(self, message: EntityMessage) -> Iterable[EntityMessage]:
        """Handle one message; outside of a transaction, install what it has changed."""
        self.keeps = bool(message.inside)
        copies = Copies(self.installed)
        self.state = copies = self.copies.setdefault(message.request, copies) if message.inside else copies
        sent = self.step(message)
        if not self.keeps:
            self.installed |= copies.written()
        return [sent._replace(inside=message.inside)]

    def conflicts(self, order: Sequence[int], failed: Collection[int]) -> set[int]:
        """Return the transactions of ``order`` that have read what an earlier one writes, or what has changed since.

        A transaction that has failed writes nothing.
        """
        written: set[Name] = set()
        bad = set()
        for number in order:
            if copies := self.copies.get(number):
                for name, state in copies.found.items():
                    now = self.installed.get(name)
                    if name in written or now is not state and repr(now) != repr(state):
                        bad.add(number)
                if number not in failed:
                    written |= copies.written().keys()
        return bad

    def decide(self, installs: Collection[int], gathers: Collection[int]) -> dict[Name, State | None]:
        """Install transactions, and return the entities that others have touched. All copies are gone then."""
        for number in installs:
            if copies := self.copies.get(number):
                self.installed |= copies.written()
        touched = {name for number in gathers for name in (self.copies[number].found if number in self.copies else ())}
        self.copies = {}
        return {name: self.installed.get(name) for name in touched}


def is_transaction(program: Program, message: AskMessage) -> bool:
    """Return whether a question is for a method that is declared transactional."""
    return message.args is not None and program.machine(message.what, message.who.cls).transactional


def gathered(
    program: Program, begins: Iterable[AskMessage], lent: dict[Name, State | None]
) -> Iterator[tuple[AskMessage, AnswerMessage | None]]:
    """Run transactions one after the other on the entities that were gathered, and change these.

    Yield each transaction with its end, which is None if it touches an entity that was not gathered.
    """
    place = EpochBin(program, 0, 1)
    for begin in begins:
        copies = place.copies[begin.request] = Copies(lent, lent=True)
        try:
            ((_, end),) = place.handle([begin._replace(back=None, inside=True)])
        except _NotHere:
            yield begin, None
            continue
        assert isinstance(end, AnswerMessage)
        if end.error is None:
            lent |= copies.written()
        yield begin, end


class Epochs:
    """The front: it numbers epochs, and decides them. ``bins`` bins are in this process.

    ``order`` has the numbers of the transactions as they are serialized, ``rounds`` counts the rounds of messages:
    every bin handles what was sent to it before. ``gathered`` counts transactions that ran at the front, and
    ``deferrals`` those that waited for the next epoch. ``told`` counts what the front sends to bins on its own.
    """

    def __init__(self, program: Program, bins: int, gather: bool = True) -> None:
        self.program, self._gather = program, gather
        self.bins = [EpochBin(program, number, bins) for number in range(bins)]
        self.order: list[int] = []
        self.rounds = self.epochs = self.gathered = self.deferrals = self.told = 0
        self._answers: dict[int, Any] = {}
        self._begins: dict[int, AskMessage] = {}
        self._deferred: list[int] = []
        self._sent: list[tuple[int, EntityMessage]] = []

    def state(self) -> dict[Name, State]:
        """Return the states of all entities."""
        return {name: state for bin in self.bins for name, state in bin.installed.items()}

    def run(self, requests: Iterable[AskMessage]) -> dict[int, Any]:
        """Run requests, whose numbers differ, to their ends. Return the values, or the exceptions that ended them."""
        for request in requests:
            self._take((FRONT if is_transaction(self.program, request) else self._bin(request), request))
        while self._sent or self._begins:
            if self._begins:
                self._epoch()
            else:
                self._round()
        answers, self._answers = self._answers, {}
        return answers

    def _bin(self, message: AskMessage) -> int:
        return bin_of(message.who, len(self.bins))

    def _home(self, name: Name) -> int:
        return bin_of(Reference(*name), len(self.bins))

    def _take(self, sent: tuple[int, EntityMessage]) -> AnswerMessage | None:
        """Take what was sent to a bin or to the front. Return the answer to a transaction, if it is one."""
        to, message = sent
        if to != FRONT:
            self._sent.append(sent)
        elif isinstance(message, AskMessage):
            self._begins[message.request] = message
        elif message.inside:
            return message
        else:
            self._answers[message.request] = outcome(self.program, message)
        return None

    def _round(self) -> list[AnswerMessage]:
        """Deliver all that was sent. Return the answers to transactions."""
        self.rounds += 1
        delivered, self._sent = self._sent, []
        return [answer for sent in deliver(self.bins, delivered) if (answer := self._take(sent))]

    def _epoch(self) -> None:
        """Run one epoch: a first pass, which transactions are in conflict, and what becomes of them."""
        self.epochs += 1
        begins, self._begins = self._begins, {}
        order = self._deferred + sorted(begins.keys() - set(self._deferred))
        self._deferred = []
        for number in order:
            root = begins[number]._replace(back=None, inside=True)
            self._sent.append((self._bin(root), root))
        ends: dict[int, AnswerMessage] = {}
        while len(ends) < len(order):
            ends |= {answer.request: answer for answer in self._round()}
        failed = {number for number, end in ends.items() if end.error}
        self.rounds += 2  # each bin is asked for conflicts, then told which transactions to install
        self.told += 2 * len(self.bins)
        bad = set().union(*(bin.conflicts(order, failed) for bin in self.bins))
        lent: dict[Name, State | None] = {}
        for bin in self.bins:
            lent |= bin.decide([n for n in order if n not in bad | failed], bad)
        for number in order:
            if number not in bad:
                self._finish(begins[number], ends[number])
        if bad:
            self._settle([begins[number] for number in order if number in bad], lent)

    def _settle(self, conflicting: list[AskMessage], lent: dict[Name, State | None]) -> None:
        """Run transactions one after the other on the entities that they touched, or defer them."""
        if self._gather:
            self.rounds += 1  # the entities are sent back
            self.told += len({self._home(name) for name in lent})
            for begin, end in gathered(self.program, conflicting, lent):
                if end is None:
                    self._defer(begin)
                else:
                    self.gathered += 1
                    self._finish(begin, end)
            for name, state in lent.items():
                if state is not None:
                    self.bins[self._home(name)].installed[name] = state
        else:
            for begin in conflicting:
                self._defer(begin)

    def _defer(self, begin: AskMessage) -> None:
        self.deferrals += 1
        self._deferred.append(begin.request)
        self._begins[begin.request] = begin

    def _finish(self, begin: AskMessage, end: AnswerMessage) -> None:
        """Report a transaction, and answer who asked for it."""
        self.order.append(begin.request)
        answer = end._replace(back=begin.back, inside=False)
        self._take((self.bins[0].bin_of(answer), answer))
