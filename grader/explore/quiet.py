"""Find out when the processes of a shop have nothing more to do until they get another message.

A shop is quiet if for some milliseconds none of its threads runs or waits for the disk, none has been given a CPU, and
no message has arrived. A thread that runs again and again although no message arrives, such as one that polls, says
nothing about this, and is ignored from then on. A thread that computes for a long time is not.

The counts are those of /proc/PID/task/TID/schedstat, where the kernel counts how often a thread was given a CPU.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable

QUIET, MOST = 0.012, 0.4
"""Seconds for which a shop must be quiet, and after which it is no longer waited for."""
GLANCE = 0.003
"""Seconds between two looks."""
ALONE, TIMES = 0.2, 5
"""A thread runs by itself if, within 0.2 s without a message, 5 looks find it waiting again."""
FRESH = 0.2
"""Seconds for which the list of processes is used again."""


def uncounted(place: str = "/proc/thread-self/schedstat") -> str:
    """Return "" if this kernel counts how often threads run, and otherwise a sentence that says what this means."""
    try:
        with open(place, "rb") as file:
            if file.read().split()[2:] not in ([], [b"0"]):
                return ""
    except OSError:
        pass  # the same as a count that stays 0
    return "This kernel has no schedstat, so a message can be delivered while a process still works on the last one."


class Quiet:
    """Waits until processes are quiet. ``waits``: how often they were not, and the wait was ended."""

    def __init__(self, pids: Callable[[], Iterable[int]], arrived: Callable[[float], bool]) -> None:
        """``pids`` lists the processes. ``arrived(seconds)`` waits up to ``seconds``; returns whether messages came."""
        self._pids, self._arrived = pids, arrived
        self._known: list[int] = []
        self._listed = -FRESH
        self._ignored: set[str] = set()
        self.waits = 0

    def fresh(self) -> None:
        """List the processes again at the next look, because one has started."""
        self._listed = -FRESH

    def wait(self, seconds: float = QUIET, most: float = MOST) -> bool:
        """Wait until it was quiet for ``seconds``; at most ``most`` seconds. Returns whether it was."""
        began = since = alone = time.monotonic()
        last, ran = self._look(), Counter[str]()
        while True:
            arrived = self._arrived(GLANCE)
            look, now = self._look(), time.monotonic()
            active = {thread for thread, count in look.items() if count < 0 or count != last.get(thread)}
            ran.update(thread for thread in active if look[thread] >= 0)
            if arrived:
                alone = now
                ran.clear()
            elif now - alone >= ALONE:
                self._ignored |= {thread for thread, times in ran.items() if times >= TIMES}
                alone = now
                ran.clear()
            if arrived or active - self._ignored:
                since = now
            elif now - since >= seconds:
                return True
            if now - began >= most:
                self.waits += 1
                return False
            last = look

    def _look(self) -> dict[str, int]:
        """Return how often each thread was given a CPU, but -1 for one that runs, wants to, or waits for the disk."""
        if (now := time.monotonic()) - self._listed >= FRESH:
            self._known, self._listed = list(self._pids()), now
        found: dict[str, int] = {}
        for pid in self._known:
            place = f"/proc/{pid}/task"
            try:
                for thread in os.listdir(place):
                    if thread not in self._ignored:
                        found[thread] = _count(f"{place}/{thread}")
            except OSError:
                continue  # the process has ended
        return found


def _count(place: str) -> int:
    """Return how often a thread was given a CPU, or -1. Raises OSError if it has ended."""
    with open(f"{place}/stat", "rb") as file:
        if file.read().rpartition(b") ")[2][:1] in b"RDt":  # t: traced, and on its way to a write
            return -1
    with open(f"{place}/schedstat", "rb") as file:
        return int(file.read().split()[2])
