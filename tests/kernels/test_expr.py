"""Expressions: compared with DuckDB, and rule by rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from sqlgen import COLUMNS, DECLARED, ROW, expressions, frame, value, word, words

from sharedstate_lite.errors import RowError, SqlError
from sharedstate_lite.kernels.expr import columns_of, evaluate, remap
from sharedstate_lite.oracle import Oracle, difference, recompute
from sharedstate_lite.plan.nodes import Call, Col, Expr, Lit, Map, Type
from sharedstate_lite.sql.catalog import Catalog
from sharedstate_lite.storage.encoding import NULL, Dictionary

INT, BIG, DBL, TXT, BIT = Type.INT, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN


def expr(text: str, declared: str = DECLARED) -> Expr:
    """Bind ``text``."""
    plan = Catalog(t=declared).view(f"CREATE VIEW v AS SELECT {text} AS r FROM t").plan
    assert isinstance(plan, Map)
    return plan.exprs[0]


def values(text: str, *rows: tuple[Any, ...], declared: str = "a INT, b INT") -> list[Any]:
    """Evaluate ``text`` on rows of Python values."""
    strings = Dictionary()
    catalog = Catalog(t=declared)
    kinds = [c.type for c in catalog.schema("t")]
    matrix = np.array([[word(v, k, strings) for v, k in zip(row, kinds, strict=True)] for row in rows]).T.copy()
    bound = expr(text, declared)
    return [value(w, bound.type, strings) for w in evaluate(bound, matrix, strings).tolist()]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """One DuckDB for all examples; each removes its rows again."""
    with Oracle([], Catalog(t=DECLARED).relations) as oracle:
        yield oracle


COUNT = itertools.count()


def test_between_has_one_type_and_a_simple_case_has_pairs() -> None:
    """As in DuckDB, BETWEEN has one type for its three values, and a simple CASE one for each pair."""
    declared, rows = "d DATE, b BIGINT", [(date(2023, 1, 1), 2**53 + 1)]
    texts = {
        "'2024-1-5' BETWEEN DATE '2023-01-01' AND '2024-01-05'": True,
        "b BETWEEN 9007199254740992 AND 9007199254740992.0": True,
        "CASE '2024-1-5' WHEN d THEN 1 WHEN '2024-01-05' THEN 2 ELSE 3 END": 3,
        "CASE '2023-1-1' WHEN d THEN 1 WHEN '2024-01-05' THEN 2 ELSE 3 END": 1,
    }
    for text, wanted in texts.items():
        assert values(text, *rows, declared=declared) == [wanted], text
        view = Catalog(t=declared).view(f"CREATE VIEW v AS SELECT {text} AS r FROM t")
        assert recompute(view, {"t": pd.DataFrame(rows, columns=["d", "b"])})["r"].tolist() == [wanted], text
    for text, says in (
        ("'2024-01-01' NOT BETWEEN DATE '2024-01-01' AND 'a'", "'a' is not a valid DATE"),
        ("NULL BETWEEN d AND b", "mixes DATE and BIGINT"),
    ):
        with pytest.raises(SqlError, match=says):
            values(text, *rows, declared=declared)


@settings(max_examples=2 * settings().max_examples)
@given(data=st.data(), rows=st.lists(ROW, min_size=1, max_size=5))
def test_an_expression_equals_duckdb(oracle: Oracle, data: st.DataObject, rows: list[tuple[Any, ...]]) -> None:
    """Any well-typed expression has DuckDB's values, also for NULL, 0 and extreme values.

    Examples that overflow are left out: which subexpressions DuckDB folds or skips is not specified.
    """
    kind = data.draw(st.sampled_from(sorted(COLUMNS)))
    text = data.draw(expressions(kind))
    note(text)
    view = Catalog(t=DECLARED).view(f"CREATE VIEW v{next(COUNT)} AS SELECT i, {text} AS r FROM t")
    assert view.schema[1].type.value == kind
    assert isinstance(view.plan, Map)
    strings = Dictionary()
    matrix = words(rows, strings)
    matrix.flags.writeable = False
    oracle.apply("t", frame(rows))
    try:
        got = evaluate(view.plan.exprs[1], matrix, strings)
        wanted = oracle.recompute(view)
    except RowError:
        return
    finally:
        oracle.apply("t", frame(rows).assign(diff=-1))
    kinds = (INT, view.schema[1].type)
    pairs = [
        [value(w, k, strings) for w, k in zip(row, kinds, strict=True)] for row in zip(matrix[0], got, strict=True)
    ]
    assert difference(pd.DataFrame(pairs, columns=["i", "r"], dtype=object), wanted) is None


# --- arithmetic


def test_division_is_double_and_by_zero_null() -> None:
    """/ is DOUBLE; x/0 and x%0 are NULL, for integers, fractions and -0.0."""
    assert values("a / b", (7, 2), (-7, 2), (1, 0), (0, 0), (None, 1)) == [3.5, -3.5, None, None, None]
    assert values("a % b", (7, 0), (0, 0)) == [None, None]
    both = [values(f"x {op} y", (1.5, 0.0), (1.5, -0.0), declared="x DOUBLE, y DOUBLE") for op in "/%"]
    assert both == [[None, None]] * 2


def test_remainder_truncates_towards_zero() -> None:
    """x % y has the sign of x."""
    assert values("a % b", (7, 3), (-7, 3), (7, -3), (-7, -3), (-(2**31), -1)) == [1, -1, 1, -1, 0]
    assert values("x % y", (7.5, 2.0), (-7.5, 2.0), declared="x DOUBLE, y DOUBLE") == [1.5, -1.5]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a + b", (2**31 - 1, 1)),
        ("a - b", (-(2**31), 1)),
        ("a * b", (2**16, 2**15)),
        ("- a", (-(2**31), 0)),
        ("CAST(a AS BIGINT) * 4611686018427387904 * b", (2, 1)),
        ("CAST(a AS BIGINT) * 4611686018427387904 * b", (-2, 1)),
        ("9223372036854775807 + a", (1, 0)),
        ("-9223372036854775807 - a", (1, 0)),
        ("-9223372036854775807 - a", (2, 0)),
        ("CAST(3000000000 * a AS INT)", (1, 0)),
    ],
)
def test_whole_numbers_overflow_by_name(text: str, row: tuple[int, int]) -> None:
    """A result that INT or BIGINT cannot store, or that is the word of NULL, is a RowError with the operands."""
    assert values(text, (0, 0), (None, row[1])) is not None
    with pytest.raises(RowError, match=r"INT.*\d{4,}"):
        values(text, (0, 0), row)


def test_the_extremes_themselves_fit() -> None:
    """The largest results that fit are exact."""
    assert values("a + b", (2**31 - 2, 1), (-(2**31) + 1, -1)) == [2**31 - 1, -(2**31)]
    big = values("a * b", (3037000499, 3037000499), (2**62, -1), (7, -(2**60)), declared="a BIGINT, b BIGINT")
    assert big == [3037000499**2, -(2**62), -7 * 2**60]
    assert values("a - b", (2**63 - 2, -1), (1 - 2**63, 0), declared="a BIGINT, b BIGINT") == [2**63 - 1, 1 - 2**63]


def test_an_infinite_double_is_an_error() -> None:
    """A DOUBLE result is finite or a RowError."""
    for text in ("x * 10", "x + x", "- x - x", "x / 0.01"):
        with pytest.raises(RowError, match="DOUBLE overflow: .* is infinite"):
            values(text, (1.0,), (1.7e308,), declared="x DOUBLE")


def test_minus_zero_is_zero() -> None:
    """No operation returns the word of -0.0."""
    strings = Dictionary()
    zero = np.zeros((1, 1), dtype=np.int64)
    for text in ("- x", "x * -1", "x / -5", "x % -1", "0 - x", "CAST(CAST(x AS BIGINT) AS DOUBLE)"):
        assert evaluate(expr(text, "x DOUBLE"), zero, strings).tolist() == [0]


# --- guards


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN a < 3 THEN a * 1000000000 ELSE 0 END",
        "CASE WHEN a >= 3 THEN 0 WHEN a * 1000000000 > 5 THEN 1 END",
        "CASE a WHEN 100 THEN 0 ELSE COALESCE(CASE WHEN a <> 100 THEN a * 1000000000 END, 0) END",
        "a < 3 AND a * 1000000000 > 5",
        "a >= 3 OR a * 1000000000 > 5",
        "COALESCE(CASE WHEN a > 2 THEN a END, a * 1000000000)",
        "CASE WHEN a < 3 THEN CAST(CASE WHEN a < 3 THEN '5' ELSE 'x' END AS INT) END",
    ],
)
def test_what_decides_guards_the_rest(text: str) -> None:
    """A branch is evaluated only on the rows that take it, so it cannot overflow on others."""
    values(text, (1, 0), (2, 0), (100, 0))
    with pytest.raises(RowError):
        values("a * 1000000000", (1, 0), (100, 0))


def test_no_rows_no_error() -> None:
    """A constant that overflows raises only if a row needs it."""
    empty = np.empty((2, 0), dtype=np.int64)
    assert len(evaluate(expr("2147483647 + 1"), empty, Dictionary())) == 0
    assert len(evaluate(expr("CASE WHEN p THEN 1 END"), np.empty((14, 0), dtype=np.int64), Dictionary())) == 0


# --- three-valued logic, comparison


def test_three_valued_logic() -> None:
    """AND, OR and NOT of true, false and NULL follow Kleene's logic, also for constants."""
    rows = [(x, y) for x in (True, False, None) for y in (True, False, None)]
    conj = [False if False in r else None if None in r else True for r in rows]
    disj = [True if True in r else None if None in r else False for r in rows]
    bits = "a BOOLEAN, b BOOLEAN"
    assert values("a AND b", *rows, declared=bits) == conj
    assert values("a OR b", *rows, declared=bits) == disj
    assert values("NOT a", (True, None), (False, None), (None, None), declared=bits) == [False, True, None]
    for constant, at in (("TRUE", 0), ("FALSE", 1), ("NULL", 2)):
        assert values(f"a AND {constant}", *rows, declared=bits) == [
            conj[3 * i + at] for i in (0, 0, 0, 1, 1, 1, 2, 2, 2)
        ]
        assert values(f"{constant} OR a", *rows, declared=bits) == [
            disj[3 * i + at] for i in (0, 0, 0, 1, 1, 1, 2, 2, 2)
        ]


