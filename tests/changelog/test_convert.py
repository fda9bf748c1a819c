"""convert: columns in and out; a value has the same word in every form of input."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bags import VALUES
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite import RowError
from sharedstate_lite.changelog.convert import ARROW, DTYPES, from_arrow, from_series, from_values, to_arrow, to_series
from sharedstate_lite.plan.nodes import Column, Type
from sharedstate_lite.storage.encoding import NULL, Dictionary

DRAWN: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: st.text(max_size=20),
    Type.INT: st.integers(-(2**31), 2**31 - 1),
    Type.BIGINT: st.integers(-(2**63) + 1, 2**63 - 1),
    Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Type.BOOLEAN: st.booleans(),
    Type.DATE: st.dates(),
    Type.TIMESTAMP: st.datetimes(),
}

FORMS: dict[str, Callable[[list[Any], Type], Any]] = {
    "Arrow": lambda values, kind: pa.array(values, ARROW[kind]),
    "a slice": lambda values, kind: pa.array([*values[:2], *values, None], ARROW[kind]).slice(
        len(values[:2]), len(values)
    ),
    "chunks": lambda values, kind: pa.chunked_array(
        [pa.array(part, ARROW[kind]) for part in (values[:3], [], values[3:])], ARROW[kind]
    ),
    "a dictionary": lambda values, kind: pa.array(values, ARROW[kind]).dictionary_encode(),
    "pandas": lambda values, kind: pd.Series(values, dtype=DTYPES[kind]),
    "Arrow in pandas": lambda values, kind: pd.Series(values, dtype=pd.ArrowDtype(ARROW[kind])),
    "objects": lambda values, kind: pd.Series(values, dtype=object),
    "a column": lambda values, kind: pa.table({"c": pa.array(values, ARROW[kind])}).column(0),
}
"""Ways to hand over a column."""


@pytest.mark.parametrize("kind", DRAWN)
def test_every_way_in_gives_the_same_words(kind: Type) -> None:
    """Python values, pandas and Arrow in all their forms give the same words, and convert back unchanged."""
    column = Column("c", kind)

    @examples(15)
    @given(st.lists(st.none() | DRAWN[kind] | st.sampled_from(VALUES[kind]), max_size=8))
    def run(values: list[Any]) -> None:
        strings = Dictionary()
        words = from_values(values, column, "r", strings)
        assert [w == NULL for w in words.tolist()] == [v is None for v in values]
        for name, form in FORMS.items():
            given_ = form(values, kind)
            convert: Any = from_series if isinstance(given_, pd.Series) else from_arrow
            assert convert(given_, column, "r", strings).tolist() == words.tolist(), name
        array, series = to_arrow(words, kind, strings), to_series(words, kind, strings)
        assert array.type == ARROW[kind]
        assert array.to_pylist() == values
        assert series.dtype == DTYPES[kind]
        assert series.array.to_numpy(dtype=object, na_value=None).tolist() == values
        assert from_series(series, column, "r", strings).tolist() == words.tolist()

    run()


NARROW: list[tuple[Type, Any, list[Any]]] = [
    (Type.INT, pa.array([-5, None, 5], pa.int8()), [-5, None, 5]),
    (Type.INT, pa.array([5.0, None]), [5, None]),
    (Type.BIGINT, pa.array([5], pa.uint64()), [5]),
    (Type.BIGINT, pd.Series([1.0, float("nan")]), [1, None]),
    (Type.DOUBLE, pa.array([1.5, None], pa.float32()), [1.5, None]),
    (Type.DOUBLE, pa.array([3, None]), [3.0, None]),
    (Type.DOUBLE, pd.Series([1.5, float("nan"), -0.0]), [1.5, None, 0.0]),
    (Type.STRING, pa.array(["é", None], pa.string_view()), ["é", None]),
    (Type.STRING, pa.array(["é", None], pa.large_string()), ["é", None]),
    (Type.STRING, pd.Series(["x", None, "x"], dtype="category"), ["x", None, "x"]),
    (Type.STRING, pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["a", None])), ["a", None, None]),
    (Type.DATE, pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us")), [dt.date(2024, 1, 1)]),
    (Type.TIMESTAMP, pa.array([-1, None], pa.timestamp("s")), [dt.datetime(1969, 12, 31, 23, 59, 59), None]),
    (Type.TIMESTAMP, pa.array([-1], pa.timestamp("ms")), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)]),
    (Type.TIMESTAMP, pa.array([-1000], pa.timestamp("ns")), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]),
    (Type.TIMESTAMP, pa.array([dt.date(2024, 1, 1)]), [dt.datetime(2024, 1, 1)]),
    (Type.TIMESTAMP, pd.Series(pd.to_datetime(["1677-09-22", None])), [dt.datetime(1677, 9, 22), None]),
    (Type.DOUBLE, pd.Series([Decimal("0.1"), 2.5, 2, None, Decimal("nan")], dtype=object), [0.1, 2.5, 2.0, None, None]),
    (Type.DOUBLE, pa.array([Decimal("1.5"), None]), [1.5, None]),
    (Type.BIGINT, pd.Series([Decimal("5"), 7, None], dtype=object), [5, 7, None]),
    (Type.STRING, pa.nulls(2), [None, None]),
    (Type.TIMESTAMP, pa.chunked_array([], pa.timestamp("s")), []),
]


@pytest.mark.parametrize("at", range(len(NARROW)))
def test_other_types_that_hold_the_values_are_taken(at: int) -> None:
    """A narrower or wider type is accepted if each value fits the declared type."""
    kind, given_, wanted = NARROW[at]
    convert: Any = from_series if isinstance(given_, pd.Series) else from_arrow
    strings = Dictionary()
    assert to_arrow(convert(given_, Column("c", kind), "r", strings), kind, strings).to_pylist() == wanted


NUMBERS: list[Any] = [
    *(None, float("nan"), pd.NA, Decimal("nan"), 1, -1, 2.0, 1.5, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**70),
    *(10**400, float("inf"), 1e300, Decimal("5"), Decimal("0.1"), Decimal("1e30"), Decimal("1e-30"), Decimal("1e400")),
    *(True, np.True_, "x", b"x", np.float16(2), np.float32(2), np.float64(1.5), np.int8(1), np.int64(2**62)),
]


@pytest.mark.parametrize("kind", [Type.INT, Type.BIGINT, Type.DOUBLE, Type.BOOLEAN, Type.STRING])
def test_values_are_taken_together_exactly_if_each_is_taken_alone(kind: Type) -> None:
    """Any two values of other types give the words of each alone; they are refused if one of them is refused alone."""

    def words(values: list[Any]) -> list[int] | None:
        try:
            return from_values(values, Column("c", kind), "r", strings).tolist()
        except RowError:
            return None

    strings = Dictionary()
    alone = [words([value]) for value in NUMBERS]
    assert 4 <= alone.count(None) < len(NUMBERS) - 4
    for one, first in zip(NUMBERS, alone, strict=True):
        for other, second in zip(NUMBERS, alone, strict=True):
            wanted = None if first is None or second is None else first + second
            assert words([one, other]) == wanted, (one, other)


@pytest.mark.parametrize("kind", [Type.DATE, Type.TIMESTAMP])
def test_iso_text_is_taken_as_the_moment_it_names(kind: Type) -> None:
    """ISO text gives the same words as the date or datetime, in every form of input, alone and among others."""
    column = Column("c", kind)

    @examples(15)
    @given(st.lists(st.none() | DRAWN[kind], max_size=5))
    def run(moments: list[Any]) -> None:
        words = from_values(moments, column, "r", Dictionary()).tolist()
        texts = [m if m is None else m.isoformat() for m in moments]
        mixed = [text if n % 2 else moment for n, (text, moment) in enumerate(zip(texts, moments, strict=True))]
        for values in (texts, mixed):
            assert from_values(values, column, "r", Dictionary()).tolist() == words
        for name, form in FORMS.items():
            given_ = form(texts, Type.STRING)
            convert: Any = from_series if isinstance(given_, pd.Series) else from_arrow
            assert convert(given_, column, "r", Dictionary()).tolist() == words, name

    run()


def test_a_key_can_be_iso_text() -> None:
    """A point read by text finds the rows of the date, and the answer is a date."""
    engine = ss.engine("partial", [ss.Catalog(r="d DATE, t TIMESTAMP").view("CREATE VIEW v AS SELECT d, t FROM r")])
    engine.step({"r": [(("2024-01-31", "2024-01-31T12:30:00.5"), 1), ((dt.date(2024, 2, 1), None), 1)]})
    assert engine.read("v", key="2024-01-31")["d"].tolist() == [dt.date(2024, 1, 31)]
    assert engine.read("v", key=dt.date(2024, 1, 31))["t"].tolist() == [dt.datetime(2024, 1, 31, 12, 30, 0, 500_000)]
    engine.step({"r": [(("2024-01-31", dt.datetime(2024, 1, 31, 12, 30, 0, 500_000)), -1)]})
    assert engine.read("v", key="2024-01-31").empty


SECONDS = pa.timestamp("s")
BAD: list[tuple[Type, Any, str]] = [
    (
        Type.INT,
        pa.array([1, 2**31]),
        r"column c INT: a value is out of range; it must be between -2147483648 and 2147483647",
    ),
    (Type.BIGINT, pa.array([-(2**63)]), "out of range"),
    (Type.BIGINT, pa.array([2**63], pa.uint64()), "not in range"),
    (Type.INT, pa.array([1.5]), "1.50* is not a whole number"),
    (Type.INT, pa.array([float("inf")]), "inf is not a whole number"),
    (Type.INT, pa.array([True]), "expected int32 values, got bool; convert them first"),
    (Type.INT, pd.Series([1, True], dtype=object), "column c INT: expected int32 values, got bool"),
    (Type.DOUBLE, pa.array([0.0, float("inf")], pa.float32()), "infinite"),
    (Type.DOUBLE, pd.Series(["x"]), "column c DOUBLE: expected double values, got (str|large_string)"),
    (Type.BOOLEAN, pa.array([1]), "expected bool values, got int64"),
    (Type.STRING, pa.array([1]), "expected string values, got int64"),
    (Type.STRING, pa.array([b"x"]), "expected string values, got binary"),
    (Type.STRING, pd.Series(["x", 3], dtype=object), "all values must be texts, but there is a 'int' object"),
    (Type.STRING, pd.Series(["ok", "\ud800"], dtype=object), "column c STRING: .*surrogates not allowed"),
    (Type.DATE, pa.array([dt.datetime(2024, 1, 1, 1)]), "time of day"),
    (Type.DATE, pa.array([0, 2**30], pa.int32()).cast(pa.date32()), "the year must be between 1 and 9999"),
    # Seconds whose microseconds pass 64 bits, and microseconds past the last year.
    (Type.TIMESTAMP, pa.array([2**60]).cast(SECONDS), "out of bounds"),
    (Type.TIMESTAMP, pa.array([None, 253_402_300_800]).cast(SECONDS), "the year must be between 1 and 9999"),
    # The word of NULL is a value out of range, and not NULL.
    (Type.TIMESTAMP, pa.array([-(2**63)]).cast(pa.timestamp("us")), "the year must be between 1 and 9999"),
    (Type.TIMESTAMP, pa.array([1], pa.timestamp("ns")), "would lose data"),
    (Type.TIMESTAMP, pd.Series([pd.Timestamp(1)], dtype=object), "has nanoseconds"),
    (Type.TIMESTAMP, pd.Series(pd.to_datetime(["2024-01-01"]).tz_localize("UTC")), "time zone"),
    (Type.TIMESTAMP, pd.Series([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], dtype=object), "time zone"),
    (Type.TIMESTAMP, pa.array(["2024-01-01", "soon"]), "'soon' is not a valid TIMESTAMP: expected a timestamp such"),
    (Type.TIMESTAMP, pd.Series(["2024-01-01T00:00:00Z"], dtype=object), "not a valid TIMESTAMP: .* no time zone"),
    (Type.DATE, pd.Series(["2024-01-31 10:00"], dtype=object), "not a valid DATE: expected a date such as 2024-01-31"),
    (Type.DATE, pd.Series(["2024-02-30"]), "c DATE: '2024-02-30' is not a valid DATE"),
    (Type.TIMESTAMP, pd.Series([5], dtype=object), "5 is not a date or time; pass a datetime, or ISO text such"),
    (Type.DOUBLE, pd.Series([Decimal("1e400")], dtype=object), "infinite"),
    (Type.BIGINT, pd.Series([Decimal("1.5")], dtype=object), "data loss"),
]


@pytest.mark.parametrize("at", range(len(BAD)))
def test_what_does_not_fit_is_refused_by_name(at: int) -> None:
    """A value that its type cannot hold raises RowError with relation, column and reason, in every form."""
    kind, given_, text = BAD[at]
    catalog = ss.Catalog(r=f"c {kind.value}")
    engine = ss.engine("full", [catalog.view("CREATE VIEW v AS SELECT c FROM r")])
    columns = {"c": given_, "diff": [1] * len(given_)}
    table: Any = pd.DataFrame(columns) if isinstance(given_, pd.Series) else pa.table(columns)
    with pytest.raises(RowError, match=f"^r: .*{text}"):
        engine.step({"r": table})
    assert engine.read("v").empty


class Named(str):
    """A string with another str(), as a member of a string Enum has."""

    def __str__(self) -> str:
        """Another text."""
        return "Fruit.APPLE"


@pytest.mark.parametrize("text", [Named("apple"), np.str_("apple")])
def test_a_string_of_a_class_of_its_own_keeps_its_text(text: str) -> None:
    """A subclass of str is stored, and looked up, by its text."""
    engine = ss.engine("full", [ss.Catalog(r="c STRING").view("CREATE VIEW v AS SELECT c FROM r")])
    engine.step({"r": [((text,), 1)]})
    assert list(map(type, engine.read("v", key=text)["c"])) == [str]
    assert engine.read("v", key="apple")["c"].tolist() == ["apple"]


@pytest.mark.parametrize("kind", [Type.DATE, Type.TIMESTAMP])
def test_the_first_and_last_moment_are_in(kind: Type) -> None:
    """The first and the last moment of the years 1 to 9999 are accepted in every unit that can express them."""
    least: Any = dt.datetime.min if kind is Type.TIMESTAMP else dt.date.min
    most: Any = dt.datetime.max if kind is Type.TIMESTAMP else dt.date.max
    column, strings = Column("c", kind), Dictionary()
    words = from_arrow(pa.array([least, most], ARROW[kind]), column, "r", strings)
    assert to_arrow(words, kind, strings).to_pylist() == [least, most]
    if kind is Type.TIMESTAMP:
        for unit, last in (("s", most.replace(microsecond=0)), ("ms", most.replace(microsecond=999_000))):
            words = from_arrow(pa.array([least, last], pa.timestamp(unit)), column, "r", strings)
            assert to_arrow(words, kind, strings).to_pylist() == [least, last]
