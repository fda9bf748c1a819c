"""Which value has which number: numbers from 0 in the order in which values came, told a batch at a time.

IntegerIndex, and times, are found in a table of numbers by open addressing, each step for the whole
batch at once: some 23 bytes a value where a dict takes over 100. Other values are
found in a dict.
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
"""How much of the table may be taken: above it the way to a free place gets long."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)


class IntegerIndex:
    """Of 64-bit integers."""

    def __init__(self) -> None:
        self.values: Numbers = np.empty(SMALLEST, np.int64)
        self.count = 0
        self._places = np.full(SMALLEST, -1, np.int32)

    def find(self, batch: Any) -> Numbers:
        """The number of each value, -1 for one that is not there."""
        return self._walk(batch, False)[0]

    def add(self, batch: Any) -> tuple[Numbers, Flags]:
        """The number of each value of a batch of different values, and which of them got it just now."""
        self._room(len(batch))
        return self._walk(batch, True)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes + self._places.nbytes

    def _walk(self, batch: Numbers, insert: bool) -> tuple[Numbers, Flags]:
        numbers = np.full(len(batch), -1, np.int64)
        fresh = np.zeros(len(batch), np.bool_)
        mask = len(self._places) - 1
        at = self._hash(batch, mask)
        ahead = np.arange(len(batch))
        before = self.count
        while len(ahead):
            place = at[ahead]
            found = self._places[place]
            free = found < 0
            same = ~free & (self.values[found] == batch[ahead])
            numbers[ahead[same]] = found[same]
            gone_on = ~free & ~same
            if insert and free.any():
                want, where = ahead[free], place[free]
                new = np.arange(self.count, self.count + len(want), dtype=np.int32)
                # Several may want one place; the last to write has it, the others look on.
                self._places[where] = new
                has = self._places[where] == new
                won = want[has]
                # Numbers without gaps: renumber the winners.
                final = np.arange(self.count, self.count + len(won), dtype=np.int32)
                self._places[where[has]] = final
                self.values[final] = batch[won]
                self.count += len(won)
                numbers[won], fresh[won] = final, True
                gone_on[np.flatnonzero(free)[~has]] = True
            ahead = ahead[gone_on]
            at[ahead] = (at[ahead] + 1) & mask
        added = np.flatnonzero(fresh)
        # Who looked on for a place came late; numbers are to be in the batch's order all the same.
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
            raise Error(f"{need} different values: one runtime numbers 2,147,483,647; use more hosts")
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
        """Give every value that has a number a place in an empty table."""
        mask = len(self._places) - 1
        ahead = np.arange(self.count, dtype=np.int32)
        at = self._hash(self.values[: self.count], mask)
        while len(ahead):
            place = at[ahead]
            free = self._places[place] < 0
            self._places[place[free]] = ahead[free]
            ahead = ahead[self._places[place] != ahead]
            at[ahead] = (at[ahead] + 1) & mask


class ObjectIndex:
    """Of strings, binary values and whatever else can be compared."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes held, of the table that finds them; the values themselves come on top."""
        return int(self._numbers.__sizeof__() + self.values.__sizeof__())

    def find(self, batch: Any) -> Numbers:
        """The number of each value, -1 for one that is not there."""
        return np.fromiter((self._numbers.get(value, -1) for value in batch), np.int64, len(batch))

    def add(self, batch: Any) -> tuple[Numbers, Flags]:
        """The number of each value of a batch of different values, and which of them got it just now."""
        before = len(self.values)
        numbers = np.fromiter((self._numbers.setdefault(v, len(self._numbers)) for v in batch), np.int64, len(batch))
        fresh = numbers >= before
        self.values.extend(value for value, new in zip(batch, fresh.tolist(), strict=True) if new)
        return numbers, fresh


class Index:
    """Of values of one type, which the first batch decides."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.type: pa.DataType | None = None
        self._of: IntegerIndex | ObjectIndex = IntegerIndex()

    def find(self, column: pa.ChunkedArray[Any]) -> Numbers:
        """The number of each value, -1 for one that is not there."""
        batch = self._plain(column)
        return self._of.find(batch)

    def add(self, column: pa.ChunkedArray[Any]) -> tuple[Numbers, Flags]:
        """The number of each value of a batch of different values, and which of them got it just now."""
        batch = self._plain(column)
        return self._of.add(batch)

    def keep(self, numbers: Numbers) -> Index:
        """An index of those values alone, numbered from 0 in this order."""
        out = Index(self._what)
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
            self._of = IntegerIndex() if counted(column).type == pa.int64() else ObjectIndex()
        if column.type != self.type:
            raise Error(
                f"{self._what}: its values are of type {self.type}, and these are {column.type}; "
                "cast them, or make another one for them"
            )
        return counted(column).to_numpy() if isinstance(self._of, IntegerIndex) else column.to_pylist()


def counted(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Times as the whole numbers that they are: of an hour that clocks show twice, Python takes one for the other."""
    kind = column.type
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return column
    return column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
