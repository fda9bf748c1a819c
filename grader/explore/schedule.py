"""Deliver the messages of a shop one at a time, each when the shop has nothing more to do.

In this way a run is a list of messages, and the same every time, although processes and their threads run at the same
time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from .connection import Event
from .proxies import Proxies
from .quiet import Quiet

Fate = Callable[[int], None]
"""Decides about a message, given its number."""
Decide = Callable[[int, Event], Fate | None]
"""Returns what to do with the nth message, counted from 1, instead of delivering it; None: deliver it."""
Pick = Callable[[int, list[Event]], Event]
"""Returns which message is the nth to be delivered, of those that are held, the usual one first."""


def usual(nth: int, held: list[Event]) -> Event:
    """Return the first one."""
    return held[0]


class Schedule:
    """Holds the messages of a shop. ``held``: those that are not delivered yet, by their numbers.

    ``events``: all that has happened since `begin`. ``struck``: called when processes were killed as a message arrived.
    """

    def __init__(self, proxies: Proxies, pids: Callable[[], Iterable[int]]) -> None:
        """``pids`` lists the processes of the shop."""
        self._proxies, self.quiet = proxies, Quiet(pids, self._arrived)
        self.struck: Callable[[Event], None] = lambda event: None
        self.glance: Callable[[], None] = lambda: None
        """Called at each look at what has happened."""
        self.held: dict[int, Event] = {}
        self.events: list[Event] = []
        self.choices: list[list[Event]] = []
        """For each delivery since `begin`: the messages that could have been delivered, the usual one first."""
        self._turns: dict[int, int] = {}
        self._turn = 0

    def begin(self) -> None:
        """Begin to hold messages, when what went before has no more effect."""
        self.quiet.fresh()
        self.quiet.wait()
        self._proxies.events(0.0)
        for each in (self.held, self.events, self.choices, self._turns):
            each.clear()
        self._proxies.hold()

    def gather(self) -> None:
        """Add what has happened until now to the events."""
        self._arrived(0.0)

    def _arrived(self, seconds: float) -> bool:
        """Wait for events. Returns whether messages or connections are among them."""
        events = self._proxies.events(seconds)
        self.events += events
        for event in events:
            if event.what == "arrived":
                self.held[event.message] = event
                self._turns[event.message] = self._turn
            elif event.message and event.what != "struck":
                self.held.pop(event.message, None)
        for event in (event for event in events if event.what == "struck"):
            self.struck(event)
        self.glance()
        return bool(events)

    def run(
        self,
        over: Callable[[], bool],
        seconds: float,
        decide: Decide = lambda nth, message: None,
        pick: Pick = usual,
        said: Callable[[Event], str] = lambda event: "",
        depth: bool = False,
        ours: Callable[[Event], bool] = lambda event: True,
    ) -> list[Event]:
        """Deliver the oldest message again and again, until ``over`` and none is held. Returns them in this order.

        Messages that have arrived since the last delivery are equally old. They are delivered in the order of their
        senders' and receivers' names, and of what ``said`` returns. ``depth``: those that have just arrived come before
        older ones, so that one request is completed before the next one begins. What is not ``ours`` is delivered at
        once, and not returned. Raises TimeoutError if the run takes longer than ``seconds``.
        """

        def age(event: Event) -> tuple[bool, int, str, str, str, int]:
            turn = self._turns[event.message]
            return depth and turn != self._turn, turn, event.sender, event.receiver, said(event), event.message

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
            if others := [event.message for event in self.held.values() if not ours(event)]:
                for number in others:
                    with contextlib.suppress(LookupError):
                        self._proxies.release(number)
            elif self.held:
                self.choices.append(sorted(self.held.values(), key=age))
                nth = len(self.choices)
                messages.append(message := pick(nth, self.choices[-1]))
                self._turn += 1
                with contextlib.suppress(LookupError):  # its connection has just closed
                    (decide(nth, message) or self._proxies.release)(message.message)
            elif over():
                return messages


__all__ = ["Schedule"]
