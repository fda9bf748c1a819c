"""A set that many tasks add to, each told which of its values are new.

A value belongs to the (stage, partition) that added it first. Another attempt of that
partition is told *new* again, since Spark throws away what the attempt before it has
told; the same attempt is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .index import Flags, Index, Numbers
from .resource import Caller, Context, Head, Reply


class ConcurrentSetState:
    """The values, whose each is, and which attempt was told so."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name = str(options.get("name", context.thing))
        self._index = Index(self._name)
        self._owners: dict[tuple[int, int], int] = {}
        self._owner: Numbers = np.empty(0, np.int64)
        self._first: Numbers = np.empty(0, np.int64)
        self._again: dict[int, Flags] = {}
        self._query: Any = None
        self._asked = self._rows = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """For a batch of different values, which of them are new; ``task`` is stage, partition, attempt and query."""
        assert table is not None
        stage, partition, attempt, query = head["task"]
        if stage >= 0:
            self._one_query(query)
        numbers, fresh = self._index.add(table.column("value"))
        self._owner = _grown(self._owner, self._index.count)
        self._first = _grown(self._first, self._index.count)
        owner = self._owners.setdefault((stage, partition), len(self._owners))
        self._owner[numbers[fresh]] = owner
        self._first[numbers[fresh]] = attempt
        new = fresh | self._retried(
            numbers, (self._owner[numbers] == owner) & (self._first[numbers] != attempt), attempt
        )
        self._asked += 1
        self._rows += int(head["rows"])
        return {}, pa.table({"new": pa.array(new)})

    def left(self, caller: Caller) -> None:
        """A caller that ends has added what it has added; its partition's next attempt is told again."""

    def counts(self) -> dict[str, int]:
        """queries: batches; rows: values asked about; loads: different ones, held; hits: the rest."""
        return {
            "queries": self._asked,
            "rows": self._rows,
            "loads": self._index.count,
            "hits": self._rows - self._index.count,
            "bytes": self._index.nbytes + self._owner.nbytes + self._first.nbytes,
        }

    async def close(self) -> None:
        """There is nothing to let go of but memory."""

    def _retried(self, numbers: Numbers, candidates: Flags, attempt: int) -> Flags:
        """Those that an earlier attempt of this partition added, and that this one has not been told yet."""
        if not candidates.any():
            return candidates
        told = self._again.get(attempt, np.zeros(0, np.bool_))
        told = self._again[attempt] = np.pad(told, (0, self._index.count - len(told)))
        out = candidates & ~told[numbers]
        told[numbers[out]] = True
        return out

    def _one_query(self, query: Any) -> None:
        if self._query is None:
            self._query = query
        elif query != self._query:
            raise Error(
                f"{self._name}: it was filled by another query, whose rows this one would miss; "
                "make a ConcurrentSet for each action, or cache the result of the first one and use it twice"
            )


def _grown(array: Numbers, count: int) -> Numbers:
    """The array with room for so many."""
    if count <= len(array):
        return array
    out = np.empty(max(count, 2 * len(array)), np.int64)
    out[: len(array)] = array
    return out
