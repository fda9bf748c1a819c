"""A hash table from short strings to codes, probed with NumPy one column at a time.

A string of at most 15 UTF-8 bytes fits in two 64-bit words, with its length in the last byte. A column of Arrow strings
thus becomes two arrays of words, without creating a Python string for each row. Two strings are equal if and only if
their words are equal. The hash only selects a slot.

The table is a cache in front of `encoding.Dictionary`, which looks up longer strings and strings that are not in the
table.

Source: open addressing with linear probing, Knuth, TAOCP vol. 3, section 6.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Packed = npt.NDArray[np.uint64]
"""Strings as uint64[2, n]. The last byte is the length plus 1, or 0 if the string is too long."""

MAX_BYTES = 15
"""The largest number of UTF-8 bytes that a string in the table can have."""
MIN_ROWS = 256
"""The smallest column that uses the table. For shorter ones, looking up each row in a Python dict is faster."""

_MASKS = np.array([(1 << 8 * k) - 1 for k in range(9)], dtype=np.uint64)
_A, _B, _S = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(32)


def pack(array: Any) -> Packed:
    """Pack a pyarrow StringArray or LargeStringArray into uint64[2, n]. The words of a null are undefined."""
    _, offsets, data = array.buffers()
    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    at = np.frombuffer(offsets, dtype=wide, count=array.offset + len(array) + 1)[array.offset :].astype(np.int64)
    sizes = np.diff(at)
    first, last = int(at[0]), int(at[-1])
    # The 16 extra bytes allow reading a full word at the end of the last string.
    text = np.zeros(last - first + 16, dtype=np.uint8)
    if last > first:
        text[: last - first] = np.frombuffer(data, dtype=np.uint8, count=last)[first:]
    # A view with a stride of 1 byte: word i starts at byte i.
    words: npt.NDArray[np.uint64] = np.ndarray((len(text) - 7,), dtype="<u8", buffer=text.data, strides=(1,))
    at = at[:-1] - first
    out = np.empty((2, len(sizes)), dtype=np.uint64)
    out[0] = words.take(at) & _MASKS.take(np.minimum(sizes, 8))
    out[1] = words.take(np.minimum(at + 8, len(words) - 1)) & _MASKS.take(np.clip(sizes - 8, 0, 7))
    out[1] |= np.where(sizes <= MAX_BYTES, sizes + 1, 0).astype(np.uint64) << np.uint64(56)
    return out


class ShortStrings:
    """A hash table that maps packed strings to codes."""

    def __init__(self) -> None:
        self._slots = np.full(2, -1, dtype=np.int64)
        """For each slot, an index into ``_packed``, or -1 if the slot is free. The number of slots is a power of two,
        and at most half of them are used."""
        self._packed = np.empty((2, 1), dtype=np.uint64)
        self._codes = np.empty(1, dtype=np.int64)
        self._count = 0

    @property
    def nbytes(self) -> int:
        """The size of the slots, the strings and the codes in bytes."""
        return self._slots.nbytes + self._packed.nbytes + self._codes.nbytes

    def find(self, packed: Packed) -> npt.NDArray[np.int64]:
        """Return the code of each of n strings, int64[n], or -1 if the string is not in the table."""
        out = np.full(packed.shape[1], -1, dtype=np.int64)
        mask = len(self._slots) - 1
        ask: npt.NDArray[np.intp] | None = None  # None means all strings, as in the first round
        slots = _hash(packed) & mask
        while len(slots):
            places = self._slots.take(slots)
            wanted = packed if ask is None else packed.take(ask, axis=1)
            met = self._packed.take(np.maximum(places, 0), axis=1) == wanted
            hit = met[0] & met[1] & (places >= 0)
            if ask is None:
                out = np.where(hit, self._codes.take(np.maximum(places, 0)), -1)
                ask = np.flatnonzero(~hit & (places >= 0))
                slots = (slots.take(ask) + 1) & mask
            else:
                out[ask[hit]] = self._codes.take(places[hit])
                on = np.flatnonzero(~hit & (places >= 0))
                ask, slots = ask.take(on), (slots.take(on) + 1) & mask
        return out

    def add(self, packed: Packed, codes: npt.NDArray[np.int64]) -> None:
        """Add distinct strings that are not in the table yet, with their codes int64[n].

        Strings that are too long are skipped.
        """
        short = np.flatnonzero(packed[1] >> np.uint64(56))
        packed, codes = packed.take(short, axis=1), codes.take(short)
        first, last = self._count, self._count + len(short)
        if last > len(self._codes):
            room = 1 << (last - 1).bit_length()
            self._packed = np.concatenate([self._packed[:, :first], np.empty((2, room - first), np.uint64)], axis=1)
            self._codes = np.concatenate([self._codes[:first], np.empty(room - first, dtype=np.int64)])
        self._packed[:, first:last], self._codes[first:last] = packed, codes
        self._count = last
        if 2 * last > len(self._slots):
            self._slots = np.full(4 * len(self._codes), -1, dtype=np.int64)
            first = 0
        self._place(np.arange(first, last))

    def truncate(self, length: int) -> None:
        """Remove all strings with codes of at least ``length``."""
        if self._count and int(self._codes[: self._count].max()) >= length:
            kept = np.flatnonzero(self._codes[: self._count] < length)
            packed, codes = self._packed.take(kept, axis=1), self._codes.take(kept)
            self.__init__()  # type: ignore[misc]  # clearing single slots would end later probes too early
            self.add(packed, codes)

    def _place(self, places: npt.NDArray[np.int64]) -> None:
        mask = len(self._slots) - 1
        slots = _hash(self._packed.take(places, axis=1)) & mask
        while len(places):
            free = self._slots.take(slots) < 0
            self._slots[slots[free]] = places[free]
            # If several strings hash to the same slot, NumPy's last write wins, and the others try the next slot.
            on = np.flatnonzero(self._slots.take(slots) != places)
            places, slots = places.take(on), (slots.take(on) + 1) & mask


def _hash(packed: Packed) -> npt.NDArray[np.int64]:
    x = (packed[0] ^ packed[0] >> _S) * _A ^ (packed[1] ^ packed[1] >> _S) * _B
    x ^= x >> _S
    return np.asarray((x * _A >> np.uint64(16)).view(np.int64))
