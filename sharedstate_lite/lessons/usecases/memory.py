"""Measures the memory of the tasks' processes as PSS, where each of n processes that map a page is charged 1/n of it.

    seen = memory.watch(session)      # in the driver
    memory.note(seen)                 # in a task, at the peak of its memory
    memory.total(seen)                # in the driver: the total in bytes, or None

The total is None if the system does not report PSS. Forked workers share pages from the start, so compare the total
with that of an empty computation.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorParam

from ...worker.runtime import host

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

Seen = dict[int, int]
"""The largest PSS that each process noted, in bytes, by pid."""


class _Most(AccumulatorParam[Seen]):
    def zero(self, value: Seen) -> Seen:
        return {}

    def addInPlace(self, value1: Seen, value2: Seen) -> Seen:  # noqa: N802 (Spark's name)
        for pid, size in value2.items():
            value1[pid] = max(size, value1.get(pid, 0))
        return value1


def watch(session: SparkSession) -> Accumulator[Seen]:
    """Return an accumulator in which tasks can note their memory."""
    return session.sparkContext.accumulator({}, _Most())


def note(seen: Accumulator[Seen]) -> None:
    """Note the current PSS of this process, if the system reports it."""
    size = host.pss(os.getpid())
    if size is not None:
        seen.add({os.getpid(): size})


def total(seen: Accumulator[Seen]) -> int | None:
    """Return the sum over all processes in bytes, or None if no process noted its memory."""
    return sum(seen.value.values()) or None
