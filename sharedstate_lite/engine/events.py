"""The trace of an engine: what happened inside it, as a list of events.

Events (``Event.name``), and what their fields hold:

    epoch       an epoch was committed; rows: consolidated input rows
    message     a change was sent along an edge; source, target, rows
    delivered   a message arrived (partial, only with ``keep_rows``); note: its kind
    state       an operator wrote state; source: the operator, rows: rows written
    upquery     an upquery was sent (partial); rows: keys asked for
    response    a response was sent (partial); rows: rows carried
    hole        a read or an upquery asked for keys that are not filled; rows: keys
    hit         a read or an upquery asked for filled keys; rows: keys
    dropped     a change for unfilled keys was dropped (partial); rows: rows
    evicted     keys became holes; rows: keys
    refused     a call raised and was rolled back; note: the error. A partial engine may then run the epoch
                again as a whole, because an intermediate result may overflow where the whole epoch does not

Engines write the trace; pictures and tests read it; nothing in the kit depends on it. It keeps the newest
``limit`` events. With ``keep_rows``, events also carry their rows as ``payload`` (Changes; for a message under
partial state {number, tag, kind, by, key, rows}), and ``watch`` is called with each event: :mod:`..replay` uses both.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pandas as pd


class Event(NamedTuple):
    """One event; ``epoch`` is the epoch being processed, ``number`` counts events from 0."""

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
        """(source, target) of the message."""
        return (self.source, self.target)


class EventLog:
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
        """Add an event. ``payload`` is called only with ``keep_rows``."""
        kept = payload() if payload is not None and self.keep_rows else None
        event = Event(self._count, name, self.epoch, source, target, rows, note, kept)
        self._events.append(event)
        self._count += 1
        if self.watch is not None:
            self.watch(event)

    def clear(self) -> None:
        """Remove the events so far; numbering continues."""
        self._events.clear()

    def named(self, name: str) -> list[Event]:
        """The events of one name."""
        return [e for e in self._events if e.name == name]

    def rows_by_edge(self, *names: str) -> Counter[tuple[str, str]]:
        """Rows carried along each edge, by events of these names (default: messages, upqueries and responses)."""
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
