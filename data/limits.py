"""What generators may be asked for: checks of numbers that name what was wrong, the rule, and what is right."""

from __future__ import annotations

import numpy as np

from sharedstate_lite.errors import Error

MOST_SKEW = 10.0
MOST_SEED = (1 << 64) - 1


def whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number within limits, numpy's included. Raises Error."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise Error(f"{name}={value!r}: it is a whole number from {low} to {high}")
    return int(value)


def number(name: str, value: object, what: str, high: float, *, zero: bool = True) -> float:
    """A number from 0 (``zero=False``: above it) to ``high``. Raises Error, for NaN and infinity too."""
    there = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not there or not 0 <= value <= high or not (zero or value):  # type: ignore[operator]
        within = f"from 0 to {high:g}" if zero else f"above 0, {high:g} at most"
        raise Error(f"{name}={value!r}: it is {what} {within}")
    return float(value)  # type: ignore[arg-type]


def skew(value: object) -> float:
    """An exponent of Zipf's law; 0 is uniform. Raises Error."""
    return number("skew", value, "an exponent", MOST_SKEW)


def seed(value: object) -> int:
    """What chooses among tables of one kind. Raises Error."""
    return whole("seed", value, 0, MOST_SEED)
