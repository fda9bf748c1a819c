"""Identifies the Spark task that sends a request."""

from __future__ import annotations

import dataclasses
import sys

NONE = -1


@dataclasses.dataclass(frozen=True)
class Task:
    """The numbers by which Spark identifies a task. In the driver, all of them are -1."""

    stage: int = NONE
    partition: int = NONE
    attempt: int = NONE
    """A number that is unique among all attempts of all tasks in the application."""
    query: str | None = None
    """Spark's SQL execution id, which differs for each action on a DataFrame and each micro-batch. None for RDDs."""

    def plain(self) -> list[int | str | None]:
        """Return the task as a list of values that JSON can represent."""
        return [self.stage, self.partition, self.attempt, self.query]


def current() -> Task:
    """Return the task in which this code is running."""
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
