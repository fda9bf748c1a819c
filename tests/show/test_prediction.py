"""Predictions: which explanation is shown, and what is displayed with and without a reader; and checks of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharedstate_lite import show
from sharedstate_lite.errors import ViewError
from sharedstate_lite.show.checks import UNATTENDED
from sharedstate_lite.show.prediction_widget import PredictionWidget
from sharedstate_lite.system import answers
from sharedstate_lite.system.work import RECORD

CHANGED = "The text describes the cells as delivered; one of them was changed."
CHANGE = [("-U", "Vegetable", 50), ("+U", "Vegetable", 60)]


def test_a_wrong_guess_gets_its_explanation() -> None:
    """The explanation of the whole guess, or of the part that is wrong; a right guess has none."""
    asked = show.question("Rows?", {"left": 1, "right": 0}, {"left 0": "It is stored.", "right 1": "It is looked up."})
    assert asked.why("left 0, right 0") == asked.why("0, 0") == "It is stored."
    assert asked.why({"left": 1, "right": 1}) == "It is looked up."
    assert asked.why("left 7, right 7") == asked.why("?") == ""
    assert asked.verdict("left 1, right 0")["text"] == "Right. You said left 1, right 0."
    assert asked.verdict("left 1, right 0")["why"] == ""
    skipped = asked.verdict(None)
    assert skipped["right"] is None and skipped["text"] == "It was left 1, right 0."
    assert "Not left 0: It is stored." in skipped["why"]


@pytest.mark.parametrize(
    ("typed", "why"),
    [("nothing", "a"), ("-1 Vegetable 60", "b"), ("+1 Vegetable 40, -1 Vegetable 50", "c"), ("+I Vegetable 60", "")],
)
def test_a_wrong_guess_is_known_however_it_is_typed(typed: str, why: str) -> None:
    """A wrong answer with an explanation is found by the same rules as the right one."""
    whys = {"nothing": "a", "-D Vegetable 60": "b", "-U Vegetable 50, +U Vegetable 40": "c"}
    assert show.question("What?", CHANGE, whys).why(typed) == why


@pytest.mark.parametrize(
    ("answer", "right"),
    [(2, 2), (2, "2"), (CHANGE, "-U Vegetable 50, +U Vegetable 60"), ({"left": 1, "right": 0}, "left 1")],
)
def test_a_right_answer_with_a_why_is_refused(answer: Any, right: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unattended. A reader whose change has made it right is judged right, and not stopped."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    asked = show.question("What?", answer, {right: "no"})
    assert asked.verdict(answer)["right"] and not asked.verdict(answer)["why"]
    monkeypatch.setenv(UNATTENDED, "1")
    with pytest.raises(ViewError, match="has a why, but it is right"):
        show.question("What?", answer, {right: "no"})


def test_an_answer_that_nobody_can_type_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unattended. A reader, whose change may have led to it, goes on; every name is then wrong."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    assert show.question("What?", "b", choices=("a", "c")).judge("a") is False
    assert capsys.readouterr().out.splitlines() == [CHANGED]
    monkeypatch.setenv(UNATTENDED, "1")
    with pytest.raises(ViewError, match="is not judged right"):
        show.question("What?", "b", choices=("a", "c"))


def test_without_a_reader_the_answer_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unattended: HTML with question, answer and explanations in <details>. Everything is escaped."""
    monkeypatch.setenv(UNATTENDED, "1")
    shown = show.predict(show.question("1 < 2?", "<b>", {"<i>": "a & b"}, choices=("<b>", "<i>")))._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    html = shown["text/html"]
    assert "1 &lt; 2?" in html and html.index("<details>") < html.index("&lt;b&gt;") < html.index("a &amp; b")
    assert "<details open" not in html and shown["text/plain"].endswith("(not answered yet)")


