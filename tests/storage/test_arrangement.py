"""Arrangements: reads at every time in [since, upper), undo, and trace handles."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from bags import (
    Bag,
    Row,
    added,
    bag,
    delta,
    drawn_rows,
    hash_levels,
    hashing,
    matrix,
    merging_slowly,
    nonzero,
    retracting,
    valid_changes,
)
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite import TimeError
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage.arrangement import Arrangement, TraceHandle
from sharedstate_lite.storage.batch import Layout
from sharedstate_lite.storage.encoding import NULL, Dictionary

TYPES = (Type.STRING, Type.INT, Type.DOUBLE)
LAYOUTS = [Layout(TYPES, (0,), 2), Layout(TYPES, (1, 0)), Layout(TYPES, ())]


class Model:
    """An arrangement, and its contents at every time as plain bags."""

    def __init__(self, layout: Layout, first: int = 1) -> None:
        self.strings = Dictionary()
        self.rows = drawn_rows(layout.types, self.strings)
        self.arrangement = Arrangement("visit[product]", layout, first)
        self.history: list[Bag] = [Counter()] * first
        self.handles: list[TraceHandle] = []
        self.floor = first - 1

    @property
    def now(self) -> Bag:
        return self.history[-1]

    def step(self, changes: list[tuple[Row, int]]) -> None:
        """Run one epoch."""
        some = delta(changes, 3)
        self.arrangement.insert(some.rows, some.diffs, self.strings)
        self.arrangement.commit(self.arrangement.upper + 1)
        self.history.append(added(self.now, bag(some.rows, some.diffs)))

    def step_drawn(self, data: st.DataObject) -> None:
        """Run one epoch of valid changes."""
        self.step(data.draw(valid_changes(self.rows, Counter(self.now))))

    def undo(self, data: st.DataObject) -> None:
        """Start an epoch, perhaps commit it, and undo it."""
        mark, sealed = self.arrangement.mark(), data.draw(st.booleans())
        some = delta(data.draw(valid_changes(self.rows, Counter(self.now))), 3)
        self.arrangement.insert(some.rows, some.diffs, self.strings)
        if sealed:
            self.arrangement.commit(self.arrangement.upper + 1)
        self.arrangement.rollback(mark)

    def hold(self, data: st.DataObject) -> None:
        """Open, advance or close a handle."""
        action = data.draw(st.sampled_from(["open", "advance", "close"]))
        if action == "open" and len(self.handles) < 3:
            self.handles.append(self.arrangement.handle(data.draw(st.integers(self.since, self.arrangement.upper - 1))))
        elif action == "advance" and self.handles:
            handle = data.draw(st.sampled_from(self.handles))
            handle.advance(data.draw(st.integers(handle.time, self.arrangement.upper - 1)))
        elif self.handles:
            self.handles.pop(data.draw(st.integers(0, len(self.handles) - 1))).close()

    @property
    def since(self) -> int:
        return max(self.floor, min((h.time for h in self.handles), default=len(self.history) - 1))

    def check(self, data: st.DataObject) -> None:
        """Compare everything that the arrangement reports, at all times that can be read."""
        a = self.arrangement
        assert (a.since, a.upper) == (self.since, len(self.history))
        spans = a.batches
        assert [s.lower for s in spans[1:]] == [s.upper for s in spans[:-1]]
        assert not spans or (spans[0].lower, spans[-1].upper) == (0, a.upper)
        assert a.rows == sum(s.rows for s in spans)
        keys = data.draw(st.lists(self.rows, max_size=4, unique_by=self.key_of))
        for time in range(a.since, a.upper):
            a.check(time)
            assert bag(*a.contents(time)) == self.history[time]
            self.check_match(keys, time)
        self.check_match(keys, None)
        for time in (a.since - 1, a.upper):
            with pytest.raises(TimeError, match="visit"):
                a.check(time)
        rows = data.draw(st.lists(self.rows, max_size=5))
        asked = matrix(rows, 3)
        found = a.multiplicity(retracting(asked, a, self.strings))
        assert found.tolist() == [self.now[r] for r in rows]
        whole = a.contents(strings=self.strings)
        assert len(whole.diffs) == len(self.now)

    def key_of(self, row: Row) -> Row:
        """Return a row's key."""
        return tuple(row[i] for i in self.arrangement.layout.key)

    def check_match(self, keys: list[Row], time: int | None) -> None:
        """A lookup finds the rows of each key, and the key of each row."""
        wanted = [self.key_of(row) for row in keys]
        owner, rows, diffs = self.arrangement.match(
            matrix(wanted, len(self.arrangement.layout.key)), self.strings, time
        )
        found: list[Bag] = [Counter() for _ in keys]
        for at, row, diff in zip(owner.tolist(), rows.T.tolist(), diffs[0].tolist(), strict=True):
            found[at][tuple(row)] += diff
        contents = self.now if time is None else self.history[time]
        assert list(map(nonzero, found)) == [
            Counter({row: n for row, n in contents.items() if self.key_of(row) == key}) for key in wanted
        ]


