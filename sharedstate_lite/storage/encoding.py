"""Values as machine words: every value of every column is one int64.

A batch of rows is a matrix of words, so sorting, hashing, comparing and moving
rows is the same few array operations whatever the columns' types are:

    STRING              the string's code in a dictionary (:class:`Strings`)
    INT, BIGINT         the value
    DOUBLE              the bits of the float64 (-0.0 is stored as 0.0)
    BOOLEAN             0 or 1
    DATE, TIMESTAMP     days, microseconds, since 1970-01-01
    NULL                -2**63, in every type

So the BIGINT -2**63 itself cannot be held and is refused by name: a mask beside
every column would cost each kernel more than this one value teaches. Two words
of one column are equal exactly when the values are, NULL included; where SQL says
that NULL equals nothing, the kernels say so themselves.

Dictionary encoding is the usual columnar device (Abadi et al., SIGMOD 2006).
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

from .short_strings import MIN_ROWS, ShortStrings, pack

Words = npt.NDArray[np.int64]
"""One column as int64[n], or a batch of k columns as int64[k, n]."""

NULL = int(np.iinfo(np.int64).min)
"""The word that stands for NULL."""


class Strings:
    """A dictionary of strings: code -> string, string -> code, and a hash for each code.

    Codes are given in order of first use and are never reused, so a batch stays
    readable as long as it keeps its dictionary. The hash is of the text, not of the
    code: it is the same in every process, and survives :meth:`keep`.
    """

    def __init__(self) -> None:
        # NULL has a place of its own, so that a look-up of many needs no case for it.
        self._code: dict[str | None, int] = {None: NULL}
        self._text: list[str] = []
        # The last place stays free, and 0: NULL's.
        self._hash = np.zeros(16, dtype=np.uint64)
        # Prefixes of the first so many strings: few columns are ordered by them, so they are made when asked for.
        self._prefixed, self._prefix = 0, np.zeros(16, dtype=np.uint64)
        # Bytes of the first so many strings: what a string takes may change while it is held, so it is asked once.
        self._sized, self._bytes = 0, 0
        # The first so many strings as Arrow lays them out: for those who hand over many, made when asked for.
        self._arrow: Any = pa.array([], pa.large_string())
        self._short = ShortStrings()

    def __len__(self) -> int:
        return len(self._text)

    @property
    def nbytes(self) -> int:
        """Bytes held: the strings, the dictionary, the list, the hashes, the prefixes, the short strings, Arrow's."""
        # A code above 256 is an int object of its own, which the dictionary keeps alive.
        self._bytes += sum(sys.getsizeof(t) + 32 for t in self._text[self._sized :])
        self._sized = len(self)
        arrays: int = self._hash.nbytes + self._prefix.nbytes + self._short.nbytes + self._arrow.nbytes
        return self._bytes + _dict_bytes(len(self._code)) + 8 * len(self) + arrays

    def code(self, text: str) -> int:
        """The code of one string, given one if it is new."""
        found = self._code.get(text)
        return int(self._add([text])[0]) if found is None else found

    def codes(self, texts: Iterable[str | None]) -> Words:
        """Codes of many strings (None is NULL); shape (n,). Duplicates cost one look-up each."""
        texts = list(texts)
        found = np.fromiter(map(self._code.get, texts, repeat(-1)), dtype=np.int64, count=len(texts))
        missing = (found == -1).nonzero()[0]
        if len(missing):
            # NULL has its code already, so what is missing are strings.
            fresh: list[Any] = [texts[i] for i in missing.tolist()]
            kinds = list(dict.fromkeys(fresh))
            added = self._add(kinds)
            found[missing] = added if len(kinds) == len(fresh) else [self._code[text] for text in fresh]
        return found

    def column(self, array: Any) -> Words:
        """Codes of a pyarrow StringArray or LargeStringArray (null is NULL); shape (n,). Raises UnicodeError."""
        if len(array) < MIN_ROWS:
            return self.codes(array.to_pylist())
        packed = pack(array)
        found = self._short.find(packed)
        if array.null_count:
            found[array.is_null().to_numpy(zero_copy_only=False)] = NULL
        missing = np.flatnonzero(found == -1)
        if len(missing):
            unknown = array.take(missing).dictionary_encode()
            kinds, index = unknown.dictionary, unknown.indices.to_numpy().astype(np.intp)
            codes = self.codes(kinds.to_pylist())
            found[missing] = codes.take(index)
            self._short.add(pack(kinds), codes)
        return found

    def _add(self, fresh: Sequence[str]) -> Words:
        first, last = len(self._text), len(self._text) + len(fresh)
        if last >= len(self._hash):
            self._hash = np.concatenate([self._hash[:first], _room(last, first)])
        # The fixed key of hash_array makes hashes of equal strings equal across processes and runs.
        whole = pd.util.hash_array(np.array(fresh, dtype=object), categorize=False)
        # Folded as hash_rows folds every word, here where it is done once a string.
        self._hash[first:last] = whole ^ (whole >> np.uint64(32))
        self._text.extend(fresh)
        self._code.update(zip(fresh, range(first, last), strict=True))
        return np.arange(first, last)

    def truncate(self, length: int) -> None:
        """Drop the codes from ``length`` on: what a refused step had brought."""
        gone = self._text[length:]
        if not gone:
            return
        self._short.truncate(length)
        self._arrow = self._arrow[:length]
        self._prefixed = min(self._prefixed, length)
        if self._sized > length:
            self._sized, self._bytes = 0, 0
        for text in gone:
            # An interrupt may have come between the list and the dictionary.
            self._code.pop(text, None)
        del self._text[length:]
        if len(gone) > length:
            self._code = dict(self._code)  # a dict keeps the room of what it lost
        size = max(16, 1 << length.bit_length())
        if size < len(self._hash):
            self._hash = self._hash[:size].copy()
            self._hash[length:] = 0  # NULL's place among them

    def find(self, text: str) -> int | None:
        """The code of a string if it has one; a look-up adds nothing."""
        return self._code.get(text)

    def texts(self, words: Words) -> npt.NDArray[Any]:
        """Strings of a column of codes as an object array, None where NULL; shape (n,)."""
        out = np.empty(len(words), dtype=object)
        out[:] = self.to_list(words)
        return out

    def to_list(self, words: Words) -> list[str | None]:
        """Strings of a column of codes, None where NULL; each distinct string is one shared object."""
        text = self._text
        # NULL alone is below zero.
        return [text[code] if code >= 0 else None for code in words.tolist()]

    def to_arrow(self, codes: Words) -> Any:
        """Strings of codes, no NULL among them, as a pyarrow StringArray: a fifth of the time that a list takes."""
        first, last = len(self._arrow), len(self._text)
        if first < last:
            self._arrow = pa.concat_arrays([self._arrow, pa.array(self._text[first:], pa.large_string())])
        return self._arrow.take(pa.array(codes)).cast(pa.string())

    def hashes(self, words: Words) -> npt.NDArray[np.uint64]:
        """A 64-bit hash of the text of each code; NULL hashes to a constant. Shape (n,)."""
        return self._hash.take(np.maximum(words, -1))

    def prefixes(self, words: Words) -> npt.NDArray[np.uint64]:
        """The first four bytes of UTF-8, which sorts as code points do, as a number."""
        first, last = self._prefixed, len(self._text)
        if first < last and int(words.max(initial=0)) >= first:
            if last > len(self._prefix):
                self._prefix = np.concatenate([self._prefix[:first], _room(last, first)])
            heads = [text[:4].encode()[:4] for text in self._text[first:]]
            self._prefix[first:last] = np.array(heads, dtype="S4").view(">u4")
            self._prefixed = last
        return self._prefix.take(np.maximum(words, 0))

    def keep(self, used: Iterable[Words]) -> tuple[Strings, Words]:
        """A new dictionary with only the codes that occur in ``used``, and the map old code -> new code (or -1)."""
        live = np.zeros(len(self._text), dtype=bool)
        for words in used:
            live[words[words != NULL]] = True
        kept = np.flatnonzero(live)
        fresh = Strings()
        fresh._add([self._text[c] for c in kept.tolist()])
        moved = np.full(len(self._text), -1, dtype=np.int64)
        moved[kept] = np.arange(len(kept))
        return fresh, moved


