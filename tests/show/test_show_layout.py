"""Measuring text, placing boxes and routing lines."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedstate_lite.show.layout import STRAIGHT, Box, Link, columns, isotonic, place, track_of, turns
from sharedstate_lite.show.text import fit, width, wrap


@given(st.text(max_size=30), st.text(max_size=30), st.booleans())
def test_width_adds_up(a: str, b: str, bold: bool) -> None:
    """The width of two texts is that of both together, at any size."""
    assert width(a + b, 13, bold) == pytest.approx(width(a, 13, bold) + width(b, 13, bold))
    assert width(a, 24) == pytest.approx(2 * width(a, 12))


def test_width_is_arial_s() -> None:
    """Widths are Arial's: digits 556, i 222, W 944, bold M 833 thousandths; a Chinese character is square."""
    assert [width(c, 1000) for c in "0iWé"] == [556, 222, 944, 556]
    assert width("M", 1000, bold=True) == 833
    assert width("北京", 10) == 20 and width("a\u0301", 1000) == 556


@given(st.text(max_size=60), st.floats(12, 300))
def test_fit_fits(text: str, most: float) -> None:
    """What is fitted is no wider than asked, and is the text itself where there is room."""
    shown = fit(text, most)
    assert width(shown) <= most + 0.1
    assert shown == text or (shown.endswith("…") and width(text) > most)


@given(st.lists(st.text("abcdef", min_size=1, max_size=12), max_size=12), st.floats(40, 200), st.integers(1, 4))
def test_wrap_keeps_the_words(words: list[str], most: float, lines: int) -> None:
    """Wrapped lines fit, are at most as many as allowed, and have all words unless the last one was cut."""
    out = wrap(" ".join(words), most, lines)
    assert len(out) <= lines and all(width(line) <= most + 0.1 for line in out)
    assert " ".join(out).split() == words or any(line.endswith("…") for line in out)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 5)), min_size=1, max_size=8))
def test_isotonic_is_the_nearest(values: list[tuple[int, int]]) -> None:
    """Pooling gives the non-decreasing sequence nearest in weighted squares: the max of mins of means."""
    found = isotonic([float(v) for v, _ in values], [float(w) for _, w in values])

    def mean(i: int, j: int) -> float:
        part = values[i : j + 1]
        return sum(v * w for v, w in part) / sum(w for _, w in part)

    size = range(len(values))
    wanted = [max(min(mean(i, j) for j in size if j >= k) for i in size if i <= k) for k in size]
    assert found == pytest.approx(wanted)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[Link]]:
    """Acyclic graphs of up to nine boxes, of several sizes."""
    count = draw(st.integers(1, 9))
    boxes = [
        Box(f"b{n}", draw(st.sampled_from([40, 90])), draw(st.sampled_from([28, 90, 200])), 19) for n in range(count)
    ]
    links = []
    for target in range(1, count):
        for source in draw(st.sets(st.integers(0, target - 1), max_size=3)):
            links.append(
                Link(f"b{source}", f"b{target}", boxes[source].height / 2, draw(st.floats(8, boxes[target].height - 8)))
            )
    return boxes, links


@settings(max_examples=60)
@given(graphs())
def test_nothing_overlaps(graph: tuple[list[Box], list[Link]]) -> None:
    """Boxes of a column keep apart, edges run rightwards from box to box, and lanes pass no box."""
    boxes, links = graph
    size = {b.name: b for b in boxes}
    placed = place(boxes, links, apart=14)
    assert sorted(n for column in placed.columns for n in column) == sorted(size)
    for column in placed.columns:
        spans = [(placed.tops[n] - size[n].above, placed.tops[n] + size[n].height) for n in column]
        assert all(a[1] + 13.9 <= b[0] or b[1] + 13.9 <= a[0] for a, b in combinations(spans, 2))
    level = columns([b.name for b in boxes], links)
    for link, pieces in zip(links, placed.links, strict=True):
        assert [p.gap for p in pieces] == list(range(level[link.source], level[link.target]))
        assert pieces[0].y0 == pytest.approx(placed.tops[link.source] + link.out)
        assert pieces[-1].y1 == pytest.approx(placed.tops[link.target] + link.into)
        for before, after in zip(pieces, pieces[1:], strict=False):
            assert before.y1 == after.y0
            for name in placed.columns[after.gap]:
                top = placed.tops[name] - size[name].above
                assert not top < after.y0 < placed.tops[name] + size[name].height


@settings(max_examples=60)
@given(graphs())
def test_no_higher_than_asked(graph: tuple[list[Box], list[Link]]) -> None:
    """Where the tallest column is low enough, so is the whole; boxes of a column still stand apart, in order."""
    boxes, links = graph
    size = {b.name: b for b in boxes}
    placed = place(boxes, links, 14, 60)
    lanes = [
        [1 for link in links if level[link.source] < c < level[link.target]]
        for level in [columns([b.name for b in boxes], links)]
        for c in range(len(placed.columns))
    ]
    tall = [
        sum(size[n].height + size[n].above + 14 for n in column) + 28 * len(lane) - 14
        for column, lane in zip(placed.columns, lanes, strict=True)
    ]
    assert placed.height <= max(60, *tall) + 0.1
    for column in placed.columns:
        spans = sorted((placed.tops[n] - size[n].above, placed.tops[n] + size[n].height) for n in column)
        assert all(a[1] + 13.9 <= b[0] for a, b in zip(spans, spans[1:], strict=False))


@settings(max_examples=60)
@given(graphs())
def test_tracks_are_apart(graph: tuple[list[Box], list[Link]]) -> None:
    """Upright stretches stand within their gap, apart unless they leave from one port."""
    placed = place(*graph)
    for gap in range(len(placed.columns) - 1):
        pieces = placed.gap(gap)
        x = turns(pieces, 0, 200)
        assert set(x) == {track_of(p) for p in pieces if abs(p.y0 - p.y1) > STRAIGHT}
        assert all(abs(a - b) >= 8.9 for a, b in combinations(x.values(), 2))


def test_a_source_stands_before_its_first_reader() -> None:
    """A source that is read late stands late; the others on the longest path from a source."""
    links = [Link("a", "j", 1, 1), Link("j", "k", 1, 1), Link("late", "k", 1, 1)]
    assert columns(["a", "late", "j", "k"], links) == {"a": 0, "j": 1, "k": 2, "late": 1}


def test_a_circle_is_refused() -> None:
    """A graph with a circle is an error that names the boxes."""
    with pytest.raises(ValueError, match="a, b form a cycle"):
        columns(["a", "b"], [Link("a", "b", 1, 1), Link("b", "a", 1, 1)])
