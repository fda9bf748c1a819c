"""Decode a wrong balance into the number of times that each of its orders took effect.

The change of a balance is a number in base 8 with one digit per slot of the block. The digit shows how often the order
in that slot took effect, and is exact from -1 to 6 times. Any other count carries into the next slot's digit. The carry
is detected if the number is out of range or, for money, if its last three decimal digits do not match. The balance is
then ``doubtful``, and all of its orders are candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..orders.blocks import BASE, COLD_PRICE, HOT_MOST, LEAST, MOST, OFFSET, SIDE

Longs = NDArray[np.int64]
_LEAST_HOT, _SPAN = LEAST * SIDE * HOT_MOST, BASE**SIDE


class Digits(NamedTuple):
    """Decoded balances: how often each slot took effect, int64[n, 6], and whether the digits are doubtful, bool[n]."""

    times: Longs
    doubtful: NDArray[np.bool_]


def read_stock(effect: Longs) -> Digits:
    """Decode the number of units taken from each item, int64[n]."""
    shifted = effect + OFFSET
    times = (shifted[:, None] >> (3 * np.arange(SIDE))) % BASE + LEAST
    return Digits(times, (shifted < 0) | (shifted >= _SPAN))


def read_money(effect: Longs, hot: Longs) -> Digits:
    """Decode the money taken from each user, int64[n]. ``hot``: the units in each slot's hot line, int64[n, 6]."""
    cold, rest = np.divmod(effect - _LEAST_HOT, COLD_PRICE)
    digits = read_stock(cold)
    fits = (digits.times * hot).sum(axis=1) == rest + _LEAST_HOT
    return Digits(digits.times, digits.doubtful | ~fits)


__all__ = ["LEAST", "MOST", "Digits", "read_money", "read_stock"]
