"""A set that all tasks on a host add values to. Each task finds out which of its values were new."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import task, values
from .driver import SparkLike, driver
from .handle import SharedHandle


class ConcurrentSet(SharedHandle):
    """A set of values on each host, which the tasks of one query share.

    A value belongs to the (stage, partition) that added it first. If Spark retries that partition, the new attempt
    sees the value as new again, because Spark has discarded the rows of the failed attempt. Each host has its own set,
    and if a runtime is killed, its set is lost. A value is therefore new at least once. To keep each value exactly
    once, use ``dropDuplicates`` on the few rows that remain.

    `add_new` raises Error if a second query uses the set, or a second stage of the same query, because values of the
    first would be missing in the second. ``orderBy`` is such a case: it computes its input twice. Pass it the result of
    ``localCheckpoint()``, which is computed once.

    A streaming query can use one set in all micro-batches. A value belongs to the (micro-batch, partition) that added
    it first: if Spark repeats the micro-batch, the value is new again, and in later ones it is not. No value is ever
    removed.
    """

    kind = "ConcurrentSet"

    def __init__(self, spark: SparkLike = None) -> None:
        found = driver(spark)
        super().__init__(found, found.register(self.kind, {}))

    def add_new(self, ids: Any) -> npt.NDArray[np.bool_]:
        """Add values. Return one boolean per value, True if the value is new and does not appear earlier in ``ids``.

        ``ids`` is a NumPy array, pandas Series, Arrow array or list with values of one type, without NULL. The result
        is a NumPy array, which selects rows of a frame (``frame[new]``) and of a record batch (``batch.filter(new)``).
        Raises Error for other values, or if their type differs from that of the first batch. If the set is empty,
        ``add_new([3, 1, 3])`` returns ``[True, True, False]``.
        """
        codes, distinct = values.distinct(ids, f"{self._name}.add_new", "ids")
        if not len(codes):
            return np.zeros(0, np.bool_)
        head = {"op": "add", "task": task.current().plain(), "rows": len(codes)}
        _, answer, _ = self._request(head, pa.table({"value": distinct}))
        assert answer is not None
        new: npt.NDArray[np.bool_] = answer.column("new").to_numpy()
        return values.first(codes) & new[codes]
