"""Charts: figure, table and text have the numbers that were given; axes have their units; colours their contrast."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from contrast import contrast
from hypothesis import given, settings
from hypothesis import strategies as st

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.show.bar_charts import LOGARITHMIC
from sharedstate_lite.show.chart import LONGEST, PLOTLY, TONES, Chart, written
from sharedstate_lite.show.palette import DARK, LIGHT

KINDS = ["full", "shared", "partial"]


def table(chart: Chart) -> list[list[str]]:
    """The cells of a chart's HTML table, with its heads."""
    (found,) = re.findall(r"<table .*</table>", chart.html)
    return [["".join(cell.itertext()) for cell in row] for row in ET.fromstring(found).iter("tr")]


def figure(chart: Chart) -> dict[str, Any]:
    """The figure as the notebook's output has it, through JSON."""
    found: dict[str, Any] = json.loads(json.dumps(chart._repr_mimebundle_()[PLOTLY]))
    return found


drawn = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=40)
names = st.lists(st.one_of(st.sampled_from(KINDS), drawn), min_size=1, max_size=6, unique=True)
numbers = st.dictionaries(st.integers(0, 10_000), st.floats(0, 1e4) | st.floats(1e-7, 1e-2), min_size=1, max_size=50)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(names.flatmap(lambda n: st.fixed_dictionaries(dict.fromkeys(n, numbers))))
def test_figure_and_table_have_the_numbers(given: dict[str, dict[int, float]]) -> None:
    """Up to six series with any names, and any points: each number is in the figure, in order, and in the table."""
    for chart in (show.curves(given, "x", "y", "Any"), show.panels(given, "x", "y", "Any")):
        traces = figure(chart)["data"]
        assert {t["name"]: dict(zip(t["x"], t["y"], strict=True)) for t in traces} == given
        assert all(t["x"] == sorted(t["x"]) for t in traces)
        assert chart.heads == ["x", *given]
        for at, series in enumerate(given.values(), 1):
            assert [row[at] for row in chart.rows if row[at]] == [written(series[x]) for x in sorted(series)]


def test_a_long_table_leaves_out_points_and_says_so() -> None:
    """At most about `LONGEST` rows, the first and the last among them; a short table has all."""
    chart = show.curves({"held": {x: x for x in range(365)}}, "day", "rows", "A year")
    rows = table(chart)[1:]
    assert len(rows) <= LONGEST + 1 and (rows[0][0], rows[-1][0]) == ("0", "364")
    assert f"The numbers of {len(rows)} of 365 points" in chart.html
    assert len(table(show.curves({"held": {1: 2, 3: 4}}, "day", "rows", "Two"))) == 3


def test_every_axis_has_its_quantity_and_unit() -> None:
    """Rows, hit rates, and the curves' own names; a linear axis begins at 0."""
    layouts = [
        figure(show.rows_chart({"held": {20: 20_817, 1: 1_500}}))["layout"],
        figure(show.rows_chart({"full": {1: 16, 2: 29}}, "views"))["layout"],
        figure(show.hits_chart({"seed 1": {10: 0.1, 100: 0.5}}, unit="rows"))["layout"],
        figure(show.curves({"measured": {1: 33}}, "calls", "events", "A knee"))["layout"],
    ]
    assert [(each["xaxis"]["title"]["text"], each["yaxis"]["title"]["text"]) for each in layouts] == [
        ("epochs (number)", "stored (rows)"),
        ("views (number)", "stored (rows)"),
        ("budget (rows), logarithmic", "reads that were hits (%)"),
        ("calls", "events"),
    ]
    assert all(each["yaxis"].get("range", [0])[0] == 0 for each in layouts)
    assert [each["yaxis"]["rangemode"] for each in layouts] == ["tozero"] * 4
    assert all(each["dragmode"] is False for each in layouts), "a finger scrolls the page"


