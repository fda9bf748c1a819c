"""Batches: rows and their diffs in one sorted, consolidated matrix. All state is stored in batches.

The matrix is the batch's *body*, int64[m, n]. It stores n rows of a relation, one per column of the matrix. A row of
the matrix is called a *line*:

    line 0            the sort word: 32 bits of the key's hash, then 32 low bits
    lines 1 .. k      the relation's columns, as words
    next w lines      the diffs; w is 1 for a Z-set, and larger for the accumulators of a reduce
    last line         the times; missing if all rows have the same time

The rows are sorted by sort word. All rows with the same key are next to each other, so a lookup begins with a binary
search in line 0. Rows with equal sort words are next to each other, so consolidation only compares the rows of such a
block. Different rows can have equal sort words, so their other words are always compared as well.

The low bits are a hash of the row. If the layout has an ``order`` column, they are a 32-bit code that is monotone in
that column instead, so the largest value of a group is at the end of the group's rows.

A diff can be a vector, because consolidation only adds diffs and drops zeros. A reduce uses this to store each group in
one row: the diff of the row consists of the group's counts and sums. Source: differential dataflow (a diff is an
element of any abelian group) and Materialize.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import loops
from ..loops.batches import DOUBLE, NUMBER, TEXT
from ..plan.nodes import Type
from .encoding import Dictionary, Words

Diffs = npt.NDArray[np.int64]
"""The diffs of n rows: int64[n], or int64[w, n] if each diff is a vector."""

LOW_BITS = 0xFFFFFFFF
_HIGH_BITS = np.uint64(0xFFFFFFFF << 32)
RADIX_FROM = 512
"""Batches of at least this many rows are sorted by a loop. NumPy sorts fewer rows faster."""
HASH_MASK = np.uint64((1 << 64) - 1)
"""The bits of a row's hash that are kept. Tests clear some, so that different rows have equal hashes."""
KINDS = dict.fromkeys(Type, NUMBER) | {Type.STRING: TEXT, Type.DOUBLE: DOUBLE}
"""What the words of each type are for a loop."""


class Delta(NamedTuple):
    """Changes passed between operators: rows int64[k, n] with diffs int64[n], neither sorted nor consolidated."""

    rows: Words
    diffs: Diffs

    @classmethod
    @cache
    def empty(cls, columns: int) -> Delta:
        """Return a delta without rows."""
        return cls(np.empty((columns, 0), dtype=np.int64), np.empty(0, dtype=np.int64))

    def take(self, index: npt.NDArray[Any]) -> Delta:
        """Return the rows that ``index`` selects. It is an array of positions or a Boolean mask."""
        if index.dtype == np.bool_:
            index = np.flatnonzero(index)
        return Delta(self.rows.take(index, axis=1), self.diffs.take(index))


def concat(parts: list[Delta], columns: int) -> Delta:
    """Concatenate deltas, which have ``columns`` columns each, into one delta."""
    parts = [p for p in parts if len(p.diffs)]
    if not parts:
        return Delta.empty(columns)
    if len(parts) == 1:
        return parts[0]
    return Delta(np.concatenate([p.rows for p in parts], axis=1), np.concatenate([p.diffs for p in parts]))


@dataclass(frozen=True)
class Layout:
    """The format of a batch: column types, key, the column that orders the rows of a key, and the width of a diff."""

    types: tuple[Type, ...]
    key: tuple[int, ...]
    order: int | None = None
    width: int = 1

    @cached_property
    def columns(self) -> int:
        """The number of the relation's columns, k."""
        return len(self.types)

    @cached_property
    def key_types(self) -> tuple[Type, ...]:
        """The types of the key's columns."""
        return tuple(self.types[i] for i in self.key)

    @cached_property
    def kinds(self) -> Words:
        """What the words of each column are, int64[k]."""
        return _kinds(self.types)

    @cached_property
    def key_columns(self) -> Words:
        """The numbers of the key's columns, int64[len(key)]."""
        return np.array(self.key, dtype=np.int64)

    @cached_property
    def low_columns(self) -> Words:
        """The columns whose hash is in the low bits of a sort word. It is empty if the key consists of all columns."""
        return _every(0 if self.key == tuple(range(self.columns)) else self.columns)

    @cached_property
    def _key_hash(self) -> tuple[Words, Words]:
        return _every(len(self.key)), _kinds(self.key_types)

    @cached_property
    def diff_rows(self) -> slice:
        """The numbers of the body lines that contain the diffs, as a slice."""
        return slice(1 + self.columns, 1 + self.columns + self.width)

    def delta(self, body: Words) -> Delta:
        """Return the rows of a body and their diffs. If diffs are vectors, return only their first elements."""
        return Delta(body[1 : 1 + self.columns], body[1 + self.columns])

    def key_words(self, keys: Words, strings: Dictionary) -> Words:
        """Return, for each key of int64[len(key), q], the smallest sort word that a row with this key can have.

        The largest such word is the smallest one ``| LOW_BITS``.
        """
        out = np.empty(keys.shape[1], dtype=np.int64)
        loops.moved(len(out))
        loops.hash_rows(keys, *self._key_hash, strings.known, HASH_MASK & _HIGH_BITS, out)
        return out

    def body(self, rows: Words, diffs: Diffs, strings: Dictionary) -> Words:
        """Return the sorted, consolidated body for n < 2**31 rows int64[k, n] with diffs int64[n] or int64[w, n]."""
        n = rows.shape[1]
        out = np.empty((1 + self.columns + self.width, n), dtype=np.int64)
        if not n:
            return out
        lines = self.unsorted(rows, diffs, strings)
        assert len(lines) == len(out), "a compiled loop does not check its indexes"
        order = lines[0].argsort() if n < RADIX_FROM else np.empty(n, dtype=np.int64)
        if n >= RADIX_FROM:
            loops.sort_words(lines[0], np.zeros((8, 256), dtype=np.int64), order, np.empty_like(order))
        kept = loops.consolidate(lines, order, self.columns, self.width, out, 0)
        return out if kept == n else out[:, :kept].copy()

    def sort_words(self, rows: Words, strings: Dictionary) -> Words:
        """Return the sort words, int64[n], of the rows int64[k, n]."""
        words: Words = self.unsorted(rows, np.empty((0, rows.shape[1]), dtype=np.int64), strings)[0]
        return words

    def unsorted(self, rows: Words, diffs: Diffs, strings: Dictionary) -> Words:
        """Return rows and diffs as the lines of a body, with their sort words in line 0, in the given order."""
        loops.moved(rows.shape[1])
        given = diffs if diffs.ndim == 2 else diffs[None, :]
        out = np.empty((1 + self.columns + len(given), rows.shape[1]), dtype=np.int64)
        order = -1 if self.order is None else self.order
        columns = self.key_columns, self.low_columns, self.kinds
        loops.add_words(rows, given, *columns, order, strings.known, HASH_MASK, out)
        return out


