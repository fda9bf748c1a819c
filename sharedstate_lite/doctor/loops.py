"""Compiles the loops of `sharedstate_lite.loops` once, with progress: ``python -m sharedstate_lite.doctor.loops``.

The doctor runs this command as one of its checks, so a lesson starts with compiled loops. It prints what compiled loops
cost a process that uses them. With ``--spark``, it also prints what they cost a Python worker of Spark.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
import psutil

from sharedstate_lite.loops import compiled


class Cost(NamedTuple):
    """What it cost a process to compile the loops, or to load them from the cache."""

    loops: int
    seconds: float
    mib: float

    def __str__(self) -> str:
        return f"{self.mib:.0f} MiB of a process's memory, and {self.seconds:.1f} s of a core to compile or load"


def load() -> Cost:
    """Compile all loops of this process, or load them from the cache, with progress in a terminal."""
    process, began = psutil.Process(), time.process_time()
    before = process.memory_info().rss
    count = len(compiled.functions())
    for number, _ in enumerate(compiled.compile_loops(), 1):
        if sys.stderr.isatty():
            print(f"\rcompiling loops: {number} of {count}", end="\r" * (number == count), file=sys.stderr, flush=True)
    grown = process.memory_info().rss - before
    return Cost(count, time.process_time() - began, grown / 2**20)


def load_in_spark(session: Any) -> Cost:
    """Load the loops in a Python worker of a Spark session."""

    def worker(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        list(frames)
        yield pd.DataFrame([load()])

    return Cost(*session.range(1).mapInPandas(worker, "loops INT, seconds DOUBLE, mib DOUBLE").collect()[0])


def main() -> int:
    """Compile all loops, and print their number and cost."""
    cost = load()
    print(f"{cost.loops} loops are compiled and take {cost}")
    if "--spark" in sys.argv[1:]:
        from sharedstate_lite import spark

        print(f"in a Python worker of Spark, they take {load_in_spark(spark.session())}")
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
