"""Assigns the numbers 0, 1, 2, ... to the distinct values of a column, in order of first appearance.

Integers and times are stored in a hash table that uses open addressing in NumPy arrays. All values of a batch are
probed together, one place at a time. The table takes about 23 bytes per value, while a dict takes more than 100. Values
of other types are stored in a dict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import Error

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
SMALLEST = 1 << 10
FULL = 0.6
"""The maximum load factor of the hash table. With a higher one, probe sequences become long."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)


class IntegerIndex:
    """An index of 64-bit integers. Its hash table contains positions in the array ``values``."""

    def __init__(self) -> None:
        self.values: Numbers = np.empty(SMALLEST, np.int64)
        self.count = 0
        self._places = np.full(SMALLEST, -1, np.int32)

    def find(self, batch: Any) -> Numbers:
        """Return the number of each value, or -1 for a value that has no number."""
        return self._probe(batch, False)[0]

    def add(self, batch: Any) -> tuple[Numbers, Flags]:
        """Add distinct values. Return the number of each value, and a flag that is True if the value is new."""
        self._room(len(batch))
        return self._probe(batch, True)

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self.values.nbytes + self._places.nbytes

    def _probe(self, batch: Numbers, insert: bool) -> tuple[Numbers, Flags]:
        numbers = np.full(len(batch), -1, np.int64)
        fresh = np.zeros(len(batch), np.bool_)
        mask = len(self._places) - 1
        at = self._hash(batch, mask)
        open_ = np.arange(len(batch))
        before = self.count
        while len(open_):
            place = at[open_]
            found = self._places[place]
            free = found < 0
            same = ~free & (self.values[found] == batch[open_])
            numbers[open_[same]] = found[same]
            collided = ~free & ~same
            if insert and free.any():
                want, where = open_[free], place[free]
                new = np.arange(self.count, self.count + len(want), dtype=np.int32)
                # Several values can hash to the same place. The last write wins; the other values continue probing.
                self._places[where] = new
                has = self._places[where] == new
                won = want[has]
                # Renumber the winners without gaps.
                final = np.arange(self.count, self.count + len(won), dtype=np.int32)
                self._places[where[has]] = final
                self.values[final] = batch[won]
                self.count += len(won)
                numbers[won], fresh[won] = final, True
                collided[np.flatnonzero(free)[~has]] = True
            open_ = open_[collided]
            at[open_] = (at[open_] + 1) & mask
        added = np.flatnonzero(fresh)
        # Values with longer probe sequences were numbered later. Renumber the new values in the order of the batch.
        numbers[added] = np.arange(before, self.count)
        self._places[at[added]] = numbers[added]
        self.values[numbers[added]] = batch[added]
        return numbers, fresh

    @staticmethod
    def _hash(batch: Numbers, mask: int) -> Numbers:
        mixed = batch.view(np.uint64) * SPREAD
        return ((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask)).astype(np.int64)

    def _room(self, more: int) -> None:
        need = self.count + more
        if need > np.iinfo(np.int32).max:
            raise Error(
                f"cannot store {need} distinct values: the maximum per runtime is 2,147,483,647. Use more hosts."
            )
        if need > len(self.values):
            grown = np.empty(max(need, 2 * len(self.values)), np.int64)
            grown[: self.count] = self.values[: self.count]
            self.values = grown
        size = len(self._places)
        while need > FULL * size:
            size *= 2
        if size > len(self._places):
            self._places = np.full(size, -1, np.int32)
            self._settle()

    def _settle(self) -> None:
        """Insert all values into the hash table, which must be empty."""
        mask = len(self._places) - 1
        open_ = np.arange(self.count, dtype=np.int32)
        at = self._hash(self.values[: self.count], mask)
        while len(open_):
            place = at[open_]
            free = self._places[place] < 0
            self._places[place[free]] = open_[free]
            open_ = open_[self._places[place] != open_]
            at[open_] = (at[open_] + 1) & mask


class ObjectIndex:
    """An index of strings, bytes and other hashable values, in a dict."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    @property
    def count(self) -> int:
        """The number of distinct values."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """The memory used by the dict and the list in bytes, without the values themselves."""
        return int(self._numbers.__sizeof__() + self.values.__sizeof__())

    def find(self, batch: Any) -> Numbers:
        """Return the number of each value, or -1 for a value that has no number."""
        return np.fromiter((self._numbers.get(value, -1) for value in batch), np.int64, len(batch))

    def add(self, batch: Any) -> tuple[Numbers, Flags]:
        """Add distinct values. Return the number of each value, and a flag that is True if the value is new."""
        before = len(self.values)
        numbers = np.fromiter((self._numbers.setdefault(v, len(self._numbers)) for v in batch), np.int64, len(batch))
        fresh = numbers >= before
        self.values.extend(value for value, new in zip(batch, fresh.tolist(), strict=True) if new)
        return numbers, fresh


class Index:
    """An index of values that all have the same type, which the first batch sets.

    >>> Index("ids").add(pa.chunked_array([["b", "a"]]))
    (array([0, 1]), array([ True,  True]))
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.type: pa.DataType | None = None
        self._of: IntegerIndex | ObjectIndex = IntegerIndex()

    def find(self, column: pa.ChunkedArray[Any]) -> Numbers:
        """Return the number of each value, or -1 for a value that has no number."""
        batch = self._plain(column)
        return self._of.find(batch)

    def add(self, column: pa.ChunkedArray[Any]) -> tuple[Numbers, Flags]:
        """Add distinct values. Return the number of each value, and a flag that is True if the value is new."""
        batch = self._plain(column)
        return self._of.add(batch)

    def keep(self, numbers: Numbers) -> Index:
        """Return a new index that contains only the values with these numbers, renumbered 0, 1, ... in this order."""
        out = Index(self._name)
        out.type, out._of = self.type, type(self._of)()
        if isinstance(self._of, IntegerIndex):
            out._of.add(self._of.values[numbers])
        else:
            out._of.add([self._of.values[number] for number in numbers.tolist()])
        return out

    @property
    def count(self) -> int:
        """The number of distinct values."""
        return self._of.count

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self._of.nbytes

    def _plain(self, column: pa.ChunkedArray[Any]) -> Any:
        if self.type is None:
            self.type = column.type
            self._of = IntegerIndex() if as_integers(column).type == pa.int64() else ObjectIndex()
        if column.type != self.type:
            raise Error(
                f"{self._name}: its values have the type {self.type}, but the new values have {column.type}. "
                "Cast them, or create another handle for them."
            )
        return as_integers(column).to_numpy() if isinstance(self._of, IntegerIndex) else column.to_pylist()


def as_integers(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Return dates and times as int64, and columns of other types unchanged.

    Times are not compared as Python datetimes. When summer time ends, clocks show the same hour twice, so two times
    that are one hour apart would be equal.
    """
    kind = column.type
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return column
    return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