class Batch:
    """An immutable batch of sorted rows. The module docstring describes the format of ``body``.

    If ``timed`` is true, the last line of the body contains the times. Otherwise, every row has the time ``lower``.
    ``buffer`` is contiguous, and its first ``rows`` columns are the body. It is longer if the batch is the output of a
    merge.
    """

    __slots__ = ("_retractions", "body", "buffer", "lower", "rows", "timed")

    def __init__(self, body: Words, lower: int, timed: bool = False) -> None:
        self.body, self.lower, self.timed = body, lower, timed
        self.rows: int = body.shape[1]
        base = body if body.flags.c_contiguous else body.base
        assert isinstance(base, np.ndarray)
        self.buffer: Words = base
        self._retractions = -1

    def __len__(self) -> int:
        return self.rows

    @property
    def nbytes(self) -> int:
        """The size of the buffer in bytes, including the unused end if the batch is the output of a merge."""
        base = self.body.base
        return int(base.nbytes if isinstance(base, np.ndarray) else self.body.nbytes)

    def retractions(self, line: int) -> int:
        """Return the number of rows with a negative diff; ``line`` is the line of the body that contains the diffs."""
        if self._retractions < 0:
            self._retractions = int(np.count_nonzero(self.body[line] < 0))
        return self._retractions

    def times(self) -> npt.NDArray[np.int64]:
        """Return the time of each row, int64[n]. Merges may have replaced times before ``since`` with later times."""
        return self.body[-1] if self.timed else np.full(len(self), self.lower, dtype=np.int64)


def hash_rows(rows: Words, types: tuple[Type, ...], strings: Dictionary) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each row of int64[k, n], as uint64[n].

    The hash depends on strings and not on their codes, so it is the same in every process.
    """
    out = np.empty(rows.shape[1], dtype=np.int64)
    loops.moved(len(out))
    loops.hash_rows(rows, _every(len(types)), _kinds(types), strings.known, HASH_MASK, out)
    return out.view(np.uint64)


def prefix(words: Words, kind: Type, strings: Dictionary) -> npt.NDArray[np.uint64]:
    """Return a 32-bit code for each value of a column, as uint64[n]. Only NULL has code 0.

    A larger value never has a smaller code, but different values can have the same code.
    """
    out = np.empty(len(words), dtype=np.uint64)
    loops.order_codes(np.ascontiguousarray(words), KINDS[kind], strings.known, out)
    return out


@cache
def _kinds(types: tuple[Type, ...]) -> Words:
    return np.array([KINDS[kind] for kind in types], dtype=np.int64)


@cache
def _every(columns: int) -> Words:
    return np.arange(columns)


def merged(batches: Iterable[Batch], layout: Layout, strings: Dictionary) -> Words:
    """Return the rows of all batches as one consolidated body without times."""
    facts = slice(1, 1 + layout.columns + layout.width)
    bodies = [b.body[facts] for b in batches] or [np.empty((layout.columns + layout.width, 0), dtype=np.int64)]
    flat = np.concatenate(bodies, axis=1)
    rows, diffs = flat[: layout.columns], flat[layout.columns :]
    return layout.body(rows, diffs if layout.width > 1 else diffs[0], strings)


def count_rows(batches: Sequence[Batch], layout: Layout, strings: Dictionary) -> int:
    """Return the number of distinct rows in all batches whose multiplicity is not 0."""
    if len(batches) == 1 and not batches[0].timed:
        return len(batches[0])
    return int(merged(batches, layout, strings).shape[1])


def distinct(
    rows: Words, types: tuple[Type, ...], strings: Dictionary
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Find the m distinct rows of int64[k, n].

    Returns the position of one representative of each distinct row, intp[m], and for each of the n rows the index of
    its representative in that array, intp[n].
    """
    n = rows.shape[1]
    if not len(types) or n <= 1:
        return np.zeros(min(n, 1), dtype=np.intp), np.zeros(n, dtype=np.intp)
    # A single column needs no hash. Its words are equal if and only if its values are.
    words = hash_rows(rows, types, strings).view(np.int64) if len(types) > 1 else rows[0]
    first, number = np.empty(n, dtype=np.intp), np.empty(n, dtype=np.intp)
    count = loops.number_rows(rows, words, words.argsort(), first, number)
    return first[:count], number


def distinct_rows(rows: Words, types: tuple[Type, ...], strings: Dictionary) -> Words:
    """Return the distinct rows of int64[k, n], in the order of `distinct`."""
    return rows.take(distinct(rows, types, strings)[0], axis=1)