@hash_levels
@pytest.mark.parametrize("pace", ["merged at once", "merged row by row"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"by {layout.key}")
def test_reads_are_those_of_a_history_of_bags(layout: Layout, pace: str, level: str) -> None:
    """After steps, undone steps, handles, merges and compaction, every read at every time equals plain bags."""

    @examples(10)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        model = Model(layout, data.draw(st.sampled_from([1, 1, 4])))
        for _ in range(data.draw(st.integers(1, 10))):
            action = data.draw(st.sampled_from(["step", "step", "step", "undo", "hold", "compact", "refold"]))
            if action == "step":
                model.step_drawn(data)
            elif action == "undo":
                model.undo(data)
            elif action == "hold":
                model.hold(data)
            elif action == "compact":
                model.arrangement.compact()
            else:
                model.arrangement.fold_times()
            model.check(data)
        for handle in model.handles:
            handle.close()
        model.handles.clear()
        model.arrangement.compact()
        model.check(data)
        assert model.arrangement.rows == len(model.now)

    with hashing(level), merging_slowly() if pace == "merged row by row" else nullcontext():
        run()


def test_a_loaded_arrangement_has_no_past() -> None:
    """Loaded contents can be read from the epoch in which they were loaded, and change like any others."""
    strings, layout = Dictionary(), Layout((Type.INT, Type.INT), (0,))
    arrangement = Arrangement("late", layout, upper=8)
    body = layout.body(matrix([(1, 2), (3, 4)], 2), np.array([1, 2]), strings)
    arrangement.load(body)
    assert (arrangement.since, arrangement.upper) == (7, 8)
    handle = arrangement.handle(7)
    arrangement.insert(matrix([(3, 4)], 2), np.array([-2]), strings)
    arrangement.commit(9)
    assert bag(*arrangement.contents(7)) == {(1, 2): 1, (3, 4): 2}
    assert bag(*arrangement.contents(8)) == {(1, 2): 1}
    with pytest.raises(TimeError, match="late: cannot read epoch 6: the earliest readable epoch is since=7"):
        arrangement.check(6)
    handle.close()
    assert arrangement.since == 8
    arrangement.load(layout.body(matrix([], 2), np.array([], dtype=np.int64), strings))
    assert (arrangement.rows, arrangement.batches) == (0, [])


def test_a_handle_moves_forward_only() -> None:
    """A handle cannot go back, reach upper, or advance when closed; the errors say what to do."""
    arrangement = Arrangement("visit[product]", Layout((Type.INT,), (0,)))
    for epoch in range(1, 5):
        arrangement.insert(matrix([(epoch,)], 1), np.array([1]), Dictionary())
        if epoch == 2:
            handle = arrangement.handle()
        arrangement.commit(epoch + 1)
    assert (handle.time, arrangement.since) == (1, 1)
    handle.advance(3)
    handle.advance(3)
    for time in (2, 5):
        with pytest.raises(TimeError, match=rf"visit\[product\]: cannot advance .* 3 to {time}; .*upper=5"):
            handle.advance(time)
    for odd in (3.5, "3", True):
        with pytest.raises(TimeError, match="is not an epoch"):
            arrangement.handle(odd)  # type: ignore[arg-type]
    with pytest.raises(TimeError, match="open a handle at epoch 2"):
        arrangement.handle(2)
    with pytest.raises(TimeError, match=r"upper=5\); read at 4"):
        arrangement.handle(5)
    assert "time=3)" in repr(handle)
    with handle as same:
        assert same is handle
    handle.close()
    assert (arrangement.since, "closed" in repr(handle)) == (4, True)
    with pytest.raises(TimeError, match=r"closed.*handle\(4\)"):
        handle.advance(4)


def test_null_is_a_key_like_any_other() -> None:
    """In a lookup NULL matches NULL; a join checks for NULL itself."""
    strings, arrangement = Dictionary(), Arrangement("a", Layout((Type.STRING, Type.INT), (0,)))
    rows = np.stack([strings.codes([None, "", None]), np.array([1, 2, 3])])
    arrangement.insert(rows, np.array([1, 1, 1]), strings)
    owner, found, _ = arrangement.match(strings.codes(["", None])[None, :], strings)
    assert sorted(zip(owner.tolist(), found[1].tolist(), strict=True)) == [(0, 2), (1, 1), (1, 3)]
    assert found[0].tolist().count(NULL) == 2


def test_bytes_are_those_of_the_buffers() -> None:
    """Bytes include the whole buffer of each batch, and the output of merges in progress."""
    strings, arrangement = Dictionary(), Arrangement("a", Layout((Type.INT, Type.INT), (0,)))
    rng, merging = np.random.default_rng(1), 0
    for _ in range(60):
        arrangement.insert(rng.integers(0, 2**31, (2, 700)), np.ones(700, dtype=np.int64), strings)
        arrangement.commit(arrangement.upper + 1)
        merging += bool(arrangement.merges)
        buffers: dict[int, Any] = {}
        for body in [b.body for b in arrangement.runs] + [m._out for m in arrangement.merges]:
            whole = body if body.base is None else body.base
            buffers[id(whole)] = whole.nbytes
        assert arrangement.nbytes == sum(buffers.values())
    assert merging
    arrangement.compact()
    assert arrangement.nbytes == 4 * 8 * arrangement.rows


@pytest.mark.parametrize("held", [False, True])
def test_rows_taken_by_sort_word_are_gone(held: bool) -> None:
    """`take` returns the rows in ranges of sort words and removes them; a handle still reads them at its epoch."""
    layout, strings = Layout((Type.BIGINT, Type.BIGINT), (0,)), Dictionary()
    arrangement = Arrangement("state", layout)
    rows = np.array([np.arange(400), np.arange(400)])
    old, new = rows[:, :100], rows[:, :100] + np.array([[0], [1]])
    arrangement.insert(rows, np.ones(400, dtype=np.int64), strings)
    arrangement.commit(2)
    handle = arrangement.handle() if held else None
    arrangement.insert(np.hstack([old, new]), np.repeat([-1, 1], 100), strings)
    arrangement.commit(3)
    now = bag(*arrangement.contents(strings=strings))
    words = layout.sort_words(np.array(list(now)).T, strings)
    edges = [(-(2**63), -(2**62)), (0, 2**61)]
    inside = np.logical_or.reduce([(low <= words) & (words <= high) for low, high in edges])
    taken = bag(*arrangement.take(edges))
    arrangement.commit(4)
    assert taken == Counter({row: 1 for row, here in zip(now, inside, strict=True) if here}) and 0 < len(taken) < 400
    assert bag(*arrangement.contents(strings=strings)) == now - taken
    if handle is not None:
        assert bag(*arrangement.contents(handle.time, strings)) == bag(rows, np.ones(400, dtype=np.int64))
    else:
        assert arrangement.rows <= 500 - len(taken)
