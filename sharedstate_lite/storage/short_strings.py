"""A hash table from short strings to codes, for columns of Arrow strings.

A string of at most 15 UTF-8 bytes fits in two 64-bit words, with its length in the last byte. Two strings are equal if
and only if their words are equal. The codes of an Arrow column are thus found without creating a Python string for each
row.

The table is a cache in front of `encoding.Dictionary`, which looks up longer strings and strings that are not in the
table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import loops

Packed = npt.NDArray[np.uint64]
"""Strings as uint64[n, 2]. The last byte is the length plus 1, or 0 if the string is too long."""

SLOT_MASK = np.uint64((1 << 64) - 1)
"""The bits of a string's hash that are kept. Tests clear them, so that all strings have the same slot."""


def pack(array: Any) -> Packed:
    """Pack a pyarrow StringArray or LargeStringArray into uint64[n, 2]. The words of a null are undefined."""
    n = len(array)
    loops.moved(n)
    _, offsets, data = array.buffers()
    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    out = np.empty((n, 2), dtype=np.uint64)
    if n:
        at = np.frombuffer(offsets, dtype=wide, count=array.offset + n + 1)[array.offset :]
        text = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
        loops.pack(at.astype(np.int64), text, out)
    return out


class ShortStrings:
    """A hash table that maps packed strings to codes."""

    def __init__(self) -> None:
        self._table = np.zeros((2, 3), dtype=np.uint64)
        self._count = 0

    @property
    def nbytes(self) -> int:
        """The size of the table in bytes."""
        return self._table.nbytes

    def find(self, packed: Packed) -> tuple[npt.NDArray[np.int64], int]:
        """Return the code of each of n strings, int64[n], or -1 if it is not in the table, and how many are not."""
        out = np.empty(len(packed), dtype=np.int64)
        return out, int(loops.probe(packed, self._table, SLOT_MASK, out))

    def add(self, packed: Packed, chosen: npt.NDArray[np.intp], codes: npt.NDArray[np.int64]) -> None:
        """Add the strings at the positions ``chosen``, intp[m], with their codes int64[m].

        Strings that are too long, and those that the table already contains, are skipped.
        """
        most = self._count + len(chosen)
        if 2 * most > len(self._table):
            self._keep(self._table[:, 2] != 0, most)
        self._count += int(loops.add_strings(packed, chosen, codes, self._table, SLOT_MASK))

    def truncate(self, length: int) -> None:
        """Remove all strings with codes of at least ``length``."""
        code = self._table[:, 2]
        if self._count and int(code.max()) > length:
            kept = (code != 0) & (code <= np.uint64(length))
            self._keep(kept, int(np.count_nonzero(kept)))

    def _keep(self, slots: npt.NDArray[np.bool_], room: int) -> None:
        """Replace the table with one that has the strings in some slots, and room for a number of strings."""
        old = self._table[slots]
        self._table = np.zeros((1 << (2 * room).bit_length(), 3), dtype=np.uint64)
        self._count = 0
        packed, codes = np.ascontiguousarray(old[:, :2]), old[:, 2].astype(np.int64) - 1
        self._count = int(loops.add_strings(packed, np.arange(len(old)), codes, self._table, SLOT_MASK))
