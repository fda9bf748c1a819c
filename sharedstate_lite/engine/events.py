"""The trace of an engine: a log of the events that happened inside it.

These are the names of the events (``Event.name``), with the meaning of their fields:

    epoch       an epoch was committed; rows: the number of consolidated input rows
    message     a change was sent along the edge from source to target; rows: the number of rows in it
    delivered   a message arrived (partial, only with ``keep_rows``); note: the kind of the message
    state       an operator wrote state; source: the operator; target: the piece of state, as in state() (not partial);
                rows: the number of rows written
    upquery     an upquery was sent (partial); rows: the number of keys in it
    response    a response was sent (partial); rows: the number of rows in it
    hole        a read or an upquery asked for keys of which some are not filled; rows: the number of keys
    hit         a read or an upquery asked for keys that are all filled; rows: the number of keys
    dropped     rows of a change were dropped because their keys are not filled (partial); rows: the number of rows
    evicted     keys became holes; rows: the number of keys
    refused     a call raised an exception and was rolled back; note: the error. A partial engine may then run the
                epoch again with combined changes, because an intermediate result can overflow even if the result of
                the entire epoch does not

Engines write the trace, and pictures and tests read it. No engine depends on its contents. The trace keeps the newest
``limit`` events. If ``keep_rows`` is true, an event also contains its rows as ``payload``. These are Changes, or, for a
message under partial state, a mapping with number, tag, kind, by, key and rows. If ``watch`` is set, it is called with
each event. :mod:`..replay` uses both.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pandas as pd


class Event(NamedTuple):
    """One event. ``epoch`` is the epoch that was being processed, and ``number`` counts events from 0."""

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
        """The source and the target of the message, as a pair."""
        return (self.source, self.target)


class EventLog:
    """The newest ``limit`` events of an engine. Iteration starts with the oldest event."""

    def __init__(self, limit: int = 10_000) -> None:
        self.keep_rows = False
        self.watch: Callable[[Event], None] | None = None
        self.epoch = 0
        # Plain tuples, because most events are dropped before anybody asks for one.
        self._events: deque[tuple[Any, ...]] = deque(maxlen=limit)
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
        """Add an event. ``payload`` is called only if ``keep_rows`` is true."""
        kept = payload() if payload is not None and self.keep_rows else None
        event = self._count, name, self.epoch, source, target, rows, note, kept
        self._events.append(event)
        self._count += 1
        if self.watch is not None:
            self.watch(Event._make(event))

    def clear(self) -> None:
        """Remove all events. The numbering continues with the next event."""
        self._events.clear()

    def named(self, name: str) -> list[Event]:
        """Return the events with this name."""
        return [e for e in self if e.name == name]

    def rows_by_edge(self, *names: str) -> Counter[tuple[str, str]]:
        """Return, for each edge (source, target), the total number of rows in the events with these names.

        By default, messages, responses and upqueries are counted.
        """
        wanted = names or ("message", "response", "upquery")
        total: Counter[tuple[str, str]] = Counter()
        for event in self:
            if event.name in wanted:
                total[event.edge] += event.rows
        return total

    def frame(self) -> pd.DataFrame:
        """Return the events as a data frame with columns number, name, epoch, source, target, rows and note."""
        columns = ["number", "name", "epoch", "source", "target", "rows", "note"]
        return pd.DataFrame([[getattr(e, c) for c in columns] for e in self], columns=columns)

    def __iter__(self) -> Iterator[Event]:
        return map(Event._make, tuple(self._events))

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return f"Trace({len(self)} of {self._count} events kept)"