def _dict_bytes(count: int) -> int:
    """Bytes of a dict that has grown to ``count`` entries; one that has lost some keeps their room for a while.

    So what came and went leaves no trace in what is told. At most two thirds of its slots are
    used, a power of two of them; an entry is three words, and a slot as few bytes as do.
    """
    slots = max(8, 1 << (-(-count * 3 // 2) - 1).bit_length())
    return 96 + slots * (1 if slots < 1 << 8 else 2 if slots < 1 << 16 else 4) + slots * 2 // 3 * 24


def _room(length: int, used: int) -> npt.NDArray[np.uint64]:
    """Zeros beside ``used`` words, so that there is room for more than ``length``: doubling, as lists grow."""
    return np.zeros((1 << length.bit_length()) - used, dtype=np.uint64)


def doubles(words: Words) -> npt.NDArray[np.float64]:
    """A DOUBLE column as float64[n], NaN where NULL."""
    out = words.view(np.float64) if words.flags.c_contiguous else np.ascontiguousarray(words).view(np.float64)
    null = words == NULL
    # The bits of NULL read as -0.0; a copy is made only where there is one.
    return np.where(null, np.nan, out) if null.any() else out


def from_doubles(values: npt.NDArray[np.float64]) -> Words:
    """The words of float64[n]: NaN becomes NULL, -0.0 becomes 0.0. Infinities are the caller's to refuse."""
    words = (values + 0.0).view(np.int64)
    null = np.isnan(values)
    if null.any():
        words = words.copy()
        words[null] = NULL
    return words


class Dictionary:
    """The engine's strings, held by reference: compaction may exchange them."""

    def __init__(self) -> None:
        self.strings = Strings()