def test_a_guess_in_the_cell_is_judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong, a right and no answer each have a mark of their own."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    asked = show.question("How many?", 2, {1: "One each."})
    shown = show.predict(asked, guess=1)._repr_mimebundle_()
    assert "✗ You said 1. It was 2." in shown["text/html"] and "One each." in shown["text/html"]
    assert repr(show.predict(asked, guess=2)) == "How many?\n  ✓ Right. You said 2."
    assert repr(show.predict(asked, "few")) == "How many?\n  ? You said few. Type one whole number, such as 12."
    assert repr(show.predict(asked, " ")) == "How many?\n  ? Type one whole number, such as 12."
    assert repr(show.predict(asked, [2])) == "How many?\n  ✓ Right. You said 2."
    point = "A point is a decimal point; a comma is for thousands."
    assert repr(show.predict(asked, "2.500")).endswith(f"? You said 2.500. {point} Type one whole number, such as 12.")


def test_the_widget_shows_nothing_before_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser gets the question alone. What is no answer is asked again, the first answer is final."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    asked, kept = show.question("How many?", 4711, {1: "One each."}), list[str]()
    assert any("widget-view" in kind for kind in show.predict(asked)._repr_mimebundle_()[0])
    widget = PredictionWidget(asked.text, asked.verdict, kept.append)
    assert "4711" not in repr(widget.get_state()) and widget.given == {}
    for number, message in enumerate(({"guess": "many"}, {"guess": "many"}), 1):
        widget._received(None, message, None)
        assert widget.again["number"] == number and "4711" not in repr(widget.get_state())
    for message in ("", {"guess": "  "}, {"guess": "1"}, {"guess": "4711"}):
        widget._received(None, message, None)
    assert (widget.given["right"], widget.given["text"]) == (False, "You said 1. It was 4,711.")
    assert widget.given["why"] == "One each."
    skipped = PredictionWidget(asked.text, asked.verdict, kept.append)
    skipped._received(None, {"skip": True}, None)
    assert skipped.given["right"] is None and skipped.given["text"] == "It was 4,711." and kept == ["1"]


def test_an_answer_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a learner's folder, a new kernel shows the answer with its verdict; the cell, run again, asks again."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    (tmp_path / RECORD).write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", f"{tmp_path}/notebooks/00-start-here.ipynb")
    shown: list[PredictionWidget] = []
    monkeypatch.setattr(PredictionWidget, "_repr_mimebundle_", lambda self, **kwargs: shown.append(self))
    for _ in range(2):  # as a new kernel does, with a question of its own
        asked = show.question("How many?", 4711, {1: "One each."})
        show.predict(asked)._repr_mimebundle_()
        show.predict(asked)._repr_mimebundle_()
        if len(shown) == 2:
            shown[0]._received(None, {"guess": "one"}, None)
    assert [widget.given.get("text", "") for widget in shown] == [
        *("You said one. It was 4,711.", ""),
        *("You said one. It was 4,711.", ""),
    ]
    assert answers.read("00-start-here", "How many?") == "one"


def test_what_is_near_enough_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The box says which numbers are right besides the answer, and does not tell the answer."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    within, rough = show.question("A?", 8, tolerance=2), show.question("B?", 8, tolerance=range(5, 12))
    assert "A number within a factor of 2 is right." in show.predict(within, 9).html()
    assert "A rough number is right." in show.predict(rough, 9).html()
    for guess in (None, 9):
        assert repr(show.predict(within, guess)).startswith("A? A number within a factor of 2 is right.\n")


def test_checks_stop_the_tests_and_not_a_reader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a reader, a check that fails or raises prints one line; unattended, it raises."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    for raised in (AssertionError(), NameError("gone")):
        with show.checks():
            raise raised
    with show.checks():
        assert True
    assert capsys.readouterr().out.splitlines() == [CHANGED, CHANGED]
    monkeypatch.setenv(UNATTENDED, "1")
    with pytest.raises(NameError), show.checks():
        raise NameError("gone")


def test_the_right_answer_is_explained() -> None:
    """The entry "right" is shown after every answer, and folded with the answer."""
    asked = show.question("How many?", 2, {1: "Both are stored.", "right": "One on each side."})
    assert asked.verdict(2)["why"] == "One on each side."
    assert asked.verdict(1)["why"] == "Both are stored. One on each side."
    assert asked.verdict("some")["why"] == ""
    assert asked.verdict(None)["why"] == "One on each side. Not 1: Both are stored."
    html = show.predict(asked).html()
    assert html.index("One on each side.") < html.index("Not <code>1</code>")
