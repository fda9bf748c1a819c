"""Pictures of calls over time: bars in proportion, a line for each call, and words that say the same."""

from __future__ import annotations

import re

from sharedstate_lite import show


def test_bars_are_in_proportion_and_the_words_have_each_of_them() -> None:
    """A wait of 40 is as long as five bars of work of 8; two calls stand one below the other, in one panel or two."""
    call = [(0.0, 40.0, "wait"), (40.0, 48.0, "work")]
    picture = show.time_lines({"one": [call, call], "another": [call]}, "ms", "Calls")
    assert picture.words.splitlines() == [
        "Calls (ms)",
        *(f"  {name}: wait 0 to 40, work 40 to 48" for name in ("one, 1", "one, 2", "another, 1")),
    ]
    drawn = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="10" ', picture.drawing.body)[2:]
    wide = [float(each[2]) for each in drawn]
    assert len(drawn) == 6 and abs(wide[0] - 5 * wide[1]) < 0.5
    assert len({each[1] for each in drawn}) == 3
