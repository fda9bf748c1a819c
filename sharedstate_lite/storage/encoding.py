"""Values encoded as words: every value, whatever its type, is one int64.

    STRING              the code of the string in a dictionary (`Dictionary`)
    INT, BIGINT         the value
    DOUBLE              the bits of the float64; -0.0 is stored as 0.0
    BOOLEAN             0 or 1
    DATE, TIMESTAMP     days or microseconds since 1970-01-01
    NULL                -2**63, for every type

The same few array operations can therefore sort, hash, compare and move rows of any type. Two words of a column are
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

import sys
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from .short_strings import ShortStrings, pack

Words = npt.NDArray[np.int64]
"""One column of n values as int64[n], or k columns as int64[k, n]."""

NULL = int(np.iinfo(np.int64).min)
"""The word that represents NULL."""


class Dictionary:
    """A dictionary that maps strings to codes and codes to strings, and stores a hash for each code.

    Codes are assigned in order of first use and are never reused, so rows stay readable as long as their dictionary is
    kept. A hash depends on the string and not on its code, so it is the same in every process, and `keep` preserves it.
    """

    def __init__(self) -> None:
        # None has an entry, so looking up many strings does not need a special case for NULL.
        self._code: dict[str | None, int] = {None: NULL}
        self._text: list[str] = []
        # The last element is never used for a string and stays 0, because hashes() reads index -1 for NULL.
        self._hash = np.zeros(16, dtype=np.uint64)
        # Each of the caches below covers the first strings only, and is extended when it is read.
        self._prefixed, self._prefix = 0, np.zeros(16, dtype=np.uint64)
        # sys.getsizeof can return a different size for the same string later, so it is called once per string.
        self._sized, self._bytes = 0, 0
        self._arrow: Any = pa.array([], pa.large_string())
        self._short = ShortStrings()

    def __len__(self) -> int:
        return len(self._text)

    @property
    def nbytes(self) -> int:
        """The size in bytes of the strings and of all indexes and caches for them."""
        # 32 bytes are added for the int object of each code, because CPython shares only integers up to 256.
        self._bytes += sum(sys.getsizeof(t) + 32 for t in self._text[self._sized :])
        self._sized = len(self)
        arrays: int = self._hash.nbytes + self._prefix.nbytes + self._short.nbytes + self._arrow.nbytes
        return self._bytes + _dict_bytes(len(self._code)) + 8 * len(self) + arrays

    def code(self, text: str) -> int:
        """Return the code of a string. A new string gets the next free code."""
        found = self._code.get(text)
        return int(self._add([text])[0]) if found is None else found

    def codes(self, texts: Iterable[str | None]) -> Words:
        """Return the codes of n strings, int64[n]. None becomes NULL, and a new string gets the next free code."""
        texts = list(texts)
        found = np.fromiter(map(self._code.get, texts, repeat(-1)), dtype=np.int64, count=len(texts))
        missing = (found == -1).nonzero()[0]
        if len(missing):
            fresh: list[Any] = [texts[i] for i in missing.tolist()]
            kinds = list(dict.fromkeys(fresh))
            added = self._add(kinds)
            found[missing] = added if len(kinds) == len(fresh) else [self._code[text] for text in fresh]
        return found

    def column(self, array: Any) -> Words:
        """Return the codes of a pyarrow StringArray or LargeStringArray, int64[n].

        Raises UnicodeError if a new string is not valid UTF-8.
        """
        packed = pack(array)
        found, absent = self._short.find(packed)
        if array.null_count:
            found[array.is_null().to_numpy(zero_copy_only=False)] = NULL
        if absent:
            missing = np.flatnonzero(found == -1)
            codes = self.codes(array.take(pa.array(missing)).to_pylist())
            found[missing] = codes
            self._short.add(packed, missing, codes)
        return found

    def _add(self, fresh: Sequence[str]) -> Words:
        first, last = len(self._text), len(self._text) + len(fresh)
        if last >= len(self._hash):
            self._hash = np.concatenate([self._hash[:first], _room(last, first)])
        # hash_array has a fixed key, so equal strings have equal hashes in all processes and runs.
        whole = pd.util.hash_array(np.array(fresh, dtype=object), categorize=False)
        # hash_rows folds the high bits of all other types itself. The hashes of strings are stored already folded.
        self._hash[first:last] = whole ^ (whole >> np.uint64(32))
        self._text.extend(fresh)
        self._code.update(zip(fresh, range(first, last), strict=True))
        return np.arange(first, last)

    def truncate(self, length: int) -> None:
        """Remove the strings whose codes are at least ``length``.

        An engine does this when it rejects a step that added new strings.
        """
        gone = self._text[length:]
        if not gone:
            return
        self._short.truncate(length)
        self._arrow = self._arrow[:length]
        self._prefixed = min(self._prefixed, length)
        if self._sized > length:
            self._sized, self._bytes = 0, 0
        for text in gone:
            # If Ctrl-C interrupted _add, a string can be in the list but not in the dict.
            self._code.pop(text, None)
        del self._text[length:]
        if len(gone) > length:
            self._code = dict(self._code)  # a dict does not shrink when entries are removed
        size = max(16, 1 << length.bit_length())
        if size < len(self._hash):
            self._hash = self._hash[:size].copy()
            self._hash[length:] = 0  # including the element for NULL

    def find(self, text: str) -> int | None:
        """Return the code of a string, or None if the string is not in the dictionary. Does not add the string."""
        return self._code.get(text)

    def texts(self, words: Words) -> npt.NDArray[Any]:
        """Return the strings for a column of codes as an object array of shape (n,), with None for NULL."""
        out = np.empty(len(words), dtype=object)
        out[:] = self.to_list(words)
        return out

    def to_list(self, words: Words) -> list[str | None]:
        """Return the strings for a column of codes as a list, with None for NULL. Equal strings are the same object."""
        text = self._text
        return [text[code] if code >= 0 else None for code in words.tolist()]

    def to_arrow(self, codes: Words) -> Any:
        """Return the strings for codes that are not NULL as a pyarrow StringArray.

        This is 5 times as fast as converting the list of strings.
        """
        first, last = len(self._arrow), len(self._text)
        if first < last:
            self._arrow = pa.concat_arrays([self._arrow, pa.array(self._text[first:], pa.large_string())])
        return self._arrow.take(pa.array(codes)).cast(pa.string())

    def hashes(self, words: Words) -> npt.NDArray[np.uint64]:
        """Return the 64-bit hash of the string of each code, uint64[n]. The hash of NULL is 0."""
        return self._hash.take(np.maximum(words, -1))

    @property
    def all_hashes(self) -> npt.NDArray[np.uint64]:
        """The 64-bit hash of each string, by code. The array can be longer than the number of strings."""
        return self._hash

    def prefixes(self, words: Words) -> npt.NDArray[np.uint64]:
        """Return the first 4 UTF-8 bytes of each string as a number, uint64[n]; see `all_prefixes`."""
        return self.all_prefixes().take(np.maximum(words, 0))

    def all_prefixes(self) -> npt.NDArray[np.uint64]:
        """Return the first 4 UTF-8 bytes of each string as a number, by code.

        The numbers have the same order as the strings (with ties), because UTF-8 bytes sort in code-point order.
        """
        first, last = self._prefixed, len(self._text)
        if first < last:
            if last > len(self._prefix):
                self._prefix = np.concatenate([self._prefix[:first], _room(last, first)])
            heads = [text[:4].encode()[:4] for text in self._text[first:]]
            self._prefix[first:last] = np.array(heads, dtype="S4").view(">u4")
            self._prefixed = last
        return self._prefix

    def keep(self, used: Iterable[Words]) -> tuple[Dictionary, Words]:
        """Return a new dictionary that contains only the strings whose codes are in ``used``.

        Also returns an array that maps each old code to its new code, or to -1 if the code was removed.
        """
        live = np.zeros(len(self._text), dtype=bool)
        for words in used:
            live[words[words != NULL]] = True
        kept = np.flatnonzero(live)
        fresh = Dictionary()
        fresh._add([self._text[c] for c in kept.tolist()])
        moved = np.full(len(self._text), -1, dtype=np.int64)
        moved[kept] = np.arange(len(kept))
        return fresh, moved


def _dict_bytes(count: int) -> int:
    """Return the size in bytes of a dict that has grown to ``count`` entries.

    This does not call sys.getsizeof, because a dict that was once larger keeps its size, and the reported state must
    not depend on that. The number of slots is a power of two, at most two thirds of them are used, and an entry takes
    three words.
    """
    slots = max(8, 1 << (-(-count * 3 // 2) - 1).bit_length())
    return 96 + slots * (1 if slots < 1 << 8 else 2 if slots < 1 << 16 else 4) + slots * 2 // 3 * 24


def _room(length: int, used: int) -> npt.NDArray[np.uint64]:
    """Return the zeros that extend an array of ``used`` elements to the next power of two above ``length``."""
    return np.zeros((1 << length.bit_length()) - used, dtype=np.uint64)


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
