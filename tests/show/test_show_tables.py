"""Frames in a notebook: texts stand on the left, numbers on the right, and nothing of them is lost."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import sharedstate_lite as ss
from sharedstate_lite.show.dataframes import aligned, changed, is_text


def left(html: str | None) -> tuple[set[int], bool]:
    """The columns, counted from the right, that are put on the left; whether the index is."""
    rules = (re.findall(r"<style>(.*?)</style>", html or "") or [""])[0]
    assert "text-align: left" in rules or not rules
    return {int(n) for n in re.findall(r"td:nth-last-child\((\d+)\)", rules)}, "tbody th" in rules


def test_text_is_on_the_left() -> None:
    """Columns of texts, dates and mixed values are on the left, numbers and empty ones are not; nothing is changed."""
    frame = pd.DataFrame({"what": ["a", None], "n": pd.array([1, None], "Int64"), "x": [0.5, 1], "mixed": ["a", 1]})
    frame["object numbers"], frame["nothing"], frame["no"] = pd.Series([1, 2.5], dtype=object), None, [True, False]
    html = aligned(frame)
    assert left(html) == ({7, 4}, False)
    assert html is not None and str(frame._repr_html_()) in html  # type: ignore[operator]
    assert left(aligned(frame.set_index("what"))) == ({4}, True)
    assert left(aligned(frame[["n"]].set_index(pd.Index(["a", "b"])))) == (set(), True)
    assert is_text(pd.Series(pd.to_datetime(["2024-02-29"])))


def test_what_pandas_abridges_is_left_alone() -> None:
    """A frame with more columns than pandas shows is shown as pandas shows it; one of numbers alone too."""
    wide = pd.DataFrame([["a"] * 30])
    assert aligned(wide) == wide._repr_html_()  # type: ignore[operator]
    numbers = pd.DataFrame({"n": [1]})
    assert aligned(numbers) == numbers._repr_html_()  # type: ignore[operator]


def test_a_heading_may_be_wrapped_at_its_dots() -> None:
    """A long heading may go on after a dot; numbers, texts and what a heading says stay as they are."""
    frame = pd.DataFrame({"result.join1.left": ["a.b"], "x": [0.5]}, index=pd.Index([1.5], name="t.u"))
    html = aligned(frame) or ""
    assert ">result.<wbr>join1.<wbr>left</th>" in html and ">t.<wbr>u</th>" in html
    assert "<td>a.b</td>" in html and "<td>0.5</td>" in html and "<th>1.5</th>" in html
    assert html.replace("<wbr>", "").count(">result.join1.left</th>") == 1


@pytest.mark.parametrize("kind", ["full", "shared"])
def test_changes_are_aligned_too(kind: str) -> None:
    """The kinds and texts of Changes are on the left, their time and diff on the right."""
    view = ss.Catalog(visit="product STRING, length INT").view("CREATE VIEW v AS SELECT product, length FROM visit")
    out = ss.engine(kind, [view]).step({"visit": [(("Apple", 3), 1)]})["v"]
    assert left(changed(out)) == ({5, 4}, False)
