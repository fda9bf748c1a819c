"""The state behind a ConcurrentSet: its values, and the task that added each value first.

A value belongs to the (stage, partition) that added it first. If Spark runs that partition again, it discards the rows
of the earlier attempt. The new attempt therefore sees these values as new again, but each of them only once. In a
streaming query, a value belongs to the (micro-batch, partition) instead, because a failed micro-batch is repeated in
new stages.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .index import Flags, Index, Numbers
from .resource import Caller, Context, Head, Reply


class ConcurrentSetState:
    """The values of a set and, for each value, the partition and the attempt that added it first."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name = context.resource
        self._index = Index(self._name)
        self._owners: dict[tuple[int, int], int] = {}
        self._owner_numbers = itertools.count()
        self._stages: dict[int, int] = {}
        self._partition: Numbers = np.empty(0, np.int64)
        self._attempt: Numbers = np.empty(0, np.int64)
        self._retried: dict[int, Flags] = {}
        self._query: Any = None
        self._batches = self._rows = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Add a batch of distinct values. Return one boolean per value: True if the value is new.

        ``task`` in the head identifies the task by its stage, partition, attempt, query and micro-batch.
        """
        assert table is not None
        stage, partition, attempt, query, batch = head["task"]
        if stage >= 0:
            self._check_query(query)
            if batch is None:
                self._check_stage(stage, partition)
            else:
                self._forget_before(batch - 1)
        numbers, fresh = self._index.add(table.column("value"))
        self._partition = _grown(self._partition, self._index.count)
        self._attempt = _grown(self._attempt, self._index.count)
        scope = stage if batch is None else batch
        this = self._owners.setdefault((scope, partition), next(self._owner_numbers))
        self._partition[numbers[fresh]] = this
        self._attempt[numbers[fresh]] = attempt
        earlier = (self._partition[numbers] == this) & (self._attempt[numbers] != attempt)
        new = fresh | self._again(numbers, earlier, attempt)
        self._batches += 1
        self._rows += int(head["rows"])
        return {}, pa.table({"new": pa.array(new)})

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. The values stay in the set, and the partition's next attempt sees them as new."""

    def counts(self) -> dict[str, int]:
        """Return the counters of the set.

        ``loads`` is the number of distinct values, and ``hits`` is ``rows`` minus ``loads``.
        """
        return {
            "requests": self._batches,
            "rows": self._rows,
            "loads": self._index.count,
            "hits": self._rows - self._index.count,
            "held": self._index.count,
            "bytes": self._index.nbytes + self._partition.nbytes + self._attempt.nbytes,
        }

    async def close(self) -> None:
        """Do nothing, because the set has no files or connections to close."""

    def _again(self, numbers: Numbers, earlier: Flags, attempt: int) -> Flags:
        """Return one boolean per value: True if an earlier attempt added it and this attempt has not seen it yet.

        ``earlier`` is True for the values that an earlier attempt added. Each call records the values for which it
        returns True, so that this attempt sees each of them as new only once.
        """
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
                f"{self._name}: another query has filled this set, so rows of this query would be lost. Use one "
                "ConcurrentSet for each action, or cache the result of the first action and reuse it."
            )

    def _check_stage(self, stage: int, partition: int) -> None:
        """Raise Error if another stage has added the values of this partition.

        A further stage with other partitions is fine: ``take()`` and ``show()`` compute a few partitions at a time.
        """
        if self._stages.setdefault(partition, stage) != stage:
            raise Error(
                f"{self._name}: two stages of this query add values to this set (partition {partition} in the stages "
                f"{self._stages[partition]} and {stage}), so rows of the second stage would be lost. orderBy() "
                "computes its input twice, first for a sample. Compute the new rows once, with kept.localCheckpoint(), "
                "and continue with its result. For two inputs of a join, use one ConcurrentSet for each."
            )

    def _forget_before(self, batch: int) -> None:
        """Forget which partitions added values in earlier micro-batches, because Spark repeats only the last one."""
        if any(scope < batch for scope, _ in self._owners):
            self._owners = {owner: number for owner, number in self._owners.items() if owner[0] >= batch}
            self._retried.clear()


def _grown(array: Numbers, count: int) -> Numbers:
    """Return the array if it has room for ``count`` numbers, or a larger copy of it."""
    if count <= len(array):
        return array
    out = np.empty(max(count, 2 * len(array)), np.int64)
    out[: len(array)] = array
    return out
