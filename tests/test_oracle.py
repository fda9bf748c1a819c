"""The oracle: DuckDB, and the rewrites where the kit's SQL differs."""

from __future__ import annotations

import ast
import math
from collections import Counter
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sharedstate_lite.oracle
from sharedstate_lite.errors import RelationError, RowError, ViewError
from sharedstate_lite.oracle import Oracle, difference, recompute, same
from sharedstate_lite.sql.catalog import Catalog

VISITS = [("Apple", "Elena", 10), ("Apple", "Talia", 40), ("Banana", "Elena", 20), ("Celery", "Robin", 60)]
INFO = [("Apple", "Fruit"), ("Banana", "Fruit"), ("Celery", "Vegetable")]


def shop() -> Catalog:
    """Return the catalog of the example, with its view."""
    catalog = Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    catalog.view(
        "CREATE VIEW result AS SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) "
        "GROUP BY category"
    )
    return catalog


def one(select: str, declared: str, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return the rows of a view over a relation t."""
    catalog = Catalog(t=declared)
    view = catalog.view(f"CREATE VIEW v AS {select}")
    frame = pd.DataFrame(rows, columns=[c.name for c in catalog.schema("t")], dtype=object)
    out = recompute(view, {"t": frame})
    return [tuple(None if pd.isna(v) else v for v in row) for row in out.itertuples(index=False)]


def test_the_oracle_imports_nothing_that_computes() -> None:
    """It imports only errors and plans, so that it cannot share a mistake with an engine."""
    tree = ast.parse(Path(sharedstate_lite.oracle.__file__).read_text())
    own = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level}
    assert own == {"errors", "plan.nodes", "plan.view"}


def test_the_seed_example() -> None:
    """The example's rows give 40 for Fruit and 60 for Vegetable, with the kit's dtypes."""
    catalog = shop()
    frame = recompute(
        catalog.views["result"],
        {
            "info": pd.DataFrame(INFO, columns=["product", "category"]),
            "visit": pd.DataFrame(VISITS, columns=["product", "user", "length"]),
        },
    )
    assert frame.to_dict("list") == {"category": ["Fruit", "Vegetable"], "max_length": [40, 60]}
    assert [str(d) for d in frame.dtypes] == ["string", "Int32"]
    assert isinstance(frame.index, pd.RangeIndex)


def test_every_type_and_no_rows() -> None:
    """Frames have the kit's dtypes, empty or not, and the same values from pandas and Arrow."""
    declared = "s STRING, i INT, b BIGINT, d DOUBLE, p BOOLEAN, x DATE, m TIMESTAMP"
    dtypes = ["string", "Int32", "Int64", "Float64", "boolean", "date32[day][pyarrow]", "timestamp[us][pyarrow]"]
    catalog = Catalog(t=declared)
    view = catalog.view("CREATE VIEW v AS SELECT * FROM t")
    rows: list[tuple[Any, ...]] = [
        ("b", 1, 2**60, 0.5, True, date(2024, 1, 2), datetime(2024, 1, 2, 3, 4, 5, 6)),
        (None,) * 7,
        ("a", -1, -1, -0.5, False, date(1, 1, 1), datetime(9999, 12, 31)),
    ]
    names = [c.name for c in catalog.schema("t")]
    objects = pd.DataFrame(rows, columns=names, dtype=object)
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us")]
    table = pa.table({n: pa.array([r[i] for r in rows], k) for i, (n, k) in enumerate(zip(names, kinds, strict=True))})
    for source in (objects, table):
        frame = recompute(view, {"t": source})
        assert [str(d) for d in frame.dtypes] == dtypes
        assert difference(frame, objects) is None
        assert frame["s"].fillna("NULL").tolist() == ["a", "b", "NULL"]
    for source in (objects.head(0), table.slice(0, 0)):
        frame = recompute(view, {"t": source})
        assert ([str(d) for d in frame.dtypes], len(frame)) == (dtypes, 0)
    assert len(recompute(view, {})) == 0


def test_adaptations() -> None:
    """Each difference from DuckDB: zero divisors, HUGEINT, DECIMAL, NaN, sums of doubles."""
    assert one("SELECT a / 0 AS x, a % 0 AS y, a / (a - a) AS z FROM t", "a INT", (7,)) == [(None, None, None)]
    assert one("SELECT d / 0 AS x, d % 0 AS y FROM t", "d DOUBLE", (7.0,)) == [(None, None)]
    assert one("SELECT a % -1 AS x, a % b AS y FROM t", "a INT, b INT", (-(2**31), -1)) == [(0, 0)]
    assert one("SELECT d % -1 AS x FROM t", "d DOUBLE", (2.5,)) == [(0.5,)]
    assert one("SELECT 0.1 + 0.2 AS x FROM t", "a INT", (1,)) == [(0.1 + 0.2,)]
    assert one("SELECT SUM(a) AS x, SUM(a) / 2 AS y FROM t", "a BIGINT", (2**62,), (1,)) == [(2**62 + 1, 2.0**61)]
    huge = [(1e300,), (1.0,), (-1e300,), (None,), (float("nan"),)]
    assert one("SELECT SUM(d) AS x, AVG(d) AS y, COUNT(d) AS n FROM t", "d DOUBLE", *huge) == [(1.0, 1 / 3, 3)]
    over = [(1e308,), (1e308,), (-1e308,)]
    assert one("SELECT SUM(d) AS x FROM t HAVING SUM(d) > 0", "d DOUBLE", *over) == [(1e308,)]
    assert one("SELECT SUM(d) AS x, AVG(d) AS y FROM t", "d DOUBLE") == [(None, None)]
    zero = one("SELECT DISTINCT d FROM t", "d DOUBLE", (0.0,), (-0.0,))
    assert [math.copysign(1, x) for (x,) in zero] == [1]


def test_using_columns_come_in_select_order() -> None:
    """The columns are in the view's order, not in that of DuckDB's *."""
    catalog = Catalog(a="x INT, k INT", b="y INT, k INT")
    view = catalog.view("CREATE VIEW v AS SELECT * FROM a JOIN b USING (k)")
    frame = recompute(view, {"a": pd.DataFrame({"x": [1], "k": [2]}), "b": pd.DataFrame({"y": [3], "k": [2]})})
    assert frame.to_dict("list") == {"k": [2], "x": [1], "y": [3]}


@pytest.mark.parametrize(
    ("select", "row"),
    [
        ("SELECT a + 1 AS x FROM t", (2**31 - 1, 1.0)),
        ("SELECT d * 10 AS x FROM t", (1, 1e308)),
        ("SELECT CAST(d AS INT) AS x FROM t", (1, 1e10)),
        ("SELECT SUM(a * 1000000000000000000) AS x FROM t", (10, 1.0)),
    ],
)
def test_what_has_no_value_is_an_error(select: str, row: tuple[Any, ...]) -> None:
    """An overflow, an infinity or a failed cast is a RowError."""
    with pytest.raises(RowError, match="view v"):
        one(select, "a INT, d DOUBLE", row)


def test_views_over_views_and_names_that_need_quotes() -> None:
    """Views that a view uses are created first, with quoted names too."""
    catalog = Catalog(**{"my visits": 'user STRING, "a ""b""" INT, order INT'})
    catalog.view('CREATE VIEW "per user" AS SELECT user, SUM("a ""b""") AS "the sum" FROM "MY VISITS" GROUP BY user')
    view = catalog.view('CREATE VIEW top AS SELECT MAX("the sum") AS m FROM "Per User" WHERE user <> \'x\'')
    rows = pd.DataFrame({"user": ["x", "y", "y"], 'a "b"': [9, 1, 2], "order": [0, 0, 0]})
    assert recompute(view, {"my visits": rows})["m"].tolist() == [3]


CHANGES = st.lists(
    st.tuples(st.sampled_from(["Apple", "Banana", None]), st.sampled_from(["u", None]), st.sampled_from([1, 2, None])),
    max_size=4,
)


@settings(max_examples=settings().max_examples // 2)
@given(epochs=st.lists(st.tuples(CHANGES, st.booleans()), min_size=1, max_size=4))
def test_applying_epochs_equals_the_net(epochs: list[tuple[list[tuple[Any, ...]], bool]]) -> None:
    """Applying epochs, with duplicates and deletes, equals applying their sum."""
    catalog = shop()
    columns = [c.name for c in catalog.schema("visit")]
    everything = catalog.view("CREATE VIEW everything AS SELECT * FROM visit")
    held: Counter[tuple[Any, ...]] = Counter()
    with Oracle(catalog.views.values(), catalog.relations) as oracle:
        oracle.apply("info", pd.DataFrame(INFO, columns=["product", "category"]))
        for epoch, (rows, delete) in enumerate(epochs, start=1):
            diffs = [1] * len(rows)
            held.update(rows)
            if delete and +held:
                gone = next(iter(+held))
                rows, diffs = [*rows, gone], [*diffs, -held.pop(gone)]
            frame = pd.DataFrame(rows, columns=columns, dtype=object).assign(time=epoch, diff=diffs)
            oracle.apply("VISIT", frame)
            wanted = pd.DataFrame(list(held.elements()), columns=columns, dtype=object)
            assert difference(oracle.recompute(everything), wanted) is None
        info = pd.DataFrame(INFO, columns=["product", "category"])
        assert same(oracle.recompute("Result"), recompute(catalog.views["result"], {"visit": wanted, "info": info}))


def test_a_name_that_the_oracle_does_not_know() -> None:
    """The error for an unknown relation, column or view lists the known ones."""
    catalog = shop()
    with Oracle(catalog.views.values(), catalog.relations) as oracle:
        with pytest.raises(RelationError, match="there is no relation named nowhere; the relations are: info, visit"):
            oracle.apply("nowhere", pd.DataFrame())
        with pytest.raises(RelationError, match="no column user, length"):
            oracle.apply("visit", pd.DataFrame({"product": ["Apple"]}))
        with pytest.raises(ViewError, match="there is no view named other; the views are: result"):
            oracle.recompute("other")


# --- comparison


def frame(*rows: tuple[Any, ...]) -> pd.DataFrame:
    """Return rows of a string and a number."""
    return pd.DataFrame(list(rows), columns=["a", "b"], dtype=object)


def test_frames_are_compared_as_bags() -> None:
    """The order of rows, dtypes and the kind of NULL do not matter; multiplicity does."""
    left = frame(("x", 1), ("y", None), ("x", 1))
    right = frame(("y", pd.NA), ("x", 1), ("x", 1)).astype({"a": "string", "b": "Int64"})
    assert same(left, right)
    assert difference(left, frame(("x", 1), ("y", None))) == "only in the first (1 rows): ('x', 1)"
    assert difference(frame(), frame(("x", 1), ("x", 1))) == "only in the second (2 rows): ('x', 1) x 2"


def test_doubles_are_compared_at_one_in_a_billion() -> None:
    """DOUBLE values are equal up to 1e-9, in any order of rows; the sign of 0 does not matter."""
    assert same(frame(("x", 1.0), ("x", 2e20)), frame(("x", 2e20 * (1 + 1e-10)), ("x", 1.0 - 1e-10)))
    assert same(frame(("x", 0.0)), frame(("x", -0.0)))
    assert not same(frame(("x", 1.0)), frame(("x", 1.0 + 1e-8)))
    assert not same(frame(("x", 0.0)), frame(("x", 1e-300)))
    assert not same(frame(("x", 1.0)), frame(("y", 1.0 + 1e-12)))
    assert not same(frame(("x", 1.0), ("x", 1.0)), frame(("x", 1.0 + 1e-12)))


def test_columns_are_compared_by_name_and_order() -> None:
    """Frames with different columns differ."""
    other = frame(("x", 1))[["b", "a"]]
    assert difference(frame(("x", 1)), other) == "the columns differ: ['a', 'b'] and ['b', 'a']"
