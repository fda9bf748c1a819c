"""What the processes of tasks are charged with: PSS, in which a page that n processes map counts as an n-th.

    seen = memory.watch(session)      in the driver
    memory.note(seen)                 in a task, where it holds the most
    memory.total(seen)                bytes of all processes that noted anything

Forked workers begin with pages that they share, so what a computation takes is the difference to an
empty one. None where the system does not tell it (docs/worker.md).
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
"""The most that each process noted, by process id."""


class _Most(AccumulatorParam[Seen]):
    def zero(self, value: Seen) -> Seen:
        return {}

    def addInPlace(self, value1: Seen, value2: Seen) -> Seen:  # noqa: N802 (Spark's name)
        for pid, size in value2.items():
            value1[pid] = max(size, value1.get(pid, 0))
        return value1


def watch(session: SparkSession) -> Accumulator[Seen]:
    """Where tasks can note what they hold."""
    return session.sparkContext.accumulator({}, _Most())


def note(seen: Accumulator[Seen]) -> None:
    """Note what this process is charged with now."""
    size = host.pss(os.getpid())
    if size is not None:
        seen.add({os.getpid(): size})


def total(seen: Accumulator[Seen]) -> int | None:
    """Bytes of all of them together; None where nothing could be noted."""
    return sum(seen.value.values()) or None
