"""Predictions are read leniently and judged strictly."""

from __future__ import annotations

from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.show.predict import agrees, near

CHANGES = [("-U", "Vegetable", 50), ("+U", "Vegetable", 60)]


@pytest.mark.parametrize(
    "typed",
    [
        CHANGES,
        CHANGES[::-1],
        [list(c) for c in CHANGES],
        "-U Vegetable 50, +U vegetable 60",
        "+1 Vegetable 60, −1 Vegetable 50",
        [(-1, "Vegetable", 50), (+1, "Vegetable", 60)],
        ["-U Vegetable 50", "+U Vegetable 60"],
    ],
)
def test_ways_to_say_the_same(typed: Any) -> None:
    """Order, case, lists, texts and +1 or -1 for the kind make no difference."""
    assert agrees(typed, CHANGES)


@pytest.mark.parametrize(
    "typed", [[], CHANGES[:1], CHANGES * 2, "+U Vegetable 50, -U Vegetable 60", 7, "x", {"a": 1}, object(), [[]], ""]
)
def test_what_is_not_the_same(typed: Any) -> None:
    """A missing, added or different row is wrong, and what means nothing is wrong without an error."""
    assert not agrees(typed, CHANGES)


@pytest.mark.parametrize(
    ("typed", "happened", "right"),
    [
        (7, 7, True),
        ("7", 7, True),
        (7.0, 7, True),
        (8, 7, False),
        ([], [], True),
        ("", [], True),
        ("full, shared", {"full", "shared"}, True),
        (["full"], {"full", "shared"}, False),
        ({"Fruit": 40}, {"fruit": 40}, True),
        ({"Fruit": 41}, {"Fruit": 40}, False),
        ([(1, 2)], [(2, 1)], False),
        ([(-1, 5)], [(1, 5)], False),
        (12345678901, 12345678902, False),
    ],
)
def test_other_answers(typed: Any, happened: Any, right: bool) -> None:
    """Numbers, sets, mappings and nothing at all are compared by what they mean."""
    assert agrees(typed, happened) is right


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        (["full", "shared", "partial"], True),
        (("Full", "shared", "partial"), True),
        ("full, shared, partial", True),
        ("full shared partial", True),
        (["partial", "full", "shared"], False),
        ("shared, full, partial", False),
        ({"full", "shared", "partial"}, False),
        (["full", "shared"], False),
        ([], False),
        (7, False),
    ],
)
def test_an_order_is_judged(typed: Any, right: bool) -> None:
    """Who is asked for an order, or for a number for each of several ways, is not right with any other order."""
    assert agrees(typed, ["full", "shared", "partial"]) is right


@pytest.mark.parametrize(
    ("typed", "happened", "right"),
    [
        ([3, 0], (3, 0), True),
        ("3, 0", (3, 0), True),
        ([0, 3], (3, 0), False),
        ([100, 400, 50], [100, 400, 50], True),
        ([400, 100, 50], [100, 400, 50], False),
        (("full", "shared"), {"full", "shared"}, True),
        (("full", "partial"), {"full", "shared"}, False),
    ],
)
def test_pairs_and_names(typed: Any, happened: Any, right: bool) -> None:
    """A pair may be typed as a list or a text, names of a set without its braces."""
    assert agrees(typed, happened) is right


@pytest.mark.parametrize(("typed", "right"), [(4, True), ("12", True), (3, False), (15, False), ("few", False)])
def test_a_guess(typed: Any, right: bool) -> None:
    """A number is near another if the larger of the two is at most ``factor`` times the smaller one."""
    assert near(typed, 7, factor=2) is right


@pytest.mark.parametrize("typed", [0, -7, float("nan"), float("inf"), [7.5], {}, True])
def test_no_guess(typed: Any) -> None:
    """What is no number near it stays wrong, without an error."""
    assert not near(typed, 7, factor=2)


def test_emitted() -> None:
    """Changes come out as plain tuples, the kind first."""
    view = ss.Catalog(t="a STRING, b INT").view("CREATE VIEW v AS SELECT a, MAX(b) AS m FROM t GROUP BY a")
    with ss.engine("full", [view]) as engine:
        assert show.emitted(engine.step({"t": [(("x", 1), 1)]})["v"]) == [("+I", "x", 1)]
        assert show.emitted(engine.step({"t": [(("x", 2), 1)]})["v"]) == [("-U", "x", 1), ("+U", "x", 2)]
        assert show.emitted(engine.step({})["v"]) == []
