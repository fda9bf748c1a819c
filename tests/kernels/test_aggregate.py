"""Reduces, compared with groups of Python values after every change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from bags import Bag, Row, added, bag, delta, domain, hash_levels, hashing, matrix, valid_changes
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite.changelog.changes import frame
from sharedstate_lite.kernels.aggregate import ReduceState
from sharedstate_lite.kernels.minmax import Source
from sharedstate_lite.plan.nodes import Reduce
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.encoding import Dictionary

QUERIES = {
    "longest": "SELECT k, MAX(i) AS a FROM sample GROUP BY k",
    "least and greatest": "SELECT k, MIN(s) AS a, MAX(s) AS b, MAX(i) AS c, MIN(x) AS d FROM sample GROUP BY k",
    "sums": "SELECT k, SUM(i) AS a, AVG(i) AS b, COUNT(i) AS c, COUNT(*) AS d, SUM(x) AS e, AVG(x) AS f "
    "FROM sample GROUP BY k",
    "all at once": "SELECT k, s, MAX(i) AS a, SUM(i) AS b, MIN(x) AS c, AVG(x) AS d FROM sample GROUP BY k, s",
    "distinct": "SELECT DISTINCT k, i FROM sample",
    "of everything": "SELECT COUNT(*) AS a, SUM(i) AS b, MAX(s) AS c, AVG(x) AS d FROM sample",
}
"""Reduces over sample(k STRING, i INT, x DOUBLE, s STRING)."""


def node(sql: str, whole: str = "INT") -> Reduce:
    """Return the Reduce of a view."""
    catalog = ss.Catalog(sample=f"k STRING, i {whole}, x DOUBLE, s STRING")
    view = catalog.view(f"CREATE VIEW v AS {sql}")
    return next(n for n in view.plan.walk() if isinstance(n, Reduce))


def python(schema: Any, words: list[Row], strings: Dictionary) -> list[tuple[Any, ...]]:
    """Return rows of words as rows of Python values, None for NULL."""
    some = frame(schema, matrix(words, len(schema)), strings)
    lines = [column.array.to_numpy(dtype=object, na_value=None).tolist() for _, column in some.items()]
    return list(zip(*lines, strict=True)) if lines else [()] * len(words)


def aggregate(fn: str, values: list[Any], copies: int) -> Any:
    """Return one aggregate of a group with these values (not NULL, repeated) and this number of rows."""
    if fn == "count *":
        return copies
    if fn == "count":
        return len(values)
    if not values:
        return None
    if fn in ("max", "min"):
        return max(values) if fn == "max" else min(values)
    total = sum(map(Fraction, values))
    if fn == "sum":
        return float(total) if isinstance(values[0], float) else int(total)
    # A whole sum becomes a DOUBLE before it is divided; a sum of DOUBLE is rounded before, too.
    return float(total) / len(values)


def recomputed(reduce: Reduce, there: Bag, strings: Dictionary) -> Counter[Any]:
    """Compute the groups from the rows."""
    source = reduce.input.schema
    rows = list(there)
    groups: dict[Any, list[tuple[Any, ...]]] = {} if reduce.keys else {(): []}
    for words, row in zip(rows, python(source, rows, strings), strict=True):
        groups.setdefault(tuple(row[k] for k in reduce.keys), []).extend([row] * there[words])
    out: Counter[Any] = Counter()
    for key, members in groups.items():
        line = list(key)
        for agg in reduce.aggs:
            values = [] if agg.arg is None else [m[agg.arg] for m in members if m[agg.arg] is not None]
            line.append(aggregate("count *" if agg.arg is None else agg.fn, values, len(members)))
        out[tuple(line)] += 1
    return out


class Reducing:
    """A reduce, with its input and the sum of its output as bags."""

    def __init__(self, sql: str, whole: str = "INT") -> None:
        self.strings, self.node = Dictionary(), node(sql, whole)
        self.groups = ReduceState(self.node, "v.group1", 1)
        self.input = Arrangement("input", self.groups.plan.input)
        kinds = [c.type for c in self.node.input.schema]
        self.rows = st.tuples(*(st.sampled_from(domain(kind, self.strings)[:6]) for kind in kinds))
        self.there: Bag = Counter()
        self.emitted: Bag = Counter()

    @property
    def sources(self) -> dict[int, Source]:
        return {column: Source(self.input, column) for column in self.groups.plan.extremes}

    def step(self, changes: list[tuple[Row, int]], blind: bool = False) -> Any:
        """Run one epoch; ``blind`` gives the reduce no sources."""
        some = delta(changes, len(self.node.input.schema))
        body = self.input.insert(some.rows, some.diffs, self.strings)
        out = self.groups.reduce_core(body, None if blind else self.sources, self.strings)
        self.there = added(self.there, bag(some.rows, some.diffs))
        self.emitted = added(self.emitted, bag(*out.delta))
        for arrangement in (self.input, *self.groups.arrangements):
            arrangement.commit(arrangement.upper + 1)
        return out

    def check(self) -> None:
        """Check that the output adds up to the groups of the input."""
        assert self.outputs(self.emitted) == recomputed(self.node, self.there, self.strings)

    def outputs(self, some: Mapping[Row, int]) -> Counter[Any]:
        """Return the rows of the output as Python values."""
        return Counter(dict(zip(python(self.node.schema, list(some), self.strings), some.values(), strict=True)))


@hash_levels
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_emitted_adds_up_to_the_groups(name: str, level: str) -> None:
    """After every epoch, the output adds up to the groups recomputed in Python, and no row is emitted twice."""

    @examples(10)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        reducing = Reducing(QUERIES[name])
        if not reducing.node.keys:
            reducing.step([])
        there: Bag = Counter()
        for _ in range(data.draw(st.integers(1, 5))):
            out = reducing.step(data.draw(valid_changes(reducing.rows, there, 12))).delta
            assert set(out.diffs.tolist()) <= {-1, 1}
            assert len(bag(*out)) == len(out.diffs)
            reducing.check()
        reducing.step([(row, -count) for row, count in there.items()])
        reducing.check()
        for arrangement in reducing.groups.arrangements:
            arrangement.compact()
            # A global aggregate keeps its one row.
            assert arrangement.rows == (0 if reducing.node.keys or arrangement is not reducing.groups.output else 1)

    with hashing(level):
        run()


def state_of(groups: ReduceState) -> list[Bag]:
    """Return the contents of all arrangements of a reduce."""
    return [bag(*a.contents()) for a in groups.arrangements]


@hash_levels
def test_without_a_source_unknown_groups_are_reported(level: str) -> None:
    """A group that lost its extreme value is reported and unchanged, every other is right; forget() removes all."""

    @examples(20)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        reducing = Reducing(QUERIES["least and greatest"])
        there: Bag = Counter()
        key = reducing.node.keys[0]
        for _ in range(3):
            before = Counter(reducing.emitted)
            was = Counter(there)
            out = reducing.step(data.draw(valid_changes(reducing.rows, there, 12)), blind=True)
            lost = set(out.lost[0].tolist())
            touched = {row[key] for row in added(there, Counter({r: -n for r, n in was.items()}))}
            assert lost <= touched
            assert all(row[0] not in lost for row in bag(*out.delta))
            kept = {row: n for row, n in reducing.emitted.items() if row[0] not in lost}
            rest = Counter({row: n for row, n in there.items() if row[key] not in lost})
            assert reducing.outputs(kept) == recomputed(reducing.node, rest, reducing.strings)
            if lost:
                assert {r: n for r, n in reducing.emitted.items() if r[0] in lost} == {
                    r: n for r, n in before.items() if r[0] in lost
                }
                reducing.groups.forget(out.lost, reducing.strings)
                for arrangement in reducing.groups.arrangements:
                    arrangement.commit(arrangement.upper + 1)
                assert all(row[0] not in lost for state in state_of(reducing.groups) for row in state)
                # Those groups start anew, as after an upquery that found nothing.
                there = Counter({row: n for row, n in there.items() if row[key] not in lost})
                reducing.emitted = Counter(kept)
                reducing.there = Counter(there)

    with hashing(level):
        run()


SUMS: dict[str, tuple[str, tuple[Any, ...], int, str]] = {
    "a BIGINT sum": ("SUM(i)", (None, 2**62, None, None), 2, "BIGINT"),
    "a sum of -2**63, the word of NULL": ("SUM(i)", (None, -(2**62), None, None), 2, "BIGINT"),
    "a group too large to sum": ("SUM(i)", (None, 1, None, None), 2**31, "2\\*\\*31"),
    "a DOUBLE sum": ("SUM(x)", (None, None, 1.7e308, None), 2, "DOUBLE"),
}


@pytest.mark.parametrize("name", SUMS)
def test_an_overflow_is_refused(name: str) -> None:
    """A sum that exceeds its type, or a group with too many rows, is an error that says what to do."""
    what, row, copies, text = SUMS[name]
    catalog = ss.Catalog(sample="k STRING, i BIGINT, x DOUBLE, s STRING")
    engine = ss.engine("full", [catalog.view(f"CREATE VIEW v AS SELECT k, {what} AS a FROM sample GROUP BY k")])
    with pytest.raises(ss.RowError, match=text):
        engine.step({"sample": [(row, copies)]})
    assert engine.read("v").empty


@pytest.mark.parametrize("low", [-(2**63) + 1, -(2**31), -1, 0])
def test_whole_sums_are_exact_to_the_last_bit(low: int) -> None:
    """Sums may exceed their type in between, as long as their end value fits."""
    reducing = Reducing("SELECT k, SUM(i) AS a, AVG(i) AS b FROM sample GROUP BY k", "BIGINT")
    key = reducing.strings.code("a")
    column = reducing.node.aggs[0].arg
    assert column is not None
    values = [2**63 - 1, -(2**63) + 1, low, 2**40 + 1, -(2**40), 2**32, -(2**32) - 1]

    def row(value: int) -> Row:
        words = [0] * len(reducing.node.input.schema)
        words[reducing.node.keys[0]], words[column] = key, value
        return tuple(words)

    reducing.step([(row(v), 1) for v in values])
    reducing.check()
    reducing.step([(row(v), -1) for v in values[3:]])
    reducing.check()


def test_every_group_column_counts() -> None:
    """Groups that differ in one column only, perhaps by NULL, are different groups."""
    reducing = Reducing("SELECT k, s, COUNT(*) AS n FROM sample GROUP BY k, s")
    width = len(reducing.node.input.schema)
    every = [None, "", "a", "\0"]
    codes = reducing.strings.codes(every)
    pairs: list[tuple[Row, int]] = []
    for a in codes.tolist():
        for b in codes.tolist():
            words = [0] * width
            words[reducing.node.keys[0]], words[reducing.node.keys[1]] = a, b
            pairs.append((tuple(words), 1))
    assert len(reducing.step(pairs).delta.diffs) == 16
    reducing.check()
