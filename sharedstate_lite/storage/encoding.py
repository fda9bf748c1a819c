"""Values encoded as words: every value, whatever its type, is one int64.

    STRING              the code of the string in a dictionary (`Dictionary`)
    INT, BIGINT         the value
    DOUBLE              the bits of the float64; -0.0 is stored as 0.0
    BOOLEAN             0 or 1
    DATE, TIMESTAMP     days or microseconds since 1970-01-01
    NULL                -2**63, for every type

The same few loops can therefore sort, hash, compare and move rows of any type. Two words of a column are
equal if and only if their values are equal. NULL equals NULL here. A kernel that must treat NULL as SQL does checks for
it explicitly.

The BIGINT -2**63 cannot be stored and is rejected. A separate null mask would lift this restriction, but then every
kernel would have to handle the mask.

>>> strings = Dictionary()
>>> codes = strings.codes(["Potato", None, "Apple", "Potato"])
>>> codes.tolist() == [0, NULL, 1, 0], strings.to_list(codes)
(True, ['Potato', None, 'Apple', 'Potato'])

Source: dictionary encoding in column stores, Abadi et al., SIGMOD 2006.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import loops
from ..errors import RowError
from ..loops.strings import MAX_BYTES

Words = npt.NDArray[np.int64]
"""One column of n values as int64[n], or k columns as int64[k, n]."""

NULL = int(np.iinfo(np.int64).min)
"""The word that represents NULL."""
SLOT_MASK = np.uint64((1 << 64) - 1)
"""The bits of a string's hash that select its slot. Tests clear them, so that all strings have the same slot."""
_buffer: Any = pa.py_buffer  # its types do not know arrays
_STRING, _LARGE = pa.string(), pa.large_string()


