"""Multiplicities: how many times each row occurs in a relation, as int64. Sums and products raise on overflow.

The diff of an input row must be smaller than 2**31 in absolute value (:data:`MAX_DIFF`). But joins multiply
multiplicities, so a product or a sum of products can still become so large that int64 arithmetic would wrap around
without an error. The functions of this module raise RowError at 2**62.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import RowError

Counts = npt.NDArray[np.int64]

MAX_DIFF = 1 << 31
"""The diff of an input row must be smaller than this in absolute value. A group with a SUM or AVG must have fewer rows
than this."""
LIMIT = 1 << 62
"""Multiplicities must be smaller than this in absolute value, so that adding a change to one cannot overflow int64."""


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
            raise overflow()
    return total


def overflow() -> RowError:
    """Return the error for a multiplicity that is too large."""
    return RowError("a joined row would occur 2**62 times or more; use smaller diffs")
