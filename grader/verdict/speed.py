"""Computes the result of the speed phase: the figures of each step, and the highest sustained rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..record import Record
from ..record.notes import Speed
from ..terms import GOODPUT, SLOWEST_MS, done
from .figures import latencies


def steps(record: Record) -> list[dict[str, Any]]:
    """Return the figures of each step.

    They include the offered rate, the share of checkouts done, the latencies, and whether the rate was sustained.
    """
    history, rows = record.history, []
    for step in record.notes(Speed).steps:
        chosen = history["wave"] == step.wave
        status, waiting = history["status"][chosen], latencies(record, chosen)
        p50, p99 = np.percentile(waiting, [50, 99]) if len(waiting) else (0.0, 0.0)
        share = float(done(status).mean())
        seconds = float(np.ptp(history["due"][chosen])) / 1e9 or 1.0
        rows.append(
            {
                "offered_per_s": step.rate,
                "offered": int(len(status)),
                "done_per_s": round(min(step.rate, len(waiting) / seconds), 1),
                "share": round(share, 4),
                "p50_ms": round(float(p50), 2),
                "p99_ms": round(float(p99), 2),
                "cores": step.cores,
                "generator_cores": round(record.waves[step.wave].cpu / seconds, 3),
                "held": bool(share >= GOODPUT and p99 <= SLOWEST_MS and len(waiting)),
            }
        )
    return rows


def best(record: Record, clean: bool) -> dict[str, Any] | None:
    """Return the figures of the highest sustained rate, or None if no rate was sustained or ``clean`` is false.

    ``clean`` is whether the phase has no violations. In the result, ``at_least`` is true if the phase ended before it
    found a rate that the system could not sustain.
    """
    held = [step for step in steps(record) if step["held"]]
    if not held or not clean:
        return None
    top = max(held, key=lambda step: int(step["offered_per_s"]))
    return {
        "sustained_per_s": top["offered_per_s"],
        "p50_ms": top["p50_ms"],
        "p99_ms": top["p99_ms"],
        "cores": top["cores"],
        "at_least": not record.notes(Speed).limit_found,
    }
