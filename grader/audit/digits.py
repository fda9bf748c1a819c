"""Decode a wrong balance: its change is a number in base 8 with one digit for each slot of the block.

A digit shows how often the slot's order took effect, exactly from -1 to 6 times. Beyond that it carries into the next
slot. If the carry shows (for money, the last three decimal digits do not match), the balance is ``doubtful``
and every order of it is a candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..orders.blocks import BASE, COLD_PRICE, HOT_MOST, LEAST, MOST, OFFSET, SIDE

Longs = NDArray[np.int64]
_LEAST_HOT, _SPAN = LEAST * SIDE * HOT_MOST, BASE**SIDE


class Digits(NamedTuple):
    """For each balance: how often each slot took effect, int64[n, 6], and if the digits are unreliable, bool[n]."""

    times: Longs
    doubtful: NDArray[np.bool_]


def read_stock(effect: Longs) -> Digits:
    """Decode units taken, int64[n]."""
    shifted = effect + OFFSET
    times = (shifted[:, None] >> (3 * np.arange(SIDE))) % BASE + LEAST
    return Digits(times, (shifted < 0) | (shifted >= _SPAN))


def read_money(effect: Longs, hot: Longs) -> Digits:
    """Decode money taken, int64[n]; ``hot``: units of each slot's hot line, int64[n, 6]."""
    cold, rest = np.divmod(effect - _LEAST_HOT, COLD_PRICE)
    digits = read_stock(cold)
    fits = (digits.times * hot).sum(axis=1) == rest + _LEAST_HOT
    return Digits(digits.times, digits.doubtful | ~fits)


__all__ = ["LEAST", "MOST", "Digits", "read_money", "read_stock"]
