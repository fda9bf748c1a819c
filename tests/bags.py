"""Rows of words and bags of rows in plain Python, to check kernels and arrangements against.

`hashing` makes hashes collide, and `merging_slowly` makes merges take many epochs. Results must not change: rows are
compared by their words, and readers use a merge's inputs until it is complete.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from sharedstate_lite.changelog.convert import from_values
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.storage import batch, spine
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.encoding import Dictionary, Words

Row = tuple[int, ...]
Bag = Counter[Row]

VALUES: dict[Type, list[Any]] = {
    Type.STRING: [None, "a", "b", "", "\0", "\uffff", "\U00010000", "aaaab", "aaaac"],
    Type.INT: [None, -1, 0, 1, 2**31 - 1],
    Type.BIGINT: [None, -(2**62), 0, 1, 2**40, 2**40 + 1],
    Type.DOUBLE: [None, -1.5, 0.0, 0.1, 1e300, 1e-300],
    Type.BOOLEAN: [None, False, True],
    Type.DATE: [None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    Type.TIMESTAMP: [None, dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1, 12)],
}
"""A few values of each type: NULL, and values that differ in their last bits or first letters only."""

HASHES = {"hashes apart": 2**64 - 1, "hashes collide": (1 << 63) | 1, "one hash": 0}
"""The bits of a hash that are kept: all, one in each half, none."""

hash_levels = pytest.mark.parametrize("level", HASHES)
"""Run a test with each of `HASHES`."""


@contextmanager
def hashing(level: str) -> Iterator[None]:
    """Within the block, keep only some bits of each row's hash."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "HASH_MASK", np.uint64(HASHES[level]))
        yield


@contextmanager
def merging_slowly() -> Iterator[None]:
    """Within the block, merge two rows at a time, so that few rows suffice for many merges in progress."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SMALL": 0, "MIN_CREDIT": 1, "CHUNK": 2, "EFFORT": 1}.items():
            patch.setattr(spine, name, value)
        yield


def domain(kind: Type, strings: Dictionary) -> list[int]:
    """The words of a type's values."""
    return [int(w) for w in from_values(VALUES[kind], Column("c", kind), "test", strings)]


def drawn_rows(types: Sequence[Type], strings: Dictionary) -> st.SearchStrategy[Row]:
    """Rows of words of these types."""
    return st.tuples(*(st.sampled_from(domain(kind, strings)) for kind in types))


def retracting(rows: Words, arrangement: Arrangement, strings: Dictionary) -> Words:
    """A body, in the order given, that retracts each of the rows int64[k, n] once."""
    return arrangement.layout.unsorted(rows, np.full(rows.shape[1], -1, dtype=np.int64), strings)


def matrix(rows: Sequence[Row], columns: int) -> Words:
    """Rows as int64[columns, n]."""
    return np.array(rows, dtype=np.int64).reshape(len(rows), columns).T.copy()


def delta(pairs: Iterable[tuple[Row, int]], columns: int) -> batch.Delta:
    """Rows with diffs as a delta."""
    pairs = list(pairs)
    return batch.Delta(matrix([r for r, _ in pairs], columns), np.array([d for _, d in pairs], dtype=np.int64))


def bag(rows: Words, diffs: npt.NDArray[np.int64]) -> Bag:
    """A delta as row -> diff; rows that cancel are left out."""
    out: Bag = Counter()
    for row, diff in zip(rows.T.tolist(), diffs.tolist(), strict=True):
        out[tuple(row)] += diff
    return nonzero(out)


def nonzero(some: Bag) -> Bag:
    """A bag without the rows that cancel."""
    return Counter({row: diff for row, diff in some.items() if diff})


def added(*bags: Bag) -> Bag:
    """The sum of several bags."""
    out: Bag = Counter()
    for some in bags:
        for row, diff in some.items():
            out[row] += diff
    return nonzero(out)


@st.composite
def valid_changes(draw: Any, rows: st.SearchStrategy[Row], there: Bag, most: int = 8) -> list[tuple[Row, int]]:
    """Changes after which no row of ``there`` has a negative multiplicity; updates ``there``."""
    out = []
    for _ in range(draw(st.integers(0, most))):
        if there and draw(st.integers(0, 2)) == 0:
            row = sorted(there)[draw(st.integers(0, len(there) - 1))]
            diff = -draw(st.sampled_from([1, there[row]]))
        else:
            row, diff = draw(rows), draw(st.sampled_from([1, 1, 2]))
        out.append((row, diff))
        there[row] += diff
        if not there[row]:
            del there[row]
    return out
