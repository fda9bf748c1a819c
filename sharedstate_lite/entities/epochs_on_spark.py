"""Transactions over the bins of an entity program on Spark: the epochs of `epochs`, with a micro-batch as a round.

The driver is the front. In the first pass the bins run transactions on copies, which are in the state store. When all
have ended, one micro-batch asks the bins for conflicts, and one tells them which transactions to install, and returns
the entities of the others. The driver runs these transactions, and sends the entities back with the next micro-batch.
A transaction takes its hops and two micro-batches, whatever the contention. The other messages wait for these two.

The driver logs the state of the front with each micro-batch, so a start continues in the middle of an epoch.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .bins import FRONT, AnswerMessage, AskMessage, EntityMessage, State, Waiting, bin_of
from .declare import Reference
from .epochs import gathered
from .program import Program

VOTE, DECIDE, PUT = "@vote", "@decide", "@put"
"""What the front asks bins: which transactions are in conflict; to install some, and for what others have touched; to
take entities back. It asks for the first two in micro-batches without other messages."""
_RUN = "run"
Sent = list[tuple[int, EntityMessage]]
"""Messages, each with the bin that it is for."""


def pack(messages: Iterable[EntityMessage]) -> bytes:
    """Encode messages. The methods that wait become a list, because pickle cannot nest as deeply as methods can."""
    flat = []
    for message in messages:
        waits, back = [], message.back
        while back is not None:
            waits.append(back._replace(back=None))
            back = back.back
        flat.append((message._replace(back=None), waits))
    return pickle.dumps(flat)


def unpack(blob: bytes) -> list[EntityMessage]:
    """Decode messages.

    >>> from sharedstate_lite.entities import AskMessage, Reference
    >>> first = Waiting(Reference("User", "u"), "buy", 0, 1, "price", {"n": 2}, None, 1)
    >>> ask = AskMessage(7, Reference("Item", "apple"), "price", None, first._replace(back=first, depth=2))
    >>> unpack(pack([ask])) == [ask]
    True
    """
    out = []
    for message, waits in pickle.loads(blob):
        back: Waiting | None = None
        for each in reversed(waits):
            back = each._replace(back=back)
        out.append(message._replace(back=back))
    return out


@dataclass
class EpochFront:
    """The front of ``bins`` bins. ``phase`` is what the bins do in the micro-batch in progress, "" without an epoch."""

    program: Program
    bins: int
    phase: str = ""
    begins: dict[int, AskMessage] = field(default_factory=dict)
    """The transactions that have not ended: those of the epoch, and of the next one."""
    order: list[int] = field(default_factory=list)
    """The transactions of the epoch."""
    deferred: list[int] = field(default_factory=list)
    ends: dict[int, AnswerMessage] = field(default_factory=dict)
    bad: set[int] = field(default_factory=set)
    """The transactions that are in conflict."""

    @property
    def commands(self) -> Sent:
        """What all bins are asked in a micro-batch without other messages, if it is time for that."""
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
        """Take what a micro-batch has sent to the front. Return answers, and messages to bins."""
        out: Sent = []
        replies = []
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

    def _settle(self, lent: dict[tuple[str, str], State | None]) -> Sent:
        """Answer the transactions that were installed, run the others, and send the entities back."""
        out = [self._finish(number, self.ends[number]) for number in self.order if number not in self.bad]
        bad = [self.begins[number] for number in self.order if number in self.bad]
        for begin, end in gathered(self.program, bad, lent):
            if end is None:
                self.deferred.append(begin.request)
            else:
                out.append(self._finish(begin.request, end))
        back: dict[int, list[tuple[tuple[str, str], State]]] = {}
        for name, state in lent.items():
            if state is not None:
                back.setdefault(bin_of(Reference(*name), self.bins), []).append((name, state))
        return out + [(to, AskMessage(0, Reference("", ""), PUT, tuple(back[to]), None)) for to in sorted(back)]

    def _finish(self, number: int, end: AnswerMessage) -> tuple[int, EntityMessage]:
        back = self.begins.pop(number).back
        return bin_of(back.who, self.bins) if back else FRONT, end._replace(back=back, inside=False)

    def state(self) -> tuple[Any, ...]:
        """Return the state of the front for `restore`."""
        messages = pack(self.begins.values()), pack(self.ends.values())
        return self.phase, self.order, self.deferred, self.bad, messages

    def restore(self, state: tuple[Any, ...]) -> None:
        """Set the state of the front."""
        self.phase, self.order, self.deferred, self.bad, messages = state
        begins, ends = map(unpack, messages)
        self.begins = {each.request: each for each in begins if isinstance(each, AskMessage)}
        self.ends = {each.request: each for each in ends if isinstance(each, AnswerMessage)}
