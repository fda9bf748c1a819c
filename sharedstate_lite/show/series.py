"""What a chart of lines is given: series, checked, thinned where there are too many points, and coloured.

Thinning keeps what matters of a long run: each bucket of consecutive points becomes its
median and its 99th percentile, which the chart draws as two lines and says in its note.
No point is left out of the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Error

MOST = 6
"""Series in one chart; more cannot be told apart."""
LARGEST = 1e100
"""The largest number that is drawn; beyond it sums and powers of ten would pass what a float can be."""
BUCKETS = 120
"""Points of a line at most; beyond that they are thinned."""
HUES = ("inserted", "deleted", "upquery", "handle", "ink", "frame")
OWN = {"full": "inserted", "shared": "handle", "partial": "upquery"}
"""A strategy has its colour in every chart."""
MARKS = ("circle", "square", "diamond", "triangle", "cross", "ring")
"""And every series a mark of its own, so that colour is not needed to tell them apart."""


@dataclass(frozen=True)
class Series:
    """One line: float64[n] of x and y, and where it was thinned the upper line (99th percentile) too."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    hue: str
    mark: str
    upper: tuple[float, ...] = ()


def values(name: str, given: Iterable[Any], what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A series' numbers, float64[n]. Raises Error for what is no number, infinite or negative."""
    try:
        given = list(given)
        found = np.asarray([float(v) for v in given], dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise Error(f"series {name}: {what} are numbers; {error}") from error
    wrong = np.flatnonzero(~(found <= LARGEST) | (found < 0))
    if len(wrong):
        at = int(wrong[0])
        raise Error(f"series {name}, value {at + 1}: {given[at]!r} cannot be drawn; {what} are from 0 to {LARGEST:g}")
    return found


def mapped(given: Any, what: str) -> Mapping[Any, Any]:
    """``given``, which has to be {name: ``what``}. Raises Error for anything else."""
    if not isinstance(given, Mapping):
        raise Error(f"{type(given).__name__} cannot be drawn; give {{name: {what}}}")
    return given


def coloured(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Hue and mark of each series: a strategy its own, the others what is left. Raises Error for too many."""
    if len(names) > MOST:
        raise Error(f"{len(names)} series in one chart cannot be told apart; draw {MOST} at most, or two charts")
    taken = {OWN[n] for n in names if n in OWN}
    left = [h for h in HUES if h not in taken]
    hues = {n: OWN[n] if n in OWN else left.pop(0) for n in names}
    return {n: (hue, MARKS[HUES.index(hue)]) for n, hue in hues.items()}


def thinned(x: Any, y: Any, most: int = BUCKETS) -> tuple[list[float], list[float], list[float], int]:
    """x, median and 99th percentile of each bucket, and a bucket's points at most (1: nothing was thinned)."""
    if len(y) <= most:
        return x.tolist(), y.tolist(), [], 1
    cuts = np.linspace(0, len(y), most + 1).round().astype(int)
    parts = [slice(a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    middle = [float(np.median(y[p])) for p in parts]
    upper = [float(np.percentile(y[p], 99)) for p in parts]
    return [float(np.mean(x[p])) for p in parts], middle, upper, math.ceil(len(y) / most)


def scaled(all_seconds: Mapping[str, Any]) -> tuple[float, str]:
    """What to multiply seconds by so that they are easy to read, and the unit's name."""
    every = np.concatenate([v[v > 0] for v in all_seconds.values()] or [np.empty(0)])
    middle = float(np.median(every)) if len(every) else 1e-3
    if middle >= 0.5:
        return 1.0, "s"
    return (1e3, "ms") if middle >= 2e-4 else (1e6, "µs")
