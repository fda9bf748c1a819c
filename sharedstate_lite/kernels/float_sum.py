"""Exact sums of doubles, which do not depend on the order of arrival and stay exact after deletions.

A float64 is split into at most 4 *limbs* of 24 bits. Each limb belongs to a *window* of exponents that starts at a
multiple of 24. The limbs of a window are integers, so they add up and cancel without rounding. A group's sum is stored
as a few (window, limb) rows, regardless of the size of the group. It is rounded only once, when it is read.

>>> _, windows, limbs = split(np.array([1e300, 1.0, -1e300]))
>>> total(np.zeros(len(limbs), dtype=np.intp), windows, limbs, groups=1)
array([1.])

Source: Kulisch's superaccumulator (see Collange et al., Parallel Computing 2015), stored sparsely as a Z-set whose
diffs are the limbs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import RowError

_BITS = 24


def split(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split finite values float64[n] into limbs.

    Returns three arrays: for each limb, the position of its value, its window, and the limb itself.
    """
    where, windows, limbs = [], [], []
    rest = values
    at = np.arange(len(values))
    _, exponent = np.frexp(values)
    window = np.floor_divide(exponent - 1, _BITS).astype(np.int64)
    while len(at):
        limb = np.trunc(np.ldexp(rest, -_BITS * window))
        rest = rest - np.ldexp(limb, _BITS * window)
        some = limb != 0
        where.append(at[some])
        windows.append(window[some])
        limbs.append(limb[some].astype(np.int64))
        more = rest != 0
        at, rest, window = at[more], rest[more], window[more] - 1
    if not where:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(where), np.concatenate(windows), np.concatenate(limbs)


def total(
    owner: npt.NDArray[np.intp], windows: npt.NDArray[np.int64], limbs: npt.NDArray[np.int64], groups: int
) -> npt.NDArray[np.float64]:
    """Return the sum of the limbs of each group, float64[groups]. Raises RowError if a sum is too large for a DOUBLE.

    ``limbs[i]`` belongs to the group with the number ``owner[i]`` and to the window ``windows[i]``.
    """
    if not len(owner):
        return np.zeros(groups)
    low = int(windows.min())
    # The 3 extra windows are large enough for the carries of up to 2**62 limbs.
    grid = np.zeros((int(windows.max()) - low + 4, groups), dtype=np.int64)
    np.add.at(grid, (windows - low, owner), limbs)
    # The magnitudes are added up. The sign of a sum is the sign of its last window after carrying.
    carried = _carry(grid)
    negative = carried[-1] < 0
    carried = np.where(negative, _carry(-grid), carried)
    out = np.zeros(groups)
    with np.errstate(over="ignore"):
        for window in range(len(carried) - 1, -1, -1):
            out += np.ldexp(carried[window].astype(np.float64), _BITS * (window + low))
    if not np.isfinite(out).all():
        raise RowError("a SUM or AVG of DOUBLE exceeds 1.797e308, the largest DOUBLE; scale the values down first")
    return np.where(negative, -out, out)


def _carry(grid: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Propagate carries until every window except the last is in [0, 2**24). The last window keeps the sign."""
    out = grid.copy()
    for window in range(len(out) - 1):
        carry = out[window] >> _BITS
        out[window] -= carry << _BITS
        out[window + 1] += carry
    return out
