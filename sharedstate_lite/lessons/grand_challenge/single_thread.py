"""Solves the challenge in one thread in this process, without Spark. This is the baseline."""

from __future__ import annotations

from typing import Any

from .market import Market
from .run import Run


def by_thread(address: str, **options: Any) -> int:
    """Solve a benchmark, and return its number.

    The options are those of :class:`.run.Run`. Raises Error if the run fails.
    """
    market = Market()
    with Run(address, **{"name": "one thread", **options}) as run:
        for _, rows, _ in run.batches():
            run.answer(market.step(rows))
        return run.wait()
