"""What every phase has at hand: the counter, the processes, the record, its share of the time."""

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
    """One run, as a phase sees it."""

    record: Record
    counter: Counter
    limits: Limits
    seed: int
    rate: int
    """Asked for on the command line; 0: by the probe."""
    seconds: dict[str, float]
    """Each phase's share of the run."""
    say: Callable[[str], None]
    supervisor: Supervisor | Elsewhere | None = None
    """None: a system that runs elsewhere, and that nobody may kill."""
    at_the_end: list[Callable[[], None]] = field(default_factory=list)
    """What is asked once more when all phases are over."""

    def number(self, phase: str, count: int) -> NDArray[np.int64]:
        """So many numbers for a phase's next orders: what their labels are made of."""
        table = self.record.orders
        first = int((table["phase"] == RUNS.index(phase)).sum())
        return np.arange(first, first + count, dtype=np.int64)

    def notes(self, phase: str) -> dict[str, Any]:
        """What the live half writes down about a phase, for the judging half."""
        return self.record.phases.setdefault(phase, {})

    def clock(self) -> float:
        """Seconds, for measuring how long something took."""
        return time.monotonic()
