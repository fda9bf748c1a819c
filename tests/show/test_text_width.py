"""Measuring text: its width, what fits, and lines of words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
