"""Solve the challenge in one thread of this process, without Spark: the baseline."""

from __future__ import annotations

from typing import Any

from .market import Market
from .run import Run


def by_thread(address: str, **options: Any) -> int:
    """Answer a whole benchmark; returns its number. Options are :class:`.run.Run`'s. Raises Error."""
    market = Market()
    with Run(address, **{"name": "one thread", **options}) as run:
        for _, rows, _ in run.batches():
            run.answer(market.step(rows))
        return run.wait()
