"""Decide whether what was recorded of a run could have happened between processes that no proxy separates.

A run that could not is void, whatever its values are: it says something about the explorer, and nothing about the
system. docs/assignment.md lists what can happen ("What can happen between your processes").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .cases import KILL
from .connection import Event
from .proxies import HOLD, LATE
from .steps import KILLED, STARTED, UP

EXITED, READ = "exited", "read"
"""A process has ended by itself; the values are read from now on."""
SLACK = 0.5
"""Seconds by which the proxy may be late."""
_DELIVERED = ("delivered", "overdue", "late")


class _Run:
    """What is known of a run up to an event. Connections and messages are known by their numbers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.down: dict[str, bool] = {}
        """The processes that were killed and are not up, and whether each was started again."""
        self.dying = False
        """Whether processes are being killed, and it is not known yet which of them have ended."""
        self.deaths = defaultdict[str, int](int)
        """How often each process was killed."""
        self.lives: dict[int, dict[str, int]] = {}
        """For each connection that was opened: how often its two processes had been killed by then."""
        self.closed, self.broken = set[int](), set[tuple[int, str]]()
        """Connections, and directions of them (by the sender) of which a message was lost."""
        self.waiting = defaultdict[tuple[int, str], list[Event]](list)
        """The messages of each direction that have arrived, and were neither delivered nor lost."""
        self.kept: dict[int, Event] = {}
        self.numbers: set[int] = set()
        self.read = False

    def of_process(self, event: Event) -> str:
        """Return why an event of a process is not possible."""
        name = event.sender
        if event.what == EXITED:  # while others start, it may exit because it cannot reach them
            return "" if self.down or self.dying else f"{name} has exited, and the explorer did not cause it"
        if event.what == KILLED:
            if name in self.down:
                return f"{name} is killed, and was not running"
            self.down[name] = False
            self.deaths[name] += 1
        elif event.what == STARTED:
            if self.down.get(name) is not False:
                return f"{name} is started, and was not killed"
            self.down[name], self.dying = True, False
        elif event.what == UP:
            if not self.down.pop(name, False):
                return f"{name} is up, and was not started"
        else:
            self.read = True
            if self.down:
                return f"the values are read while {', '.join(sorted(self.down))} is down"
            if self.kept or any(self.waiting.values()):
                return "the values are read while a message is held"
        return ""

    def of_connection(self, event: Event) -> str:
        """Return why an event of a connection is not possible."""
        caller, callee, number = event.sender, event.receiver, event.connection
        if number in self.closed:
            return f"connection {number} is {event.what}, and was closed before"
        if event.what == "refused":
            return "" if self.dying or callee in self.down else f"{callee} refuses a connection, and is not down"
        if event.what == "opened":
            if number in self.lives:
                return f"connection {number} is opened twice"
            if self.down.get(callee) is False:
                return f"{callee} accepts a connection, and was killed before"
            self.lives[number] = {name: self.deaths[name] for name in (caller, callee)}
        elif event.what == "closed":
            self.closed.add(number)
        return ""

    def of_message(self, event: Event) -> str:
        """Return why an event of a message is not possible."""
        way, waiting = (event.connection, event.sender), self.waiting[event.connection, event.sender]
        said = f"message {event.message} of {event.sender}"
        if event.connection in self.closed:
            return f"{said} is {event.what} on a connection that was closed before"
        if event.what in ("arrived", "passed"):
            if event.message in self.numbers:
                return f"{said} has arrived twice"
            self.numbers.add(event.message)
            if self.deaths[event.sender] > self.lives.get(event.connection, {}).get(event.sender, 0):
                return f"{said} has arrived, and its connection belongs to a process that was killed before"
            if event.what == "arrived":
                waiting.append(event)
                return ""
        if way in self.broken and event.what not in ("dropped", "late"):
            return f"{said} is {event.what}, and an earlier one of its connection was lost"
        if event.what == "passed":
            return f"{said} has overtaken another one" if waiting else ""
        if event.what in _DELIVERED:
            return self._delivered(event, waiting, said)
        if event.what == "kept":
            if not _taken(waiting, event):
                return f"{said} is kept, and has not arrived"
            self.kept[event.message] = event
            self.broken.add(way)
        elif event.what == "dropped":
            if not _taken(waiting, event) and self.kept.pop(event.message, None) is None:
                return f"{said} is lost, and has not arrived"
            self.broken.add(way)
        return ""

    def _delivered(self, event: Event, waiting: list[Event], said: str) -> str:
        late = event.what == "late"
        source = self.kept.pop(event.message, None) if late else waiting.pop(0) if waiting else None
        if source is None:
            return f"{said} is delivered, and has not arrived"
        if source.message != event.message:
            return f"{said} has overtaken message {source.message}"
        if (source.kind, source.first, source.size, source.crc) != (event.kind, event.first, event.size, event.crc):
            return f"{said} was changed"
        most = LATE if late else HOLD
        if event.at - source.at > most + SLACK:
            return f"{said} is delivered {event.at - source.at:.1f} s after it has arrived; at most {most:.0f} s can be"
        return ""


def _taken(waiting: list[Event], event: Event) -> bool:
    """Remove a message from those that wait. Returns whether it was there."""
    found = next((each for each in waiting if each.message == event.message), None)
    if found is not None:
        waiting.remove(found)
    return found is not None


def illegal(events: Iterable[Event]) -> str:
    """Return why a run could not have happened, or "" if it could. This is a pure function.

    ``events``: all that was recorded until the values were read, and the processes that have exited.

    >>> illegal([Event("delivered", "order", "stock", connection=1, message=2)])
    'message 2 of order is delivered, and has not arrived'
    """
    run = _Run()
    for event in events:
        if event.at < run.now:
            return f"{event.what} of {event.sender} is earlier than what was recorded before"
        run.now = event.at
        if run.read and event.what != EXITED:
            return f"{event.what} of {event.sender} is recorded after the values were read"
        if event.what in (KILLED, STARTED, UP, EXITED, READ):
            why = run.of_process(event)
        elif event.what in ("opened", "refused", "closed"):
            why = run.of_connection(event)
        elif event.what in ("struck", KILL):
            run.dying, why = True, ""
        else:
            why = run.of_message(event) if event.message else ""
        if why:
            return why
    return "" if run.read else "the values were not read"


__all__ = ["illegal"]
