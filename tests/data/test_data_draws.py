"""Chance without state."""

from __future__ import annotations

import numpy as np
import pytest

from sharedstate_lite.data.draws import Zipf, below, bits, key, uniform, unshuffled


def test_a_draw_depends_on_key_and_number_alone() -> None:
    """A number's draw is the same alone, among others and in any order; another key gives another."""
    numbers = np.arange(10_000, dtype=np.int64)
    whole = bits(key(7, 1), numbers)
    back = bits(key(7, 1), numbers[::-1].copy())[::-1]
    assert (whole == back).all() and bits(key(7, 1), np.array([1234]))[0] == whole[1234]
    assert (whole != bits(key(7, 2), numbers)).all() and (whole != bits(key(8, 1), numbers)).all()


def test_draws_are_even() -> None:
    """Each of ten equal parts of [0, 1) gets a tenth of the draws, within five standard deviations."""
    numbers = np.arange(200_000, dtype=np.int64)
    for under in range(5):
        counts = np.histogram(uniform(key(under), numbers), bins=10, range=(0, 1))[0]
        assert np.abs(counts - 20_000).max() < 5 * np.sqrt(200_000 * 0.1 * 0.9)
        assert set(np.unique(below(3, key(under), numbers))) == {0, 1, 2}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 65537])
def test_a_shuffle_is_a_permutation(size: int) -> None:
    """Each number of a block has one position, whatever the turn, and the order is not the natural one."""
    positions = np.arange(size, dtype=np.int64)
    for turn in (0, 1, size - 1, 2**63 + 11):
        members = unshuffled(positions, np.full(size, size), 7, np.full(size, turn, dtype=np.uint64))
        assert (np.sort(members) == positions).all()


def test_a_shuffle_of_the_largest_size_is_exact() -> None:
    """No step overflows at 2**32: distinct positions stay distinct, and lie in the block."""
    size = 1 << 32
    positions = np.array([0, 1, 2, size - 2, size - 1], dtype=np.int64)
    members = unshuffled(positions, np.full(5, size), 7, np.full(5, 2**64 - 1, dtype=np.uint64))
    assert len(set(members.tolist())) == 5 and members.min() >= 0 and members.max() < size
    steps = np.diff(members[:3]) % size
    assert steps[0] == steps[1] and (members[0] - members[4]) % size == steps[0]


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.999999999, 1.0, 1.1, 2.0, 6.0])
@pytest.mark.parametrize("size", [1, 2, 10, 1000])
def test_zipf_draws_each_rank_as_often_as_its_law_says(size: int, exponent: float) -> None:
    """Every rank's count is within five standard deviations of the law's, computed by the plain sum."""
    draws = 100_000
    counts = np.bincount(Zipf(size, exponent).draw(key(3), np.arange(draws, dtype=np.int64)), minlength=size)
    weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    share = weights / weights.sum()
    assert len(counts) == size
    assert (np.abs(counts - draws * share) <= 5 * np.sqrt(draws * share * (1 - share)) + 5).all()


def test_zipf_takes_any_number_of_ranks() -> None:
    """A trillion ranks cost no table, and the first is still drawn most."""
    drawn = Zipf(1 << 40, 1.1).draw(key(3), np.arange(50_000, dtype=np.int64))
    assert drawn.min() == 0 and drawn.max() > 1 << 30
    assert np.bincount(drawn[drawn < 100]).argmax() == 0
