"""What can be tried: a scenario, and what is done to its messages.

A message is known by its words and by which of those it is, not by what came before it. So a case is reached in a
system whose messages come in another order from run to run, too. Only messages between processes are lost, not those of
the client: "What can happen between your processes" in docs/assignment.md says no more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from .connection import Event
from .cutter import ANSWER, BURST, REQUEST
from .through import CLIENT

LOSE, RACE, KILL, TWICE, WRITE = "lose", "race", "kill", "twice", "write"
KINDS = {LOSE: "L", RACE: "R", KILL: "K", TWICE: "", WRITE: "W"}
"""The kinds of cases, each with the letter of their ids. Two faults have the id of the first one, and a number."""
LATE, SILENCE, LATE_AFTER = "late", "silence", "late after silence"
SLOW = (SILENCE, LATE_AFTER)
"""What takes as long as a caller waits."""
MANY = 300
"""A service is killed before its first writes of a run, at most so many."""
CHECKOUT, ADD_FUNDS, SUBTRACT = "checkout", "add_funds", "subtract"


@dataclass(frozen=True)
class Scenario:
    """Orders for X at 5 and Y at 7, and the requests of the client. ``calls``: a request, whose row, and an amount.

    ``orders``: the user of each order, and its units of X and Y. ``paid``: how many orders there is enough for.
    """

    name: str
    calls: tuple[tuple[str, int, int], ...] = ((CHECKOUT, 0, 0),)
    credit: tuple[int, ...] = (100,)
    stock: tuple[int, int] = (20, 20)
    orders: tuple[tuple[int, tuple[int, int]], ...] = ((0, (2, 3)),)
    paid: int = 1

    @property
    def may_refuse(self) -> bool:
        """Whether an order may be refused: there is not enough, or it is checked out while it is checked out."""
        return self.paid < len(self.orders) or self.calls.count((CHECKOUT, 0, 0)) > 1


PRICES = (5, 7)
SCENARIOS = (
    Scenario("payable"),
    Scenario("no credit", credit=(30,), paid=0),
    Scenario("no stock", stock=(20, 2), paid=0),
)
_BOTH = ((CHECKOUT, 0, 0), (CHECKOUT, 1, 0))
RACES = (
    Scenario("the same order twice", calls=((CHECKOUT, 0, 0),) * 2),
    Scenario("two orders, credit for one", _BOTH, (20,), orders=((0, (2, 0)), (0, (0, 2)))),
    Scenario("two orders, stock for one", _BOTH, (100, 100), (3, 20), ((0, (2, 0)), (1, (2, 1)))),
    Scenario("a checkout and add_funds", ((CHECKOUT, 0, 0), (ADD_FUNDS, 0, 50))),
    Scenario("a checkout and subtract", ((CHECKOUT, 0, 0), (SUBTRACT, 0, 4))),
)


@dataclass(frozen=True)
class Fault:
    """What happens to the nth message with some words, counted from 1. ``kind``: that of the message.

    Or at the nth write of a service, whose name is ``at``.

    ``victims``: the processes that are killed when it has arrived at the proxy; it is lost if one of its two processes
    is among them, unless it ``arrives``.
    """

    what: str
    at: str
    nth: int = 1
    kind: str = ""
    victims: tuple[str, ...] = ()
    arrives: bool = False

    def __str__(self) -> str:
        """Return the fault as a person can write it, for example "lose stock->order 200, 2nd"."""
        if self.what == WRITE:
            return f"kill {self.at} before its {ordinal(self.nth)} write"
        who = f" {'+'.join(self.victims)} {'after' if self.arrives else 'at'}" if self.victims else ""
        return f"{self.what}{who} {self.at}, {ordinal(self.nth)}"

    @property
    def ends(self) -> tuple[str, str]:
        """The sender and the receiver of the message."""
        sender, _, receiver = self.at.split()[0].partition("->")
        return sender, receiver

    @property
    def place(self) -> str:
        """What happens between which two processes, or to which one, for example "late order->stock"."""
        if self.what == WRITE:
            return f"{WRITE} {self.at}"
        return f"{self.what} {'+'.join(self.victims)}{' ' * bool(self.victims)}{self.at.split()[0]}"

    @property
    def allowed(self) -> str:
        """The words of docs/assignment.md that allow it."""
        if self.victims:
            return "can be killed"
        if self.what in (LATE, LATE_AFTER):
            return "may arrive up to 10 s later"
        if self.what == SILENCE:
            return "nothing until it stops waiting"
        return {REQUEST: "may not have arrived", ANSWER: "its answer may be lost"}.get(self.kind, "can break")


@dataclass(frozen=True)
class Swap:
    """At a step, counted from 1, another message than usual is delivered. ``nth``: of those with its words."""

    step: int
    at: str
    nth: int = 1
    allowed = "can be delayed"
    """The words of docs/assignment.md that allow it."""

    def __str__(self) -> str:
        """Return it as a person can write it, for example "at step 3 deliver order->stock POST /take/X/2, 1st"."""
        return f"at step {self.step} deliver {self.at}, {ordinal(self.nth)}"


@dataclass(frozen=True)
class Case:
    """One run: a scenario, and what is done in it."""

    scenario: Scenario
    faults: tuple[Fault, ...] = ()
    swaps: tuple[Swap, ...] = ()
    id: str = "plain"

    def __str__(self) -> str:
        """Return the case as a person can write it, for example "payable, lose stock->order 200, 2nd"."""
        return ", ".join(map(str, (self.scenario.name, *self.faults, *self.swaps)))

    @property
    def kind(self) -> str:
        """The kind of the case; "" for a run in which nothing is done."""
        if len(self.faults) > 1:
            return TWICE
        return next((kind for kind, letter in KINDS.items() if letter and self.id.startswith(letter)), "")

    @property
    def place(self) -> str:
        """What is done between which processes. Violations at the same place have the same cause."""
        return ", ".join(each.place for each in self.faults) or self.scenario.name

    @property
    def allowed(self) -> tuple[str, ...]:
        """The words of docs/assignment.md that allow the run."""
        together = ["at the same time"] if len(self.scenario.calls) > 1 else []
        words = [*together, *(fault.allowed for fault in self.faults), *(swap.allowed for swap in self.swaps)]
        return tuple(dict.fromkeys(words))

    def meant(self, text: str) -> bool:
        """Return whether a person means this case: by its id, or by its text, whose paths can end earlier.

        >>> case = Case(SCENARIOS[0], (Fault(LATE, "order->stock POST /subtract/X/2"),), id="L2")
        >>> case.meant("L2"), case.meant("payable, late order->stock POST /subtract, 1st"), case.meant("payable, late")
        (True, True, False)
        """
        text = re.sub(r"^[A-Z][0-9.]+: *", "", " ".join(text.split()))
        mine, other = str(self).split(", "), text.split(", ")
        return text == self.id or len(mine) == len(other) and all(map(shorter, mine, other))

    def begins(self, text: str) -> bool:
        """Return whether a person means a case that does something more after this one."""
        parts = text.split(", ")
        return text.startswith(f"{self.id}.") or self.meant(", ".join(parts[: str(self).count(", ") + 1]))


def shorter(full: str, text: str) -> bool:
    """Return whether a text is the same, or a part of its path was left out at the end."""
    return full == text or ("/" in text and full.startswith(text) and full[len(text)] in "/?")


def ordinal(number: int) -> str:
    """Return "1st" for 1.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 21)]
    ['1st', '2nd', '3rd', '4th', '11th', '21st']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


