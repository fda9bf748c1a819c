"""The axes of charts: the positions of values and ticks, and the format of numbers.

A linear axis starts at zero by default, because readers compare heights. A logarithmic axis spans at most 12 powers of
ten. It cannot show zero or smaller values, so these are drawn at its lower end, and the chart says how many there are
(`Axis.floored`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

POWERS = 1e12
"""The largest ratio between the ends of a logarithmic axis."""
WORTH = 40.0
"""An axis is logarithmic by default if its largest value is at least this many times the smallest positive one."""


def written(value: float) -> str:
    """Format a number for a chart, such as ``0.125``, ``1,250`` or ``1e12``.

    Fractions have at most three significant digits. Very large and very small numbers have an exponent.
    """
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e12 or size < 1e-6:
        return f"{value:.0e}".replace("e+", "e")
    if size >= 100 or value == round(value):
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(size)))
    shown = f"{value:.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


@dataclass(frozen=True)
class Axis:
    """An axis: the quantity that it shows (``title``), the unit, both ends, and whether it is logarithmic."""

    title: str
    unit: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    """Whether ticks are at whole numbers only."""
    floored: int = 0
    """How many values are too small for the logarithmic axis and are drawn at its lower end."""

    @property
    def label(self) -> str:
        """The text next to the axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def share(self, value: float) -> float:
        """Return the position of a value as a fraction of the axis: 0 at the low end, 1 at the high end."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        value = max(value, self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int) -> list[float]:
        """Return at most ``most`` round values between the ends, or the two ends if there are fewer than two."""
        found = _decades(self.low, self.high, most) if self.log else _steps(self.low, self.high, most, self.whole)
        return found if len(found) > 1 else [self.low, self.high]


def fitted(
    axis: Axis,
    values: Iterable[float],
    log: bool | None = None,
    zero: bool = True,
    ticks: int = 6,
    worth: float = WORTH,
) -> Axis:
    """Return the axis with ends that fit the values. A linear axis includes 0 unless ``zero`` is False.

    If ``log`` is None, the axis is logarithmic if the largest value is at least ``worth`` times the smallest positive
    one and no value is negative.
    """
    found = sorted(values)
    positive = [v for v in found if v > 0]
    if log is None:
        log = bool(positive) and found[0] >= 0 and positive[-1] / positive[0] >= worth
    if log and positive:
        least, high = max(positive[0], positive[-1] / POWERS), positive[-1]
        low = 10.0 ** math.floor(math.log10(least) + 1e-9)
        low = max((m * low for m in (1, 2, 5) if m * low <= least * (1 + 1e-9)), default=low)
        high = max(_up(high), low * 10)
        return replace(axis, low=low, high=high, log=True, floored=sum(v < low for v in found))
    low, high = (found[0], found[-1]) if found else (0.0, 1.0)
    low = min(0.0, low) if zero else low
    if high <= low:
        low, high = (low, low + 1) if zero or not found else (low - 0.5, high + 0.5)
    if zero:
        step = _step(high - low, ticks)
        high = step * math.ceil(high / step - 1e-9)
        low = step * math.floor(low / step + 1e-9)
    return replace(axis, low=low, high=high, log=False)


def _up(value: float) -> float:
    """Return the smallest number that is at least ``value`` and is 1, 2 or 5 times a power of ten."""
    ten = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return next(m * ten for m in (1, 2, 5, 10) if m * ten >= value * (1 - 1e-9))


def _step(span: float, most: int) -> float:
    raw = span / max(1, most - 1)
    ten = 10.0 ** math.floor(math.log10(raw))
    return next(m * ten for m in (1, 2, 5, 10) if m * ten >= raw * (1 - 1e-9))


def _steps(low: float, high: float, most: int, whole: bool) -> list[float]:
    step = _step(high - low, most)
    if whole:
        step = max(1.0, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    for multiples in ((1, 2, 5), (1,)):
        found = [m * 10.0**p for p in range(first, last + 1) for m in multiples]
        found = [v for v in found if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        if len(found) <= most:
            return found
    apart = math.ceil(len(found) / most)
    return found[::apart]
