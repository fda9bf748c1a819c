"""From a wrong balance to the order that is wrong: its effect as a number in base 8, one digit a slot.

An effect within -1 to 6 times a slot is read exactly. Beyond that a digit carries into the next slot; such a
balance is ``doubtful`` where that can be seen (in money the last three digits do not fit), and every order of it
is a candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..orders.blocks import BASE, COLD_PRICE, HOT_MOST, LEAST, MOST, OFFSET, SIDE

Longs = NDArray[np.int64]
_LEAST_HOT, _SPAN = LEAST * SIDE * HOT_MOST, BASE**SIDE


class Digits(NamedTuple):
    """Per balance: how often each slot took effect, int64[n, 6], and whether the digits cannot be trusted, bool[n]."""

    times: Longs
    doubtful: NDArray[np.bool_]


def read_stock(effect: Longs) -> Digits:
    """From units taken."""
    shifted = effect + OFFSET
    times = (shifted[:, None] >> (3 * np.arange(SIDE))) % BASE + LEAST
    return Digits(times, (shifted < 0) | (shifted >= _SPAN))


def read_money(effect: Longs, hot: Longs) -> Digits:
    """From money taken, and the units of each slot's hot line, int64[n, 6]."""
    cold, rest = np.divmod(effect - _LEAST_HOT, COLD_PRICE)
    digits = read_stock(cold)
    fits = (digits.times * hot).sum(axis=1) == rest + _LEAST_HOT
    return Digits(digits.times, digits.doubtful | ~fits)


__all__ = ["LEAST", "MOST", "Digits", "read_money", "read_stock"]