class Dictionary:
    """A dictionary that maps strings to codes and codes to strings, and stores a hash for each code.

    Codes are assigned in order of first use and are never reused, so rows stay readable as long as their dictionary is
    kept. A hash depends on the string and not on its code, so it is the same in every process, and `keep` preserves it.
    The strings are stored as UTF-8, without Python objects. :mod:`..loops.strings` describes the arrays: ``known`` has
    the start, the hash and the first bytes of each string, and ``arena`` all bytes. They are replaced when they grow.
    """

    def __init__(self) -> None:
        self._count = np.zeros(1, dtype=np.int64)
        self.known = np.zeros((3, 16), dtype=np.int64)
        self.arena = np.zeros(64, dtype=np.uint8)
        self._table = np.zeros((32, 3), dtype=np.uint64)

    def __len__(self) -> int:
        return int(self._count[0])

    @property
    def nbytes(self) -> int:
        """The size in bytes of the strings and of all indexes for them."""
        return self.known.nbytes + self.arena.nbytes + self._table.nbytes

    def code(self, text: str) -> int:
        """Return the code of a string. A new string gets the next free code."""
        return int(self.codes([text])[0])

    def codes(self, texts: Iterable[str | None]) -> Words:
        """Return the codes of n strings, int64[n]. None becomes NULL, and a new string gets the next free code."""
        given = list(texts)
        if len(given) == 1 and given[0] is not None and len(data := given[0].encode()) <= MAX_BYTES:
            # An Arrow array costs more than the search, so a short string is packed here as the loop packs it.
            loops.moved(1)
            words = np.frombuffer(data.ljust(MAX_BYTES, b"\0") + (len(data) + 1).to_bytes(1, "little"), dtype="<u8")
            if (code := loops.code_of(words, self._table, SLOT_MASK)) >= 0:
                return np.array([code])
        return self.column(pa.array(given, _LARGE))

    def find(self, text: str) -> int | None:
        """Return the code of a string, or None if the string is not in the dictionary. Does not add the string."""
        code = int(self._codes(*_buffers(pa.array([text], _LARGE)), adding=False)[0])
        return None if code < 0 else code

    def column(self, array: Any) -> Words:
        """Return the codes of a pyarrow StringArray or LargeStringArray, int64[n].

        Raises UnicodeError if a new string is not valid UTF-8.
        """
        return self._codes(*_buffers(array), array.is_null() if array.null_count else None)

    def _codes(self, offsets: Words, data: npt.NDArray[np.uint8], nulls: Any = None, adding: bool = True) -> Words:
        n, length = len(offsets) - 1, len(self)
        loops.moved(n)
        packed, out = np.empty((n, 2), dtype=np.uint64), np.empty(n, dtype=np.int64)
        loops.pack(offsets, data, packed)
        if nulls is not None:
            packed[nulls.to_numpy(zero_copy_only=False)] = 0
        missing = loops.find_codes(packed, offsets, data, self._table, self.known, self.arena, SLOT_MASK, out)
        row = 0 if adding and missing else n
        while row < n:
            parts = self._table, self.known, self.arena, self._count
            row = loops.add_strings(packed, offsets, data, row, *parts, SLOT_MASK, out)
            if row < 0:
                row = -1 - row
                self._resize(len(self) + 1, int(self.known[0, len(self)] + offsets[row + 1] - offsets[row]))
        if len(self) > length:
            self._check_utf8(length)
        return out

    def _check_utf8(self, length: int) -> None:
        """Raise UnicodeError, and remove the strings whose codes are at least ``length``, if one is not valid UTF-8."""
        starts, texts = self.known[0], self.arena
        # Two strings can be valid one after the other although the second starts inside a character.
        within = loops.starts_within(starts, texts, length, len(self))
        try:
            for start in (length, within) if within >= 0 else (length,):
                str(texts[starts[start] : starts[len(self)]].data, "utf-8")
        except UnicodeError:
            self.truncate(length)
            raise

    def _resize(self, count: int, size: int) -> None:
        """Give the arrays the size that they have with this number of strings and bytes, which is a power of two."""
        most, room = max(16, 1 << count.bit_length()), max(64, 1 << size.bit_length())
        if (most, room) == (self.known.shape[1], len(self.arena)):
            return
        known, texts = np.zeros((3, most), dtype=np.int64), np.zeros(room, dtype=np.uint8)
        kept, used = len(self) + 1, self.known[0, len(self)]
        known[:, :kept], texts[:used] = self.known[:, :kept], self.arena[:used]
        if most != self.known.shape[1]:
            packed, table = np.empty((len(self), 2), dtype=np.uint64), np.zeros((2 * most, 3), dtype=np.uint64)
            loops.pack(known[0, :kept], texts, packed)
            loops.fill(packed, table, SLOT_MASK)
            self._table = table
        self.known = known
        self.arena = texts

    def truncate(self, length: int) -> None:
        """Remove the strings whose codes are at least ``length``.

        An engine does this when it rejects a step that added new strings.
        """
        gone = len(self) - length
        if gone <= 0:
            return
        packed = np.empty((gone, 2), dtype=np.uint64)
        loops.pack(self.known[0, length : length + gone + 1], self.arena, packed)
        loops.remove(packed, self._table, self._count, SLOT_MASK)
        self._resize(length, int(self.known[0, length]))

    def texts(self, words: Words) -> npt.NDArray[Any]:
        """Return the strings for a column of codes as an object array of shape (n,), with None for NULL."""
        out = np.empty(len(words), dtype=object)
        out[:] = self.to_list(words)
        return out

    def to_list(self, words: Words) -> list[str | None]:
        """Return the strings for a column of codes as a list, with None for NULL. Equal strings are the same object."""
        codes = words.tolist()
        kinds = dict.fromkeys(codes)
        text = dict(zip(kinds, self._large(np.array(list(kinds), dtype=np.int64)).to_pylist(), strict=True))
        return [text[code] for code in codes]

    def to_arrow(self, codes: Words) -> Any:
        """Return the strings for a column of codes as a pyarrow StringArray. Raises RowError if they have 2 GiB."""
        valid, offsets, data = self._gather(codes)
        if len(data) >= 1 << 31:
            raise RowError("a column of strings has 2 GiB or more; read fewer rows at a time")
        return pa.Array.from_buffers(_STRING, len(codes), [valid, _buffer(offsets.astype(np.int32)), data])

    def _large(self, codes: Words) -> Any:
        valid, offsets, data = self._gather(codes)
        return pa.Array.from_buffers(_LARGE, len(codes), [valid, _buffer(offsets), data])

    def _gather(self, codes: Words) -> tuple[Any, Words, Any]:
        """Return the validity, the offsets, int64[n + 1], and the bytes of the strings, for Arrow."""
        offsets = np.empty(len(codes) + 1, dtype=np.int64)
        nulls = loops.measure(codes, self.known, offsets)
        data = np.empty(offsets[-1], dtype=np.uint8)
        loops.copy_texts(codes, self.known, self.arena, offsets, data)
        valid = _buffer(np.packbits(codes != NULL, bitorder="little")) if nulls else None
        return valid, offsets, _buffer(data)

    def ranks(self, codes: Words) -> tuple[Words, Words]:
        """Return the rank of each string among n codes by code points, int64[n], and the code of each rank.

        Equal strings have the same rank. The rank of NULL is NULL.
        """
        ranks, kinds = np.full(len(codes), NULL), np.empty(len(codes), dtype=np.int64)
        order = self.known[2].view(np.uint64).take(codes, mode="clip").argsort()
        count = loops.rank_texts(codes, order, self.known, self.arena, ranks, kinds)
        return ranks, kinds[:count]

    def keep(self, used: Iterable[Words]) -> tuple[Dictionary, Words]:
        """Return a new dictionary that contains only the strings whose codes are in ``used``.

        Also returns an array that maps each old code to its new code, or to -1 if the code was removed.
        """
        live = np.zeros(len(self), dtype=bool)
        for words in used:
            live[words[words != NULL]] = True
        fresh, moved = Dictionary(), np.full(len(self), -1, dtype=np.int64)
        moved[live] = fresh.column(self._large(np.flatnonzero(live)))
        return fresh, moved


def _buffers(array: Any) -> tuple[Words, npt.NDArray[np.uint8]]:
    """Return the offsets of the strings of an Arrow array, int64[n + 1], and their bytes."""
    if not len(array):
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    _, offsets, data = array.buffers()
    wide = np.int64 if array.type.id == _LARGE.id else np.int32
    found = np.frombuffer(offsets, dtype=wide, count=array.offset + len(array) + 1)[array.offset :]
    return found.astype(np.int64), np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)


def doubles(words: Words) -> npt.NDArray[np.float64]:
    """Return a DOUBLE column as float64[n], with NaN for NULL."""
    out = words.view(np.float64) if words.flags.c_contiguous else np.ascontiguousarray(words).view(np.float64)
    null = words == NULL
    # As a float64, the word for NULL is -0.0.
    return np.where(null, np.nan, out) if null.any() else out


def from_doubles(values: npt.NDArray[np.float64]) -> Words:
    """Return float64[n] as words. NaN becomes NULL, and -0.0 becomes 0.0. The caller must reject infinities."""
    words = (values + 0.0).view(np.int64)
    null = np.isnan(values)
    if null.any():
        words = words.copy()
        words[null] = NULL
    return words


class DictionaryRef:
    """A reference to the current `Dictionary` of an engine, which garbage collection replaces with a smaller one."""

    def __init__(self) -> None:
        self.strings = Dictionary()
