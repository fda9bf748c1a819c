"""Sums of groups: counts, whole numbers in two halves, and doubles in limbs. All are exact, also after deletions.

A whole number is added up as its upper and its lower 32 bits. With fewer than 2**31 rows in a group, neither sum can
overflow 64 bits, so whether the result fits is checked only when it is read.

A double is split into at most 4 *limbs* of 24 bits. Each limb belongs to a *window*: window 0 is the 24 bits before the
point, and window -1 those after it. The limbs of a window are integers, so they add up and cancel without rounding. A
group's sum is stored as a few (window, limb) rows, regardless of the size of the group. It is rounded only when it is
read.

>>> import numpy as np
>>> from sharedstate_lite import loops
>>> words, diffs = np.array([1e300, 1.0, -1e300]).view(np.int64), np.array([1, 1, 1])
>>> windows, limbs = np.empty((1, 12), dtype=np.int64), np.empty(12, dtype=np.int64)
>>> m = loops.split_doubles(words, diffs, np.zeros(3, dtype=np.int64), np.empty((0, 1), dtype=np.int64), windows, limbs)
>>> low, total = int(windows[0, :m].min()), np.empty(1)
>>> grid = np.zeros((1, windows[0, :m].max() - low + 4), dtype=np.int64)
>>> loops.add_limbs(np.zeros(m, dtype=np.int64), windows[0, :m], limbs[:m], low, grid, total), total.tolist()
(1, [1.0])

Source: Kulisch's superaccumulator (see Collange et al., Parallel Computing 2015), stored sparsely as a Z-set whose
diffs are the limbs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .compiled import loop

_NULL = -(2**63)
_HALF = 2**32 - 1
_BITS = 24
_LIMB = 2**24 - 1
_LARGEST = 1.7976931348623157e308


@loop("i8(const i8[:,:], const i8[:], i8[::1], i8[::1], i8[::1], i8, i8[::1], i8[:,::1])")
def accumulate(rows: Any, diffs: Any, group: Any, counted: Any, summed: Any, limit: int, mass: Any, sums: Any) -> int:
    """Add changed rows to the accumulators of their groups.

    ``sums`` has a line for the number of rows, one for the values of each column of ``counted`` that are not NULL, and
    two for the halves of each column of ``summed``. ``mass`` gets the absolute diffs of each group, added up.

    Returns the number of rows, or -1 minus the row with which the mass of its group reaches ``limit``.
    """
    for i in range(len(group)):
        g, diff = group[i], diffs[i]
        mass[g] += abs(diff)
        if mass[g] >= limit:
            return -1 - i
        sums[0, g] += diff
        for at in range(len(counted)):
            if rows[counted[at], i] != _NULL:
                sums[1 + at, g] += diff
        for at in range(len(summed)):
            word, high = rows[summed[at], i], 1 + len(counted) + 2 * at
            if word != _NULL:
                sums[high, g] += (word >> 32) * diff
                sums[high + 1, g] += (word & _HALF) * diff
    return len(group)


@loop("i8(i8[::1], i8[:,:], i8[:,::1])")
def add_stored(owner: Any, stored: Any, sums: Any) -> int:
    """Add the accumulators that are stored for each owner to ``sums``. Returns how many rows they were."""
    for line in range(len(sums)):
        for at in range(len(owner)):
            sums[line, owner[at]] += stored[line, at]
    return len(owner)


@loop("i8(i8[:,::1], i8, i8, b1, i8[::1])")
def whole_sums(sums: Any, count: int, high: int, mean: bool, out: Any) -> int:
    """Write the sum of each group, whose halves are in the lines ``high`` and ``high`` + 1, or the word of its mean.

    It is NULL if the line ``count`` has no values. Returns the number of groups, or -1 minus the first group whose sum
    needs more than 64 bits or is the word of NULL.
    """
    for g in range(len(out)):
        out[g] = _NULL
        if sums[count, g] > 0:
            upper, lower = sums[high, g] + (sums[high + 1, g] >> 32), sums[high + 1, g] & _HALF
            if mean:
                out[g] = np.float64((float(upper) * 2.0**32 + float(lower)) / sums[count, g]).view(np.int64)
            else:
                out[g] = (upper << 32) + lower
                if upper < -(2**31) or upper >= 2**31 or out[g] == _NULL:
                    return -1 - g
    return len(out)


@loop("i8(const i8[:], const i8[:], i8[::1], const i8[:,:], i8[:,::1], i8[::1])")
def split_doubles(words: Any, diffs: Any, group: Any, groups: Any, rows: Any, limbs: Any) -> int:
    """Write the limbs of changed doubles, times their diffs. There must be room for 4 limbs of each.

    The row of a limb is the key of its group, from ``groups``, and its window. Returns how many limbs there are.
    """
    m, key = 0, len(groups)
    for i in range(len(group)):
        if words[i] != _NULL:
            exponent, rest = words[i] >> 52 & 2047, words[i] & (1 << 52) - 1
            if exponent > 0:
                rest |= 1 << 52
            # The absolute value is rest * 2**low.
            low = max(exponent, 1) - 1075
            window, above = low // _BITS, low % _BITS
            limb, rest = rest << above & _LIMB, rest >> _BITS - above
            while limb > 0 or rest > 0:
                if limb > 0:
                    for line in range(key):
                        rows[line, m] = groups[line, group[i]]
                    rows[key, m] = window
                    limbs[m] = limb * diffs[i] if words[i] > 0 else -limb * diffs[i]
                    m += 1
                window, limb, rest = window + 1, rest & _LIMB, rest >> _BITS
    return m


@loop("i8(i8[::1])")
def carry(limbs: Any) -> int:
    """Carry until each window except the last has 24 bits. Returns the last one, which has the sign of the sum."""
    last = len(limbs) - 1
    for at in range(last):
        limbs[at + 1] += limbs[at] >> _BITS
        limbs[at] &= _LIMB
    return int(limbs[last])


@loop("i8(i8[::1], i8[:], i8[:], i8, i8[:,::1], f8[::1])")
def add_limbs(owner: Any, windows: Any, limbs: Any, low: int, grid: Any, out: Any) -> int:
    """Write the sum of the limbs of each owner.

    ``grid`` has zeros, a row for each owner, with an element for each window from ``low`` on. The last 3 windows are
    for carries, which is enough for 2**62 limbs. Returns the number of owners, or -1 minus the first one whose sum is
    too large for a double.
    """
    for at in range(len(owner)):
        grid[owner[at], windows[at] - low] += limbs[at]
    for who in range(len(out)):
        line, total = grid[who], 0.0
        negative = carry(line) < 0
        if negative:
            for at in range(len(line)):
                line[at] = -line[at]
            carry(line)
        for at in range(len(line) - 1, -1, -1):
            # Half of the power first, because the whole one can be too small or too large for a double.
            half = math.ldexp(1.0, _BITS // 2 * (low + at))
            total += line[at] * half * half
        if total > _LARGEST:
            return -1 - who
        out[who] = -total if negative else total
    return len(out)
