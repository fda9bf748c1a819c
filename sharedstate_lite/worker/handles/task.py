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
    """The id of a streaming query, or else Spark's SQL execution id, which differs for each action on a DataFrame.
    None for RDDs."""
    batch: int | None = None
    """The number of the micro-batch. None outside streaming queries."""

    def plain(self) -> list[int | str | None]:
        """Return the task as a list of values that JSON can represent."""
        return [self.stage, self.partition, self.attempt, self.query, self.batch]


def current() -> Task:
    """Return the task in which this code is running."""
    module = sys.modules.get("pyspark.taskcontext")
    context = module.TaskContext.get() if module is not None else None
    if context is None:
        return Task()
    query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    if query is None or batch is None:
        query, batch = context.getLocalProperty("spark.sql.execution.id"), None
    number = None if batch is None else int(batch)
    return Task(context.stageId(), context.partitionId(), context.taskAttemptId(), query, number)
