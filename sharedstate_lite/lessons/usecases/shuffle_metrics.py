"""Counts the records and bytes that an action shuffled, based on Spark's own metrics.

The metrics are read from the status store of the Spark context, which exists even if the web UI is disabled. Stages
that Spark skipped because their output still existed do not write anything, and are not counted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


@dataclass(frozen=True)
class ShuffleMetrics:
    """The shuffle metrics of one action.

    ``records`` and ``bytes`` were written to shuffles. ``jobs`` is the number of jobs, and ``tasks`` is the number of
    tasks in the stages that wrote to a shuffle.
    """

    records: int
    bytes: int
    jobs: int
    tasks: int


def measure_shuffle(session: SparkSession, action: Callable[[], T]) -> tuple[T, ShuffleMetrics]:
    """Run an action, and return its result and its shuffle metrics."""
    context: Any = session.sparkContext
    group = f"shuffle metrics {secrets.token_hex(6)}"
    context.setJobGroup(group, "counted by sharedstate_lite")
    try:
        result = action()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    scala = context._jsc.sc()
    # Spark may update its metrics only after it has returned the result.
    scala.listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    # Spark removes old stages from its status store, beginning with skipped ones.
    known = [stage for stage in sorted(stages) if tracker.getStageInfo(stage) is not None]
    said = [scala.statusStore().lastStageAttempt(stage) for stage in known]
    wrote = [stage for stage in said if stage.shuffleWriteRecords()]
    return result, ShuffleMetrics(
        records=sum(int(stage.shuffleWriteRecords()) for stage in wrote),
        bytes=sum(int(stage.shuffleWriteBytes()) for stage in wrote),
        jobs=len(jobs),
        tasks=sum(int(stage.numTasks()) for stage in wrote),
    )
