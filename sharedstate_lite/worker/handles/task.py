"""Identifies the Spark task that a request comes from."""

from __future__ import annotations

import dataclasses
import sys

NONE = -1


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as Spark numbers it; all -1 in the driver."""

    stage: int = NONE
    partition: int = NONE
    attempt: int = NONE
    """Unique over all attempts of all tasks of the application."""
    query: str | None = None
    """Spark's SQL execution id: one for each action on a DataFrame, or micro-batch. None for an RDD's task."""

    def plain(self) -> list[int | str | None]:
        """The task as JSON values."""
        return [self.stage, self.partition, self.attempt, self.query]


def current() -> Task:
    """The task that this code runs in."""
    module = sys.modules.get("pyspark.taskcontext")
    context = module.TaskContext.get() if module is not None else None
    if context is None:
        return Task()
    return Task(
        context.stageId(),
        context.partitionId(),
        context.taskAttemptId(),
        context.getLocalProperty("spark.sql.execution.id"),
    )
