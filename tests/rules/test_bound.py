"""Rule 3's bound on stored rows and rule 11's batches, under patterns that stress merging."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import IN_BINS, make, partial
from support import entries, examples

import sharedstate_lite as ss
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.batch import Layout
from sharedstate_lite.storage.encoding import Dictionary

Ints = npt.NDArray[np.int64]
Epoch = tuple[Ints, Ints]
"""Rows by number, and their diffs."""

LAYOUT = Layout((Type.INT, Type.INT, Type.INT), (0,))


def of(ids: Ints | range | list[int], diff: int = 1) -> Epoch:
    """The same diff for each row."""
    rows = np.asarray(ids, dtype=np.int64)
    return rows, np.full(len(rows), diff, dtype=np.int64)


def both(*parts: Epoch) -> Epoch:
    """Several changes in one epoch."""
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def grow_then_shrink(n: int, epochs: int) -> Iterator[Epoch]:
    """Rows are inserted, then deleted, oldest first."""
    for e in range(epochs // 2):
        yield of(range(e * n, e * n + n))
    for e in range(epochs // 2):
        yield of(range(e * n, e * n + n), -1)


def delete_the_newest(n: int, epochs: int) -> Iterator[Epoch]:
    """Rows are inserted, then deleted, newest first."""
    for e in range(epochs // 2):
        yield of(range(e * n, e * n + n))
    for e in reversed(range(epochs // 2)):
        yield of(range(e * n, e * n + n), -1)


def sliding_window(n: int, epochs: int) -> Iterator[Epoch]:
    """Each epoch inserts rows and deletes those of eight epochs before."""
    for e in range(epochs):
        new = of(range(e * n, e * n + n))
        yield new if e < 8 else both(new, of(range((e - 8) * n, (e - 7) * n), -1))


def all_gone_then_trickle(n: int, epochs: int) -> Iterator[Epoch]:
    """Everything is deleted; then one row is inserted and deleted many times."""
    yield of(range(n * 40))
    for e in range(epochs // 4):
        yield of(range(e * n // 2, (e + 1) * n // 2), -1)
    yield of(range(epochs // 4 * n // 2, n * 40), -1)
    for e in range(600):
        yield of([7], 1 if e % 2 == 0 else -1)


def updates_of_one_row(n: int, epochs: int) -> Iterator[Epoch]:
    """One row among many changes its value in each epoch."""
    yield of(range(n * 10))
    at = 0
    for e in range(epochs * 5):
        to = n * 10 + e % 50
        yield both(of([at], -1), of([to]))
        at = to


def duplicates(n: int, epochs: int) -> Iterator[Epoch]:
    """The same rows are inserted many times, then retracted."""
    for _ in range(epochs // 2):
        yield of(range(n))
    for _ in range(epochs // 2):
        yield of(range(n), -1)


def large_and_small_epochs(n: int, epochs: int) -> Iterator[Epoch]:
    """A large epoch, then many small ones that undo it, repeated."""
    for e in range(4):
        yield of(range(e * n * 10, (e + 1) * n * 10))
        for part in np.array_split(np.arange(e * n * 10, (e + 1) * n * 10 - n), epochs):
            yield of(part, -1)


PATTERNS: list[Callable[[int, int], Iterator[Epoch]]] = [
    grow_then_shrink,
    delete_the_newest,
    sliding_window,
    all_gone_then_trickle,
    updates_of_one_row,
    duplicates,
    large_and_small_epochs,
]


def insert(arrangement: Arrangement, epoch: Epoch, strings: Dictionary) -> None:
    """One epoch of numbered rows with a few hundred keys."""
    ids, diffs = epoch
    arrangement.insert(np.stack([ids % 311, ids // 311, ids]), diffs, strings)
    arrangement.commit(arrangement.upper + 1)


class Bound:
    """Counts the expected rows, and checks the arrangement against them."""

    def __init__(self, rows: int) -> None:
        self.arrangement, self.strings = Arrangement("a", LAYOUT), Dictionary()
        self.counts = np.zeros(rows, dtype=np.int64)
        self.largest = self.updates = 0

    def step(self, epoch: Epoch) -> None:
        """One epoch, and the checks after it."""
        np.add.at(self.counts, *epoch)
        self.largest = max(self.largest, len(epoch[0]))
        self.updates += len(epoch[0])
        insert(self.arrangement, epoch, self.strings)
        there = np.count_nonzero(self.counts)
        assert there <= self.arrangement.rows <= 2 * there + 2 * self.largest + 1000
        check_batches(self.arrangement, self.updates)


def check_batches(arrangement: Arrangement, updates: int) -> None:
    """Batches are contiguous, do not overlap, and are few."""
    spans = arrangement.batches
    assert [s.lower for s in spans[1:]] == [s.upper for s in spans[:-1]]
    assert not spans or (spans[0].lower, spans[-1].upper) == (0, arrangement.upper)
    assert all(s.lower < s.upper for s in spans)
    assert len(spans) <= max(1, math.log2(updates + 1))


@pytest.mark.parametrize("n", [1, 40, 700])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_rule_03_stored_rows_are_bounded(pattern: Callable[[int, int], Iterator[Epoch]], n: int) -> None:
    """Without compact(), stored rows stay within 2 x consolidated + 2 x the largest epoch + 1,000 after every epoch."""
    epochs = {1: 600, 40: 300, 700: 80}[n]
    bound = Bound(n * 1000 + 1000)
    for epoch in pattern(n, epochs):
        bound.step(epoch)


@st.composite
def storms(draw: Any) -> list[tuple[int, int, float, int]]:
    """Phases of a stream: epochs, rows an epoch, share of deletions, seed."""
    phase = st.tuples(
        st.integers(1, 25),
        st.sampled_from([1, 7, 150, 900, 4000]),
        st.sampled_from([0, 0.1, 0.5, 0.9, 1]),
        st.integers(0, 99),
    )
    phases: list[tuple[int, int, float, int]] = draw(st.lists(phase, min_size=1, max_size=6))
    return phases


@examples(20)
@given(storms())
def test_rule_03_stored_rows_are_bounded_in_any_storm(phases: list[tuple[int, int, float, int]]) -> None:
    """The bound holds for drawn mixtures of large and small epochs, insertions, deletions and duplicates."""
    bound = Bound(40_000)
    for epochs, rows, share, seed in phases:
        rng = np.random.default_rng(seed)
        for _ in range(epochs):
            there = np.flatnonzero(bound.counts)
            gone = rng.permutation(there)[: int(rows * share)]
            come = rng.integers(0, 40_000, rows - len(gone)) if share < 1 else gone[:0]
            if len(gone) + len(come):
                bound.step(both(of(gone, -1), of(come)))


@pytest.mark.parametrize("label", ["full", "shared", "partial", "shared in bins"])
def test_rule_03_bound_holds_for_every_arrangement(label: str) -> None:
    """Every arrangement of an engine keeps the bound, although one input row may change thousands of rows.

    In bins the bound allows two epochs and 1,000 rows for each bin.
    """
    catalog = ss.Catalog(info="product INT, category INT", visit="product INT, user INT, length INT")
    sql = "SELECT category, MAX(length) AS most, COUNT(*) AS n FROM info JOIN visit USING (product) GROUP BY category"
    views = [
        catalog.view(f"CREATE VIEW grouped AS {sql}"),
        catalog.view("CREATE VIEW joined AS SELECT category, user FROM info JOIN visit USING (product)"),
        catalog.view("CREATE VIEW users AS SELECT DISTINCT user FROM visit"),
    ]
    rng = np.random.default_rng(5)
    with make(label, views) as engine:
        engine.step({"info": [((p, p % 5), 1) for p in range(20)]})
        if partial(label):
            for key in range(5):
                engine.read("grouped", key=key)
                engine.read("joined", key=key)
            for key in range(300):
                engine.read("users", key=key)
        rows = pd.DataFrame({"product": rng.integers(0, 20, 6000), "user": rng.integers(0, 3000, 6000), "length": 1})
        largest = 0
        for epoch in range(45):
            part = rows.iloc[epoch % 30 * 200 : epoch % 30 * 200 + 200]
            moved = ((epoch % 20, epoch % 5), 1)
            given_: dict[str, Any] = {"visit": part.assign(diff=1 if epoch < 30 else -1)}
            if epoch % 3 == 0:
                # A product changes its category: all its visits move with it.
                engine_info = [((epoch % 20, c), -1) for c in categories(engine, epoch % 20)]
                given_["info"] = [*engine_info, moved]
            engine.step(given_)
            largest = max(largest, len(part) + len(given_.get("info", [])))
            for operator, stored in entries(engine).items():
                consolidated = len(engine.state(operator))
                assert stored <= 2 * consolidated + getattr(engine, "bins", 1) * (2 * largest + 1000), operator


def categories(engine: ss.Engine, product: int) -> list[int]:
    """The present categories of a product."""
    held = engine.state()
    base = held[held["bill"].str.contains("durable") & (held.relation == "info")]["operator"].item()
    table = engine.state(base)
    return [int(c) for c in table[table["product"] == product]["category"]]


@pytest.mark.parametrize("n", [1, 60, 2500])
def test_rule_11_batches_are_contiguous_and_few(n: int) -> None:
    """Batches do not overlap or leave gaps, and their number is logarithmic in updates, also with slow readers."""
    arrangement, strings = Arrangement("a", LAYOUT), Dictionary()
    updates, handle = 0, None
    for e in range({1: 3000, 60: 1200, 2500: 60}[n]):
        insert(arrangement, both(of(range(e * n, e * n + n)), of(range(e * n // 2, (e * n + n) // 2 - 1), -1)), strings)
        updates += n + n // 2
        check_batches(arrangement, updates)
        if e % 100 == 30:
            handle = arrangement.handle(arrangement.upper - 1)
        elif handle is not None and e % 100 == 80:
            handle.close()


def bins_of(engine: Any) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Every arrangement in every bin, from its store: (lower time, rows) of each run, and the time of the bin."""
    for head in engine._query.heads().values():
        for runs in head["runs"].values():
            yield [(lower, rows) for _, _, rows, lower in runs], head["time"]


