"""The work of merges per epoch, and the rows stored meanwhile; rules/test_bound.py has more patterns."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from bags import Bag, Row, added, bag, delta, hash_levels, hashing, matrix, merging_slowly, retracting
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage import spine
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.batch import Batch, Layout
from sharedstate_lite.storage.encoding import Dictionary
from sharedstate_lite.storage.spine import EFFORT, MIN_CREDIT, SMALL, Merge

LAYOUT = Layout((Type.INT, Type.INT), (0,))
STRINGS = Dictionary()


def put(arrangement: Arrangement, ids: Any, diff: int = 1) -> None:
    """One epoch of numbered rows."""
    ids = np.asarray(ids, dtype=np.int64)
    arrangement.insert(np.stack([ids // 3, ids]), np.full(len(ids), diff, dtype=np.int64), STRINGS)
    arrangement.commit(arrangement.upper + 1)


class Counted:
    """An arrangement, and a counter of the rows that its merges read."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.arrangement, self.merged = Arrangement("a", LAYOUT), 0
        chunk = Merge._chunk

        def counted(merge: Merge, fuel: int) -> int:
            read = chunk(merge, fuel)
            self.merged += read
            return read

        patch.setattr(Merge, "_chunk", counted)

    def step(self, ids: Any, diff: int = 1) -> int:
        """Run one epoch; return the number of rows merged in it."""
        before = self.merged
        put(self.arrangement, ids, diff)
        return self.merged - before


@pytest.mark.parametrize("n", [10, 300, 2500])
@pytest.mark.parametrize("deletions", [0, 1], ids=["insertions", "every third row goes again"])
def test_no_epoch_pays_for_the_size_of_the_state(monkeypatch: pytest.MonkeyPatch, n: int, deletions: int) -> None:
    """The rows merged in an epoch are bounded by the rows that it brought; in total they are n log n."""
    counted, rows = Counted(monkeypatch), 0
    epochs = {10: 1500, 300: 300, 2500: 80}[n]
    for epoch in range(epochs):
        ids = np.arange(epoch * n, epoch * n + n)
        for some, diff in ((ids, 1), (ids[::3], -1))[: 1 + deletions]:
            under_way = len(counted.arrangement.merges)
            paid = counted.step(some, diff)
            rows += len(some)
            # Each merge spends its share and its saved credit, and its last chunk may read as much again.
            assert paid <= SMALL + (1 + under_way) * 2 * (MIN_CREDIT + EFFORT * n)
            assert len(counted.arrangement.runs) <= 1 + math.log2(rows)
    assert counted.merged <= SMALL * epochs * (1 + deletions) + rows * math.log2(rows)


