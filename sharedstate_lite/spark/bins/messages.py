"""What bins take and give, and what they need around them: messages, a store, neighbours.

A message is a row on Spark's wire. A store holds what a bin has written; :class:`Asked`
stands for it where a neighbour's task has the real one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

OUT, ASK, COMPACT, TICK = 0, -1, -2, -3
"""Channel numbers that are no channel's: a view's change, a question, and orders. The channels count from 1."""

ROWS = -5
"""The channel on which the driver is told how many rows of a stream's input there were."""

FOUND = {
    "new": "it was in no store yet",
    "used": "in memory, and the store confirmed it",
    "stale": "in memory, but another process had written since: read anew where that differs",
    "missing": "not in memory: read from the store",
}


class Message(NamedTuple):
    """One row on the wire. ``stage`` 0 is the driver; ``what`` tells a view, a question or an answer apart."""

    stage: int
    bin: int
    channel: int
    what: str
    blob: bytes


def ticks(stages: Iterable[int]) -> list[Message]:
    """What makes aggregates without GROUP BY in these stages give their first row."""
    return [Message(stage, 0, TICK, "", b"") for stage in stages]


Written = tuple[str, list[tuple[str, str, bytes]], list[tuple[str, str]]]
"""What goes into a store at once: the head, runs as (arrangement, run, blob), and runs that are gone."""

Place = tuple[str, int, int]
"""A bin's generation, stage and number."""

Done = tuple[list[Message], list[Written]]


class Near(Protocol):
    """The processes beside this one."""

    port: int

    def ask(self, port: int, place: Place, token: str, messages: list[Message]) -> Done | None:
        """What follows from the messages, and what to write; None if the bin is not there under this token."""
        ...


class Store(Protocol):
    """What a bin needs of a state store."""

    def head(self) -> str | None:
        """The head that was written last."""
        ...

    def run(self, part: str, name: str) -> bytes:
        """A run's blob."""
        ...

    def write(self, head: str, fresh: Iterable[tuple[str, str, bytes]], gone: Iterable[tuple[str, str]]) -> None:
        """Put runs, remove runs, and the head."""
        ...


@dataclass
class Asked:
    """The store of a bin that a neighbour asks for: it is the neighbour who writes."""

    written: list[Written] = field(default_factory=list)

    def head(self) -> str | None:
        return None

    def run(self, part: str, name: str) -> bytes:
        raise AssertionError(f"{part}, {name}: a bin that is in memory reads nothing")

    def write(self, head: str, fresh: Iterable[tuple[str, str, bytes]], gone: Iterable[tuple[str, str]]) -> None:
        self.written.append((head, list(fresh), list(gone)))
