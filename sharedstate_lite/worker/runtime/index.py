"""Numbers the distinct values of a column 0, 1, 2, ... in order of first appearance, a batch at a time.

Integers and times are found by open addressing in numpy arrays, one probe for the whole batch at a time: about 23
bytes a value, where a dict needs over 100. Other values are found in a dict.
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
"""Highest load of the table; above it, probe sequences get long."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)


class IntegerIndex:
    """An index of 64-bit integers: a hash table of positions in ``values``."""

    def __init__(self) -> None:
        self.values: Numbers = np.empty(SMALLEST, np.int64)
        self.count = 0
        self._places = np.full(SMALLEST, -1, np.int32)

    def find(self, batch: Any) -> Numbers:
        """The number of each value; -1 if it has none."""
        return self._probe(batch, False)[0]

    def add(self, batch: Any) -> tuple[Numbers, Flags]:
        """The number of each of these distinct values, and which of them are new."""
        self._room(len(batch))
        return self._probe(batch, True)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
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
                # Several values may hash to one place: the last write wins, the others probe on.
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
        # A value that probed longer was numbered later; restore the batch's order.
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
                f"{need} distinct values: one runtime holds at most 2,147,483,647. Spread them over more hosts."
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
        """Insert every value into the new, empty table."""
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
        """Bytes of the dict and the list, without the values themselves."""
        return int(self._numbers.__sizeof__() + self.values.__sizeof__())

    def find(self, batch: Any) -> Numbers:
        """The number of each value; -1 if it has none."""
        return np.fromiter((self._numbers.get(value, -1) for value in batch), np.int64, len(batch))

    def add(self, batch: Any) -> tuple[Numbers, Flags]:
        """The number of each of these distinct values, and which of them are new."""
        before = len(self.values)
        numbers = np.fromiter((self._numbers.setdefault(v, len(self._numbers)) for v in batch), np.int64, len(batch))
        fresh = numbers >= before
        self.values.extend(value for value, new in zip(batch, fresh.tolist(), strict=True) if new)
        return numbers, fresh


class Index:
    """An index of values of one type; the first batch sets the type.

    >>> Index("ids").add(pa.chunked_array([["b", "a"]]))
    (array([0, 1]), array([ True,  True]))
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.type: pa.DataType | None = None
        self._of: IntegerIndex | ObjectIndex = IntegerIndex()

    def find(self, column: pa.ChunkedArray[Any]) -> Numbers:
        """The number of each value; -1 if it has none."""
        batch = self._plain(column)
        return self._of.find(batch)

    def add(self, column: pa.ChunkedArray[Any]) -> tuple[Numbers, Flags]:
        """The number of each of these distinct values, and which of them are new."""
        batch = self._plain(column)
        return self._of.add(batch)

    def keep(self, numbers: Numbers) -> Index:
        """A new index of these values only, numbered 0, 1, ... in this order."""
        out = Index(self._name)
        out.type, out._of = self.type, type(self._of)()
        if isinstance(self._of, IntegerIndex):
            out._of.add(self._of.values[numbers])
        else:
            out._of.add([self._of.values[number] for number in numbers.tolist()])
        return out

    @property
    def count(self) -> int:
        """How many values have a number."""
        return self._of.count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._of.nbytes

    def _plain(self, column: pa.ChunkedArray[Any]) -> Any:
        if self.type is None:
            self.type = column.type
            self._of = IntegerIndex() if as_integers(column).type == pa.int64() else ObjectIndex()
        if column.type != self.type:
            raise Error(
                f"{self._name}: its values have the type {self.type}, these have {column.type}. "
                "Cast them, or create another handle for them."
            )
        return as_integers(column).to_numpy() if isinstance(self._of, IntegerIndex) else column.to_pylist()


def as_integers(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Times as int64. As Python datetimes, the two hours that a clock shows when summer time ends would be equal."""
    kind = column.type
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return column
    return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
