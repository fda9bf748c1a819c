"""Counts and latencies of a phase's checkouts. Latencies are measured from the time when a request was due."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..record import Record
from ..terms import SHED, SHED_AGAIN, Kind, Status


def figures(record: Record, phase: str) -> dict[str, Any]:
    """Return a dict with the number of a phase's checkouts for each result, and their latencies in ms.

    If one of the phase's waves has the same name as the phase, only that wave is counted. ``done_again`` is the number
    of shed checkouts that were done when they were sent again. It is present only if any were sent again.
    """
    waves = [n for n, wave in enumerate(record.waves) if wave["phase"] == phase]
    named = [n for n in waves if record.waves[n]["name"] == phase] or waves
    history = record.history
    mine = (history["kind"] == Kind.CHECKOUT) & np.isin(history["wave"], named)
    status = history["status"][mine]
    ok = (status >= 200) & (status < 300)
    waiting = (history["done"][mine] - history["due"][mine])[ok] / 1e6
    p50, p99 = np.percentile(waiting, [50, 99]) if len(waiting) else (0.0, 0.0)
    late = ((history["sent"][mine] - history["due"][mine]) / 1e6)[
        (history["sent"][mine] > 0) & (history["waited"][mine] == 0)
    ]
    found = {
        "offered": int(len(status)),
        "done": int(ok.sum()),
        "refused": int(((status >= 400) & (status < 500) & (status != 429)).sum()),
        "shed": int(np.isin(status, SHED).sum()),
        "failed": int((status >= 500).sum()),
        "timeouts": int((status == Status.TIMEOUT).sum()),
        "lost": int(np.isin(status, (Status.RESET, Status.GARBAGE)).sum()),
        "dropped": int(np.isin(status, (Status.DROPPED, Status.UNCONNECTED)).sum()),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "late_p99_ms": round(float(np.percentile(late, 99)), 3) if len(late) else 0.0,
    }
    again = [n for n in waves if record.waves[n]["name"] == SHED_AGAIN]
    if again:
        later = np.isin(history["wave"], again) & (history["status"] >= 200) & (history["status"] < 300)
        found["done_again"] = int(later.sum())
    return found
