"""Joins of deltas, compared with joins of bags written as loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from bags import Bag, Row, added, bag, delta, drawn_rows, hash_levels, hashing, matrix, nonzero, valid_changes
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite.kernels.join import Matches, delta_path, half_join, join_core, net, padding
from sharedstate_lite.kernels.join_order import Multiway, flatten
from sharedstate_lite.plan.nodes import Join, Type
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.batch import Delta, Layout
from sharedstate_lite.storage.encoding import NULL, Dictionary, Words

BEFORE = 2
"""The last epoch before the changes."""


class Relation:
    """A relation: one arrangement per key, and its contents as bags."""

    def __init__(self, types: Sequence[Type], strings: Dictionary, data: st.DataObject) -> None:
        self.columns, self.types, self.strings = len(types), tuple(types), strings
        self.epochs: list[list[tuple[Row, int]]] = []
        there: Bag = Counter()
        for _ in range(BEFORE + 1):
            self.epochs.append(data.draw(valid_changes(drawn_rows(types, strings), there)))
        self.now = added(*(bag(*delta(e, self.columns)) for e in self.epochs))
        self.old = added(*(bag(*delta(e, self.columns)) for e in self.epochs[:-1]))
        self.delta = delta(self.epochs[-1], self.columns)

    def by(self, key: tuple[int, ...]) -> Side:
        """Return the relation as a side, with this epoch's changes."""
        arrangement = Arrangement("side", Layout(self.types, key))
        arrangement.handle(0)
        for changes in self.epochs:
            some = delta(changes, self.columns)
            arrangement.insert(some.rows, some.diffs, self.strings)
            if len(arrangement.runs) and changes is not self.epochs[-1]:
                arrangement.compact()
            arrangement.upper += 1
        return Side(arrangement, self.strings)


class Side:
    """An arrangement as one side of a join."""

    def __init__(self, arrangement: Arrangement, strings: Dictionary) -> None:
        self.stored: Arrangement | None = arrangement
        self.arrangement, self.strings, self.columns = arrangement, strings, arrangement.layout.columns

    def match(self, keys: Words, at: int | None) -> Matches:
        return self.arrangement.match(keys, self.strings, at)


def joined(bags: Sequence[Bag], meet: Callable[..., bool]) -> Bag:
    """Join bags: every combination of rows that matches, with the product of their multiplicities."""
    out: Bag = Counter()
    for rows in product(*bags):
        if meet(*rows):
            out[sum(rows, ())] += prod(some[row] for some, row in zip(bags, rows, strict=True))
    return out


