"""How long a process may take: CPU seconds, seconds without using the CPU, and seconds altogether."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from .protocol import LateError

IDLE = 5.0
"""Seconds without an answer after which a process that does not use the CPU is stopped."""
WALL = 10
"""A check may take this many times its CPU seconds, because other programs use the CPU, too."""
MOST_CPU, MOST_IDLE = 60, 30
"""Of all checks together: CPU seconds, and seconds in which the process neither uses a core nor waits for one."""
_LOOK = 0.2
"""The CPU time is read at most this often, in seconds."""
_QUEUED = 0.5
"""If a process that is stopped has waited longer than this for a core, the machine may be the reason."""


def queued(pids: Iterable[int]) -> float | None:
    """Return the seconds that the threads of processes have waited for a core; None if the system does not tell."""
    try:
        threads = [thread for pid in pids for thread in Path("/proc", str(pid), "task").iterdir()]
        return sum(int((thread / "schedstat").read_text().split()[1]) for thread in threads) / 1e9
    except (OSError, ValueError, IndexError):
        return None


class Allowance:
    """What is left of the time of a check, and of all. Only the time between a question and its answer counts."""

    def __init__(self, cpu: Callable[[], float], queued: Callable[[], float | None], idled: float = 0.0) -> None:
        """``cpu``: returns the CPU seconds of the process so far.

        ``queued``: returns the seconds that it has waited for a core; None if the system does not tell.
        ``idled``: the seconds of an earlier process that count towards MOST_IDLE.
        """
        self._cpu, self._queued = cpu, queued
        self._most, self._idle = float("inf"), IDLE
        self._before = idled
        """The seconds of earlier checks that count towards MOST_IDLE."""
        self._from, self._queued_from, self._waited = 0.0, queued(), 0.0
        self._asked = self._looked = self._moved = self._used = 0.0
        self._queued_then: float | None = None
        """What ``queued`` returned when the process last used the CPU."""

    def limit(self, seconds: float, idle: float = IDLE) -> None:
        """From now on, allow this many CPU seconds, and ``idle`` seconds without using the CPU in one question."""
        self._before, used, queued = self.idled(), self._cpu(), self._queued()
        self._from, self._queued_from, self._waited = used, queued, 0.0
        self._most, self._idle = seconds, idle

    def asked(self) -> None:
        """Call this when a question is sent."""
        self._asked = self._moved = time.monotonic()
        self._used = -1.0

    def answered(self) -> None:
        """Call this when the answer has arrived."""
        self._waited += time.monotonic() - self._asked

    def look(self) -> bool:
        """Raise LateError if the time is up. Call this often while waiting for the answer.

        Returns whether it has read the time, which it does a few times a second.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return False
        self._looked, used, queued = now, self._cpu(), self._queued()
        waited, of_all = self._waited + now - self._asked, "for all checks together"
        if used > MOST_CPU:
            raise LateError(f"more than {MOST_CPU} s of CPU time {of_all}", waited=True, spent=True)
        if self._before + self._idled(waited, used, queued) > MOST_IDLE:
            unknown = _grown(self._queued_from, queued) is None
            raise LateError(f"more than {MOST_IDLE} s without using the CPU {of_all}", waited=unknown, spent=True)
        if used - self._from > self._most:
            raise LateError(f"more than {self._most:g} s of CPU time")
        if waited > WALL * self._most:
            raise LateError(f"more than {WALL * self._most:g} s", waited=_busy(self._queued_from, queued))
        if used > self._used:
            self._used, self._moved, self._queued_then = used, now, queued
        elif now - self._moved > self._idle:
            busy = _busy(self._queued_then, queued)
            raise LateError(f"no answer, and no use of the CPU, for {self._idle:g} s", waited=busy)
        return True

    def idled(self) -> float:
        """Return the seconds that count towards MOST_IDLE so far."""
        return self._before + self._idled(self._waited, self._cpu(), self._queued())

    def _idled(self, waited: float, used: float, queued: float | None) -> float:
        """Return the seconds of a check that count towards MOST_IDLE."""
        return max(0.0, waited - (used - self._from) - (_grown(self._queued_from, queued) or 0.0))


def _grown(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else max(0.0, now - before)  # a thread that has ended is not in now


def _busy(before: float | None, now: float | None) -> bool:
    """Return whether the machine may be the reason of a wait. If the system does not tell, it may."""
    grown = _grown(before, now)
    return grown is None or grown > _QUEUED