def test_in_with_nulls() -> None:
    """A NULL among the candidates makes a miss NULL, and leaves a hit true."""
    assert values("a IN (1, NULL)", (1, 0), (2, 0), (None, 0)) == [True, None, None]
    assert values("a NOT IN (1, b)", (1, None), (2, None), (2, 3), (3, 3)) == [False, None, True, False]


def test_strings_compare_by_code_point() -> None:
    """Strings are compared by Unicode code point, not by UTF-16 unit or locale."""
    order = ["", "A", "B", "Z", "a", "ab", "b", "z", "é", "\uffff", "\U00010000"]
    rows = [(x, y) for x in order for y in order]
    assert values("a < b", *rows, declared="a STRING, b STRING") == [order.index(x) < order.index(y) for x, y in rows]
    assert values("a >= 'b'", ("a",), ("b",), ("é",), (None,), declared="a STRING") == [False, True, True, None]


def test_whole_numbers_compare_with_doubles_as_doubles() -> None:
    """2**53 + 1 and 2**53 are one DOUBLE."""
    declared = "a BIGINT, b DOUBLE"
    assert values("a = b", (2**53 + 1, 2.0**53), (1, 1.5), declared=declared) == [True, False]
    assert values("a = b", (2**53 + 1, 2**53), declared="a BIGINT, b BIGINT") == [False]


