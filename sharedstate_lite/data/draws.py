"""Random numbers without state: each number is a hash of a key and a row number.

The output of a generator with state depends on how the work is divided between tasks. Here, any task can compute any
row by itself, and it always gets the same result.

>>> import numpy as np
>>> from sharedstate_lite.data.draws import below, key
>>> die = key(7, 1)                                        # seed 7, column 1
>>> below(6, die, np.arange(4)).tolist(), below(6, die, np.array([2])).tolist()
([5, 2, 1, 2], [1])

Source: counter-based generators, Salmon et al., SC 2011. The hash function is from SplitMix64, Steele, Lea and Flood,
OOPSLA 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
Whole = npt.NDArray[np.int64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def key(*parts: int) -> int:
    """Return a 64-bit key computed from whole numbers, such as a seed and a column number."""
    out = 0
    for part in parts:
        out = _scramble((out + part * _GOLDEN + _GOLDEN) & _MASK)
    return out


def bits(of: int, numbers: Whole) -> Numbers:
    """Return 64 random bits for each number, using the key ``of``; shape (n,)."""
    z = numbers.astype(np.uint64)
    z *= np.uint64(_GOLDEN)  # arrays wrap around on overflow, as the hash requires
    z += np.uint64(of)
    for shift, factor in _MIX:
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z


def uniform(of: int, numbers: Whole) -> npt.NDArray[np.float64]:
    """Return a float64 in [0, 1) with 53 random bits for each number, using the key ``of``; shape (n,)."""
    return (bits(of, numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(limit: int, of: int, numbers: Whole) -> Whole:
    """Return a uniform random whole number in [0, limit) for each number, using the key ``of``; shape (n,)."""
    return np.minimum((uniform(of, numbers) * limit).astype(np.int64), limit - 1)


def unshuffled(positions: Whole, sizes: Whole, under: int, turns: Numbers) -> Whole:
    """Return the numbers at ``positions`` in permutations of 0 .. size - 1; shape (n,).

    ``sizes`` and ``turns`` contain one value for each position, and these two values select its permutation.
    Permutations are not stored: number x is at position (a x + turn) mod size, and ``a`` is computed from ``under`` and
    the size. This scatters the numbers but is not a uniform shuffle. That is enough here, because the rows that it
    selects have random values anyway. Sizes must be at most 2**32.
    """
    out = np.empty(len(positions), dtype=np.int64)
    for size in np.unique(sizes).tolist():
        a = 1 + key(under, size) % size
        while math.gcd(a, size) != 1:
            a += 1
        here = sizes == size
        size64 = np.uint64(size)
        at = (positions[here].astype(np.uint64) + size64 - turns[here] % size64) % size64
        out[here] = (at * np.uint64(pow(a, -1, size) if size > 1 else 0) % size64).astype(np.int64)
    return out


@dataclass(frozen=True)
class Zipf:
    """A Zipf distribution over the ranks 0 .. size - 1.

    The probability of rank r is proportional to (r + 1) ** -exponent. Exponent 0 gives the uniform distribution. Ranks
    are drawn by rejection-inversion, which is exact and does not need a table of all ranks.
    Source: Hörmann and Derflinger, ACM TOMACS 1996.
    """

    size: int
    exponent: float

    def draw(self, of: int, numbers: Whole) -> Whole:
        """Return a random rank for each number, using the key ``of``; shape (n,)."""
        if self.exponent == 0:
            return below(self.size, of, numbers)
        out = np.zeros(len(numbers), dtype=np.int64)
        low, high = self._area(np.array([1.5]))[0] - 1.0, self._area(np.array([self.size + 0.5]))[0]
        # A rank that exceeds the drawn point by at most this much is accepted without computing its area.
        sure = 2.0 - self._inverse(self._area(np.array([2.5])) - self._height(np.array([2.0])))[0]
        left = np.arange(len(numbers))
        attempt = 0
        while len(left):
            area = high + uniform(key(of, attempt), numbers[left]) * (low - high)
            point = self._inverse(area)
            rank = np.clip(np.floor(point + 0.5), 1, self.size)
            taken = (rank - point <= sure) | (area >= self._area(rank + 0.5) - self._height(rank))
            out[left[taken]] = rank[taken].astype(np.int64) - 1
            left = left[~taken]
            attempt += 1
        return out

    def _height(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.exp(-self.exponent * np.log(x))

    def _area(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the integral of the height from 1 to x. Near exponent 1, a series replaces the formula."""
        log = np.log(x)
        t = (1.0 - self.exponent) * log
        return log * np.where(np.abs(t) > 1e-8, np.expm1(t) / np.where(t == 0, 1.0, t), 1.0 + t / 2.0)

    def _inverse(self, area: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        t = np.maximum((1.0 - self.exponent) * area, -1.0 + 2.0**-53)
        return np.exp(area * np.where(np.abs(t) > 1e-8, np.log1p(t) / np.where(t == 0, 1.0, t), 1.0 - t / 2.0))


def _scramble(z: int) -> int:
    for shift, factor in _MIX:
        z = ((z ^ (z >> shift)) * factor) & _MASK
    return z ^ (z >> 31)
