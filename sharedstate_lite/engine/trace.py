"""What happened inside an engine, as events in the order in which it happened.

Events (``Event.name``), and what their fields say:

    epoch       an epoch was committed; rows: net input rows
    message     a change moved along an edge; source, target, rows
    delivered   a message arrived (partial, only while rows are kept); note: its kind, and if it is taken with the next
    state       an operator's state changed; source: the operator, rows: rows written
    upquery     a question went up an edge (partial); rows: keys asked for
    response    an answer came down an edge (partial); rows: rows carried
    hole        a read or an upquery met keys that are not filled; rows: keys
    hit         a read or an upquery met keys that are filled; rows: keys
    dropped     a change met holes and was let fall (partial); rows: rows
    evicted     keys became holes; rows: keys
    refused     an operation raised, and was undone; note: the message. Under partial state the epoch may
                follow again, as a whole: message by message it refused, and it may come to nothing that does

Nothing in the kit acts on a trace: engines write it, pictures and tests read it. It
keeps the newest ``limit`` events, so that a long run does not grow; with ``keep_rows``
set, events also carry the rows themselves as their ``payload``, and ``watch`` is called
with each event at the moment it happens: that is how :mod:`..replay` records a run.
Payloads are :class:`~sharedstate_lite.Changes` of what moved or was let fall; under
partial state a message's is {number, tag, kind, by, key, rows}, and ``delivered`` has its number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pandas as pd


class Event(NamedTuple):
    """One thing that happened; ``epoch`` is the one being processed, ``number`` counts from 0."""

    number: int
    name: str
    epoch: int
    source: str
    target: str = ""
    rows: int = 0
    note: str = ""
    payload: Any = None

    @property
    def edge(self) -> tuple[str, str]:
        """(source, target), the way the message went."""
        return (self.source, self.target)


class Trace:
    """The newest ``limit`` events of one engine; iterable, oldest first."""

    def __init__(self, limit: int = 10_000) -> None:
        self.keep_rows = False
        self.watch: Callable[[Event], None] | None = None
        self.epoch = 0
        self._events: deque[Event] = deque(maxlen=limit)
        self._count = 0

    def record(
        self,
        name: str,
        source: str,
        target: str = "",
        rows: int = 0,
        note: str = "",
        payload: Callable[[], Any] | None = None,
    ) -> None:
        """Add an event. ``payload`` is called only when rows are kept."""
        kept = payload() if payload is not None and self.keep_rows else None
        event = Event(self._count, name, self.epoch, source, target, rows, note, kept)
        self._events.append(event)
        self._count += 1
        if self.watch is not None:
            self.watch(event)

    def clear(self) -> None:
        """Forget the events so far; their numbers are not given again."""
        self._events.clear()

    def named(self, name: str) -> list[Event]:
        """The kept events of one name."""
        return [e for e in self._events if e.name == name]

    def rows_by_edge(self, *names: str) -> Counter[tuple[str, str]]:
        """Rows carried by each edge, over events of these names (default: everything that travels)."""
        wanted = names or ("message", "response", "upquery")
        total: Counter[tuple[str, str]] = Counter()
        for event in self._events:
            if event.name in wanted:
                total[event.edge] += event.rows
        return total

    def frame(self) -> pd.DataFrame:
        """The events as a frame: number, name, epoch, source, target, rows, note."""
        columns = ["number", "name", "epoch", "source", "target", "rows", "note"]
        return pd.DataFrame([[getattr(e, c) for c in columns] for e in self._events], columns=columns)

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return f"Trace({len(self)} of {self._count} events kept)"
