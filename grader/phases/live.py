"""What every phase needs: record, counter, processes, limits, and its share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..processes import Elsewhere, Supervisor
from ..record import Record
from ..shop import Counter
from ..terms import RUNS, Limits


@dataclass
class Live:
    """One run, for the phases."""

    record: Record
    counter: Counter
    limits: Limits
    seed: int
    rate: int
    """The rate of the command line; 0: measure it."""
    seconds: dict[str, float]
    """Seconds of each phase."""
    say: Callable[[str], None]
    supervisor: Supervisor | Elsewhere | None = None
    """None: a system at --url without kill commands."""
    at_the_end: list[Callable[[], None]] = field(default_factory=list)
    """Functions to call when all phases are over."""

    def number(self, phase: str, count: int) -> NDArray[np.int64]:
        """The numbers of a phase's next orders, which their labels contain."""
        table = self.record.orders
        first = int((table["phase"] == RUNS.index(phase)).sum())
        return np.arange(first, first + count, dtype=np.int64)

    def notes(self, phase: str) -> dict[str, Any]:
        """The notes about a phase, for the judging half."""
        return self.record.phases.setdefault(phase, {})

    def clock(self) -> float:
        """A monotonic clock in seconds."""
        return time.monotonic()
