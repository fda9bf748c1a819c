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
from dataclasses import dataclass, field
from typing import Any

from .bins import FRONT, AnswerMessage, AskMessage, EntityBin, EntityMessage, Name, State, bin_of, deliver, outcome
from .declare import Reference, copied
from .program import Program

VOTE, DECIDE, GET, PUT = "@vote", "@decide", "@get", "@put"
"""What a front asks bins: which transactions are in conflict; to install some, and for what others have touched; for
entities (`fetched`); to take entities back. It asks for the first two in rounds without other messages."""
_RUN = "run"
Sent = list[tuple[int, EntityMessage]]
"""Messages, each with the bin that it is for."""


class NotHere(BaseException):
    """A transaction at the front touches an entity, ``name``, that is not there."""

    def __init__(self, name: Name) -> None:
        super().__init__(name)
        self.name = name


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
                raise NotHere(name)
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

    def command(self, asked: AskMessage) -> list[EntityMessage]:
        """Do what the front asks (`EpochFront.commands`), and return the answer, if it has one."""
        assert asked.args is not None
        if asked.what == PUT:
            self.installed |= dict(asked.args)
            return []
        value: Any = self.conflicts if asked.what == VOTE else self.decide
        return [AnswerMessage(0, value(*asked.args), None, None, True)]

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

    def decide(self, installs: Collection[int], gathers: Collection[int]) -> list[tuple[Name, State | None]]:
        """Install transactions, and return the entities that others have touched. All copies are gone then."""
        for number in installs:
            if copies := self.copies.get(number):
                self.installed |= copies.written()
        touched = {name for number in gathers for name in (self.copies[number].found if number in self.copies else ())}
        self.copies = {}
        return [(name, self.installed.get(name)) for name in touched]


def is_transaction(program: Program, message: AskMessage) -> bool:
    """Return whether a question is for a method that is declared transactional."""
    return message.args is not None and program.machine(message.what, message.who.cls).transactional


def alone(program: Program, begin: AskMessage, copies: Copies) -> AnswerMessage:
    """Run a transaction to its end on copies, and return its answer. Raises NotHere."""
    place = EpochBin(program, 0, 1)
    place.copies[begin.request] = copies
    ((_, end),) = place.handle([begin._replace(back=None, inside=True)])
    assert isinstance(end, AnswerMessage)
    return end


@dataclass
class Front:
    """What the fronts of ``bins`` bins have in common."""

    program: Program
    bins: int
    begins: dict[int, AskMessage] = field(default_factory=dict)
    """The transactions that have not ended: those of the epoch, and of the next one."""
    finished: list[int] = field(default_factory=list)
    """The transactions that the last round has answered, in the order in which they are serialized."""

    def finish(self, number: int, end: AnswerMessage) -> tuple[int, EntityMessage]:
        """End a transaction, and return its answer, with the bin that it is for."""
        self.finished.append(number)
        back = self.begins.pop(number).back
        return bin_of(back.who, self.bins) if back else FRONT, end._replace(back=back, inside=False)

    def asked(self, what: str, parts: Iterable[tuple[Name, Any]]) -> Sent:
        """Return what bins are asked about entities. Each part is for the bin of its entity."""
        to: dict[int, list[Any]] = {}
        for name, part in parts:
            to.setdefault(bin_of(Reference(*name), self.bins), []).append(part)
        return [(bin, AskMessage(0, Reference("", ""), what, tuple(to[bin]), None)) for bin in sorted(to)]

    def put(self, states: Mapping[Name, State | None]) -> Sent:
        """Return the messages that send entities back; None is an entity that is absent."""
        return self.asked(PUT, ((each[0], each) for each in states.items() if each[1] is not None))


