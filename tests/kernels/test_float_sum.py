"""Exact sums of doubles, in any order and after deletes."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite import loops

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
extreme = st.sampled_from([0.1, -0.1, 1e16, -1e16, 1e300, -1e300, 5e-324, 2.0**-1022, 1.5, 2.0**53 + 2, 1 / 3])


Longs = npt.NDArray[np.int64]


def split(values: npt.NDArray[np.float64]) -> tuple[Longs, Longs, Longs]:
    """For each limb of some values: the number of its value, its window, and the limb."""
    n = len(values)
    rows, limbs = np.empty((2, 4 * n), dtype=np.int64), np.empty(4 * n, dtype=np.int64)
    every, ones = np.arange(n), np.ones(n, dtype=np.int64)
    m = loops.split_doubles((values + 0.0).view(np.int64), ones, every, every[None, :], rows, limbs)
    return rows[0, :m].copy(), rows[1, :m], limbs[:m]


def total(owner: Longs, windows: Longs, limbs: Longs, groups: int) -> npt.NDArray[np.float64]:
    """The sum of the limbs of each group. Raises OverflowError if one is no double."""
    low, out = int(windows.min(initial=0)), np.empty(groups)
    grid = np.zeros((groups, int(windows.max(initial=0)) - low + 4), dtype=np.int64)
    if loops.add_limbs(owner, windows, limbs, low, grid, out) < 0:
        raise OverflowError
    return out


def summed(groups: list[list[float]], times: int = 1) -> list[float]:
    """Sum several groups, with each value taken ``times`` times."""
    owners = np.array([g for g, values in enumerate(groups) for _ in values], dtype=np.int64)
    where, windows, limbs = split(np.array([v for values in groups for v in values], dtype=np.float64))
    return total(owners[where], windows, limbs * times, len(groups)).tolist()


@examples(80)
@given(st.lists(st.lists(finite | extreme, max_size=8), min_size=1, max_size=3), st.sampled_from([1, 3, 1000]))
def test_a_sum_is_the_exact_one_rounded_once(groups: list[list[float]], times: int) -> None:
    """Sums equal math.fsum to the last bit, for values of any size, group by group."""
    wanted = [float(sum(map(Fraction, values)) * times) for values in groups]
    for got, want, values in zip(summed(groups, times), wanted, groups, strict=True):
        # Three limbs may be rounded one after the other: at most the last bit differs from rounding once.
        assert abs(got - want) <= math.ulp(want)
        if times == 1:
            assert abs(got - math.fsum(values)) <= math.ulp(want)


def test_what_cancels_leaves_nothing() -> None:
    """A deleted value of any size leaves no rounding error."""
    draw = random.Random(3)
    values = [draw.uniform(-1, 1) * 10.0 ** draw.randrange(-300, 300) for _ in range(300)]
    held: Counter[int] = Counter()
    for sign in (1, -1):
        turn = values[:]
        draw.shuffle(turn)
        for value in turn:
            _, windows, limbs = split(np.array([value]))
            for window, limb in zip(windows.tolist(), limbs.tolist(), strict=True):
                held[window] += sign * limb
    assert not any(held.values())
    # And whatever is not deleted is as if the rest had never been.
    for _ in range(20):
        some = draw.sample(values, 5)
        everything = [*values, *(-v for v in values), *some]
        draw.shuffle(everything)
        assert summed([everything]) == summed([some])


def test_limbs_are_few_and_small() -> None:
    """A value has at most 4 limbs below 2**24, which add up to it; 0 has none."""
    values = np.array([0.0, 1.0, -1.0, 0.1, 5e-324, -1.7976931348623157e308, 2.0**-1022, 2.0**53 - 1, 1 / 3])
    where, windows, limbs = split(values)
    assert np.abs(limbs).max() < 2**24
    assert np.bincount(where, minlength=len(values)).max() <= 4
    for n, value in enumerate(values.tolist()):
        mine = zip(windows[where == n].tolist(), limbs[where == n].tolist(), strict=True)
        parts = [Fraction(2) ** (24 * window) * limb for window, limb in mine]
        assert sum(parts) == Fraction(value)
    assert len(split(np.array([0.0, 0.0]))[0]) == 0
    assert total(*np.empty((3, 0), dtype=np.int64), 2).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("values", [[1.7e308, 1.7e308], [-1.7e308, -1.7e308]])
def test_a_sum_past_the_range_is_refused(values: list[float]) -> None:
    """A sum outside the range of DOUBLE is an error; an intermediate one is not."""
    with pytest.raises(OverflowError):
        summed([[1.0], values])
    assert summed([[*values, -values[0]]]) == [values[0]]
