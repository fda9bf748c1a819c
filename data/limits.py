"""Checks of the generators' numeric parameters."""

from __future__ import annotations

import numpy as np

from sharedstate_lite.errors import Error

MOST_SKEW = 10.0
MOST_SEED = (1 << 64) - 1


def whole(name: str, value: object, low: int, high: int) -> int:
    """The value as an int if it is a whole number from ``low`` to ``high``. Raises Error."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise Error(f"{name}={value!r}: pass a whole number from {low} to {high}")
    return int(value)


def number(name: str, value: object, what: str, high: float, *, zero: bool = True) -> float:
    """The value as a float if it is from 0 (``zero=False``: above 0) to ``high``. Raises Error, also for NaN."""
    there = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not there or not 0 <= value <= high or not (zero or value):  # type: ignore[operator]
        within = f"from 0 to {high:g}" if zero else f"above 0 and at most {high:g}"
        raise Error(f"{name}={value!r}: pass {what} {within}")
    return float(value)  # type: ignore[arg-type]


def skew(value: object) -> float:
    """The exponent of a Zipf distribution; 0 is uniform. Raises Error."""
    return number("skew", value, "an exponent", MOST_SKEW)


def seed(value: object) -> int:
    """The seed of a generator. Raises Error."""
    return whole("seed", value, 0, MOST_SEED)