def test_timestamps_compare_with_dates_at_midnight() -> None:
    """Compared with a TIMESTAMP, a DATE is its first microsecond."""
    rows = [(date(2024, 1, 2), datetime(2024, 1, 2)), (date(2024, 1, 2), datetime(2024, 1, 2, 0, 0, 1))]
    assert values("a = b", *rows, declared="a DATE, b TIMESTAMP") == [True, False]


# --- casts


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("INT", " 12 ", 12),
        ("INT", "+0005", 5),
        ("INT", "-2147483648", -(2**31)),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("DOUBLE", "1.5", 1.5),
        ("DOUBLE", ".5", 0.5),
        ("DOUBLE", "-2.", -2.0),
        ("DOUBLE", "1e3", 1000.0),
        ("DOUBLE", "-0", 0.0),
        ("BOOLEAN", "True", True),
        ("BOOLEAN", "n", False),
        ("DATE", "2024-2-29", date(2024, 2, 29)),
        ("DATE", " 0001-01-01 ", date(1, 1, 1)),
        ("TIMESTAMP", "2024-02-29", datetime(2024, 2, 29)),
        ("TIMESTAMP", "1969-12-31T23:59:59.5", datetime(1969, 12, 31, 23, 59, 59, 500000)),
        ("TIMESTAMP", "2024-02-29 1:05", datetime(2024, 2, 29, 1, 5)),
    ],
)
def test_text_that_casts(kind: str, text: str, wanted: Any) -> None:
    """Text in a plain form is cast to DuckDB's value."""
    view = Catalog(t="a STRING").view(f"CREATE VIEW v AS SELECT CAST(a AS {kind}) AS r FROM t")
    assert values(f"CAST(a AS {kind})", (text,), (None,), declared="a STRING") == [wanted, None]
    assert difference(recompute(view, {"t": pd.DataFrame({"a": [text]})}), pd.DataFrame({"r": [wanted]})) is None


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("INT", ["", "x", "1.5", "1e3", "0x10", "1_000", "2147483648", "١", "9" * 5000]),
        ("BIGINT", ["-9223372036854775808", "9223372036854775808"]),
        ("DOUBLE", ["", "nan", "inf", "1e309", "1,5", "1_0"]),
        ("BOOLEAN", ["", "2", "on", " true"]),
        ("DATE", ["", "2024-13-01", "2023-02-29", "2024/01/02", "20240102", "2024-01-02 10:00:00", "0000-01-01"]),
        ("TIMESTAMP", ["2024-01-02 25:00", "2024-01-02 10:00:00Z", "2024-01-02 10:00:00.1234567", "10:00"]),
    ],
)
def test_text_that_does_not_cast(kind: str, texts: list[str]) -> None:
    """Text in any other form is a RowError with the text; a literal is a SqlError."""
    for text in texts:
        with pytest.raises(RowError) as error:
            values(f"CAST(a AS {kind})", (text,), declared="a STRING")
        assert repr(text) in str(error.value)
        assert kind != "TIMESTAMP" or "at most six decimal places and no time zone" in str(error.value)
        with pytest.raises(SqlError):
            expr(f"CAST('{text}' AS {kind})")


