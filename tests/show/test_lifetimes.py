"""Entries on a time axis: what is drawn where."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from sharedstate_lite import show

BANANA, APPLE = ("Banana", "Alice", 40), ("Apple", "Bob & <i>", 20)
ENTRIES = [(BANANA, 8, +1), (BANANA, 10, -1), (APPLE, 5, +1), (APPLE, 6, +1), (APPLE, 9, -1)]


def test_the_words_have_every_entry_and_the_frontiers() -> None:
    """The text lists the rows by their first epoch."""
    words = repr(show.lifetimes(ENTRIES, since=5, upper=11, title="visit"))
    assert words.splitlines() == [
        "visit",
        "  Apple Bob & <i> 20: +1 at 5, +1 at 6, -1 at 9",
        "  Banana Alice 40: +1 at 8, -1 at 10",
        "  since 5, upper 11",
    ]


def test_a_bar_covers_the_epochs_in_which_a_row_is_there() -> None:
    """The Banana's bar ends at its retraction; the Apple is there once until upper, after it was there twice."""
    drawing = show.lifetimes(ENTRIES, upper=11).drawing
    root = ElementTree.fromstring(drawing.svg("x", alone=True))
    bars = [r for r in root.iter() if r.tag.endswith("rect") and r.get("height") == "10"]
    spans = [(float(b.get("x", 0)), float(b.get("width", 0))) for b in bars]
    step = spans[0][1]  # the Apple from 5 to 6
    assert [round(w / step) for _, w in spans] == [1, 3, 2, 2]
    assert [round((x - spans[0][0]) / step) for x, _ in spans] == [0, 1, 4, 3]


def test_what_is_marked() -> None:
    """since tints the epochs that can be read; a read is marked; without entries there is an axis."""
    svg = show.lifetimes(ENTRIES, upper=11, since=9, at=10).drawing.svg("x", alone=True)
    assert {"since 9", "upper 11", "read at 10", "cannot be read"} <= set(re.findall(r">([^<>]+)</text>", svg))
    assert "since" not in show.lifetimes([], upper=3).drawing.body
    assert len(show.lifetimes(ENTRIES, upper=11).drawings) == 2
    flights = show.lifetimes(ENTRIES, upper=11, across="flight").drawing.body
    assert "flight" in flights and "upper" not in flights and "epoch" not in flights


def test_rows_in_their_order_with_hits() -> None:
    """On another axis than epochs, rows keep the order in which they are given. A hit is a disc in its row."""
    picture = show.lifetimes(
        [(("late",), 3, +1), (("early",), 1, +1)], upper=5, across="flight", hits=[(("late",), 4), (("early",), 2)]
    )
    assert repr(picture).splitlines()[1:3] == ["  late: +1 at 3; hits at 4", "  early: +1 at 1; hits at 2"]
    assert picture.drawing.body.count("<circle") == 2
