"""Tables whose rows are computed from their row numbers, by Spark's tasks or in this process.

    frame(session, count, make, schema)    rows 0 .. count - 1 as a DataFrame
    table(count, make)                     the same rows as an Arrow table

``make`` receives row numbers (int64[n]) and returns a mapping from column names to columns of n values. The rows do not
depend on the number of tasks or on the session. If an executor is lost, Spark can compute its rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from . import limits
from .draws import Whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Columns = Mapping[str, Any]
Make = Callable[[Whole], Columns]
MOST_TASKS = 1 << 20
MOST_ROWS = (1 << 63) - 1
PIECE = 1 << 16
"""The number of rows that a task computes at a time, and therefore the maximum that it keeps in memory."""


def frame(session: SparkSession, count: int, make: Make, schema: str, tasks: int | None = None) -> DataFrame:
    """Return rows 0 .. count - 1 as a DataFrame with the columns ``schema``. Each use computes the rows again.

    ``tasks`` is the number of tasks, by default as many as Spark can run at the same time. Raises Error if ``count`` is
    negative or ``tasks`` is less than 1.
    """
    limits.whole("count", count, 0, MOST_ROWS)
    if tasks is not None:
        limits.whole("tasks", tasks, 1, MOST_TASKS)
    tasks = max(1, min(tasks or session.sparkContext.defaultParallelism, count))
    size = max(1, min(PIECE, -(-count // tasks)))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column(0).to_numpy().tolist():
                yield _made(piece, size, count, make)

    return session.range(0, -(-count // size), 1, tasks).mapInArrow(task, schema)


def table(count: int, make: Make) -> pa.Table:
    """Return the same rows as `frame`, as an Arrow table and without Spark. Raises Error if ``count`` is negative."""
    limits.whole("count", count, 0, MOST_ROWS)
    batches = [_made(piece, PIECE, count, make) for piece in range(max(1, -(-count // PIECE)))]
    return pa.Table.from_batches(batches).combine_chunks()


def _made(piece: int, size: int, count: int, make: Make) -> pa.RecordBatch:
    numbers = np.arange(piece * size, min((piece + 1) * size, count), dtype=np.int64)
    columns = make(numbers)
    return pa.RecordBatch.from_arrays([pa.array(values) for values in columns.values()], names=list(columns))
