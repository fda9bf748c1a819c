"""A set that all tasks of a host add to; each learns which of its values were new."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import task, values
from .driver import SparkLike, driver
from .handle import SharedHandle


class ConcurrentSet(SharedHandle):
    """One set for each host, for one query.

    A value belongs to the (stage, partition) that added it first. If Spark retries that partition, the new attempt
    sees the value as new again, because Spark has discarded the rows of the failed attempt. Each host has a set of
    its own, and a killed runtime loses its set. So a value is new at least once, and a final ``dropDuplicates`` over
    the few remaining rows makes that exactly once. A second query on DataFrames is refused; with RDDs, which have no
    query id, use one set for each action.
    """

    kind = "ConcurrentSet"

    def __init__(self, spark: SparkLike = None) -> None:
        found = driver(spark)
        super().__init__(found, found.register(self.kind, {}))

    def add_new(self, ids: Any) -> npt.NDArray[np.bool_]:
        """Add values; return one boolean for each, True where the value is new and stands first in ``ids``.

        ``ids``: a numpy array, pandas Series, Arrow array or list, of one type and without NULL. Raises Error for other
        values, or if the type differs from the first batch's. With an empty set, ``add_new([3, 1, 3])`` returns
        ``[True, True, False]``.
        """
        codes, distinct = values.distinct(ids, f"{self._name}.add_new", "ids")
        if not len(codes):
            return np.zeros(0, np.bool_)
        head = {"op": "add", "task": task.current().plain(), "rows": len(codes)}
        _, answer, _ = self._request(head, pa.table({"value": distinct}))
        assert answer is not None
        new: npt.NDArray[np.bool_] = answer.column("new").to_numpy()
        return values.first(codes) & new[codes]
