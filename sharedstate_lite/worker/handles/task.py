"""Which task asks."""

from __future__ import annotations

import dataclasses
import sys

NOBODY = -1


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as Spark counts it; the driver is nobody's task: -1 everywhere."""

    stage: int = NOBODY
    partition: int = NOBODY
    attempt: int = NOBODY
    """Different for every attempt of every task of the application."""
    query: str | None = None
    """The SQL execution that it belongs to: one action on a DataFrame, or one micro-batch. None for an RDD's."""

    def plain(self) -> list[int | str | None]:
        """As it is sent."""
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
