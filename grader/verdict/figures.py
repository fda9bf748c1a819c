"""Counts and latencies of a phase's checkouts. Latencies are measured from the time when a request was due."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..record import Record
from ..terms import SHED, Kind, Status, done, refused


def figures(record: Record, phase: str) -> dict[str, Any]:
    """Return a dict with the number of a phase's checkouts for each result, and their latencies in ms.

    Only the waves that count are counted. ``done_again`` is the number of shed checkouts that were done when they were
    sent again. It is present only if any were sent again.
    """
    waves = [(number, wave) for number, wave in enumerate(record.waves) if wave.phase == phase]
    history = record.history
    counted = np.isin(history["wave"], [number for number, wave in waves if wave.counts])
    counted &= history["kind"] == Kind.CHECKOUT
    status = history["status"][counted]
    waiting, late = latencies(record, counted), lateness(record, counted)
    p50, p99 = np.percentile(waiting, [50, 99]) if len(waiting) else (0.0, 0.0)
    numbers = {
        "offered": int(len(status)),
        "done": int(done(status).sum()),
        "refused": int(refused(status).sum()),
        "shed": int(np.isin(status, SHED).sum()),
        "failed": int((status >= 500).sum()),
        "timeouts": int((status == Status.TIMEOUT).sum()),
        "lost": int(np.isin(status, (Status.RESET, Status.GARBAGE)).sum()),
        "dropped": int(np.isin(status, (Status.DROPPED, Status.UNCONNECTED)).sum()),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "late_p99_ms": round(float(np.percentile(late, 99)), 3) if len(late) else 0.0,
    }
    if again := [number for number, wave in waves if wave.again]:
        numbers["done_again"] = int(done(history["status"][np.isin(history["wave"], again)]).sum())
    return numbers


def latencies(record: Record, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the latencies of the chosen requests that were answered 2xx, in ms."""
    history = record.history
    chosen = chosen & done(history["status"])
    return np.asarray((history["done"] - history["due"])[chosen] / 1e6)


def lateness(record: Record, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return how late the generator sent the chosen requests for which a connection was free, in ms."""
    history = record.history
    chosen = chosen & (history["sent"] > 0) & (history["waited"] == 0)
    return np.asarray((history["sent"] - history["due"])[chosen] / 1e6)
