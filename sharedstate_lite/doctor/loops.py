"""Compiles the loops of `sharedstate_lite.loops` once, with progress: ``python -m sharedstate_lite.doctor.loops``.

The doctor runs this command as one of its checks, so a lesson starts with compiled loops. It prints what compiled loops
cost a process that uses them. With ``--spark``, it also prints what they cost a Python worker of Spark.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
import psutil

from sharedstate_lite.loops import compiled


def load() -> str:
    """Compile all loops, or load them from the cache, with progress in a terminal.

    Returns how many there are, and what they cost this process.
    """
    process, began = psutil.Process(), time.process_time()
    before = process.memory_info().rss
    count = len(compiled.functions())
    for number, _ in enumerate(compiled.compile_loops(), 1):
        if sys.stderr.isatty():
            print(f"\rcompiling loops: {number} of {count}", end="\r" * (number == count), file=sys.stderr, flush=True)
    mib, seconds = (process.memory_info().rss - before) / 2**20, time.process_time() - began
    return (
        f"{count} loops are compiled and take {mib:.0f} MiB of memory, and {seconds:.1f} s of a core to compile or load"
    )


def load_in_spark(session: Any) -> str:
    """Load the loops in a Python worker of a Spark session, and return the same."""

    def worker(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        list(frames)
        yield pd.DataFrame({"told": [load()]})

    return str(session.range(1).mapInPandas(worker, "told STRING").collect()[0].told)


def main() -> int:
    """Compile all loops, and print their number and cost."""
    print(load())
    if "--spark" in sys.argv[1:]:
        from sharedstate_lite import spark

        print(f"in a Python worker of Spark, {load_in_spark(spark.session())}")
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
