"""Deliver the messages of a shop one at a time, each when the shop has nothing more to do.

In this way a run is a list of messages, and the same every time, although processes and their threads run at the same
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from .connection import Event
from .proxies import Proxies
from .quiet import Quiet


class Schedule:
    """Holds the messages of a shop. ``held``: those that can be decided about, in the order of their arrival."""

    def __init__(self, proxies: Proxies, pids: Callable[[], Iterable[int]]) -> None:
        """``pids`` lists the processes of the shop."""
        self._proxies, self.quiet = proxies, Quiet(pids, self._arrived)
        self.held: dict[int, Event] = {}

    def _arrived(self, seconds: float) -> bool:
        """Wait for events. Returns whether messages or connections are among them."""
        events = self._proxies.events(seconds)
        for event in events:
            if event.what == "arrived":
                self.held[event.message] = event
            elif event.message:
                self.held.pop(event.message, None)
        return bool(events)

    def run(self, over: Callable[[], bool], seconds: float) -> list[Event]:
        """Deliver the oldest message again and again, until ``over`` and none is held. Returns them in this order.

        Raises TimeoutError if this takes longer than ``seconds``.
        """
        delivered: list[Event] = []
        until = time.monotonic() + seconds
        self._proxies.hold()
        while True:
            self.quiet.wait()
            if self.held:
                message = self.held[min(self.held)]
                self._proxies.release(message.message)
                delivered.append(message)
            elif over():
                return delivered
            elif time.monotonic() > until:
                raise TimeoutError(f"after {seconds:.0f} s, {len(delivered)} messages are delivered and none is held")


__all__ = ["Schedule"]
