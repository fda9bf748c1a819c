"""Answers are read as docs/predictions.md says: leniently in form, strictly in content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import examples

import sharedstate_lite as ss
from sharedstate_lite import show

CHANGES = [("-U", "Vegetable", 50), ("+U", "Vegetable", 60)]
MISSING: dict[str, Any] = {"left": 0, "right": 1}
FIELDS = ("visit", "JOIN", "joined", "answer")
PIECES = [
    " ",
    *"one half twice none no not of all left Fruit -U +1 1 16 0 00 9e999 / . , % ~ x - k ½ ٣ ٠ 500-3000".split(),
]
"""Parts of what a reader may type."""

CASES: dict[str, tuple[Any, str, str, str]] = {
    # question: its answer, right texts, wrong texts, texts that are no answer; texts are separated by |
    "how many rows": (
        show.question("How many rows?", 16, {7: "no"}),
        "16|16 rows|~16|about 16 or so|sixteen|Sixteen!|16.0|16,0|= 16|１６|9 + 7 = 16|(9+5)+2=16|16.000",
        "7|0|no rows|none|one|1,6|one hundred|minus one|-16|1e9|9 + 5 = 14|0.016",
        "|?|idk|no idea|not 16|> 15|16 or 14|15-17|twenty one|9+5+2|2/3|half|a hundred and six|x16|n't 16|1/0"
        "|0x10|2x8|50%|16 percent|8 times|8x|twice|twice 8|two-fold|the same|>= 16|16 of 20|2.500|1.250.000"
        "|the last one|the other one|which one|16 more|one less|16 each|2 per group|5/00|5/٠|1/0x|∞",
    ),
    "how often": (
        show.question("How often is it stored?", 2),
        "2|twice|2 times|2x|two-fold|twice as often",
        "once|never|3 times",
        "50%|2x1|the same",
    ),
    "how many times as": (
        show.question("How many times as fast as before is it?", 1, {2: "no"}),
        "1|once|the same|same as before|the same speed|1x",
        "2|twice|as fast, 3 times",
        "not the same|faster|as before",
    ),
    "how many of": (
        show.question("In how many of the 12 runs?", 6, {12: "no"}),
        "6 of 12|6 out of 12|six of the twelve runs|6 of all 12",
        "5 of 12|none of 12|all 12",
        "6 of 13|half of 12|50% of 12|6/12",
    ),
    "thousands": (
        show.question("How many rows?", 188_796),
        "188,796|188796|188 796|188_796|188'796|188,796.0 rows",
        "188,79|1888,796|188,796,000|188k|1888.796",
        "188, 796, 1|188,796 or more|188.796",
    ),
    "factor": (
        show.question("About how many?", 2244, tolerance=2),
        "2,000|2k|about 2000|2.2k|two thousand|1122|4488|22 hundred",
        "1121|4489|2|0|-2244",
        "2000-3000|thousands",
    ),
    "percentage": (
        show.question("What percentage?", 66.7, {33.3: "no", 50: "no"}, tolerance=1.01),
        "66.7%|66.7 %|2/3|66,7|two thirds|67|0.667|.67|0,667",
        "0.667%|0.667 percent|0.5|1/3|a third|33.33|half|50",
        "most|over 66",
    ),
    "points": (show.question("How many percentage points?", 1, tolerance=range(3)), "0.5|1|1%", "3", "1-2"),
    "less than a percent": (show.question("How many percent?", 0.5), "0.5|.5%", "50|5", "most"),
    "in thousands": (show.question("In thousands?", 8), "8|8k|8 thousand|eight", "8,000|0.008", "a thousand"),
    "range": (show.question("Percent?", 75, tolerance=range(73, 78)), "73|77|75.5%", "72|78", "[]"),
    "none": (show.question("How many rows?", 0), "0|none|no rows|nothing|zero|not at all|empty", "1|once", "no"),
    "word or number": (show.question("What?", -1, {"the old value": "no"}), "-1|−1|minus 1", "the old value|1", "old"),
    "in order": (
        show.question("Which?", (500, 3400, 3000), {(0, 3400, 3000): "no"}),
        "500, 3,400, 3,000|500 3400 3000|500,3400,3000|[500, 3400, 3000]|a 500; b 3,400; c 3,000",
        "3,400, 500, 3,000|0, 3400, 3000",
        "500|500, 3400|none|all|500, 3.400, 3.000",
    ),
    "commas of a list": (show.question("Which?", (100, 400, 50)), "100,400,50|100 400 50", "400,100,50", "100,400"),
    "any length": (
        show.question("Which?", [1, 3, 13], {"3 13": "no"}),
        "1 3 13|1, 3, 13",
        "3 13|13|13 3 1",
        "many|1x2 3 13|3 times 1",
    ),
    "any order": (show.question("Which?", {3, 6}, {"3": "no"}), "3,6|6 and 3|{3, 6}|3, 6, 6", "3|3 6 7", "not 3, 6"),
    "parts": (
        show.question("Rows?", MISSING, {"left 1": "no"}),
        "left 0, right 1|0,1|right: 1, left = 0|{'left': 0, 'right': 1}|0 left, 1 right|join left none, right one",
        "left 1, right 1|1 0",
        "left 0|left 0, left 1|0, 1, 2|right|left 0x0, right 1|left 1.000, right 2.500",
    ),
    "words of parts": (
        show.question("What?", {"offset": "loses", "state": "doubles"}, choices=("loses", "doubles")),
        "offset loses, state doubles|loses, doubles|state doubles and offset loses",
        "doubles loses",
        "offset lost, state doubled|loses",
    ),
    "changes": (
        show.question("What?", CHANGES, {"nothing": "no", "-D Vegetable 50": "no"}),
        "-U Vegetable 50, +U Vegetable 60|+1 vegetable 60; −1 vegetable 50|Vegetable 50 -1, Vegetable 60 +1"
        "|[('-U', 'Vegetable', 50), ('+U', 'Vegetable', 60)]|- Vegetable 50 + Vegetable 60",
        "+U Vegetable 60|nothing|it emits nothing|-D Vegetable 50|+I Vegetable 60, -U Vegetable 50|zero|0 rows",
        "Vegetable 60|60|x|not nothing|-U 50 +U 60|-U Vegtable 50, +U Vegtable 60|-U Vegetable 50s, +U Vegetable 60s",
    ),
    "units": (
        show.question("A visit of 50 seconds is replaced by one of 60 seconds. What?", CHANGES),
        "-U Vegetable 50s, +U Vegetable 60 seconds"
        "|-U Vegetable fifty +U Vegetable sixty sec|+U Vegetable 60 -U Vegetable 50",
        "-U Vegetable 50s, +U Vegetable 70s|+U Vegetable 60 seconds",
        "-U Vegetable 50 apples, +U Vegetable 60 apples",
    ),
    "negative values": (
        show.question("What?", [("+I", "a", -1), ("+I", "b c", 2)]),
        "+I a -1, +I b c 2|+I b c 2, +I a -1|a -1 +I, b c 2 +I",
        "+I a -1|+I a -2, +I b c 2",
        "+I -1, +I b c 2|+I b c 2, a -1 +I",
    ),
    "no changes": (
        show.question("What?", [], {"-U Fruit 40, +U Fruit 20": "no"}),
        "nothing|none|no rows|0|empty|It emits nothing.",
        "-U Fruit 40, +U Fruit 20|+1 Fruit 20",
        "20|Fruit",
    ),
    "the stepper's": (
        show.question("What?", [("+1", "Fruit", 70)]),
        "+1 Fruit 70|Fruit 70 1|+Fruit 70|+1 70 Fruit|70 Fruit +1",
        "none|-1 70 Fruit",
        "70",
    ),
    "two numbers of a row": (show.question("What?", [("+1", 3, 4)]), "+1 3 4|3 4 +1", "+1 4 3|4 3 +1", "+1 3"),
    "rows": (
        show.question("What?", [], {"7 Elena 2": "no"}),
        "nothing|an empty frame|no rows",
        "7 Elena 2|7 Elena two",
        "?|nobody|not empty|7|7 Elena|story 7 Elena 2",
    ),
    "a name": (
        show.question("Which?", "the cache", choices=("a dict", "the cache", "neither")),
        "the cache|Cache|'the cache'",
        "a dict|neither",
        "dict or cache|both|not the cache|a set",
    ),
    "names": (
        show.question("Which?", {"visit", "joined"}, {"visit, JOIN, joined, answer": "no"}, choices=FIELDS),
        "joined, visit|visit and joined|visit joined|{visit, joined}",
        "all|nothing|neither|visit|visit, join",
        "visit, joned|all but visit|not visit|some",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_ways_to_type_an_answer(name: str) -> None:
    """Each text is right, wrong, or not an answer."""
    question, *columns = CASES[name]
    for wanted, texts in zip((True, False, None), columns, strict=True):
        judged = {text: question.judge(text) for text in texts.split("|")}
        assert judged == dict.fromkeys(judged, wanted)


@pytest.mark.parametrize("name", CASES)
@examples(100)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20))
def test_any_text_gets_a_reply(name: str, typed: str) -> None:
    """No text that a reader may type makes the judge raise; the box would not answer then."""
    assert CASES[name][0].verdict(typed)["text"]


@pytest.mark.parametrize(
    ("name", "guess", "right"),
    [
        ("how many rows", 16, True),
        ("how many rows", 7.0, False),
        ("in order", (500, 3400, 3000), True),
        ("in order", [3400, 500, 3000], False),
        ("parts", {"right": 1, "left": 0}, True),
        ("changes", CHANGES[::-1], True),
        ("changes", [(-1, "Vegetable", 50), (+1, "Vegetable", 60)], True),
        ("changes", CHANGES * 2, False),
        ("no changes", [], True),
        ("names", {"joined", "visit"}, True),
        ("names", object(), None),
    ],
)
def test_a_guess_in_the_cell_may_be_a_value(name: str, guess: Any, right: bool | None) -> None:
    """A Python value is judged as the text that a reader would type."""
    assert CASES[name][0].judge(guess) is right


def test_emitted() -> None:
    """Changes come out as plain tuples, the kind first."""
    view = ss.Catalog(t="a STRING, b INT").view("CREATE VIEW v AS SELECT a, MAX(b) AS m FROM t GROUP BY a")
    with ss.engine("full", [view]) as engine:
        assert show.emitted(engine.step({"t": [(("x", 1), 1)]})["v"]) == [("+I", "x", 1)]
        assert show.emitted(engine.step({"t": [(("x", 2), 1)]})["v"]) == [("-U", "x", 1), ("+U", "x", 2)]
        assert show.emitted(engine.step({})["v"]) == []
