"""Rules 16 to 22 over the bins of partial state, without Spark: every view that it supports, in drawn sequences.

Messages reach a bin in a drawn order, worker processes change places, and epochs come
between the rounds of a lookup. Full state in one process says what is right.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from cases import CASES
from hypothesis import given
from hypothesis import strategies as st
from partial_rehearsal import PartialRehearsal
from support import IN_BINS_TOO, bag, check_holes, examples, inputs, keys_of, only, own, relations_of, tuples

import sharedstate_lite as ss

PARTIAL = [
    pytest.param(name, marks=[] if name in IN_BINS_TOO else pytest.mark.slow) for name in CASES if CASES[name].partial
]
"""Rule 1 draws every view over bins in the fast suite."""


class Pair:
    """An engine over bins, and full state beside it."""

    def __init__(self, name: str, data: st.DataObject, **options: Any) -> None:
        self.view = CASES[name].declare()[1][-1]
        bins, lose, seed = data.draw(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 99)))
        self.there = PartialRehearsal([self.view], bins, lose, seed, **options)
        self.full = ss.engine("full", [self.view])
        self.data, self.rows = data, dict[str, Counter[Any]]()

    def some_key(self, view: ss.View) -> Any:
        """A key of a view, mostly one with rows."""
        now = {tuple(row[i] for i in view.key) for row in tuples(self.full.read(view.name))}
        keys = keys_of(view)
        return self.data.draw(st.sampled_from(sorted(now, key=repr)) | keys if now else keys)

    def epoch(self, size: int = 8) -> Any:
        """A drawn epoch."""
        return self.data.draw(inputs(relations_of(self.view), self.rows, size))

    def step(self) -> None:
        """An epoch: the changes are those of full state for the filled keys (rules 1, 17, 21)."""
        given_ = self.epoch()
        before = {name: set(self.there.filled(name)) for name in self.there.views}
        out, want = self.there.step(given_), self.full.step(given_)
        assert list(out) == list(want)
        for name, view in self.there.views.items():
            expected = {r: d for r, d in bag(want[name]).items() if tuple(r[i] for i in view.key) in before[name]}
            assert dict(bag(out[name])) == expected, name
            assert set(self.there.filled(name)) == before[name]

    def read(self, view: ss.View, key: Any) -> None:
        """A lookup: right (rule 16), it fills the key, and a second one sends no message."""
        hit = key in self.there.filled(view.name)
        want = tuples(self.full.read(view.name, key=key))
        for again in (False, True):
            self.there.trace.clear()
            self.there.clear_count()
            assert tuples(self.there.read(view.name, key=key)) == want
            assert bool(self.there.trace.rows_by_edge()) is not (hit or again)
            if hit or again:
                assert (self.there.rounds, self.there.reads) == (1, 0)
        assert key in self.there.filled(view.name)

    def check(self) -> None:
        """Filled keys have the rows of full state (rule 1), holes have none (17), filled below is filled above (19)."""
        for name, view in self.there.views.items():
            assert tuples(self.there.read(name)) == tuples(only(self.full.read(name), view, self.there.filled(name)))
        durable = [engine.bill().loc["durable inputs", "rows"] for engine in (self.there, self.full)]
        assert durable[0] == durable[1]
        assert self.there.bill().loc["working state", "rows"] == 0  # base tables are files, without an index
        check_holes(self.there)


@pytest.mark.parametrize("name", PARTIAL)
def test_rules_16_17_19_21_in_any_sequence(name: str) -> None:
    """With writes, lookups and evictions, answers are those of full state, hits send no message, holes emit nothing."""

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        pair = Pair(name, data)
        pair.step()
        assert own(pair.there.state())["rows"].sum() == 0
        for _ in range(data.draw(st.integers(2, 8))):
            action = data.draw(st.sampled_from(["step", "step", "read", "read", "evict", "compact", "restart"]))
            view = data.draw(st.sampled_from(list(pair.there.views.values())))
            if action == "step":
                pair.step()
            elif action == "read":
                pair.read(view, pair.some_key(view))
            elif action == "compact":
                pair.there.compact()
            elif action == "restart":
                pair.there.forget_processes()
            else:
                key, n = data.draw(st.sampled_from([(None, None), (None, 1), (pair.some_key(view), None)]))
                gone = pair.there.evict(view.name, key=key, n=n)
                for operator, keys in gone.items():
                    assert not set(keys) & set(pair.there.filled(operator))
            pair.check()

    run()


@pytest.mark.parametrize("name", PARTIAL)
def test_rules_18_20_22_epochs_between_the_rounds_of_a_lookup(name: str) -> None:
    """An epoch between the rounds of a lookup is applied once: answers and filled keys are those of full state."""

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        pair = Pair(name, data)
        pair.step()
        for _ in range(data.draw(st.integers(1, 3))):
            race(pair, data)
            pair.check()

    run()


def race(pair: Pair, data: st.DataObject) -> None:
    """Look up some keys while epochs come between the rounds."""
    when, epoch = data.draw(st.lists(st.booleans(), min_size=1, max_size=6)), pair.there.epoch

    def between() -> None:
        if when and when.pop():
            step = pair.epoch(6)
            pair.full.step(step)
            pair.there.later(step)

    keys = [pair.some_key(pair.view) for _ in range(data.draw(st.integers(1, 3)))]
    pair.there.between = between
    frame = pair.there.lookup("result", keys)
    pair.there.between = None
    if pair.there.epoch == epoch:
        assert tuples(frame) == tuples(only(pair.full.read("result"), pair.view, keys))
    assert tuples(pair.there.lookup("result", keys)) == tuples(only(pair.full.read("result"), pair.view, keys))
