"""Predictions: what counts as right, which explanation is shown, and what is displayed with and without a reader."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sharedstate_lite import show
from sharedstate_lite.errors import ViewError
from sharedstate_lite.show.prediction import UNATTENDED
from sharedstate_lite.show.prediction_widget import PredictionWidget

CHANGE = [("-U", "Vegetable", 50), ("+U", "Vegetable", 60)]


@pytest.mark.parametrize(
    ("answer", "right", "wrong"),
    [
        (16, [16, "16", "16.0"], [15, "", "sixteen"]),
        (range(100, 201), [150, "1,050"[:0] + "150", "200"], [99, "201", "many"]),
        (CHANGE, [CHANGE, "-U Vegetable 50, +U Vegetable 60", "+1 vegetable 60; -1 vegetable 50"], ["+U Vegetable 60"]),
        ([], ["nothing", "no change", []], ["+U Vegetable 60"]),
        ({"left": 1, "right": 0}, [{"left": 1, "right": 0}, "left 1, right 0", "right: 0, left = 1"], ["left 1"]),
        ("full", ["full", "Full"], ["shared"]),
    ],
    ids=["number", "range", "changes", "nothing", "parts", "word"],
)
def test_right_and_wrong_guesses(answer: Any, right: list[Any], wrong: list[Any]) -> None:
    """A guess is right as a value and as text."""
    asked = show.predict("What?", answer)
    assert all(asked.judge(guess) for guess in right), right
    assert not any(asked.judge(guess) for guess in wrong), wrong


def test_a_wrong_guess_gets_its_explanation() -> None:
    """The explanation of the whole guess, or of the part that is wrong; a right guess has none."""
    asked = show.predict("Rows?", {"left": 1, "right": 0}, {"left 0": "It is stored.", "right 1": "It is looked up."})
    assert asked.why("left 0, right 0") == "It is stored."
    assert asked.why({"left": 1, "right": 1}) == "It is looked up."
    assert asked.why("left 7, right 7") == ""
    assert asked.verdict("left 1, right 0") == {"right": True, "text": "Right. You said left 1, right 0.", "why": ""}
    skipped = asked.verdict(None)
    assert skipped["right"] is None and skipped["text"] == "It was left 1, right 0."
    assert "Not left 0: It is stored." in skipped["why"]


@pytest.mark.parametrize(
    ("answer", "right"),
    [(2, 2), (2, "2"), (CHANGE, "-U Vegetable 50, +U Vegetable 60"), ({"left": 1, "right": 0}, "left 1")],
)
def test_a_right_answer_with_a_why_is_refused(answer: Any, right: Any) -> None:
    with pytest.raises(ViewError, match="has a why, but it is right"):
        show.predict("What?", answer, {right: "no"})


def test_without_a_reader_the_answer_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unattended: HTML with question, answer and explanations in <details>. Everything is escaped."""
    monkeypatch.setenv(UNATTENDED, "1")
    shown = show.predict("1 < 2?", "<b>", {"<i>": "a & b"})._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    html = shown["text/html"]
    assert "1 &lt; 2?" in html and html.index("<details>") < html.index("&lt;b&gt;") < html.index("a &amp; b")
    assert "<details open" not in html and shown["text/plain"].endswith("(not answered yet)")


def test_a_guess_in_the_cell_is_judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UNATTENDED, raising=False)
    shown = show.predict("How many?", 2, {1: "One each."}, guess=1)._repr_mimebundle_()
    assert "✗ You said 1. It was 2." in shown["text/html"] and "One each." in shown["text/html"]
    assert repr(show.predict("How many?", 2, guess=2)) == "How many?\n  ✓ Right. You said 2."


def test_the_widget_shows_nothing_before_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser gets the question alone. An empty guess changes nothing, the first real one is final."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    asked = show.predict("How many?", 4711, {1: "One each."})
    assert any("widget-view" in kind for kind in asked._repr_mimebundle_()[0])
    widget = PredictionWidget(asked.question, asked.verdict)
    assert "4711" not in repr(widget.get_state()) and widget.given == {}
    for message in ("", {"guess": "  "}, {"guess": "1"}, {"guess": "4711"}):
        widget._received(None, message, None)
    assert widget.given == {"right": False, "text": "You said 1. It was 4,711.", "why": "One each."}
    skipped = PredictionWidget(asked.question, asked.verdict)
    skipped._received(None, {"skip": True}, None)
    assert skipped.given["right"] is None and skipped.given["text"] == "It was 4,711."


@show.written
def check(Max: Any) -> Any:  # noqa: N803
    mine = Max()
    for length, diff, right, hint in ((50, 1, 50, "store it"), (60, 1, 60, "compare"), (60, -1, 50, "what is left")):
        yield f"{diff:+d} {length}", lambda length=length, diff=diff: mine.add(length, diff), right, hint


class Stub:
    def add(self, length: int, diff: int) -> int | None:
        raise NotImplementedError


class Forgets(Stub):
    def add(self, length: int, diff: int) -> int | None:
        return length if diff > 0 else None


class Solution(Stub):
    def __init__(self) -> None:
        self.values = Counter[int]()

    def add(self, length: int, diff: int) -> int | None:
        self.values[length] += diff
        return max(self.values.elements(), default=None)


class Fails(Stub):
    def add(self, length: int, diff: int) -> int | None:
        raise KeyError(length)


def test_written_code_is_checked_step_by_step() -> None:
    """A stub is not written yet. A wrong solution is shown the first wrong step and its hint; nothing raises."""
    assert (repr(check(Stub)), check(Stub).right) == ("not written yet", None)
    assert repr(check(Solution)) == "✓ 3 steps, all right."
    assert repr(check(Forgets)) == "✗ +1 50, +1 60, -1 60: None, should be 50. Hint: what is left."
    assert repr(check(Fails)) == "✗ +1 50: KeyError: 50. Hint: store it."
    assert repr(check(None)) == "✗ TypeError: 'NoneType' object is not callable"
    assert "✓" in check(Solution)._repr_html_()


def test_the_right_answer_is_explained() -> None:
    """The entry "right" is shown after every guess, and folded with the answer."""
    asked = show.predict("How many?", 2, {1: "Both are stored.", "right": "One on each side."})
    assert asked.verdict(2)["why"] == "One on each side."
    assert asked.verdict(1)["why"] == "Both are stored. One on each side."
    assert asked.verdict(None)["why"] == "One on each side. Not 1: Both are stored."
    assert asked.html().index("One on each side.") < asked.html().index("Not <code>1</code>")