def test_hits_are_drawn_by_budget() -> None:
    """Budgets come in order whatever the order given, in percent, and are logarithmic only if they are far apart."""
    chart = show.hits_chart({"seed 1": {100: 0.5, 10: 0.1, 1000: 1}}, unit="rows")
    (trace,), axis = figure(chart)["data"], figure(chart)["layout"]["xaxis"]
    assert (trace["x"], trace["y"]) == ([10, 100, 1000], [10, 50, 100])
    assert axis["tickvals"] == [10, 20, 50, 100, 200, 500, 1000] and axis["type"] == "log"
    assert "10 rows 10 %, 100 rows 50 %, 1,000 rows 100 %" in repr(chart)
    for near in ({10: 0.5, 20: 1}, {0: 0.5, 1000: 1}):
        assert "type" not in figure(show.hits_chart({"a": near}))["layout"]["xaxis"]


def test_a_reader_s_run_is_told_apart_from_the_record() -> None:
    """The bars and lines of one's own run have another color, and say so; what was not run has none."""
    bars = show.rungs_chart({"slow": 12.0, "fast": 2.0}, "ms", "Times", own={"fast": 3.0})
    (trace,) = figure(bars)["data"]
    assert trace["y"] == ["slow", "fast", "fast (your run)"] and trace["x"] == [12.0, 2.0, 3.0]
    colors = trace["marker"]["color"]
    assert colors[0] == colors[1] != colors[2] and "fast (your run): 3 ms" in bars.words
    lines = show.panels({"a": {1: 5.0}, "b": {1: 6.0}}, "epoch", "ms", "Latency", own={"b": {1: 20.0}})
    a, b, mine = figure(lines)["data"]
    assert (mine["name"], mine["line"]["dash"], mine["yaxis"]) == ("your run", "dash", b["yaxis"])
    assert a["line"]["color"] != mine["line"]["color"] and "b (your run): 20 at 1" in lines.words


def test_panels_have_the_same_axes() -> None:
    """Each curve has a plot of its own with its name, and all have the range of the largest value."""
    points = {"calm": {0: 5, 1: 6}, "sudden": {0: 5, 1: 60}, "slow": {0: 5, 1: 16}}
    chart = show.panels(points, "epoch", "ms", "Latency")
    layout = figure(chart)["layout"]
    assert [each["text"] for each in layout["annotations"]] == ["<b>calm</b>", "<b>sudden</b>", "<b>slow</b>"]
    assert [layout[axis]["range"] for axis in ("yaxis", "yaxis2", "yaxis3")] == [[0, 63]] * 3
    assert layout["xaxis3"]["title"]["text"] == "epoch" and "sudden: 5 at 0, 60 at 1" in repr(chart)


def test_each_rung_has_its_number() -> None:
    """Rungs stand in their order, with name, number and unit, in all three forms; an absent one has its reason."""
    chart = show.rungs_chart({"slow": 12.0, "fast": 0.5}, "ms an event", "A ladder", {"gone": "no jar"})
    assert repr(chart).splitlines() == [
        "A ladder",
        "  slow: 12 ms an event",
        "  fast: 0.5 ms an event",
        "  gone: absent, no jar",
    ]
    assert table(chart) == [["", "ms an event"], ["slow", "12"], ["fast", "0.5"], ["gone", "absent, no jar"]]
    (bars,), layout = figure(chart)["data"], figure(chart)["layout"]
    assert (bars["y"], bars["x"]) == (["slow", "fast", "gone"], [12.0, 0.5, 0])
    assert bars["text"] == ["12 ms an event", "0.5 ms an event", "absent, no jar"]
    assert [each["text"] for each in layout["annotations"]] == ["slow", "fast", "gone"]
    assert layout["xaxis"]["title"]["text"] == "ms an event" and layout["xaxis"]["range"][1] > 12


def test_a_bar_of_parts_has_its_total() -> None:
    """Parts stand one behind the other in their order, each with its color, and the total next to the bar."""
    chart = show.stacks_chart(
        {"dict": {"log": 0, "saved": 30}, "files": {"log": 5, "saved": 30.0}}, "bytes", "An update"
    )
    assert repr(chart).splitlines() == [
        "An update (bytes)",
        "  dict: log 0, saved 30, in all 30",
        "  files: log 5, saved 30, in all 35",
    ]
    assert table(chart) == [["", "log", "saved", "in all"], ["dict", "0", "30", "30"], ["files", "5", "30", "35"]]
    log, saved, totals = figure(chart)["data"]
    assert (log["x"], saved["x"], totals["text"]) == ([0, 5], [30, 30], ["30", "35"])
    assert log["marker"]["color"] != saved["marker"]["color"] and figure(chart)["layout"]["barmode"] == "stack"
    with pytest.raises(ss.Error, match="amounts must be from 0"):
        show.stacks_chart({"dict": {"log": -1}}, "bytes", "An update")