Said = tuple[Event, str]
"""A message, with its words."""


def places(messages: Iterable[Said]) -> Iterator[tuple[Event, str, int]]:
    """Return each message with its words, and which of those with these words it is."""
    seen = Counter[str]()
    for event, said in messages:
        seen[said] += 1
        yield event, said, seen[said]


def common(runs: Sequence[Sequence[Said]]) -> list[Said]:
    """Return the messages that each run has, in the order of the first one."""
    others = [{(said, nth) for _, said, nth in places(run)} for run in runs[1:]]
    return [(event, said) for event, said, nth in places(runs[0]) if all((said, nth) in other for other in others)]


def losses(plain: Sequence[tuple[Scenario, Sequence[Said]]]) -> Iterator[Case]:
    """Return the cases in which one message is lost, late, or not heard of, given the messages of each scenario.

    Those in which a caller waits come last.
    """
    number = 0
    for slow in (False, True):
        for scenario, messages in plain:
            for event, said, nth in places(messages):
                if CLIENT in (event.sender, event.receiver):
                    continue
                ways = SLOW if slow else (LOSE, LATE)
                for what in ways if event.kind == REQUEST else ways[:1] if not (slow and event.kind == BURST) else ():
                    number += 1
                    yield Case(scenario, (Fault(what, said, nth, event.kind),), id=f"{KINDS[LOSE]}{number}")