def equal(left: Row, right: Row, keys: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    """Whether two rows match; NULL equals nothing."""
    pairs = [(left[a], right[b]) for a, b in zip(*keys, strict=True)]
    return all(a == b != NULL for a, b in pairs)


def minus(now: Bag, old: Bag) -> Bag:
    """Return the change from one bag to another."""
    return added(now, Counter({row: -n for row, n in old.items()}))


def run(body: Callable[[st.DataObject], None], level: str, count: int) -> None:
    """Run the body on drawn data, with hashes of that level."""
    with hashing(level):
        examples(count)(given(st.data())(body))()


LEFT, RIGHT = (Type.STRING, Type.INT, Type.DOUBLE), (Type.INT, Type.STRING)
KEYS = {
    "a string": ((0,), (1,)),
    "a number": ((1,), (0,)),
    "two columns": ((0, 1), (1, 0)),
}


@hash_levels
@pytest.mark.parametrize("on", KEYS)
def test_join_core_is_the_change_of_the_join(on: str, level: str) -> None:
    """If both sides change at once, the change of the join is the new join minus the old join."""
    keys = KEYS[on]

    def body(data: st.DataObject) -> None:
        strings = Dictionary()
        left, right = Relation(LEFT, strings, data), Relation(RIGHT, strings, data)
        sides = (left.by(keys[0]), right.by(keys[1]))
        out = join_core((left.delta, right.delta), sides, keys, BEFORE, strings)
        assert out.rows.shape[0] == 5
        wanted = minus(*(joined(bags, lambda a, b: equal(a, b, keys))
                         for bags in ((left.now, right.now), (left.old, right.old))))  # fmt: skip
        assert bag(*out) == wanted

    run(body, level, 20)


@hash_levels
@pytest.mark.parametrize("on", KEYS)
def test_padding_is_the_change_of_the_rows_without_a_match(on: str, level: str) -> None:
    """The change of a LEFT JOIN's padded rows is the new left rows without a match minus the old ones."""
    keys = KEYS[on]
    types = tuple(LEFT[i] for i in keys[0])

    def alone(left: Bag, right: Bag) -> Bag:
        return Counter(
            {row + (NULL, NULL): n for row, n in left.items() if not any(equal(row, other, keys) for other in right)}
        )

    def body(data: st.DataObject) -> None:
        strings = Dictionary()
        left, right = Relation(LEFT, strings, data), Relation(RIGHT, strings, data)
        sides = (left.by(keys[0]), right.by(keys[1]))
        out = padding((left.delta, right.delta), sides, keys, types, BEFORE, strings)
        assert bag(*out) == minus(alone(left.now, right.now), alone(left.old, right.old))

    run(body, level, 20)


@hash_levels
def test_half_join_pairs_each_row_with_its_matches(level: str) -> None:
    """Each row of a delta is joined with its matches, old or new, with the product of the diffs.

    Whether the side is an arrangement or only answers lookups makes no difference.
    """
    keys = KEYS["two columns"]

    def body(data: st.DataObject) -> None:
        strings = Dictionary()
        left, right = Relation(LEFT, strings, data), Relation(RIGHT, strings, data)
        for at, there in ((BEFORE, right.old), (None, right.now)):
            side, wanted = right.by(keys[1]), joined([bag(*left.delta), there], lambda a, b: equal(a, b, keys))
            for stored in (side.arrangement, None):
                side.stored = stored
                assert bag(*half_join(left.delta, keys[0], side, at, strings)) == wanted

    run(body, level, 20)


CHAINS = {
    "one key": "r JOIN s ON r.k = s.k JOIN u ON s.k = u.k",
    "two keys": "t JOIN r ON t.a = r.a JOIN s ON r.k = s.k",
    "triangle": "r JOIN s ON r.k = s.k JOIN t ON t.a = r.a AND t.b = s.b",
    "one column, twice": "r JOIN s ON r.k = s.k JOIN u ON u.k = r.a AND u.k = s.b",
    "star of four": "s JOIN r ON r.k = s.k JOIN u ON s.k = u.k JOIN t ON t.b = s.b",
}
TABLES = {"r": "ka", "s": "kb", "t": "ab", "u": "ka"}


def taken_apart(sql: str) -> tuple[Multiway, list[str], list[tuple[tuple[int, int], tuple[int, int]]]]:
    """Return a view's join, its relations from left to right, and the equalities in its text."""
    catalog = ss.Catalog(**{name: ", ".join(f"{c} INT" for c in columns) for name, columns in TABLES.items()})
    view = catalog.view(f"CREATE VIEW v AS SELECT COUNT(*) AS n FROM {sql}")
    names = [word for word in sql.split() if word in TABLES]
    conditions = [part for word in sql.replace("=", " ").split() if "." in (part := word)]

    def place(name: str) -> tuple[int, int]:
        table, column = name.split(".")
        return names.index(table), TABLES[table].index(column)

    places = list(map(place, conditions))
    return (
        max((flatten(n) for n in view.plan.walk() if isinstance(n, Join)), key=lambda chain: len(chain.inputs)),
        names,
        list(zip(places[::2], places[1::2], strict=True)),
    )


@hash_levels
@pytest.mark.parametrize("name", CHAINS)
def test_delta_paths_add_up_to_the_change_of_the_join(name: str, level: str) -> None:
    """The paths of all inputs add up to the new join minus the old join, for 3 and 4 inputs."""
    multiway, names, conditions = taken_apart(CHAINS[name])

    def meet(*rows: Row) -> bool:
        return all(rows[a][c] == rows[b][d] != NULL for (a, c), (b, d) in conditions)

    def body(data: st.DataObject) -> None:
        strings = Dictionary()
        held = [Relation((Type.INT, Type.INT), strings, data) for _ in names]
        total: Bag = Counter()
        for start, path in enumerate(multiway.paths):
            steps = [(step, held[step.input].by(step.key)) for step in path]
            total = added(total, bag(*delta_path(held[start].delta, start, steps, BEFORE, strings)))
        assert total == minus(joined([h.now for h in held], meet), joined([h.old for h in held], meet))

    run(body, level, 10)


@hash_levels
def test_net_adds_up_the_diffs_of_each_owner(level: str) -> None:
    """Diffs of equal (owner, row) pairs are added up, and pairs with sum 0 are dropped."""
    owned = st.tuples(st.integers(0, 2), st.tuples(st.integers(0, 1), st.integers(0, 1)), st.sampled_from([-1, 1, 2]))

    @examples(30)
    @given(st.lists(owned, max_size=15))
    def body(pairs: list[Any]) -> None:
        wanted: Counter[Any] = Counter()
        for owner, row, diff in pairs:
            wanted[owner, row] += diff
        owners, diffs = np.array([p[0] for p in pairs], dtype=np.intp), np.array([p[2] for p in pairs], dtype=np.int64)
        found = net(owners, matrix([p[1] for p in pairs], 2), diffs, (Type.INT, Type.INT), Dictionary())
        lines = [(o, tuple(r)) for o, r in zip(found[0].tolist(), found[1].T.tolist(), strict=True)]
        assert dict(zip(lines, found[2].tolist(), strict=True)) == {k: n for k, n in wanted.items() if n}
        assert len(set(lines)) == len(lines)

    with hashing(level):
        body()


def test_a_delta_without_rows_joins_with_nothing() -> None:
    """The result has the columns of both sides."""
    side = Side(Arrangement("side", Layout((Type.INT, Type.INT), (0,))), Dictionary())
    rows, diffs = half_join(Delta.empty(2), (0,), side, None, Dictionary())
    assert (rows.shape, len(diffs)) == ((4, 0), 0)


M = 2**31
PARTS = [(1,), (-1,), (M,), (2 * M,), (2 * M, -2 * M), (-2 * M, M, M), (2 * M, -M, -M), (1, -2 * M, M, M), (2 * M, -M)]
"""Diffs of one stored row. Some add up to much less than their largest member."""
KEYED = st.tuples(st.integers(0, 1), st.integers(0, 1))


@examples(200)
@given(
    st.lists(st.tuples(KEYED, st.sampled_from(PARTS)), max_size=4, unique_by=lambda part: part[0]),
    st.lists(st.tuples(KEYED, st.sampled_from([1, -1, M // 2, -M // 2])), max_size=3),
)
def test_half_join_refuses_exactly_what_the_sums_refuse(stored: list[Any], changes: list[Any]) -> None:
    """A product of 2**62 or more is an error if the sum of the matches' diffs causes it, and none of them alone."""
    matches = [(key, row, diff) for (key, row), diffs in stored for diff in diffs]

    class Matched:
        columns, stored = 2, None

        def match(self, keys: Words, at: int | None) -> Matches:
            found = [(n, m) for n, key in enumerate(keys[0]) for m in matches if m[0] == key]
            rows, diffs = matrix([m[:2] for _, m in found], 2), np.array([[m[2] for _, m in found]], dtype=np.int64)
            return np.array([n for n, _ in found], dtype=np.intp), rows, diffs

    total: Counter[Any] = Counter()
    for key, row, diff in matches:
        total[key, row] += diff
    # Rows of the delta are told apart by a third column.
    wanted = {(*k, n, *row): d * m for n, (k, d) in enumerate(changes) for row, m in total.items() if row[0] == k[0]}
    some = delta([((*key, n), d) for n, (key, d) in enumerate(changes)], 3)
    side = Side(Arrangement("side", Layout((Type.INT, Type.INT), (0,))), Dictionary())
    for key, row, diff in matches:
        side.arrangement.insert(np.array([[key], [row]]), np.array([diff]), side.strings)
    for where in (side, Matched()):
        if any(abs(n) >= 2**62 for n in wanted.values()):
            with pytest.raises(ss.RowError, match=r"2\*\*62 times or more"):
                half_join(some, (0,), where, None, Dictionary())
        else:
            assert bag(*half_join(some, (0,), where, None, Dictionary())) == nonzero(Counter(wanted))
