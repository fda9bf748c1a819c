"""How long a process may take: CPU seconds, seconds without using the CPU, and seconds altogether."""

from __future__ import annotations

import time
from collections.abc import Callable

from .protocol import LateError

IDLE = 5.0
"""Seconds without an answer after which a process that does not use the CPU is stopped."""
WALL = 10
"""A check may take this many times its CPU seconds, because other programs use the CPU, too."""
_LOOK = 0.2
"""The CPU time is read at most this often, in seconds."""


class Allowance:
    """What is left of the time of a check. Only the time between a question and its answer counts."""

    def __init__(self, cpu: Callable[[], float]) -> None:
        """``cpu``: returns the CPU seconds of the process so far."""
        self._cpu = cpu
        self._from, self._most, self._idle, self._waited = 0.0, float("inf"), IDLE, 0.0
        self._asked = self._looked = self._moved = self._used = 0.0

    def limit(self, seconds: float, idle: float = IDLE) -> None:
        """From now on, allow this many CPU seconds, and ``idle`` seconds without using the CPU in one question."""
        self._from, self._most, self._idle, self._waited = self._cpu(), seconds, idle, 0.0

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
        self._looked, used = now, self._cpu()
        if used - self._from > self._most:
            raise LateError(f"more than {self._most:g} s of CPU time")
        if self._waited + now - self._asked > WALL * self._most:
            raise LateError(f"more than {WALL * self._most:g} s", waited=True)
        if used > self._used:
            self._used, self._moved = used, now
        elif now - self._moved > self._idle:
            raise LateError(f"no answer, and no use of the CPU, for {self._idle:g} s", waited=True)
        return True
