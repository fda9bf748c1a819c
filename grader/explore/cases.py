"""What can be tried: each message of a plain run is lost once, and each request arrives late once.

Only messages between processes are lost, not those of the client: "What can happen between your processes" in
docs/assignment.md says no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .connection import Event
from .cutter import ANSWER, REQUEST
from .through import CLIENT

LOSE, LATE, PLAIN = "lose", "late", "plain"
KINDS = {LOSE: "L"}
"""The kinds of cases, each with the letter of their ids."""


@dataclass(frozen=True)
class Scenario:
    """An order of 2 units of X at 5 and 3 units of Y at 7, which is paid, or refused for lack of something."""

    name: str
    credit: int = 100
    stock: tuple[int, int] = (20, 20)

    @property
    def payable(self) -> bool:
        """Whether there is enough credit and stock."""
        return self.name == "payable"


LINES = ((2, 5), (3, 7))
"""The quantity and the price of X and of Y."""
SCENARIOS = (Scenario("payable"), Scenario("no credit", credit=30), Scenario("no stock", stock=(20, 2)))


@dataclass(frozen=True)
class Case:
    """One run: a scenario, and what happens to its nth message, counted from 1. ``before``: the messages up to it."""

    scenario: Scenario
    what: str = PLAIN
    nth: int = 0
    before: tuple[str, ...] = ()
    kind: str = ""
    """The kind of that message."""
    id: str = "plain"

    def __str__(self) -> str:
        """Return the case as a person can write it, for example "payable, lose stock->order 200, 2nd"."""
        if not self.before:
            return f"{self.scenario.name}, {self.what}"
        at = self.before[-1]
        return f"{self.scenario.name}, {self.what} {at}, {_ordinal(self.before.count(at))}"

    @property
    def place(self) -> str:
        """What happens between which two processes, for example "late order->stock"."""
        return f"{self.what} {self.before[-1].split()[0]}" if self.before else self.what

    @property
    def allowed(self) -> str:
        """The words of docs/assignment.md that allow the run."""
        if self.what == LATE:
            return "may arrive up to 10 s later"
        return {REQUEST: "may not have arrived", ANSWER: "its answer may be lost"}.get(self.kind, "can break")


def _ordinal(number: int) -> str:
    """Return "1st" for 1.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 21)]
    ['1st', '2nd', '3rd', '4th', '11th', '21st']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def cases(plain: Sequence[tuple[Scenario, Sequence[tuple[Event, str]]]]) -> Iterator[Case]:
    """Return the cases, given the plain run of each scenario: its messages, each with its words."""
    numbers = Counter[str]()
    for scenario, messages in plain:
        before: tuple[str, ...] = ()
        for nth, (event, said) in enumerate(messages, 1):
            before = (*before, said)
            if CLIENT in (event.sender, event.receiver):
                continue
            for what in (LOSE, LATE) if event.kind == REQUEST else (LOSE,):
                numbers[LOSE] += 1
                yield Case(scenario, what, nth, before, event.kind, f"{KINDS[LOSE]}{numbers[LOSE]}")
