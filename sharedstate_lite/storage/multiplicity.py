"""Multiplicities: how many times each row occurs in a relation, as int64. Sums and products raise on overflow.

The diff of an input row must be smaller than 2**31 in absolute value (:data:`MAX_DIFF`). But joins multiply
multiplicities, so a product or a sum of products can still become so large that int64 arithmetic would wrap around
without an error. The functions of this module raise RowError at 2**62.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import loops
from ..errors import RowError

Counts = npt.NDArray[np.int64]

MAX_DIFF = 1 << 31
"""The diff of an input row must be smaller than this in absolute value. A group with a SUM or AVG must have fewer rows
than this."""
LIMIT = 1 << 62
"""Multiplicities must be smaller than this in absolute value, so that adding a change to one cannot overflow int64."""


def times(left: Counts, owner: npt.NDArray[np.intp], right: Counts) -> Counts:
    """Return the multiplicities of n joined rows, int64[n]. Raises RowError if one would reach 2**62.

    Row i is the pair of a row with the multiplicity ``left[owner[i]]`` and one with ``right[i]``.

    >>> times(np.array([2, -1]), np.array([0, 1, 1]), np.array([3, 3, 4])).tolist()
    [6, -3, -4]
    """
    out = np.empty(len(owner), dtype=np.int64)
    if loops.multiply(left, right, owner, float(LIMIT), out) < 0:
        raise _overflow()
    return out


def add_up(owner: npt.NDArray[np.intp], diffs: Counts, owners: int) -> Counts:
    """Return the sum of the diffs of each owner, int64[owners]. Raises RowError if a sum would reach 2**62.

    ``diffs[i]`` belongs to the owner with the number ``owner[i]``.

    >>> add_up(np.array([0, 1, 0]), np.array([2, 5, -1]), 3).tolist()
    [1, 5, 0]
    """
    total = np.zeros(owners, dtype=np.int64)
    np.add.at(total, owner, diffs)
    if len(diffs) and np.abs(diffs).max() >= MAX_DIFF:
        # A floating-point sum is inexact, but it does not wrap around.
        if np.abs(np.bincount(owner, diffs.astype(np.float64), owners)).max() >= LIMIT:
            raise _overflow()
    return total


def _overflow() -> RowError:
    return RowError("a joined row would occur 2**62 times or more; use smaller diffs")
