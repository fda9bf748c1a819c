"""Multiplicities: how often a row is in a relation, as int64. Sums and products that would overflow raise.

A caller's diff is below 2**31 in size (:data:`MAX_DIFF`). Joins multiply multiplicities, so a product or a
sum of products can still reach 2**62, where int64 arithmetic would wrap around without an error.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import RowError

Counts = npt.NDArray[np.int64]

MAX_DIFF = 1 << 31
"""The diff of an input row is below this in size. A group under SUM or AVG has fewer rows than this."""
LIMIT = 1 << 62
"""Multiplicities stay below this, so one of them plus one change fits into 64 bits."""


def times(left: Counts, right: Counts) -> Counts:
    """Multiplicities of joined rows, int64[n]. Raises RowError if one would reach 2**62.

    >>> times(np.array([2, -1]), np.array([3, 3])).tolist()
    [6, -3]
    """
    if len(left) and float(np.abs(left).max()) * float(np.abs(right).max()) >= LIMIT:
        if (np.abs(left.astype(np.float64)) * np.abs(right.astype(np.float64))).max() >= LIMIT:
            raise _overflow()
    return left * right


def add_up(owner: npt.NDArray[np.intp], diffs: Counts, owners: int) -> Counts:
    """The sum of the diffs int64[n] of each owner, int64[owners]. Raises RowError if one would reach 2**62.

    >>> add_up(np.array([0, 1, 0]), np.array([2, 5, -1]), 3).tolist()
    [1, 5, 0]
    """
    total = np.zeros(owners, dtype=np.int64)
    np.add.at(total, owner, diffs)
    if len(diffs) and np.abs(diffs).max() >= MAX_DIFF:
        # In floating point a sum is inexact, but it does not wrap around.
        if np.abs(np.bincount(owner, diffs.astype(np.float64), owners)).max() >= LIMIT:
            raise _overflow()
    return total


def _overflow() -> RowError:
    return RowError("a joined row would occur 2**62 times or more; use smaller diffs")