def test_numbers_cast_as_duckdb_casts_them() -> None:
    """DOUBLE rounds half to even; a value that does not fit is a RowError; BOOLEAN is 0 or 1."""
    halves = [(0.5,), (1.5,), (2.5,), (-0.5,), (-2.5,), (2147483647.4,)]
    assert values("CAST(a AS INT)", *halves, declared="a DOUBLE") == [0, 2, 2, 0, -2, 2**31 - 1]
    for kind, bad in (("INT", 2147483647.5), ("INT", -2147483649.0), ("BIGINT", 2.0**63), ("BIGINT", -(2.0**63))):
        with pytest.raises(RowError, match=rf"^DOUBLE -?[\d.e+]+ is out of range for {kind}; .*guard it: CASE WHEN"):
            values(f"CAST(a AS {kind})", (bad,), declared="a DOUBLE")
    assert values("CAST(a AS BOOLEAN)", (0.0,), (0.1,), (None,), declared="a DOUBLE") == [False, True, None]
    assert values("CAST(a AS DOUBLE)", (True,), (None,), declared="a BOOLEAN") == [1.0, None]


def test_values_cast_to_text() -> None:
    """Timestamps have no trailing zeros; years after 9999 have no text."""
    moments = [(datetime(2024, 1, 2, 3, 4, 5, 120000),), (datetime(1, 1, 1),), (None,)]
    assert values("CAST(a AS STRING)", *moments, declared="a TIMESTAMP") == [
        "2024-01-02 03:04:05.12",
        "0001-01-01 00:00:00",
        None,
    ]
    assert values("CAST(a AS STRING)", (True,), (False,), declared="a BOOLEAN") == ["true", "false"]
    late = Call("cast", (Col(0, Type.DATE),), TXT)
    with pytest.raises(RowError, match="outside the years 1 to 9999"):
        evaluate(late, np.array([[4_000_000]]), Dictionary())
    with pytest.raises(RowError, match="is out of range for TIMESTAMP"):
        evaluate(Call("cast", (Col(0, Type.DATE),), Type.TIMESTAMP), np.array([[2**40]]), Dictionary())


# --- what planners ask


def test_a_column_is_a_view_of_its_rows() -> None:
    """A plain column is not copied."""
    rows = np.arange(6).reshape(2, 3)
    assert np.shares_memory(evaluate(Col(1, INT), rows, Dictionary()), rows)


def test_a_constant_is_as_long_as_its_rows() -> None:
    """A literal or a constant expression has one word per row."""
    rows = np.zeros((1, 3), dtype=np.int64)
    assert evaluate(Lit(7, INT), rows, Dictionary()).tolist() == [7] * 3
    assert evaluate(Lit(None, TXT), rows, Dictionary()).tolist() == [NULL] * 3
    assert evaluate(Call("+", (Lit(1, INT), Lit(2, INT)), INT), rows, Dictionary()).tolist() == [3] * 3


def test_columns_and_their_replacement() -> None:
    """columns_of returns the columns that are read; remap replaces columns by others or by expressions."""
    bound = expr("CASE WHEN i > 1 THEN j ELSE i + 5 END")
    assert columns_of(bound) == {0, 1}
    assert columns_of(Lit(1, INT)) == set()
    assert columns_of(remap(bound, [4, 2])) == {4, 2}
    inlined = remap(Call("+", (Col(0, INT), Col(1, INT)), INT), [Call("neg", (Col(3, INT),), INT), 0])
    assert inlined == Call("+", (Call("neg", (Col(3, INT),), INT), Col(0, INT)), INT)
