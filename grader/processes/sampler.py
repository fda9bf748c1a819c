"""Who took the CPU, second by second: the generator, the services, and everything that is neither they nor the grader.

Linux: from /proc. Steal counts as foreign: another machine's work took it.
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
    """CPU seconds that the whole machine has been busy, steal included, since it started."""
    user, nice, system, _, _, irq, softirq, steal = (int(n) for n in Path("/proc/stat").read_text().split(None, 9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """CPU seconds of one process, 0 when it has ended."""
    try:
        text = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return 0.0
    return sum(int(n) for n in text.rpartition(") ")[2].split()[11:13]) / os.sysconf("SC_CLK_TCK")


class Sampler:
    """Writes a row of the record's samples a second; call ``tick`` as often as you like."""

    def __init__(self, record: Record, generator: int, services: Callable[[], float], now: Callable[[], int]) -> None:
        """``generator``: its pid. ``services``: their CPU seconds so far. ``now``: nanoseconds of the run."""
        self._record, self._generator, self._services, self._now = record, generator, services, now
        self._last, self._due = self._read(), time.monotonic() + EVERY

    def _read(self) -> tuple[float, float, float]:
        generator, services = used(self._generator), self._services()
        return generator, services, busy() - generator - services - used(os.getpid())

    def tick(self) -> None:
        """A row, if a second has passed."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        read = self._read()
        names = ("generator", "services", "foreign")
        # A service that was killed takes its seconds with it.
        row = {n: max(0.0, round(b - a, 3)) for n, a, b in zip(names, self._last, read, strict=True)}
        self._last = read
        self._record.samples.append(at=self._now(), **row)
