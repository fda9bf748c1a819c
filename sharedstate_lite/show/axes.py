"""An axis of a chart: where a value stands, where its ticks are, and how a number is written.

A linear axis begins at zero, because a reader compares heights. A logarithmic one spans at
most twelve powers of ten. Zero and smaller values have no place there: they stand at the
lower end, and the chart says how many (`Axis.floored`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

POWERS = 1e12
"""The largest ratio between the ends of a logarithmic axis."""
WORTH = 40.0
"""From this ratio of largest to smallest value on, an axis becomes logarithmic by default."""


def written(value: float) -> str:
    """A number as a chart writes it: three significant digits, commas, an exponent from 1e12 on."""
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
    """A quantity (``title``) in a unit, the ends of its axis, and whether that is logarithmic."""

    title: str
    unit: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    """Whether only whole numbers have a tick."""
    floored: int = 0
    """How many values are too small for a logarithmic axis and stand at its lower end."""

    @property
    def label(self) -> str:
        """The text beside the axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def share(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high end."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        value = max(value, self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int) -> list[float]:
        """At most ``most`` round values between the ends, or the two ends if there are not two round values."""
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
    """The axis with ends that suit the values. It begins at 0 unless ``zero`` is False.

    If ``log`` is None, it is logarithmic from a ratio of ``worth`` between the values on.
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
    """The next of 1, 2, 5 times a power of ten."""
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
