"""Stores rows by key with LRU eviction, and reads and writes them in batches.

The rows are stored in one Arrow table. New rows are appended, and the table is rewritten when more than half of its
rows have been evicted or replaced. A lookup of a batch is therefore one ``take``, and the average cost of a write
depends only on the number of rows that it adds. In a batch, later keys are considered more recently used than earlier
ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .index import Flags, Index, Numbers

KEY = "\0key"
"""The name of the key column. It starts with NUL, so that it does not clash with a user's column."""
PIECES = 16
"""If the table has more chunks than this, its small chunks are combined. Each row is then copied only a few times in
total."""


class LRUTable:
    """Stores at most ``capacity`` rows. A row that is older than ``ttl`` seconds is not returned.

    If ``ttl`` is None, rows do not expire. ``name`` is used in error messages.
    """

    def __init__(self, name: str, capacity: int, ttl: float | None) -> None:
        self._name, self._capacity, self._ttl = name, capacity, ttl
        self._index = Index(name)
        self._table: pa.Table | None = None
        self._place: Numbers = np.empty(0, np.int64)
        self._used: Numbers = np.empty(0, np.int64)
        self._since = np.empty(0, np.float64)
        self._clock = 0
        self.count = self.evicted = 0

    @property
    def nbytes(self) -> int:
        """The memory used in bytes. It includes evicted rows that have not been removed yet."""
        held = self._index.nbytes + self._place.nbytes + self._used.nbytes + self._since.nbytes
        return held + (self._table.nbytes if self._table is not None else 0)

    def get(self, keys: pa.ChunkedArray[Any], now: float) -> tuple[Flags, pa.Table | None]:
        """Look up distinct keys. Return one boolean per key, and the rows that were found, in the order of their keys.

        The boolean is True if the key has a row that has not expired at the time ``now``. If no row is found, return
        None for the rows.
        """
        numbers = self._index.find(keys)
        here = numbers >= 0
        here[here] = self._place[numbers[here]] >= 0
        if self._ttl is not None:
            here[here] = now - self._since[numbers[here]] <= self._ttl
        found = numbers[here]
        self._touch(found)
        if self._table is None or not len(found):
            return here, None
        return here, self._table.take(self._place[found])

    def put(self, keys: pa.ChunkedArray[Any], rows: pa.Table, since: float) -> None:
        """Store one row for each of these distinct keys. The rows were read from their source at ``since`` or later.

        Raises Error if the columns of ``rows`` differ from those of earlier calls.
        """
        if self._table is None:
            self._table = rows.slice(0, 0)
        if rows.schema != self._table.schema:
            raise Error(
                f"{self._name}: load returned columns ({schema_text(rows.schema)}), but earlier it returned "
                f"({schema_text(self._table.schema)}). Return the same columns and types each time."
            )
        numbers, _ = self._index.add(keys)
        self._reserve()
        self.count += int(np.count_nonzero(self._place[numbers] < 0))
        self._place[numbers] = np.arange(self._table.num_rows, self._table.num_rows + len(numbers))
        self._since[numbers] = since
        self._touch(numbers)
        self._table = _combined(pa.concat_tables([self._table, rows]))
        if self.count > self._capacity:
            self._evict(self.count - self._capacity)
        if self._table.num_rows > 2 * self.count + 1024:
            self._rewrite()

    def remove(self, keys: pa.ChunkedArray[Any]) -> None:
        """Remove the rows of these distinct keys, if they are there."""
        numbers = self._index.find(keys)
        numbers = numbers[numbers >= 0]
        self.count -= int(np.count_nonzero(self._place[numbers] >= 0))
        self._place[numbers] = -1

    def _touch(self, numbers: Numbers) -> None:
        self._used[numbers] = np.arange(self._clock, self._clock + len(numbers))
        self._clock += len(numbers)

    def _evict(self, many: int) -> None:
        """Evict the ``many`` least recently used rows."""
        live = np.flatnonzero(self._place[: self._index.count] >= 0)
        oldest = live[np.argpartition(self._used[live], many - 1)[:many]]
        self._place[oldest] = -1
        self.count -= many
        self.evicted += many

    def _rewrite(self) -> None:
        """Rewrite the table and the index without the evicted rows."""
        assert self._table is not None
        live = np.flatnonzero(self._place[: self._index.count] >= 0)
        order = live[np.argsort(self._place[live])]
        self._table = self._table.take(self._place[order]).combine_chunks()
        self._index = self._index.keep(order)
        self._used, self._since = self._used[order], self._since[order]
        self._place = np.arange(len(order), dtype=np.int64)

    def _reserve(self) -> None:
        count = self._index.count
        before = len(self._place)
        if count > before:
            more = max(count, 2 * before) - before
            self._place = np.concatenate([self._place, np.full(more, -1, np.int64)])
            self._used = np.concatenate([self._used, np.zeros(more, np.int64)])
            self._since = np.concatenate([self._since, np.zeros(more)])


def schema_text(schema: pa.Schema) -> str:
    """Return the columns of a schema and their types as one line of text."""
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _combined(table: pa.Table) -> pa.Table:
    """Return the table. If it has more than `PIECES` chunks, combine the small chunks at its end."""
    pieces = table.to_batches()
    if len(pieces) <= PIECES:
        return table
    sizes = [piece.num_rows for piece in pieces]
    # Start at the end, and continue while the next chunk is at most twice as large as the chunks selected so far.
    at, sum_ = len(sizes) - 1, sizes[-1]
    while at and sizes[at - 1] <= 2 * sum_:
        at -= 1
        sum_ += sizes[at]
    last = pa.Table.from_batches(pieces[at:]).combine_chunks()
    return pa.concat_tables([pa.Table.from_batches(pieces[:at], table.schema), last])
