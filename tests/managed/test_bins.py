"""Which bins move, and in which steps, against brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.errors import StateError
from sharedstate_lite.managed import bins
from sharedstate_lite.managed.bins import BinMove
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage.batch import Layout
from sharedstate_lite.storage.encoding import Dictionary

OWNERS = st.lists(st.integers(0, 4), min_size=1, max_size=40)
PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=14)
"""Senders and receivers. They may be the same workers, so both directions occur."""


def moving(pairs: list[tuple[int, int]]) -> list[BinMove]:
    """A move of its own bin for each pair."""
    return [BinMove(number, *pair) for number, pair in enumerate(pairs)]


def degree(moves: list[BinMove]) -> int:
    """The largest number of bins that one worker sends or receives."""
    sent, received = Counter(m.source for m in moves), Counter(m.target for m in moves)
    return max([0, *sent.values(), *received.values()])


def test_2_to_3_workers_moves_85_of_256_bins() -> None:
    """The plan moves a third of the bins. Contiguous ranges, as in Flink, move 127, and hash modulo workers 170."""
    two = bins.assign([0] * 256, 2)
    assert len(bins.moves(two, bins.assign(two, 3))) == 256 // 3 == 85
    ranges = [[b * workers // 256 for b in range(256)] for workers in (2, 3)]
    assert len(bins.moves(*ranges)) == 127
    modulo = [[b % workers for b in range(256)] for workers in (2, 3)]
    assert len(bins.moves(*modulo)) == 170


@pytest.mark.parametrize(("old", "new", "moved", "steps"), [(2, 3, 85, 85), (2, 4, 128, 64), (4, 8, 128, 32)])
def test_the_steps_of_batched_on_256_bins(old: int, new: int, moved: int, steps: int) -> None:
    """More senders and receivers need fewer steps."""
    before = bins.assign([0] * 256, old)
    moves = bins.moves(before, bins.assign(before, new))
    found = bins.steps(moves, "batched")
    assert (len(moves), len(found)) == (moved, steps)
    assert {len(step) for step in found} == {moved // steps}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 4))
def test_no_balanced_assignment_moves_fewer_bins(old: list[int], workers: int) -> None:
    """The plan is balanced, and no balanced assignment of all that exist is nearer to the old one."""
    workers = min(workers, len(old))

    def balanced(owners: tuple[int, ...]) -> bool:
        sizes = [owners.count(w) for w in range(workers)]
        return max(sizes) - min(sizes) <= 1

    new = tuple(bins.assign(old, workers))
    assert balanced(new)
    least = min(
        sum(a != b for a, b in zip(old, owners, strict=True))
        for owners in product(range(workers), repeat=len(old))
        if balanced(owners)
    )
    assert len(bins.moves(old, new)) == least


@given(PAIRS)
def test_batched_steps_are_few_and_equal(pairs: list[tuple[int, int]]) -> None:
    """No worker sends or receives two bins in a step, so the busiest worker needs all steps; they are equally large."""
    moves = moving(pairs)
    steps = bins.steps(moves, "batched")
    assert sorted(m for step in steps for m in step) == moves
    for step in steps:
        assert degree(step) == 1
    assert len(steps) == degree(moves)
    sizes = [len(step) for step in steps]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@given(PAIRS, st.integers(1, 20))
def test_rule_26_a_gradual_plan_has_small_steps(pairs: list[tuple[int, int]], most: int) -> None:
    """No step is larger than moves/steps, rounded up; with two steps or more, each is smaller than all at once."""
    moves = moving(pairs)
    assert bins.steps(moves, "all") == ([moves] if moves else [])
    for plan in ("fluid", "batched", bins.chunks(most)):
        steps = bins.steps(moves, plan)
        assert sorted(m for step in steps for m in step) == moves
        if steps:
            largest = max(map(len, steps))
            assert largest <= -(-len(moves) // len(steps))
            assert largest < len(moves) or len(steps) == 1
    assert all(len(step) == 1 for step in bins.steps(moves, "fluid"))
    assert all(len(step) <= most for step in bins.steps(moves, bins.chunks(most)))


@given(OWNERS, st.integers(1, 6), st.integers(1, 6), st.sampled_from(["all", "fluid", "batched", bins.chunks(3)]))
def test_rule_26_a_bin_has_one_owner_at_every_time(
    old: list[int], p2: int, p3: int, plan: str | bins.Migration
) -> None:
    """Step by step, each bin leaves the worker that owns it, and at the end the owners are the planned ones."""
    owners = list(old)
    for workers in (min(p2, len(old)), min(p3, len(old))):
        new = bins.assign(owners, workers)
        for step in bins.steps(bins.moves(owners, new), plan):
            for move in step:
                assert owners[move.bin] == move.source != move.target
                owners[move.bin] = move.target
        assert owners == new


def test_a_bin_is_the_top_bits_of_a_hash() -> None:
    """The same bin from the hash, from a sort word, and from the range of sort words, for every number of bins."""
    layout = Layout((Type.BIGINT, Type.BIGINT), (0,))
    rows = np.stack([np.arange(500), np.arange(500) % 7])
    words = layout.sort_words(rows, Dictionary())
    for power in (0, 1, 4, 8):
        found = bins.bin_of(words, 1 << power)
        text = [f"{word & (1 << 64) - 1:064b}"[:power] for word in words.tolist()]
        assert found.tolist() == [int(digits, 2) if digits else 0 for digits in text]
        keys = layout.key_words(rows[:1], Dictionary())
        assert (
            found.tolist()
            == bins.bin_of(keys, 1 << power).tolist()
            == bins.bin_of(keys.view(np.uint64), 1 << power).tolist()
        )
        for number in range(1 << power):
            low, high = bins.word_range(number, 1 << power)
            assert ((low <= words) & (words <= high) == (found == number)).all()
    assert len(set(bins.bin_of(words, 16).tolist())) == 16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bins.assign([0, 1], 3), "each worker needs at least one bin; choose 1 to 2 workers"),
        (lambda: bins.assign([0, 1], 0), "cannot rescale 2 bins to 0 workers"),
        (lambda: bins.assign([0, 1], True), "to True workers"),
        (
            lambda: bins.steps([], "sudden"),
            "no migration 'sudden'; the migrations are all, fluid, batched, and bins.chunks",
        ),
        (lambda: bins.chunks(0), "chunks.0.: a step moves at least one bin"),
        (lambda: bins.bin_of(np.zeros(1, np.int64), 12), "bins=12: the number of bins is a power of 2"),
        (lambda: bins.word_range(0, 0), "bins=0: the number of bins"),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    """The error names the argument and the rule."""
    with pytest.raises(StateError, match=message):
        call()
