"""Deliver the messages of a shop one at a time, each when the shop has nothing more to do.

In this way a run is a list of messages, and the same every time, although processes and their threads run at the same
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from .connection import Event
from .proxies import Proxies
from .quiet import Quiet

Fate = Callable[[int], None]
"""Decides about a message, given its number."""


class Schedule:
    """Holds the messages of a shop. ``held``: those that are not delivered yet, by their numbers.

    ``events``: all that has happened since `begin`.
    """

    def __init__(self, proxies: Proxies, pids: Callable[[], Iterable[int]]) -> None:
        """``pids`` lists the processes of the shop."""
        self._proxies, self.quiet = proxies, Quiet(pids, self._arrived)
        self.held: dict[int, Event] = {}
        self.events: list[Event] = []
        self._turns: dict[int, int] = {}
        self._turn = 0

    def begin(self) -> None:
        """Begin to hold messages, when what went before has no more effect."""
        self.quiet.fresh()
        self.quiet.wait()
        self._proxies.hold()
        self._proxies.events(0.0)
        self.held.clear()
        self.events.clear()
        self._turns.clear()

    def _arrived(self, seconds: float) -> bool:
        """Wait for events. Returns whether messages or connections are among them."""
        events = self._proxies.events(seconds)
        self.events += events
        for event in events:
            if event.what == "arrived":
                self.held[event.message] = event
                self._turns[event.message] = self._turn
            elif event.message:
                self.held.pop(event.message, None)
        return bool(events)

    def _age(self, message: Event) -> tuple[int, str, str, int]:
        return self._turns[message.message], message.sender, message.receiver, message.message

    def run(self, over: Callable[[], bool], seconds: float, fates: Mapping[int, Fate] | None = None) -> list[Event]:
        """Deliver the oldest message again and again, until ``over`` and none is held. Returns them in this order.

        Messages that have arrived since the last delivery are equally old. They are delivered in the order of their
        senders' and receivers' names.

        ``fates``: what to do with the nth message instead, counted from 1, such as `Proxies.lose`. Raises TimeoutError
        if the run takes longer than ``seconds``.
        """
        messages: list[Event] = []
        until = time.monotonic() + seconds
        self._proxies.hold()
        while True:
            self.quiet.wait()
            self._proxies.look()  # on a busy machine, the proxy may not have had its turn yet
            if self._arrived(0.0):
                continue
            if time.monotonic() > until:
                raise TimeoutError(f"the run is not over after {seconds:.0f} s and {len(messages)} messages")
            if self.held:
                message = min(self.held.values(), key=self._age)
                messages.append(message)
                self._turn += 1
                (fates or {}).get(len(messages), self._proxies.release)(message.message)
            elif over():
                return messages


__all__ = ["Schedule"]