@pytest.mark.parametrize(
    ("label", "epochs"), [*((label, 60) for label in IN_BINS), pytest.param("full on Spark", 3, marks=pytest.mark.slow)]
)
def test_rule_11_runs_in_a_store_are_few(label: str, epochs: int) -> None:
    """The runs in the store of a bin start at time 0, are contiguous, and their number is logarithmic."""
    catalog = ss.Catalog(visit="product STRING, user STRING, length INT")
    view = catalog.view("CREATE VIEW result AS SELECT product, MAX(length) AS most FROM visit GROUP BY product")
    updates = 0
    with make(label, [view]) as engine:
        for product in range(5) if partial(label) else ():
            engine.read("result", key=f"p{product}")
        for epoch in range(epochs):
            come = [((f"p{n % 5}", "u", epoch * 10 + n), 1) for n in range(10)]
            gone = [((f"p{n % 5}", "u", epoch * 10 - 20 + n), -1) for n in range(10)] if epoch > 1 else []
            engine.step({"visit": come + gone})
            updates += len(come) + len(gone)
            seen = 0
            for runs, time in bins_of(engine):
                lowers = [lower for lower, _ in runs]
                assert lowers == sorted(set(lowers)) and all(lower <= time for lower in lowers), runs
                assert len(runs) <= max(1, math.log2(updates + 1)), runs
                seen += len(runs)
            assert seen
