"""A ladder's bars: every rung has its place and its number, an absent one its reason."""

from __future__ import annotations

import pytest

from sharedstate_lite import show
from sharedstate_lite.errors import Error
from sharedstate_lite.show.bar_charts import LOGARITHMIC


def test_each_rung_has_its_number() -> None:
    """Rungs stand in their order, with name, number and unit, in the picture and in the figure."""
    chart = show.rungs_chart({"slow": 12.0, "fast": 0.5}, "ms an event", "A ladder", {"gone": "no jar"})
    words = repr(chart)
    assert words.splitlines() == [
        "A ladder",
        "  slow: 12 ms an event",
        "  fast: 0.5 ms an event",
        "  gone: absent, no jar",
    ]
    drawn = str(chart._repr_mimebundle_())
    assert drawn.index("slow") < drawn.index("fast") and "absent: no jar" in drawn and LOGARITHMIC not in drawn
    (bars,) = chart.figure.data
    assert list(bars.y) == ["slow", "fast"] and list(bars.x) == [12.0, 0.5]
    assert chart.figure.layout.yaxis.categoryarray == ("slow", "fast", "gone")


def test_lengths_are_logarithmic_where_hairlines_would_be() -> None:
    """From forty times on the scale is logarithmic and says so; with a zero among the numbers it cannot be."""
    wide = show.rungs_chart({"a": 1.0, "b": 100.0}, "records")
    assert LOGARITHMIC in str(wide._repr_mimebundle_()) and wide.figure.layout.xaxis.type == "log"
    assert show.rungs_chart({"a": 0.0, "b": 100.0}, "records").figure.layout.xaxis.type is None
    assert "No rungs ran" in str(show.rungs_chart({}, "records")._repr_mimebundle_())
    with pytest.raises(Error, match="cannot draw -1.0"):
        show.rungs_chart({"a": -1.0}, "records")
