"""Tables whose rows are functions of their numbers, computed by Spark's tasks or in this process.

    frame(session, count, make, schema)    rows 0 .. count - 1 as a DataFrame
    table(count, make)                     the same rows as an Arrow table

``make`` takes row numbers (int64[n]) and returns a column of n values for each name. The rows depend on neither the
number of tasks nor the session, and a lost executor's rows can be computed again.
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
"""Rows computed at a time: the most that a task holds."""


def frame(session: SparkSession, count: int, make: Make, schema: str, tasks: int | None = None) -> DataFrame:
    """Rows 0 .. count - 1 as a DataFrame of ``schema``, computed at every use.

    ``tasks``: by default as many as Spark runs at once. Raises Error for a count below 0 or fewer than one task.
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
    """The same rows as an Arrow table, without Spark. Raises Error for a count below 0."""
    limits.whole("count", count, 0, MOST_ROWS)
    batches = [_made(piece, PIECE, count, make) for piece in range(max(1, -(-count // PIECE)))]
    return pa.Table.from_batches(batches).combine_chunks()


def _made(piece: int, size: int, count: int, make: Make) -> pa.RecordBatch:
    numbers = np.arange(piece * size, min((piece + 1) * size, count), dtype=np.int64)
    columns = make(numbers)
    return pa.RecordBatch.from_arrays([pa.array(values) for values in columns.values()], names=list(columns))
