"""Batches: sorting, consolidation, lookups, and hash collisions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from bags import HASHES, VALUES, bag, delta, domain, drawn_rows, hash_levels, hashing, matrix, nonzero
from hypothesis import given
from hypothesis import strategies as st
from support import examples

from sharedstate_lite import loops
from sharedstate_lite.changelog.convert import from_values
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.storage.batch import (
    LOW_BITS,
    Batch,
    Layout,
    concat,
    distinct,
    hash_rows,
    merged,
    prefix,
)
from sharedstate_lite.storage.encoding import NULL, Dictionary

TYPES = (Type.STRING, Type.BIGINT, Type.DOUBLE)
LAYOUTS = {
    "by the first": Layout(TYPES, (0,)),
    "by two, turned round": Layout(TYPES, (2, 0)),
    "by nothing": Layout(TYPES, ()),
    "by all": Layout(TYPES, (0, 1, 2)),
    "in order of a number": Layout(TYPES, (0,), 1),
    "in order of a double": Layout(TYPES, (0,), 2),
    "in order of a string": Layout(TYPES, (1,), 0),
}


def check_body(body: Any, layout: Layout, strings: Dictionary) -> None:
    """A body is sorted and has no row twice, and a key's rows are between the key's smallest and largest sort word."""
    words, rows = body[0], body[1 : 1 + layout.columns]
    assert (words[1:] >= words[:-1]).all()
    assert len(set(map(tuple, rows.T.tolist()))) == body.shape[1]
    low = layout.key_words(rows[list(layout.key)], strings)
    assert ((low <= words) & (words <= (low | LOW_BITS))).all()


@hash_levels
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_body_is_the_net_of_its_rows(name: str, level: str) -> None:
    """A body has each row once, with the sum of its diffs, and no row whose sum is 0."""
    layout, strings = LAYOUTS[name], Dictionary()
    rows = drawn_rows(TYPES, strings)

    @examples(15)
    @given(st.lists(st.tuples(rows, st.sampled_from([-2, -1, 1, 2])), max_size=25), st.integers(0, 25))
    def run(pairs: list[Any], cut: int) -> None:
        given_ = delta(pairs, 3)
        body = layout.body(given_.rows, given_.diffs, strings)
        check_body(body, layout, strings)
        wanted = bag(given_.rows, given_.diffs)
        assert bag(body[1:4], body[4]) == wanted
        assert body.shape[1] == len(wanted)
        parts = [delta(pairs[:cut], 3), delta(pairs[cut:], 3)]
        both = [Batch(layout.body(p.rows, p.diffs, strings), n) for n, p in enumerate(parts)]
        assert np.array_equal(np.sort(merged(both, layout, strings)), np.sort(body))
        assert bag(*concat(parts, 3)) == wanted

    with hashing(level):
        run()


@hash_levels
def test_diffs_that_are_vectors_add_up(level: str) -> None:
    """A row with a vector diff stays while any element is not 0."""
    layout, strings = Layout((Type.INT, Type.INT), (0,), width=3), Dictionary()
    rows = st.tuples(st.integers(0, 2), st.integers(0, 1))

    @examples(25)
    @given(st.lists(st.tuples(rows, st.tuples(*[st.integers(-1, 1)] * 3)), max_size=12))
    def run(pairs: list[Any]) -> None:
        total: dict[Any, list[int]] = {}
        for row, diffs in pairs:
            total[row] = [a + b for a, b in zip(total.get(row, [0, 0, 0]), diffs, strict=True)]
        body = layout.body(matrix([r for r, _ in pairs], 2), matrix([d for _, d in pairs], 3), strings)
        found = {tuple(line[1:3]): line[3:] for line in body.T.tolist()}
        assert len(found) == body.shape[1]
        assert found == {row: diffs for row, diffs in total.items() if any(diffs)}

    with hashing(level):
        run()


@hash_levels
def test_times_are_kept_apart(level: str) -> None:
    """Consolidation adds up diffs of rows that are equal in all columns and times, and of no others."""
    layout, strings = Layout((Type.INT,), (0,)), Dictionary()
    lines_of = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([-1, 1, 2]), st.integers(1, 3)), max_size=20)

    @examples(30)
    @given(lines_of)
    def run(given_: list[tuple[int, int, int]]) -> None:
        wanted: Counter[Any] = Counter()
        for row, diff, time in given_:
            wanted[row, time] += diff
        rows = matrix([(row,) for row, _, _ in given_], 1)
        body = np.concatenate([layout.sort_words(rows, strings)[None, :], matrix(given_, 3)])
        out = np.empty((4, 2 + len(given_)), dtype=np.int64)
        kept = loops.consolidate(np.ascontiguousarray(body), np.argsort(body[0]), 1, 1, out, 2)
        out = out[:, 2:kept]
        assert (out[0][1:] >= out[0][:-1]).all()
        assert out.shape[1] == len(nonzero(wanted))
        assert {(row, time): diff for _, row, diff, time in out.T.tolist()} == nonzero(wanted)

    with hashing(level):
        run()


@hash_levels
def test_distinct_numbers_the_kinds(level: str) -> None:
    """One position per distinct row, and each row has the number of its distinct row."""
    strings = Dictionary()

    @examples(40)
    @given(st.lists(drawn_rows(TYPES, strings), max_size=20), st.integers(0, 3))
    def run(rows: list[Any], columns: int) -> None:
        some = matrix(rows, 3)[:columns]
        first, kind = distinct(some, TYPES[:columns], strings)
        kinds = some.take(first, axis=1)
        assert np.array_equal(kinds.take(kind, axis=1), some)
        assert len(first) == len(set(map(tuple, some.T.tolist())))

    with hashing(level):
        run()


@pytest.mark.parametrize("kind", VALUES)
def test_an_order_code_never_contradicts_the_values(kind: Type) -> None:
    """For every type, a larger value has no smaller code. Only NULL has code 0."""
    strings = Dictionary()
    more: dict[Type, st.SearchStrategy[Any]] = {
        Type.STRING: st.text(max_size=6),
        Type.INT: st.integers(-(2**31), 2**31 - 1),
        Type.BIGINT: st.integers(-(2**63) + 1, 2**63 - 1),
        Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    }
    drawn = more.get(kind, st.sampled_from(VALUES[kind][1:]))

    @examples(40)
    @given(st.lists(drawn | st.sampled_from(VALUES[kind][1:]), min_size=1, max_size=12))
    def run(values: list[Any]) -> None:
        codes = prefix(from_values(sorted(values), Column("c", kind), "t", strings), kind, strings)
        assert (np.diff(codes.astype(np.int64)) >= 0).all()
        assert codes.min() > 0
        assert codes.max() <= LOW_BITS

    run()
    assert prefix(np.array([NULL]), kind, strings).tolist() == [0]


def test_a_hash_is_of_the_texts() -> None:
    """The hash of a row does not depend on the codes of its strings."""
    one, other = Dictionary(), Dictionary()
    other.codes(["before", "these"])
    types = (Type.STRING, Type.INT)
    texts = ["x", "", None, "y" * 40]
    hashes = [
        hash_rows(np.stack([s.codes(texts), np.arange(4)]), types, s) for s in (one, other)
    ]  # fmt: skip
    assert hashes[0].tolist() == hashes[1].tolist()
    assert len(set(hashes[0].tolist())) == 4


def test_hashes_of_every_type_differ() -> None:
    """Values of a type, small and huge, have different upper halves of the hash."""
    strings = Dictionary()
    for kind in VALUES:
        words = np.array([domain(kind, strings)])
        high = hash_rows(words, (kind,), strings) >> np.uint64(32)
        assert len(set(high.tolist())) == len(VALUES[kind])
    many = np.arange(100_000, dtype=np.float64)
    for words, kind in ((many.astype(np.int64), Type.BIGINT), ((many + 0.5).view(np.int64), Type.DOUBLE)):
        high = hash_rows(words[None, :], (kind,), strings) >> np.uint64(32)
        # Of 100,000 numbers at random below 2**32 about one pair is equal.
        assert len(np.unique(high)) > 99_980


def test_collisions_are_made_to_happen() -> None:
    """The collisions that other tests provoke do happen."""
    strings, rows = Dictionary(), np.arange(1000)[None, :]
    for level, most in zip(HASHES, (1000, 4, 1), strict=True):
        with hashing(level):
            layout = Layout((Type.BIGINT,), (0,))
            assert len(np.unique(layout.sort_words(rows, strings))) == most
