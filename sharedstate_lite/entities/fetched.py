"""Transactions over several bins on Spark: the front fetches the entities, and runs the transactions itself.

A message between two bins takes a micro-batch, in which the front runs thousands of transactions. So they are not sent
to the entities, as in `epochs`, but the entities are sent to them. An epoch has the transactions that have begun before
it. The front asks the bins for the entities at which they begin, for those in their arguments, and for those that
several transactions of the last epoch have used. Then it runs the transactions one after the other. One that needs
another entity waits for the next round, in which the front asks for this one, and for those that it refers to. At the
end of the epoch, the front sends back what has changed.

Bins handle the other messages of a round before they answer the front. In later rounds of an epoch there are none: they
wait, because the state of an entity that was fetched is at the front.

>>> from sharedstate_lite.entities import Program, Reference, entity, transactional
>>> from sharedstate_lite.entities.bins import AnswerMessage
>>> @entity
... class Account:
...     def __init__(self, name: str, balance: int):
...         self.name, self.balance = name, balance
...     def __key__(self):
...         return self.name
...     @transactional
...     def pay(self, n: int, to: Account):
...         self.balance -= n
...         to.get(n)
...     def get(self, n: int):
...         self.balance += n
>>> a, b = Reference("Account", "a"), Reference("Account", "b")
>>> front = FetchingFront(Program(Account), 1)
>>> front.begins[7] = AskMessage(7, a, "pay", (1, b), None)
>>> front.start()[0][1].args                                    # one round fetches both accounts
(('Account', 'a'), ('Account', 'b'))
>>> found = [(("Account", name), {"name": name, "balance": 9}) for name in "ab"]
>>> end, back = front.take([AnswerMessage(0, found, None, None, True)])
>>> end[1].request, [state["balance"] for _, state in back[1].args]
(7, [8, 10])

Source: calls that bring the data to the transaction, as in Thomson et al., Calvin, SIGMOD 2012.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .bins import FRONT, AskMessage, EntityMessage, Name, State
from .declare import Reference
from .epochs import GET, Copies, Front, NotHere, Sent, alone

MOST_REFERENCES = 64
"""How many entities the front fetches at once because one transaction may need them."""


@dataclass
class FetchingFront(Front):
    """The front of several bins. The driver logs its `state` with each micro-batch."""

    epoch: list[int] = field(default_factory=list)
    """The transactions of the epoch that have not ended, in their order."""
    wanted: set[Name] = field(default_factory=set)
    """The entities for which the bins are asked in the round in progress."""
    lent: dict[Name, State | None] = field(default_factory=dict)
    """The entities that were fetched, as they are now. None stands for one that does not exist."""
    changed: set[Name] = field(default_factory=set)
    uses: Counter[Name] = field(default_factory=Counter)
    """How many transactions of the epoch have used each entity."""

    @property
    def commands(self) -> Sent:
        """What bins are asked in a later round of an epoch, without other messages."""
        return self._get() if self.lent else []

    def start(self) -> Sent:
        """Begin an epoch if none is in progress, and return what bins are asked for it."""
        if self.epoch or not self.begins:
            return []
        self.epoch = sorted(self.begins)
        self.wanted = {name for name, count in self.uses.items() if count > 1}
        self.uses = Counter()
        for begin in self.begins.values():
            self.wanted |= {(begin.who.cls, begin.who.key), *islice(references(begin.args), MOST_REFERENCES)}
        return self._get()

    def take(self, messages: Iterable[EntityMessage]) -> Sent:
        """Take what a round has sent to the front. Return answers, and messages to bins."""
        out: Sent = []
        self.finished = []
        for message in messages:
            if isinstance(message, AskMessage):
                self.begins[message.request] = message
            elif message.inside is True:
                self.lent |= dict(message.value)
            else:
                out.append((FRONT, message))
        return out + self._run() if self.epoch else out

    def _run(self) -> Sent:
        """Run the transactions of the epoch that have all that they need, and end the epoch if these are all."""
        out, left = Sent(), list[int]()
        self.wanted = set()
        for number in self.epoch:
            copies = Copies(self.lent, lent=True)
            try:
                end = alone(self.program, self.begins[number], copies)
            except NotHere as missing:
                left.append(number)
                self.wanted |= {missing.name, *islice(references([*copies.values()]), MOST_REFERENCES)}
                continue
            self.uses.update(copies.found.keys())
            if end.error is None:
                written = copies.written()
                self.lent |= written
                self.changed |= written.keys()
            out.append(self.finish(number, end))
        self.epoch, self.wanted = left, self.wanted - self.lent.keys()
        if not left:
            out += self.put({name: self.lent[name] for name in sorted(self.changed)})
            self.lent, self.changed = {}, set()
        return out

    def _get(self) -> Sent:
        return self.asked(GET, ((name, name) for name in sorted(self.wanted)))

    def state(self) -> tuple[Any, ...]:
        """Return the state of the front for `restore`. The transactions that have not ended are last."""
        return self.epoch, self.wanted, self.lent, self.changed, self.uses, [*self.begins.values()]

    def restore(self, state: tuple[Any, ...]) -> None:
        """Set the state of the front."""
        self.epoch, self.wanted, self.lent, self.changed, self.uses, begins = state
        self.begins = {each.request: each for each in begins}


def references(value: Any) -> Iterator[Name]:
    """Yield the entities to which data refers."""
    if isinstance(value, Reference):
        yield value.cls, value.key
    elif isinstance(value, list | tuple):
        for part in value:
            yield from references(part)
    elif isinstance(value, dict):
        yield from references([*value.values()])
