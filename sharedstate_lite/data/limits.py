"""Checks of the generators' numeric parameters."""

from __future__ import annotations

import numpy as np

from ..errors import Error

MOST_SKEW = 10.0
MOST_SEED = (1 << 64) - 1


def whole(name: str, value: object, low: int, high: int) -> int:
    """Return ``value`` as an int. Raises Error if it is not a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise Error(f"{name}={value!r}: it must be a whole number from {low} to {high}.")
    return int(value)


def number(name: str, value: object, what: str, high: float, *, zero: bool = True) -> float:
    """Return ``value`` as a float. Raises Error if it is not a number from 0 to ``high``.

    With ``zero=False``, 0 is not allowed either. ``what`` describes the value in the message, such as "an exponent".
    """
    there = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not there or not 0 <= value <= high or not (zero or value):  # type: ignore[operator]
        within = f"from 0 to {high:g}" if zero else f"above 0 and at most {high:g}"
        raise Error(f"{name}={value!r}: it must be {what} {within}.")
    return float(value)  # type: ignore[arg-type]


def skew(value: object) -> float:
    """Return ``value`` as the exponent of a Zipf distribution. Raises Error if it is not from 0 to MOST_SKEW."""
    return number("skew", value, "an exponent", MOST_SKEW)


def seed(value: object) -> int:
    """Return ``value`` as the seed of a generator. Raises Error if it is not a whole number from 0 to MOST_SEED."""
    return whole("seed", value, 0, MOST_SEED)