def test_lengths_are_logarithmic_where_hairlines_would_be() -> None:
    """From forty times on the scale is logarithmic and says so; with a zero among the numbers it cannot be."""
    wide = figure(show.rungs_chart({"a": 1.0, "b": 100.0}, "records"))["layout"]["xaxis"]
    assert wide["type"] == "log" and wide["title"]["text"] == f"records, {LOGARITHMIC}" and wide["range"][0] < 0
    for amounts in ({"a": 0.0, "b": 100.0}, {"a": 3.0, "b": 100.0}):
        assert "type" not in figure(show.rungs_chart(amounts, "records"))["layout"]["xaxis"]


def test_numbers_are_written_plainly() -> None:
    """Three digits that count, commas, no exponent within reach."""
    values = [0, 0.0012345, 0.5, 1, 2.5, 12.34, 123.4, 1234, 1_000_000]
    assert [written(v) for v in values] == ["0", "0.00123", "0.5", "1", "2.5", "12.3", "123", "1,234", "1,000,000"]


def test_nothing_to_draw_is_a_plain_word() -> None:
    """Without data a chart says so, as text, table and figure."""
    for chart, said in (
        (show.hits_chart({"full": {}}), "No budgets were tried."),
        (show.rows_chart({}), "No rows were counted."),
        (show.rungs_chart({}, "rows"), "No rungs ran."),
        (show.curves({}, "x", "y", "Any"), "There are no points."),
        (show.panels({}, "x", "y", "Any"), "There are no points."),
    ):
        (note,) = figure(chart)["layout"]["annotations"]
        assert said in repr(chart) and said == note["text"] and table(chart) == [[said]]


def test_what_cannot_be_drawn_is_refused() -> None:
    """Too many series, no number, a negative or infinite one, and a rate over 1: the error names the culprit."""
    with pytest.raises(ss.Error, match="7 series"):
        show.rows_chart({str(i): {1: 1} for i in range(7)})
    for bad in (-2, float("nan"), float("inf"), "x", 1.7e308, 10**400, None):
        with pytest.raises(ss.Error, match="series full"):
            show.rows_chart({"full": {1: bad}})  # type: ignore[dict-item]
        with pytest.raises(ss.Error, match="series ladder"):
            show.rungs_chart({"full": bad}, "rows")  # type: ignore[dict-item]
    charts: list[Any] = [show.hits_chart, show.rows_chart]
    for draw in charts:
        with pytest.raises(ss.Error, match="cannot draw list; pass {name: "):
            draw([1.0])
    with pytest.raises(ss.Error, match="hit rate must be at most 1"):
        show.hits_chart({"full": {1: 50}})


def test_a_strategy_has_one_colour() -> None:
    """A strategy's line has its colour in every chart, whatever stands beside it; no two lines look the same."""
    alone = show.rows_chart({"partial": {1: 2}})
    beside = show.rows_chart({"x": {1: 2}, "y": {1: 2}, "partial": {1: 2}})
    assert alone.figure.data[0].line.color == beside.figure.data[2].line.color
    assert len({t.line.color for t in beside.figure.data}) == len({t.marker.symbol for t in beside.figure.data}) == 3


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_are_seen_in_both_themes(colours: dict[str, str]) -> None:
    """On the site, text has a contrast of 4.5 and marks have 3.0; in a notebook, marks have 3.0 on both pages.

    The grid is no mark: each value that it helps to read is in the table.
    """
    for hue, tone in TONES.items():
        if hue != "hairline":
            assert contrast(colours[hue], colours["page"]) >= (4.5 if hue == "muted" else 3.0)
            assert contrast(tone, colours["page"]) >= 3.0
    assert len({*TONES.values()}) == len(TONES), "the site's script replaces each by name"


def test_a_title_is_escaped() -> None:
    """Names and titles with HTML in them are text in the table."""
    chart = show.curves({"<b>a</b>": {1: 2}}, "x & y", "<i>", '"Any" <script>')
    assert table(chart) == [["x & y", "<b>a</b>"], ["1", "2"]] and "<script>" not in chart.html