def test_merges_run_for_many_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large merge takes many epochs, and reads use its inputs meanwhile."""
    counted = Counted(monkeypatch)
    counted.step(range(200_000))
    arrangement, running = counted.arrangement, 0
    deleted = 0
    for _ in range(200):
        paid = counted.step(range(deleted, deleted + 400), -1)
        deleted += 400
        running += bool(arrangement.merges)
        assert paid <= 3 * (MIN_CREDIT + EFFORT * 400)
        there = 200_000 - deleted
        assert there <= arrangement.rows <= 2 * there + 2 * 200_000 + 1000
        asked = matrix([(0, 0), (66_666, 199_999)], 2)
        assert arrangement.multiplicity(retracting(asked, arrangement, STRINGS)).tolist() == [0, 1]
    assert running > 20
    spine.finish_merges(arrangement)
    assert not arrangement.merges
    assert len(bag(*arrangement.contents())) == 200_000 - deleted


class Storm:
    """An arrangement, and a count of its rows."""

    def __init__(self) -> None:
        self.arrangement, self.there, self.largest, self.updates = Arrangement("a", LAYOUT), Counter[int](), 0, 0

    def step(self, changes: Counter[int]) -> None:
        """Run one epoch, and check the bound of rule 3."""
        ids = np.array(list(changes), dtype=np.int64)
        diffs = np.array(list(changes.values()), dtype=np.int64)
        self.arrangement.insert(np.stack([ids // 3, ids]), diffs, STRINGS)
        self.arrangement.commit(self.arrangement.upper + 1)
        for row, diff in changes.items():
            self.there[row] += diff
            if not self.there[row]:
                del self.there[row]
        self.largest, self.updates = max(self.largest, len(changes)), self.updates + len(changes)
        assert self.arrangement.rows <= 2 * len(self.there) + 2 * self.largest + 1000
        assert len(self.arrangement.runs) <= max(1, math.log2(self.updates + 1))


@hash_levels
def test_the_bound_holds_though_hashes_collide(level: str) -> None:
    """Rows with equal sort words are merged together; the bound holds nevertheless."""
    phase = st.tuples(st.sampled_from([1, 30, 800]), st.sampled_from([0.0, 0.4, 1.0]), st.integers(1, 12))

    @examples(10)
    @given(st.lists(phase, min_size=2, max_size=5))
    def run(phases: list[tuple[int, float, int]]) -> None:
        storm, fresh = Storm(), 0
        storm.step(Counter(range(-2500, 0)))
        for size, share, epochs in phases:
            for _ in range(epochs):
                gone = list(storm.there)[: int(size * share)]
                come = range(fresh, fresh + size - len(gone))
                fresh += len(come)
                storm.step(Counter({**dict.fromkeys(come, 1), **{row: -storm.there[row] for row in gone}}))
        assert len(bag(*storm.arrangement.contents())) == len(storm.there)

    with hashing(level):
        run()


@hash_levels
def test_a_merge_is_the_net_of_its_inputs(level: str) -> None:
    """A merge that pauses at any row equals its inputs: times up to since are folded, later ones kept."""
    rows = st.tuples(st.integers(0, 3), st.integers(0, 1))
    line = st.tuples(rows, st.sampled_from([-1, 1, 2]))

    @examples(40)
    @given(st.lists(st.lists(line, max_size=10), min_size=2, max_size=4), st.integers(1, 4))
    def run(epochs: list[Any], since: int) -> None:
        arrangement, since = Arrangement("a", LAYOUT), min(since, len(epochs))
        handle = arrangement.handle()
        wanted: dict[int, Bag] = {}
        for time, lines in enumerate(epochs, start=1):
            some = delta(lines, 2)
            arrangement.runs.append(Batch(LAYOUT.body(some.rows, some.diffs, STRINGS), time))
            wanted[max(time, since)] = added(wanted.get(max(time, since), Counter()), bag(some.rows, some.diffs))
        arrangement.upper = len(epochs) + 1
        handle.advance(since)
        merge = Merge(arrangement, arrangement.runs)
        while merge.left:
            before = merge.left
            merge._chunk(1)
            assert merge.left < before
        result = merge.result()
        found: dict[int, Bag] = {}
        for (_, *row, diff), time in zip(
            result.body[:4].T.tolist(), np.maximum(result.times(), since).tolist(), strict=True
        ):
            found.setdefault(time, Counter())[tuple(row)] += diff
        assert found == {time: some for time, some in wanted.items() if some}
        assert len(result) == sum(map(len, wanted.values()))

    with hashing(level):
        run()


def test_an_interrupt_loses_a_chunk_and_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C anywhere in a merge, reads are unchanged, and the merge resumes after its last complete chunk."""
    zipped = spine._zip
    calls = 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise KeyboardInterrupt
        return zipped(*arguments)

    monkeypatch.setattr(spine, "_zip", interrupted)
    arrangement, wanted, hits = Arrangement("a", LAYOUT), Counter[Row](), 0
    for epoch in range(16):
        ids = range(epoch * 500, epoch * 500 + 500)
        wanted.update((n // 3, n) for n in ids)
        mark = arrangement.mark()
        try:
            put(arrangement, ids)
        except KeyboardInterrupt:
            hits += 1
            arrangement.rollback(mark)
            assert len(bag(*arrangement.contents())) == epoch * 500
            arrangement.insert(np.stack([np.array(ids) // 3, np.array(ids)]), np.ones(500, dtype=np.int64), STRINGS)
            arrangement.upper += 1
        assert bag(*arrangement.contents()) == wanted
    assert hits > 1


@examples(15)
@given(st.data())
def test_merges_of_merges(data: st.DataObject) -> None:
    """Merges that take over the inputs of merges in progress lose no row, with handles opened and closed."""
    with merging_slowly():
        arrangement, history, handles = Arrangement("a", LAYOUT), [Counter[Row]()], []
        for _ in range(data.draw(st.integers(3, 25))):
            ids, diff = data.draw(st.lists(st.integers(0, 40), max_size=8)), data.draw(st.sampled_from([1, 1, -1]))
            put(arrangement, ids, diff)
            history.append(added(history[-1], *(Counter({(n // 3, n): diff}) for n in ids)))
            if data.draw(st.integers(0, 3)) == 0:
                handles.append(arrangement.handle())
            elif handles and data.draw(st.integers(0, 3)) == 0:
                handles.pop(0).close()
            for time in range(arrangement.since, arrangement.upper):
                assert bag(*arrangement.contents(time)) == history[time]
