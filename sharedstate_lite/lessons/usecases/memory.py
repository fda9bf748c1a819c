"""The memory of the tasks' processes as PSS: a page that n processes map counts as 1/n.

    seen = memory.watch(session)      in the driver
    memory.note(seen)                 in a task, at its peak
    memory.total(seen)                bytes of all processes that noted anything

Forked workers share pages from the start, so compare with an empty computation. None if the system does not report
PSS.
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
"""The maximum that each process noted, by pid."""


class _Most(AccumulatorParam[Seen]):
    def zero(self, value: Seen) -> Seen:
        return {}

    def addInPlace(self, value1: Seen, value2: Seen) -> Seen:  # noqa: N802 (Spark's name)
        for pid, size in value2.items():
            value1[pid] = max(size, value1.get(pid, 0))
        return value1


def watch(session: SparkSession) -> Accumulator[Seen]:
    """An accumulator in which tasks note their memory."""
    return session.sparkContext.accumulator({}, _Most())


def note(seen: Accumulator[Seen]) -> None:
    """Note the PSS of this process."""
    size = host.pss(os.getpid())
    if size is not None:
        seen.add({os.getpid(): size})


def total(seen: Accumulator[Seen]) -> int | None:
    """The sum over all processes in bytes; None if nothing was noted."""
    return sum(seen.value.values()) or None
