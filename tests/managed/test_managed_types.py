"""Types of state: what is parsed, what is refused, and that shredding loses nothing."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedstate_lite.errors import StateError
from sharedstate_lite.managed.types import (
    Collection,
    Kind,
    Scalar,
    Struct,
    assemble,
    checked,
    duration,
    parse_fields,
    parse_type,
    relations,
    shred,
)
from sharedstate_lite.plan import Column, Type
from sharedstate_lite.storage import Dictionary

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: st.sampled_from(["", "a", "é", "NULL"]),
    Type.INT: st.integers(-(2**31), 2**31 - 1),
    Type.BIGINT: st.integers(-(2**63) + 1, 2**63 - 1),
    Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    Type.BOOLEAN: st.booleans(),
    Type.DATE: st.dates(),
    Type.TIMESTAMP: st.datetimes(),
}
SCALARS = st.sampled_from(list(Type))
KINDS: st.SearchStrategy[Kind] = st.recursive(
    SCALARS.map(Scalar),
    lambda inner: st.one_of(
        st.builds(Collection, inner, st.none() | SCALARS),
        st.builds(lambda item, n: Collection(item, None, n), inner, st.integers(1, 3)),
        st.lists(inner, min_size=1, max_size=3).map(lambda kinds: Struct(tuple(zip("xyz", kinds, strict=False)))),
    ),
    max_leaves=5,
)


def values(kind: Kind) -> st.SearchStrategy[Any]:
    """Values of a type, None included at every level."""
    if isinstance(kind, Scalar):
        return st.none() | VALUES[kind.type]
    if isinstance(kind, Struct):
        return st.none() | st.fixed_dictionaries({name: values(each) for name, each in kind.fields})
    if kind.key is not None:
        return st.none() | st.dictionaries(VALUES[kind.key], values(kind.item), max_size=3)
    low, high = (kind.length, kind.length) if kind.length else (0, 3)
    return st.none() | st.lists(values(kind.item), min_size=low, max_size=high)


@given(KINDS)
def test_a_type_reads_as_it_is_printed(kind: Kind) -> None:
    """The text of a type is parsed to the same type."""
    assert parse_type(str(kind)) == kind


@given(st.data(), KINDS, st.randoms(use_true_random=False))
def test_shredded_values_come_back(data: st.DataObject, kind: Kind, random: Any) -> None:
    """Values of any type come back from their rows, whatever the order in which a store returns these."""
    given_values = [checked(kind, value) for value in data.draw(st.lists(values(kind), max_size=4))]
    strings = Dictionary()
    identity = np.array([range(len(given_values))], dtype=np.int64)
    last = np.full((1, len(given_values)), 7)
    tables = shred(kind, "s", identity, given_values, last, strings)
    declared = relations("s", kind, [Column("k", Type.BIGINT)], (), [Column("@expires", Type.TIMESTAMP)])
    assert [r.name for r in declared] == list(tables)
    for relation in declared:
        rows = tables[relation.name]
        assert len(rows) == len(relation.columns) and (rows[-1] == 7).all()
        assert len(set(zip(*rows[: relation.identity].tolist(), strict=True))) == rows.shape[1]
        if relation.name != "s":
            order = list(range(rows.shape[1]))
            random.shuffle(order)
            tables[relation.name] = rows[:, order]
    assert assemble(kind, "s", tables, 1, strings) == given_values


def test_null_empty_and_absent_differ() -> None:
    """A collection that is NULL, one that is empty and one of a NULL struct are three things."""
    kind = parse_type("STRUCT<a: LIST<INT>, b: STRUCT<c: INT>>")
    rows: list[Any] = [None, {"a": None, "b": None}, {"a": [], "b": {"c": None}}]
    tables = shred(kind, "s", np.arange(3)[None], rows, np.empty((0, 3), dtype=np.int64), Dictionary())
    assert [c.name for c in relations("s", kind, [Column("k", Type.INT)])[0].columns] == ["k", "?", "a?", "b?", "b.c"]
    assert assemble(kind, "s", tables, 1, Dictionary()) == rows


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("FOO", "FOO is not a type"),
        ("LIST<INT", "LIST<INT is not a type"),
        ("LIST<LIST>", "LIST is not a type"),
        ("LIST<INT, INT>", "LIST<INT, INT> is not a type"),
        ("LIST<INT>>", "INT> is not a type"),
        ("LIST<INT>, LIST<INT>", "is not a type"),
        ("MAP<LIST<INT>, INT>", "the key of a MAP is one of the seven scalar types"),
        ("ARRAY<INT, 0>", "the length of an ARRAY is a whole number from 1"),
        ("ARRAY<INT>", "ARRAY<INT> is not a type"),
        ("STRUCT<>", "each field has a name of its own and a type"),
        ("STRUCT<a INT>", "each field has a name of its own and a type"),
        ("STRUCT<a: INT, A: INT>", "each field has a name of its own and a type"),
        ("INT INT", "INT INT is not a type"),
        ("", "an empty text is not a type"),
    ],
)
def test_a_wrong_type_is_refused(text: str, rule: str) -> None:
    """The error has the part of the type that is wrong, and the rule."""
    with pytest.raises(StateError, match=rule):
        parse_type(text)


def test_columns_may_be_nested() -> None:
    """Columns are fields without a colon."""
    assert str(parse_fields("plane STRING, ids LIST<BIGINT>")) == "STRUCT<plane: STRING, ids: LIST<BIGINT>>"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT", 2**31),
        ("INT", 1.0),
        ("INT", True),
        ("BIGINT", -(2**63)),
        ("STRING", 3),
        ("DOUBLE", float("inf")),
        ("DOUBLE", True),
        ("BOOLEAN", 1),
        ("DATE", datetime(2024, 1, 1)),
        ("TIMESTAMP", date(2024, 1, 1)),
        ("TIMESTAMP", "2024-01-01"),
        ("LIST<INT>", "12"),
        ("LIST<INT>", {1: 2}),
        ("ARRAY<INT, 2>", [1]),
        ("MAP<STRING, INT>", {None: 1}),
        ("MAP<STRING, INT>", {1: 1}),
        ("MAP<DOUBLE, INT>", {float("nan"): 1}),
        ("STRUCT<a: INT>", {"a": 1, "b": 2}),
        ("STRUCT<a: INT>", {}),
        ("STRUCT<a: INT>", (1, 2)),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, value: Any) -> None:
    """Nothing is converted silently."""
    with pytest.raises((TypeError, ValueError)):
        checked(parse_type(kind), value)


def test_values_are_stored_as_copies_with_nan_as_null() -> None:
    """What the caller does with its list afterwards does not matter; NaN is NULL, and numpy's numbers are numbers."""
    given_list: list[Any] = [1.5, float("nan"), np.float64(2), np.int32(3)]
    stored = checked(parse_type("LIST<DOUBLE>"), given_list)
    given_list.append(4.0)
    assert stored == [1.5, None, 2.0, 3.0]
    assert checked(parse_type("STRUCT<a: INT, b: INT>"), (np.int64(1), None)) == {"a": 1, "b": None}


@pytest.mark.parametrize("text", ["soon", "-1 seconds", "1.5 hours", "10", timedelta(seconds=-1)])
def test_a_wrong_duration_is_refused(text: Any) -> None:
    """A duration is a whole number with a unit, or a timedelta, and not negative."""
    with pytest.raises(StateError, match="duration"):
        duration(text)


def test_durations() -> None:
    """Units are singular or plural."""
    assert [duration(t) // 1_000_000 for t in ("1 second", "2 minutes", "1 hour", "1 day", timedelta(weeks=1))] == [
        1,
        120,
        3_600,
        86_400,
        604_800,
    ]
