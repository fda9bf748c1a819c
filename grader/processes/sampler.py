"""Samples the CPU time of the generator, of the services, and of all programs that do not belong to the run.

The times are read from /proc once per second. Steal time is part of the foreign time, because another virtual machine
used it. The time of interrupts is not, because the kernel does not say who caused them: it may be the run itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ..proc import cpu
from ..record import Record

EVERY = 1.0
"""Seconds between two samples."""


def busy() -> float:
    """Return the CPU seconds that all programs have used since the machine started, including steal time."""
    user, nice, system, _, _, _, _, steal = (int(n) for n in Path("/proc/stat").read_text().split(None, 9)[1:9])
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


class Sampler:
    """Adds one row per second to the record's samples. Call ``tick`` more than once per second."""

    def __init__(self, record: Record, generator: int, services: Callable[[], float], now: Callable[[], int]) -> None:
        """``generator``: the pid of the generator. ``services``: a function that returns the services' CPU seconds.

        ``now``: a function that returns the nanoseconds since the run began.
        """
        self._record, self._generator, self._services, self._now = record, generator, services, now
        self._last, self._due = self._read(), time.monotonic() + EVERY

    def _read(self) -> tuple[float, float, float]:
        generator, services = cpu(self._generator, children=False), self._services()
        return generator, services, busy() - generator - services - cpu(os.getpid(), children=False)

    def tick(self) -> None:
        """Add a row if a second has passed since the last one."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        read = self._read()
        names = ("generator", "services", "foreign")
        # The times are read one after the other, so a difference may be slightly negative.
        row = {n: max(0.0, round(b - a, 3)) for n, a, b in zip(names, self._last, read, strict=True)}
        self._last = read
        self._record.samples.append(at=self._now(), **row)
