"""The DEBS Grand Challenge 2022 on this machine: batches a second and latency, by hand-off and by batches ahead.

Rows:
    1, 16, 64    how many batches are handed out and not answered, at most; each has every way

Ways: one thread without Spark; a streaming query behind files; the same query asking the
driver; tasks that ask the driver and keep running. 500 batches of 1,000 trades over 5,504
symbols (with --quick 20), drawn by Zipf's law, over 37 hours of event time; a few trades are late, a
few events have no price. Every answer is held to the single pass. The challenger's own clock
counts: a batch's latency runs from its leaving to its last answer's coming.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # a script finds its own folder first, and is to find the checkout, installed or not
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import sharedstate_lite as ss  # noqa: E402
from bench import measure  # noqa: E402
from sharedstate_lite.data import ticks  # noqa: E402
from sharedstate_lite.lessons.grand_challenge import batches, compare  # noqa: E402

PACKAGES = ["pyspark", "grpcio", "protobuf", "numpy", "pyarrow"]
AHEAD = ("1", "16", "64")
FULL, QUICK = 500, 20
SIZE = 1_000
HOURS = 37
"""Of event time: long enough for averages to cross."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; returns the exit status."""
    about = (__doc__ or "").splitlines()[0]
    chosen = measure.options(about, AHEAD, arguments)
    bounds = [int(name) for name in AHEAD if not chosen.only or name in chosen.only]
    count = (QUICK if chosen.quick else FULL) * SIZE
    made = list(batches(ticks.table(count, per_second=count / (3_600 * HOURS), jitter=400.0), SIZE, unpriced=0.02))
    bar = measure.Progress([(f"{way}, {bound} ahead", 1.0) for bound in bounds for way in compare.WAYS])
    runs = []
    try:
        session = ss.spark.session()
        told = compare.records(
            made, session, ahead=bounds, progress=lambda _, share: bar.at(round(share * len(bar.tasks)), 0.0)
        )
        for way, bound, record, equal in told:
            runs.append((way, bound, record.line(), equal))
    finally:
        bar.clear()
        ss.spark.stop()
    rows = []
    for bound in bounds:
        here = {way: (line, equal) for way, ahead, line, equal in runs if ahead == bound}
        equal = all(right for _, right in here.values())
        for unit, less in (("batches/s", False), ("p50 ms", True), ("p95 ms", True)):
            peers = {way: line[unit] for way, (line, _) in here.items() if way != "mailbox"}
            value, what = here["mailbox"][0][unit], f"mailbox, {bound} ahead"
            rows.append(measure.compared(what, value, unit, peers, against="files", less=less, equal=equal))
    return measure.finish(rows, chosen.json, PACKAGES)


if __name__ == "__main__":
    measure.command(main)
