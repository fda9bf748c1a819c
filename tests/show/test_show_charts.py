"""Charts: what they say is what they were given, nothing overlaps, and every axis has its unit."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.show.axes import Axis, fitted, written
from sharedstate_lite.show.lines import spread, thinned

SVG = "{http://www.w3.org/2000/svg}"
Rect = tuple[float, float, float, float]
KINDS = ["full", "shared", "partial"]


def texts(svg: ET.Element) -> list[tuple[Rect, str]]:
    """The box of each text, from its baseline, anchor, measured length and size, moved as its group is."""
    out, moved = [], {}
    for group in svg.iter(SVG + "g"):
        if found := re.fullmatch(r"translate\(([\d.]+) ([\d.]+)\)", group.get("transform", "")):
            moved |= dict.fromkeys(group.iter(SVG + "text"), (float(found[1]), float(found[2])))
    for each in svg.iter(SVG + "text"):
        told = re.search(r"font-size:([\d.]+)", each.get("style", ""))
        size, long, x, y = (
            float(told[1]) if told else 12.0,
            *(float(each.get(k, "0")) for k in ("textLength", "x", "y")),
        )
        right, down = moved.get(each, (0, 0))
        x, y = x + right, y + down
        left = x - {"middle": long / 2, "end": long}.get(each.get("text-anchor", "start"), 0)
        out.append(((left, y - 0.75 * size, left + long, y + 0.2 * size), each.text or ""))
    return out


def check(picture: Any) -> list[str]:
    """No two texts overlap and none sticks out, wide and narrow; returns what is written in the wide one."""
    for drawing in picture.drawings:
        svg = ET.fromstring(drawing.svg("test", alone=True))
        found = texts(svg)
        for box, words in found:
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= drawing.width and box[3] <= drawing.height
            assert inside, f"{words!r} sticks out at {box} of {drawing.width} x {drawing.height}"
        for (a, one), (b, two) in combinations(found, 2):
            apart = a[2] <= b[0] + 0.5 or b[2] <= a[0] + 0.5 or a[3] <= b[1] + 0.5 or b[3] <= a[1] + 0.5
            assert apart, f"{one!r} and {two!r} overlap at {a} and {b}"
    return [words for _, words in texts(ET.fromstring(picture.drawings[0].svg("test", alone=True)))]


drawn = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=40)
names = st.lists(st.one_of(st.sampled_from(KINDS), drawn), min_size=1, max_size=6, unique=True)
numbers = st.lists(st.floats(0, 1e4) | st.floats(1e-7, 1e-2), max_size=150)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(names.flatmap(lambda n: st.fixed_dictionaries(dict.fromkeys(n, numbers))))
def test_nothing_overlaps(given: dict[str, list[float]]) -> None:
    """From one series to six, none to many points, zeros and any names: texts keep apart and inside."""
    chart = show.time_chart(given)
    check(chart.picture)
    json.dumps(chart.figure.to_plotly_json()["layout"])


@pytest.mark.parametrize("count", [3, 300, 10_000])
def test_axes_have_units(count: int) -> None:
    """Every axis of picture and figure names its quantity and its unit, at any number of points."""
    rng = np.random.default_rng(count)
    chart = show.time_chart({kind: rng.lognormal(i, 1, count) / 1000 for i, kind in enumerate(KINDS)})
    written_ones = check(chart.picture)
    layout = chart.figure.to_plotly_json()["layout"]
    for axis in ("xaxis", "yaxis"):
        label = layout[axis]["title"]["text"]
        assert re.fullmatch(r".+ \((ms|s|µs|%|number)\)", label)
        assert label in written_ones


def test_thinning_is_told_and_loses_nothing() -> None:
    """Ten thousand epochs become medians and 99th percentiles of equal buckets, and the chart says so."""
    y = np.arange(10_000, dtype=float)
    x, middle, upper, size = thinned(y, y, 100)
    assert (len(x), size, middle[0], upper[0]) == (100, 100, 49.5, pytest.approx(98.01))
    chart = show.time_chart({"full": (y + 1) / 1000})
    told = " ".join(check(chart.picture))
    assert "up to 84 epochs" in told and "median" in told and "99th percentile" in told
    assert len(chart.figure.data) == 2
    few = show.time_chart({"full": [0.001, 0.002]})
    assert "summarizes" not in " ".join(check(few.picture)) and len(few.figure.data) == 1


def test_hits_are_drawn_by_budget() -> None:
    """Budgets come in order whatever the order given, in percent, with the unit of the budget."""
    chart = show.hits_chart({"seed 1": {100: 0.5, 10: 0.1, 1000: 1}}, unit="rows")
    assert list(chart.figure.data[0].x) == [10, 100, 1000] and list(chart.figure.data[0].y) == [10, 50, 100]
    assert "budget (rows)" in check(chart.picture)
    assert "10 rows 10 %, 100 rows 50 %, 1,000 rows 100 %" in repr(chart)


def test_rows_are_drawn_on_linear_axes() -> None:
    """Rows start at 0 on a linear axis even if they are many times apart; both axes have a unit."""
    chart = show.rows_chart({"held": {20: 20_817, 1: 1_500}, "answer": {1: 10, 20: 10}}, title="Growth")
    assert list(chart.figure.data[0].x) == [1, 20] and list(chart.figure.data[0].y) == [1_500, 20_817]
    told = check(chart.picture)
    assert {"epochs (number)", "stored (rows)"} <= set(told) and not any("logarithmic" in each for each in told)
    assert "answer: 10 rows at 1 epochs, 10 rows at 20 epochs" in repr(chart)
    assert "views (number)" in check(show.rows_chart({"full": {1: 16, 2: 29}}, "views").picture)


def test_curves_have_linear_axes_with_their_own_names() -> None:
    """Both axes start at 0; without points the chart says so."""
    chart = show.curves(
        {"predicted": {0: 0, 6: 200, 12: 200}, "measured": {1: 33, 6: 170}}, "calls", "events", "A knee"
    )
    told = check(chart.picture)
    assert {"calls", "events", "predicted", "measured"} <= set(told)
    assert "measured: 33 at 1, 170 at 6" in repr(chart)
    assert "There are no points." in repr(show.curves({}, "calls", "events", "A knee"))


def test_panels_show_each_curve_in_a_chart_of_its_own_with_the_same_axes() -> None:
    """The largest value of all curves stands on the axis of each; two charts in a row, or one on a narrow page."""
    points = {"calm": {0: 5, 1: 6}, "sudden": {0: 5, 1: 60}, "slow": {0: 5, 1: 16}}
    picture = show.panels(points, "epoch", "ms", "Latency")
    told = check(picture)
    assert [told.count(words) for words in ("calm", "sudden", "slow", "60", "ms", "epoch")] == [1, 1, 1, 3, 3, 3]
    wide, narrow = picture.drawings
    assert (wide.width, narrow.width) == (800, 480) and wide.height / 2 == narrow.height / 3
    assert "sudden: 5 at 0, 60 at 1" in repr(picture)
    assert "There are no points." in repr(show.panels({}, "epoch", "ms", "Latency"))


def test_many_times_apart_is_logarithmic() -> None:
    """Values of one size stand on a linear axis that begins at 0, values many times apart on a logarithmic one."""
    near, far = (fitted(Axis("time", "ms"), v) for v in ([1, 2, 3], [1, 200]))
    assert (near.log, near.low, far.log) == (False, 0, True)
    zeros = show.time_chart({"full": [0, 0.001, 0.5]})
    assert "lower end instead: 1." in " ".join(check(zeros.picture))


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30), st.booleans(), st.booleans())
def test_ticks_are_few_round_and_within(values: list[float], log: bool, zero: bool) -> None:
    """Ticks lie within the axis, at least two, rising, and no more than asked; every value has its place."""
    axis = fitted(Axis("a", "b"), values, log=log, zero=zero)
    for most in (2, 5, 9):
        ticks = axis.ticks(most)
        assert 2 <= len(ticks) <= most + 1 and ticks == sorted(set(ticks))
        assert all(-1e-6 <= axis.share(t) <= 1 + 1e-6 for t in ticks)
    assert all(-1e-6 <= axis.share(v) <= 1 + 1e-6 for v in values)
    assert axis.floored == (sum(v < axis.low for v in values) if axis.log else 0)


def test_numbers_are_written_plainly() -> None:
    """Three digits that count, commas, no exponent within reach."""
    values = [0, 0.0012345, 0.5, 1, 2.5, 12.34, 123.4, 1234, 1_000_000]
    assert [written(v) for v in values] == ["0", "0.00123", "0.5", "1", "2.5", "12.3", "123", "1,234", "1,000,000"]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0, 200), min_size=1, max_size=6))
def test_labels_keep_apart(wanted: list[float]) -> None:
    """Moved labels are a line apart, keep their order and stay within the plot."""
    at = spread(wanted, 16, 0, 200)
    assert all(b - a >= 16 - 1e-6 for a, b in zip(sorted(at), sorted(at)[1:], strict=False))
    assert all(-1e-6 <= y <= 200 + 1e-6 for y in at)
    assert all((a < b) <= (x < y) for a, x in zip(wanted, at, strict=True) for b, y in zip(wanted, at, strict=True))


def test_nothing_to_draw_is_a_plain_word() -> None:
    """Without data a chart says so, as picture and as figure."""
    for chart, said in (
        (show.time_chart({}), "No epochs were timed."),
        (show.time_chart({"full": []}), "No epochs were timed."),
        (show.hits_chart({"full": {}}), "No budgets were tried."),
        (show.rows_chart({}), "No rows were counted."),
        (show.rungs_chart({}, "rows"), "No rungs ran."),
    ):
        assert said in check(chart.picture) and said in repr(chart)


def test_what_cannot_be_drawn_is_refused() -> None:
    """Too many series, no number, a negative or infinite one, and a rate over 1: the error names the culprit."""
    with pytest.raises(ss.Error, match="7 series"):
        show.time_chart({str(i): [1] for i in range(7)})
    for bad in ([1, -2], [1, float("nan")], [1, float("inf")], [1, "x"], [1, 1.7e308], [10**400], None):
        with pytest.raises(ss.Error, match="series full"):
            show.time_chart({"full": bad})  # type: ignore[dict-item]
    charts: list[Any] = [show.time_chart, show.hits_chart, show.rows_chart]
    for draw in charts:
        with pytest.raises(ss.Error, match="cannot draw list; pass {name: "):
            draw([1.0])
    with pytest.raises(ss.Error, match="hit rate must be at most 1"):
        show.hits_chart({"full": {1: 50}})


def test_a_strategy_has_one_colour() -> None:
    """A strategy's line has its colour in every chart, whatever stands beside it."""
    alone = show.time_chart({"partial": [1, 2]})
    beside = show.time_chart({"x": [1, 2], "y": [1, 2], "partial": [1, 2]})
    assert alone.figure.data[0].line.color == beside.figure.data[2].line.color
    assert len({t.line.color for t in beside.figure.data}) == len({t.marker.symbol for t in beside.figure.data}) == 3


def test_a_chart_brings_its_picture() -> None:
    """A chart is one output with plotly's data and the picture of the same numbers; neither needs the network."""
    chart = show.rungs_chart({"slow": 12.0, "fast": 0.5}, "ms", title="Rows")
    shown = chart._repr_mimebundle_()
    assert shown["text/html"] == chart.picture._repr_html_()
    assert list(shown["application/vnd.plotly.v1+json"]["data"][0]["x"]) == [12.0, 0.5]
    assert not re.search(r"(src|href|url)\W{1,3}https?:", shown["text/html"])
