"""The state behind a ConcurrentSet: which values it has, and which task added each of them first.

A value belongs to the (stage, partition) that added it first. If Spark runs that partition again, it discards the
rows of the earlier attempt, so the new attempt sees its values as new once more. The same attempt never does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .index import Flags, Index, Numbers
from .resource import Caller, Context, Head, Reply


class ConcurrentSetState:
    """The values; for each value its partition and the attempt that added it first."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name = context.resource
        self._index = Index(self._name)
        self._partitions: dict[tuple[int, int], int] = {}
        self._partition: Numbers = np.empty(0, np.int64)
        self._attempt: Numbers = np.empty(0, np.int64)
        self._retried: dict[int, Flags] = {}
        self._query: Any = None
        self._batches = self._rows = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """For a batch of distinct values, which are new. ``task`` in the head is stage, partition, attempt, query."""
        assert table is not None
        stage, partition, attempt, query = head["task"]
        if stage >= 0:
            self._check_query(query)
        numbers, fresh = self._index.add(table.column("value"))
        self._partition = _grown(self._partition, self._index.count)
        self._attempt = _grown(self._attempt, self._index.count)
        this = self._partitions.setdefault((stage, partition), len(self._partitions))
        self._partition[numbers[fresh]] = this
        self._attempt[numbers[fresh]] = attempt
        earlier = (self._partition[numbers] == this) & (self._attempt[numbers] != attempt)
        new = fresh | self._again(numbers, earlier, attempt)
        self._batches += 1
        self._rows += int(head["rows"])
        return {}, pa.table({"new": pa.array(new)})

    def disconnected(self, caller: Caller) -> None:
        """The values stay; the partition's next attempt sees them as new."""

    def counts(self) -> dict[str, int]:
        """queries: batches; rows: values asked about; loads: distinct values; hits: the difference."""
        return {
            "queries": self._batches,
            "rows": self._rows,
            "loads": self._index.count,
            "hits": self._rows - self._index.count,
            "bytes": self._index.nbytes + self._partition.nbytes + self._attempt.nbytes,
        }

    async def close(self) -> None:
        """Holds memory only."""

    def _again(self, numbers: Numbers, earlier: Flags, attempt: int) -> Flags:
        """Of the values that an earlier attempt added, those that this attempt has not yet seen as new."""
        if not earlier.any():
            return earlier
        seen = self._retried.get(attempt, np.zeros(0, np.bool_))
        seen = self._retried[attempt] = np.pad(seen, (0, self._index.count - len(seen)))
        out = earlier & ~seen[numbers]
        seen[numbers[out]] = True
        return out

    def _check_query(self, query: Any) -> None:
        if self._query is None:
            self._query = query
        elif query != self._query:
            raise Error(
                f"{self._name}: another query has filled this set, so this query would lose its rows. Use one "
                "ConcurrentSet for each action, or cache the first result and use it twice."
            )


def _grown(array: Numbers, count: int) -> Numbers:
    """The array with room for ``count`` numbers."""
    if count <= len(array):
        return array
    out = np.empty(max(count, 2 * len(array)), np.int64)
    out[: len(array)] = array
    return out
