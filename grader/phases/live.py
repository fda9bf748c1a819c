"""The state that all phases of a run share: the record, the counter, the processes, the limits and the time budgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..processes import Elsewhere, Supervisor
from ..record import Notes, Record
from ..record.notes import empty_notes
from ..shop import Counter
from ..terms import Limits

N = TypeVar("N", bound=Notes)


@dataclass
class Live:
    """One run, as the phases see it."""

    record: Record
    counter: Counter
    limits: Limits
    seed: int
    rate: int
    """Checkouts per second from the command line; 0: measure the rate."""
    seconds: dict[str, float]
    """The time budget of each phase in seconds."""
    say: Callable[[str], None]
    supervisor: Supervisor | Elsewhere | None = None
    """None for a system at --url without kill commands."""
    at_the_end: list[Callable[[], None]] = field(default_factory=list)
    """Functions to call after the last phase."""

    def number(self, phase: str, count: int) -> NDArray[np.int64]:
        """Return the numbers of the next ``count`` orders of a phase. They are part of the orders' labels."""
        table = self.record.orders
        first = int((table["phase"] == phase).sum())
        return np.arange(first, first + count, dtype=np.int64)

    def notes(self, kind: type[N]) -> N:
        """Return the notes about the phase that ``kind`` is for. The judging half reads them."""
        notes = self.about(kind.phase)
        assert isinstance(notes, kind)
        return notes

    def about(self, phase: str) -> Notes:
        """Return the notes about any phase."""
        return self.record.phases.setdefault(phase, empty_notes(phase))

    def clock(self) -> float:
        """Return the time of a monotonic clock in seconds."""
        return time.monotonic()