@dataclass
class EpochFront(Front):
    """The front of `Epochs`: what it sends to bins, and when. Its caller delivers the messages, in rounds.

    ``phase`` is what the bins do in the round in progress, "" without an epoch.
    """

    gather: bool = True
    phase: str = ""
    order: list[int] = field(default_factory=list)
    """The transactions of the epoch."""
    deferred: list[int] = field(default_factory=list)
    ends: dict[int, AnswerMessage] = field(default_factory=dict)
    bad: set[int] = field(default_factory=set)
    """The transactions that are in conflict."""

    @property
    def commands(self) -> Sent:
        """What all bins are asked in a round without other messages, if it is time for that."""
        failed = {number for number, end in self.ends.items() if end.error}
        ended = self.bad | failed
        good = [number for number in self.order if number not in ended]
        asked = {VOTE: (self.order, failed), DECIDE: (good, self.bad)}.get(self.phase)
        return [(to, AskMessage(0, Reference("", ""), self.phase, asked, None)) for to in range(self.bins) if asked]

    def start(self) -> Sent:
        """Begin an epoch if none is in progress, and return the first questions of its transactions."""
        if self.phase or not self.begins:
            return []
        self.phase, self.ends, self.bad = _RUN, {}, set()
        self.order = self.deferred + sorted(self.begins.keys() - set(self.deferred))
        self.deferred = []
        roots = [self.begins[number]._replace(back=None, inside=True) for number in self.order]
        return [(bin_of(root.who, self.bins), root) for root in roots]

    def take(self, messages: Iterable[EntityMessage]) -> Sent:
        """Take what a round has sent to the front. Return answers, and messages to bins."""
        out: Sent = []
        replies = []
        self.finished = []
        for message in messages:
            if isinstance(message, AskMessage):
                self.begins[message.request] = message
            elif message.inside is not True:
                out.append((FRONT, message))
            elif self.phase == _RUN:
                self.ends[message.request] = message
            else:
                replies.append(message.value)
        if self.phase == _RUN and len(self.ends) == len(self.order):
            self.phase = VOTE
        elif self.phase == VOTE:
            self.phase, self.bad = DECIDE, set().union(*replies)
        elif self.phase == DECIDE:
            self.phase = ""
            out += self._settle({name: state for reply in replies for name, state in reply})
        return out

    def _settle(self, lent: dict[Name, State | None]) -> Sent:
        """Answer the transactions that were installed. Run the others and send the entities back, or defer them."""
        out = [self.finish(number, self.ends[number]) for number in self.order if number not in self.bad]
        bad = [self.begins[number] for number in self.order if number in self.bad]
        if not self.gather:
            self.deferred = [begin.request for begin in bad]
            return out
        for begin in bad:
            copies = Copies(lent, lent=True)
            try:
                end = alone(self.program, begin, copies)
            except NotHere:
                self.deferred.append(begin.request)
                continue
            if end.error is None:
                lent |= copies.written()
            out.append(self.finish(begin.request, end))
        return out + self.put(lent)


class Epochs:
    """Epochs in memory: a front, and ``bins`` bins in this process.

    ``order`` has the numbers of the transactions as they are serialized, ``rounds`` counts the rounds of messages:
    every bin handles what was sent to it before. ``gathered`` counts transactions that ran at the front, and
    ``deferrals`` those that waited for the next epoch. ``told`` counts what the front sends to bins on its own.
    """

    def __init__(self, program: Program, bins: int, gather: bool = True) -> None:
        self.program, self._front = program, EpochFront(program, bins, gather=gather)
        self.bins = [EpochBin(program, number, bins) for number in range(bins)]
        self.order: list[int] = []
        self.rounds = self.epochs = self.gathered = self.deferrals = self.told = 0

    def state(self) -> dict[Name, State]:
        """Return the states of all entities."""
        return {name: state for bin in self.bins for name, state in bin.installed.items()}

    def run(self, requests: Iterable[AskMessage]) -> dict[int, Any]:
        """Run requests, whose numbers differ, to their ends. Return the values, or the exceptions that ended them."""
        front, sent, answers = self._front, Sent(), dict[int, Any]()
        for request in requests:
            if is_transaction(self.program, request):
                front.begins[request.request] = request
            else:
                sent.append((bin_of(request.who, front.bins), request))
        while sent or front.begins:
            if roots := front.start():
                self.epochs += 1
                sent += roots
            if commands := front.commands:
                out = front.take(self._tell(commands))
            else:
                self.rounds += 1
                delivered = deliver(self.bins, sent)
                sent = [each for each in delivered if each[0] != FRONT]
                out = front.take(message for to, message in delivered if to == FRONT)
            self.order += front.finished
            if commands and not front.phase:
                self.gathered += len(front.bad) - len(front.deferred)
                self.deferrals += len(front.deferred)
            self._tell([(to, message) for to, message in out if isinstance(message, AskMessage)])
            ends = [(to, message) for to, message in out if isinstance(message, AnswerMessage)]
            answers |= {end.request: outcome(self.program, end) for to, end in ends if to == FRONT}
            sent += [each for each in ends if each[0] != FRONT]
        return answers

    def _tell(self, commands: Sent) -> list[EntityMessage]:
        """Give commands of the front to bins, in a round of their own, and return the answers."""
        self.rounds += bool(commands)
        self.told += len(commands)
        return [answer for to, ask in commands if isinstance(ask, AskMessage) for answer in self.bins[to].command(ask)]