def kills(plain: Sequence[tuple[Scenario, Sequence[Said]]], processes: Sequence[str]) -> Iterator[Case]:
    """Return the cases in which processes are killed at a message: one victim first, nearest the beginning first.

    A message with the same messages before it as in an earlier scenario is left out.
    """
    found: list[tuple[int, int, Scenario, Fault]] = []
    known = set[tuple[str, ...]]()
    for scenario, messages in plain:
        before: tuple[str, ...] = ()
        for step, (event, said, nth) in enumerate(places(messages)):
            before = (*before, said)
            if before in known or not step:
                continue
            known.add(before)
            for victims in dict.fromkeys([*((name,) for name in processes), tuple(processes)]):
                fault = Fault(KILL, said, nth, event.kind, victims)
                found.append((len(victims), step, scenario, fault))
                if victims == (event.sender,):
                    found.append((1, step, scenario, replace(fault, arrives=True)))
    found.sort(key=lambda each: each[:2])
    for number, (_, _, scenario, fault) in enumerate(found, 1):
        yield Case(scenario, (fault,), id=f"{KINDS[KILL]}{number}")


def second(case: Case, messages: Sequence[Said], processes: Collection[str]) -> Iterator[Fault]:
    """Return the faults that can follow the one of a case, given the messages of its run: one more of its kind.

    After a loss, another message is lost; after a kill, the receiver of a message is killed, or it is lost.
    """
    (first,) = case.faults
    after = False
    for event, said, nth in places(messages):
        if after and CLIENT not in (event.sender, event.receiver):
            yield Fault(LOSE, said, nth, event.kind)
            if first.victims and event.receiver in processes:
                yield Fault(KILL, said, nth, event.kind, (event.receiver,))
        after = after or (said, nth) == (first.at, first.nth)


def swapped(
    case: Case, delivered: Sequence[Event], held: Sequence[Sequence[Event]], said: Callable[[Event], str]
) -> Iterator[Swap]:
    """Return each swap that can follow those of a case, given its run: what was delivered, and what could have been.

    A message that no other one of its receiver overtakes is left out: its receiver would not see a difference.
    """
    begin = case.swaps[-1].step if case.swaps else 0
    for step in range(begin, len(delivered)):
        for other in held[step]:
            when = next((n for n in range(step, len(delivered)) if delivered[n].message == other.message), None)
            if when is None or when == step:
                continue
            if any(each.receiver == other.receiver for each in delivered[step:when]):
                same = [each for each in held[step] if said(each) == said(other)]
                if said(delivered[step]) != said(other):
                    yield Swap(step + 1, said(other), same.index(other) + 1)


def writes(services: Sequence[str]) -> Iterator[Case]:
    """Return the cases in which a service is killed before its nth write: the first ones of each service first."""
    number = 0
    for scenario in SCENARIOS:
        for nth in range(1, MANY + 1):
            for name in services:
                number += 1
                yield Case(scenario, (Fault(WRITE, name, nth, victims=(name,)),), id=f"{KINDS[WRITE]}{number}")


__all__ = ["Case", "Fault", "Scenario", "Swap"]
