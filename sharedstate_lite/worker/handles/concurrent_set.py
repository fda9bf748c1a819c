"""A set that all tasks of a host add to, each told which of its values nobody had added."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import task, values
from .driver import SparkLike, driver
from .handle import SharedHandle


class ConcurrentSet(SharedHandle):
    """One set a host, for one query.

    A value belongs to the (stage, partition) that added it first: another attempt of that
    partition is told *new* again, or its rows would vanish with those of the attempt that
    failed. Each host has its own set, and a runtime that was killed has lost its: follow it by
    a global pass (``dropDuplicates``) over the few rows that are left. On DataFrames a
    second query is refused; on RDDs, which do not tell, use a set for one action.
    """

    kind = "ConcurrentSet"

    def __init__(self, spark: SparkLike = None) -> None:
        found = driver(spark)
        super().__init__(found, found.add(self.kind, {}))

    def add_new(self, ids: Any) -> npt.NDArray[np.bool_]:
        """Add values and tell which were not there: one boolean each, True once for each value that is new.

        ``ids``: a numpy array, a pandas Series, an Arrow array or a list, of one type without NULL.
        Raises Error for other values, or another type than the first batch had.
        """
        codes, distinct = values.distinct(ids, f"{self._name}.add_new", "ids")
        if not len(codes):
            return np.zeros(0, np.bool_)
        head = {"op": "add", "task": task.current().plain(), "rows": len(codes)}
        _, answer, _ = self._ask(head, pa.table({"value": distinct}))
        assert answer is not None
        new: npt.NDArray[np.bool_] = answer.column("new").to_numpy()
        return values.first(codes) & new[codes]
