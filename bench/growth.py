"""How cost grows: the time of an epoch and the bytes of a visit, while a shop fills to 50 million visits.

    python bench/growth.py [--quick] [--only full] [--json FILE]

The view and the visits of `views.py`, under full and under shared state, each in a fresh process. At 0.5, 5 and 50
million visits (with --quick, a hundredth of these), epochs are timed one by one. A size for which the machine has too
little memory is left out, and told. `python bench/all.py --only growth` keeps the record.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402
import psutil  # noqa: E402

from bench import measure  # noqa: E402
from bench.shopping.record import Mark, Record  # noqa: E402
from bench.shopping.rows import LOGARITHM, logarithm, timed  # noqa: E402
from bench.shopping.sides import Course, gather  # noqa: E402
from bench.shopping.stream import Shop, Window  # noqa: E402
from bench.shopping.told import Told  # noqa: E402
from sharedstate_lite.system.cache import cache_dir  # noqa: E402

ROWS = ["full", "shared"]
LEVELS = (500_000, 5_000_000, 50_000_000)
QUICK_LEVELS = tuple(level // 100 for level in LEVELS)
EPOCH, FILL = 1_000, 10_000
"""Visits of an epoch that is timed, and of one that fills the shop."""
WINDOW = Window(warm=20, timed=200, pipelined=0)
ROOM = 300
"""Bytes of memory for each visit: the state, a merge of all of it, and the stream."""
PACKAGES = ["numpy", "numba", "pyarrow"]
Step = dict[str, float | None]


def fitting(levels: Sequence[int], available: int) -> list[int]:
    """The levels for which there is memory; always the smallest one."""
    return [level for level in levels if level == min(levels) or level * ROOM <= available]


def step(told: Told, side: str, level: int, epochs: slice) -> Step:
    """One size of the shop: the milliseconds of an epoch, and the bytes of a visit in the bill and in the process."""

    def held(record: Record) -> Mark:
        return next(mark for mark in record.marks if mark.level == level)

    def stored(record: Record) -> float | None:
        bill = held(record).bill
        return None if bill is None else bill["stored in all"] / level

    def resident(record: Record) -> float | None:
        grown = held(record).resident
        return None if grown is None else grown / level

    return {
        "visits": level,
        "median ms": told.over(side, lambda record: float(np.median(record.seconds[epochs])) * 1e3),
        "bytes a visit": told.over(side, stored),
        "bytes of the process a visit": told.over(side, resident),
    }


def rows(told: Told) -> list[measure.Row]:
    """For each strategy, how much longer an epoch takes at the largest size than at the smallest, with all sizes."""
    found = []
    for side in told.ours:
        ladder = [step(told, side, level, window.epochs) for level, window in timed(told)]
        least, most = ladder[0], ladder[-1]
        value = None
        if most["median ms"] is not None and least["median ms"] is not None:
            value = most["median ms"] / least["median ms"]
        allowed = {LOGARITHM: logarithm(int(least["visits"] or 0), int(most["visits"] or 0), EPOCH)}
        what = told.what(side, f"growth of the median {EPOCH:,}-row epoch")
        row = measure.compared(what, value, "times", allowed, against=LOGARITHM, less=True, equal=told.equal(side))
        found.append(replace(row, ladder=ladder))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 where answers differ or a strategy failed."""
    chosen = measure.options(__doc__ or "", ROWS, arguments)
    wanted = QUICK_LEVELS if chosen.quick else LEVELS
    levels = fitting(wanted, psutil.virtual_memory().available)
    for level in (level for level in wanted if level not in levels):
        print(f"left out, too little memory: {level:,} visits", file=sys.stderr, flush=True)
    course = Course("growth", Shop(), levels, {EPOCH: WINDOW}, chosen.only or ROWS, FILL)
    gathered = gather([course], 1, python=None, log=cache_dir("logs", "bench"))
    told = Told(gathered, "growth")
    for side, why in {**told.wrong, **gathered.absent}.items():
        print(f"{side}: {why}", file=sys.stderr, flush=True)
    return measure.finish(rows(told), chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
