"""CPU time for each second, of the generator, the services, and all programs other than those and the grader.

From /proc. Steal time counts as foreign, as another virtual machine used it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ..record import Record

EVERY = 1.0
"""Seconds."""


def busy() -> float:
    """Busy CPU seconds of the whole machine since it started, including steal."""
    user, nice, system, _, _, irq, softirq, steal = (int(n) for n in Path("/proc/stat").read_text().split(None, 9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """CPU seconds of a process; 0 if it has ended."""
    try:
        text = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return 0.0
    return sum(int(n) for n in text.rpartition(") ")[2].split()[11:13]) / os.sysconf("SC_CLK_TCK")


class Sampler:
    """Adds one row per second to the record's samples. Call ``tick`` more often than that."""

    def __init__(self, record: Record, generator: int, services: Callable[[], float], now: Callable[[], int]) -> None:
        """``generator``: its pid. ``services``: their CPU seconds so far. ``now``: nanoseconds of the run."""
        self._record, self._generator, self._services, self._now = record, generator, services, now
        self._last, self._due = self._read(), time.monotonic() + EVERY

    def _read(self) -> tuple[float, float, float]:
        generator, services = used(self._generator), self._services()
        return generator, services, busy() - generator - services - used(os.getpid())

    def tick(self) -> None:
        """Add a row, if a second has passed."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        read = self._read()
        names = ("generator", "services", "foreign")
        # The CPU seconds of a killed service are gone, so a difference may be negative.
        row = {n: max(0.0, round(b - a, 3)) for n, a, b in zip(names, self._last, read, strict=True)}
        self._last = read
        self._record.samples.append(at=self._now(), **row)
