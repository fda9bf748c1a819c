"""How often a row may be there: below 2**62, so that a multiplicity and a change of it fit into 64 bits.

A sum of diffs wraps round without a word, and what has wrapped looks like any number.
So wherever rows become one (a projection, a UNION ALL, a GROUP BY), their diffs are
looked at first; only where one is huge, which is seldom, are they added up a second time,
in halves.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import RowError

Counts = npt.NDArray[np.int64]

LIMIT = 1 << 62
"""Multiplicities stay below this."""
MANY = 1 << 31
"""Fewer rows than this, each there less often than this, are together there less often than LIMIT."""


def times(left: Counts, right: Counts) -> Counts:
    """Multiplicities of joined rows. Raises RowError where they would pass 2**62."""
    huge = len(left) and float(np.abs(left).max()) * float(np.abs(right).max()) >= float(LIMIT)
    if huge and (np.abs(left.astype(np.float64)) * np.abs(right.astype(np.float64))).max() >= float(LIMIT):
        raise RowError("a joined row would occur more than 2**62 times; multiplicities must stay below that")
    return left * right


def add_up(owner: npt.NDArray[np.intp], diffs: Counts, owners: int) -> Counts:
    """The sum of the diffs int64[n] of each owner, int64[owners]. Raises RowError where it is 2**62 or more."""
    total = np.zeros(owners, dtype=np.int64)
    np.add.at(total, owner, diffs)
    if len(diffs) and np.abs(diffs).max() >= MANY:
        sums = np.zeros((2, owners), dtype=np.int64)
        for half, some in zip(sums, halves(diffs), strict=True):
            np.add.at(half, owner, some)
        check_halves(*sums)
    return total


def halves(diffs: Counts) -> Counts:
    """Diffs int64[n] as what counts 2**31 and the rest, int64[2, n]: n < 2**31 of these add up without wrapping."""
    return np.stack([diffs >> 31, diffs & (MANY - 1)])


def check_halves(high: Counts, low: Counts) -> None:
    """Raise RowError unless all sums, given as the sums of their :func:`halves`, are within LIMIT."""
    share = high + (low >> 31)
    if np.maximum(share, ~share).max(initial=0) >= LIMIT >> 31:
        raise too_many()


def too_many(name: str = "") -> RowError:
    """What is raised where the multiplicity of a row of the arrangement ``name`` would not be below LIMIT."""
    return RowError(
        f"{name and name + ': '}a row would be there 2**62 times or more, counting those that it is not told apart "
        "from; use smaller multiplicities"
    )
