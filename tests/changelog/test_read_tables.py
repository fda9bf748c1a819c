"""read_tables and validate: rows with diffs, frames, tables and Changes as one checked delta of a relation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from bags import bag
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite.changelog import convert, read_tables
from sharedstate_lite.changelog.changes import as_delta
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.storage.encoding import Dictionary

SCHEMA = (Column("product", Type.STRING), Column("Length", Type.INT))
ROWS = st.tuples(st.sampled_from(["a", "b", "", None]), st.sampled_from([0, 1, None]))
DIFFS = st.integers(-3, 3).filter(bool)


def frame(pairs: list[Any]) -> pd.DataFrame:
    """Rows with diffs as a frame, columns in another order and case than declared."""
    out = pd.DataFrame([(row[1], diff, row[0]) for row, diff in pairs], columns=["LENGTH", "diff", "Product"])
    return out.astype({"LENGTH": "Int32", "diff": "int64", "Product": "string"})


@examples(40)
@given(st.lists(st.tuples(ROWS, DIFFS), max_size=10))
def test_all_forms_are_the_same_delta(pairs: list[Any]) -> None:
    """Pairs, a frame, an Arrow table and Changes of the same rows give the same delta."""
    strings = Dictionary()
    wanted = bag(*read_tables.pairs(pairs, SCHEMA, "r", strings))
    assert sum(wanted.values()) == sum(diff for _, diff in pairs)
    some = frame(pairs)
    for data in (some, pa.Table.from_pandas(some, preserve_index=False)):
        delta, time = read_tables.table(data, SCHEMA, "r", strings)
        assert (bag(*delta), time) == (wanted, None)
    changes = ss.Changes.from_pandas(some, SCHEMA, time=7)
    assert bag(*as_delta(changes, SCHEMA, "r", strings)[0]) == wanted
    # Changes whose columns are in another order, or wider, go by name and by the declared type.
    wide = ss.Changes.from_pandas(some.astype({"LENGTH": "Int64"}))
    if len(some):
        assert bag(*as_delta(wide, SCHEMA, "r", strings)[0]) == wanted


PLAIN = {"s": pa.string(), "t": pa.string(), "i": pa.int64(), "b": pa.int32(), "c": pa.int64(), "diff": pa.int64()}
TYPED = tuple(Column(n, t) for n, t in zip("stibc", [Type.STRING] * 2 + [Type.INT] + [Type.BIGINT] * 2, strict=True))
FITS = st.tuples(*[st.sampled_from(["a", "b", "", "é", None])] * 2, *[st.integers(-(2**31), 2**31 - 1)] * 3, DIFFS)


@examples(40)
@given(st.lists(FITS, max_size=8), st.integers(0, 2), st.booleans())
def test_a_table_is_read_like_its_columns(rows: list[Any], start: int, chunks: bool) -> None:
    """Texts and whole numbers of a table are read at once, with the codes that they get column by column."""
    columns = {n: pa.array([row[at] for row in rows], kind) for at, (n, kind) in enumerate(PLAIN.items())}
    table, strings, other = pa.table(columns).slice(start), Dictionary(), Dictionary()
    if chunks:
        table = pa.concat_tables([table, table])
    delta, _ = read_tables.table(table, TYPED, "r", strings)
    for at, column in enumerate(TYPED):
        assert delta.rows[at].tolist() == convert.from_arrow(table.column(at), column, "r", other).tolist()
    assert delta.diffs.tolist() == table["diff"].to_pylist() and len(strings) == len(other)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("i", pa.array([2**31]), "column i INT: a value is out of range"),
        ("c", pa.array([-(2**63)]), "column c BIGINT: a value is out of range"),
        ("diff", pa.array([0]), "row 0 has the diff 0"),
        ("t", pa.array([b"\xff"]).view(pa.string()), "column t STRING: .*utf-8"),
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, value: Any, told: str) -> None:
    """The error names the column, although all columns are read at once; with another value, the table is read."""
    strings, row = Dictionary(), dict(zip(PLAIN, ["new", "newer", 1, 1, 1, 1], strict=True))
    columns = {n: pa.array([row[n]], kind) for n, kind in PLAIN.items()} | {name: value}
    with pytest.raises(ss.RowError, match=told):
        read_tables.table(pa.table(columns), TYPED, "r", strings)
    assert read_tables.table(pa.table(columns | {name: pa.array([row[name]], PLAIN[name])}), TYPED, "r", strings)


def test_a_time_is_the_same_throughout() -> None:
    """A time column gives the time of the epoch, or raises; a relation that declares such a column stores it."""
    some, strings = frame([(("a", 1), 1), (("b", 1), 1)]), Dictionary()
    assert read_tables.table(some.assign(Time=[5, 5]), SCHEMA, "r", strings)[1] == 5
    with pytest.raises(ss.TimeError, match="r: .*5, 6"):
        read_tables.table(some.assign(time=[6, 5]), SCHEMA, "r", strings)
    with pytest.raises(ss.TimeError, match="r: the column time contains NULL"):
        read_tables.table(some.assign(time=[float("nan")] * 2), SCHEMA, "r", strings)
    declared = (*SCHEMA, Column("time", Type.INT))
    delta, time = read_tables.table(some.assign(time=[6, 5]), declared, "r", strings)
    assert (sorted(delta.rows[2].tolist()), time) == ([5, 6], None)
    engine = ss.engine("full", [ss.Catalog(r="a INT", s="a INT").view("CREATE VIEW v AS SELECT a FROM r")])
    times = {name: pd.DataFrame({"a": [1], "diff": [1], "time": [n]}) for n, name in enumerate("rs")}
    with pytest.raises(ss.TimeError, match="s is at time 1, but r is at time 0"):
        engine.step(times)
    assert engine.epoch == 0


BAD: dict[str, tuple[Any, str]] = {
    "a diff past 2**31": ([(("a", 1), 2**31)], r"row 0 has the diff 2147483648; .* below 2\*\*31"),
    "a diff past 2**31 in a frame": (frame([(("a", 1), 2**31)]), r"row 0 has the diff 2147483648; .* below 2\*\*31"),
    "a missing diff": (frame([(("a", 1), 1)]).assign(diff=pd.array([None], dtype="Int64")), "diff NULL"),
    "a diff of 0 in a frame": (frame([(("a", 1), 1)]).assign(diff=0), "diff 0"),
    "a fraction of a diff": (
        frame([(("a", 1), 1)]).assign(diff=0.5),
        "column diff BIGINT: .*0.50* is not a whole number",
    ),
    "a column twice": (frame([(("a", 1), 1)]).assign(product="x"), "two columns named product"),
    "one too many, one too few": (frame([]).rename(columns={"LENGTH": "len"}), "lacks Length.*unknown column len"),
    "a column as the index": (
        frame([(("a", 1), 1)]).set_index("Product"),
        r"lacks product.*; the frame's index has product, so call reset_index\(\)",
    ),
    "a row that is no tuple": ([("ab", 1)], "row 0"),
    "a mapping": ({"a": 1}, "cannot read rows from dict"),
    "a number": (5, "cannot read rows from int"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_input_is_refused_by_name(name: str) -> None:
    """Invalid input raises one RowError that names the relation and the fault."""
    data, text = BAD[name]
    engine = ss.engine(
        "full", [ss.Catalog(visit="product STRING, Length INT").view("CREATE VIEW v AS SELECT product FROM visit")]
    )
    with pytest.raises(ss.RowError, match=f"^visit: .*{text}") as caught:
        engine.step({"visit": data})
    assert len(str(caught.value).splitlines()) == 1
    assert (engine.epoch, len(engine.read("v"))) == (0, 0)


@examples(40)
@given(st.lists(st.lists(st.tuples(ROWS, st.integers(-2, 3).filter(bool)), max_size=6), max_size=5))
def test_an_epoch_is_taken_exactly_when_its_net_leaves_nothing_negative(epochs: list[Any]) -> None:
    """An epoch is refused exactly if a row of the base table would be negative, and then changes nothing."""
    catalog = ss.Catalog(r="product STRING, length INT")
    engine = ss.engine("full", [catalog.view("CREATE VIEW v AS SELECT product, length FROM r")])
    there: Counter[Any] = Counter()
    for pairs in epochs:
        after = Counter(there)
        for row, diff in pairs:
            after[row] += diff
        bad = {repr(row) for row, n in after.items() if n < 0}
        if bad:
            with pytest.raises(ss.RowError, match="r: row .* cannot be retracted") as error:
                engine.step({"R": pairs})
            assert any(f"row {row.replace('None', 'NULL')} cannot" in str(error.value) for row in bad)
        else:
            engine.step({"R": pairs})
            there = Counter({row: n for row, n in after.items() if n})
        assert len(engine.read("v")) == sum(there.values())
        assert engine.state()["rows"].iloc[0] == len(there)


def test_types_are_read_off_a_table() -> None:
    """Without a schema the types are those of the columns; an unknown type is refused by name."""
    some = pd.DataFrame({"s": ["x"], "i": pd.array([1], dtype="Int32"), "n": [1], "x": [1.5], "b": [True], "diff": [1]})
    assert [c.type.value for c in read_tables.infer(some)] == ["STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN"]
    with pytest.raises(ss.RowError, match=r"column l has the unsupported type list.*STRING"):
        ss.Changes.from_arrow(pa.table({"l": [["a"]], "diff": [1]}))


VIEW = pa.array(["2024-01-01", None], pa.string_view())
CODES = pa.DictionaryArray.from_arrays(
    pa.array([1, None], pa.uint32()), pa.array(["x", "2024-01-01"], pa.string_view())
)
TAKEN: list[tuple[Any, str, list[str], list[Any]]] = [
    (VIEW, "STRING", ["STRING", "DATE"], ["2024-01-01", None]),
    (CODES.take(pa.array([0, 1])), "STRING", ["STRING"], ["2024-01-01", None]),
    (pa.chunked_array([CODES, CODES]), "STRING", ["STRING"], ["2024-01-01", None] * 2),
    (pa.chunked_array([], pa.string_view()), "STRING", ["STRING", "TIMESTAMP"], []),
    (VIEW.dictionary_encode(), "STRING", ["DATE"], ["2024-01-01", None]),
    (pa.nulls(2).dictionary_encode(), "STRING", ["STRING", "INT", "DOUBLE", "BOOLEAN", "DATE"], [None, None]),
    (pa.array([], pa.float64()), "DOUBLE", ["DOUBLE", "INT"], []),
    (pa.array([3, None], pa.uint16()), "INT", ["INT", "BIGINT", "DOUBLE"], [3, None]),
    (pa.array([3, None], pa.uint32()), "BIGINT", ["INT"], [3, None]),
    (pa.array([3, None, 3]).dictionary_encode(), "BIGINT", ["INT"], [3, None, 3]),
]
"""A column, its type, other types that it can be declared as, and its values as text or numbers."""


@pytest.mark.parametrize("at", range(len(TAKEN)))
def test_columns_of_polars_and_arrow_are_taken(at: int) -> None:
    """String views, which polars gives, dictionaries, and columns without values have a type and are read right."""
    column, kind, kinds, values = TAKEN[at]
    table = pa.table({"c": column, "diff": pa.array([1] * len(column), pa.int64())})
    assert [c.type.value for c in ss.Changes.from_arrow(table).schema] == [kind]
    for declared in kinds:
        engine = ss.engine("full", [ss.Catalog(r=f"c {declared}").view("CREATE VIEW v AS SELECT c FROM r")])
        engine.step({"r": table})
        found = engine.read("v")["c"].array.to_numpy(dtype=object, na_value=None).tolist()
        text = Counter(v if v is None or declared not in ("DATE", "TIMESTAMP") else v.isoformat() for v in found)
        assert text == Counter(values), declared


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["a"]]),
        pa.array([{"a": 1}]),
        pa.array([[1]], pa.list_view(pa.int8())),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        pa.array([b"a"], pa.binary_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"])),
    ],
    ids=lambda column: str(column.type),
)
def test_nested_columns_are_refused_by_name(column: Any) -> None:
    """Lists, structs, maps, binary and run-end encoded columns are one error with the column and its type."""
    table = pa.table({"c": column, "diff": [1]})
    with pytest.raises(ss.RowError, match="^column c has the unsupported type"):
        ss.Changes.from_arrow(table)
    for kind in Type:
        engine = ss.engine("full", [ss.Catalog(r=f"c {kind.value}").view("CREATE VIEW v AS SELECT c FROM r")])
        with pytest.raises(ss.RowError, match=f"^r: column c {kind.value}: "):
            engine.step({"r": table})


@pytest.mark.parametrize("kind", ["full", "shared", "partial"])
def test_a_refused_epoch_gives_back_what_its_strings_took(kind: str) -> None:
    """After a refused epoch the state has the same size in bytes, however many new strings it brought."""
    engine = ss.engine(kind, [ss.Catalog(r="s STRING, i INT").view("CREATE VIEW v AS SELECT s FROM r")])
    engine.step({"r": [((f"s{n}", n), 1) for n in range(20)]})
    before = engine.state()
    for many in (1, 7, 2000):
        with pytest.raises(ss.RowError, match="retracted"):
            engine.step({"r": [*(((f"new {n}", n), 1) for n in range(many)), (("s1", 0), -1)]})
        pd.testing.assert_frame_equal(engine.state(), before)
