"""The shopping view under full, shared and partial state, beside Pathway and beside DuckDB recomputing.

Rows:
    rate-100, rate-1000, rate-10000   updates a second, by rows an epoch, as the shop fills
    growth                            does an epoch cost more as the state grows?
    bytes                             the bill of state, and what the processes hold
    heap                              the bytes that the bill names, beside the heap of a fresh process
    few                               a hundred large groups instead of a thousand
    moves                             products that change their category too

With --rust, DBSP and differential dataflow take the visits too; they are built once, into the caches folder.

bench/README.md says how each side is fed and timed, and what the ratios are of.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measure  # noqa: E402
from bench.pathway import env  # noqa: E402
from bench.rust import build  # noqa: E402
from bench.shopping import heap  # noqa: E402
from bench.shopping import rows as made  # noqa: E402
from bench.shopping.sides import DUCKDB, OURS, PATHWAY, RUST, Course, Gathered, gather  # noqa: E402
from bench.shopping.stream import Shop, Window  # noqa: E402
from bench.shopping.told import Told  # noqa: E402
from sharedstate_lite.errors import Error  # noqa: E402
from sharedstate_lite.system.cache import cache_dir  # noqa: E402

RATES = {"rate-100": 100, "rate-1000": 1_000, "rate-10000": 10_000}
ROWS = [*RATES, "growth", "bytes", "heap", "few", "moves"]
HEAP_VISITS = 500_000
PACKAGES = ["numpy", "pandas", "pyarrow", "duckdb"]

EVERY = (*OURS, DUCKDB, PATHWAY)
WITHOUT_PATHWAY = (*OURS, DUCKDB)
"""For a course that changes two relations in one epoch: Pathway's connectors commit each by itself."""

LEVELS = (50_000, 500_000, 5_000_000)
WINDOWS = {100: Window(20, 500, 250), 1_000: Window(5, 100, 50), 10_000: Window(2, 20, 10)}
QUICK_LEVELS = (50_000, 500_000)
QUICK_WINDOWS = {100: Window(10, 150, 60), 1_000: Window(3, 30, 15), 10_000: Window(1, 8, 4)}
FILL = 10_000
"""Rows of the epochs that fill the shop, so that the way to 5 million is run in epochs of this size, not computed."""
ROUNDS = 3
WITHIN = 165.0
"""--quick begins no round that would end later than this many seconds after the first began."""


def courses(only: Sequence[str], quick: bool, more: Sequence[str] = ()) -> list[Course]:
    """What has to be run for the rows that are wanted; ``more`` are the sides in Rust that can run."""
    wanted = set(only or ROWS)
    every, levels = (QUICK_WINDOWS, QUICK_LEVELS) if quick else (WINDOWS, LEVELS)
    alone = {size: window._replace(pipelined=0) for size, window in every.items()}
    found = []
    windows = every if "growth" in wanted else {size: every[size] for row, size in RATES.items() if row in wanted}
    if windows or "bytes" in wanted:
        found.append(Course("visits", Shop(), levels, windows, (*EVERY, *more), FILL))
    if "few" in wanted:
        level, sizes = (200_000, [10_000]) if quick else (500_000, [100, 10_000])
        found.append(Course("few", Shop(categories=100), [level], {size: alone[size] for size in sizes}, EVERY))
    if "moves" in wanted:
        level = 50_000 if quick else 500_000
        found.append(Course("moves", Shop(moves=0.01), [level], {1_000: alone[1_000]}, WITHOUT_PATHWAY))
    return found


def rows(told: dict[str, Told], only: Sequence[str]) -> list[measure.Row]:
    """The rows that are wanted, from what the courses told."""
    wanted = set(only or ROWS)
    found = []
    if "visits" in told:
        for row in RATES:
            if row in wanted:
                found += made.rates(told["visits"], [RATES[row]])
        if "growth" in wanted:
            found += made.growth(told["visits"])
        if "bytes" in wanted:
            found += made.sizes(told["visits"])
    for course, also in (("few", ", a hundred categories"), ("moves", ", products change category")):
        if course in told:
            found += made.rates(told[course], list(RATES.values()), also)
    return found


def engines_in_rust() -> str | None:
    """Why there are no engines in Rust; None where there are. Builds them where they are missing."""
    try:
        if build.missing():
            build.build(lambda words: print(words, file=sys.stderr, flush=True))
    except Error as error:
        return str(error)
    return build.missing()


def peer(quick: bool) -> str | None:
    """Why there is no Pathway; None where there is. Makes its environment where it is missing, unless in a hurry."""
    try:
        why = env.missing()
        if why and not quick:
            env.make(lambda words: print(words, file=sys.stderr, flush=True))
            why = env.missing()
    except Error as error:
        why = str(error)
    return why


def measured(only: Sequence[str], quick: bool, rust: bool = False) -> Gathered:
    """Run every side that the rows need; what cannot run is told on standard error and left out."""
    no_rust = engines_in_rust() if rust else None
    wanted = courses(only, quick, RUST if rust and not no_rust else ())
    why = peer(quick) if wanted else None
    if why:
        print(f"Pathway is absent: {why}", file=sys.stderr, flush=True)
    gathered = gather(
        wanted,
        ROUNDS,
        python=None if why else env.python(),
        within=WITHIN if quick else None,
        log=cache_dir("logs", "bench"),
    )
    for side, reason in gathered.absent.items():
        print(f"{side} failed: {reason}", file=sys.stderr, flush=True)
    if why:
        gathered.absent[PATHWAY] = why
    if no_rust:
        print(f"the engines in Rust are absent: {no_rust}", file=sys.stderr, flush=True)
        gathered.absent |= dict.fromkeys(RUST, no_rust)
    return gathered


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write. Returns the exit status: 1 where answers differ or a side of this kit failed."""
    chosen = measure.options(__doc__ or "", ROWS, arguments, {"--rust": "also run DBSP and differential dataflow"})
    gathered = measured(chosen.only, chosen.quick, chosen.rust)
    told = {course: Told(gathered, course) for course in gathered.streams}
    for course, one in told.items():
        for side, words in one.wrong.items():
            print(f"{course}, {side}: {words}", file=sys.stderr, flush=True)
    found = rows(told, chosen.only)
    if "heap" in (chosen.only or ROWS):
        progress = measure.Progress([("heap", 1.0)])
        progress.at(0, 0)
        found += made.heaps(
            heap.gathered(HEAP_VISITS, cache_dir("logs", "bench"), lambda done: progress.at(0, done)), HEAP_VISITS
        )
        progress.clear()
    if gathered.rounds:
        print(f"medians of {gathered.rounds} rounds; above 1, a ratio is in favour of the row")
    return measure.finish(found, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
