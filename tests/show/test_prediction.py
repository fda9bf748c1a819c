"""Predictions: which explanation is shown, and what is displayed with and without a reader; and checks of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharedstate_lite import show
from sharedstate_lite.errors import ViewError
from sharedstate_lite.show.checks import UNATTENDED
from sharedstate_lite.show.page import PAGE
from sharedstate_lite.show.page.data import question_data
from sharedstate_lite.show.page.widget import PageWidget
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


def test_a_wrong_number_without_an_explanation_has_a_direction() -> None:
    """It is too high or too low, unless the answer is small and whole. A shown answer needs no direction."""
    asked = show.question("How many rows?", 16, {7: "Both are stored."})
    assert [asked.why(typed) for typed in ("7", "6", "20 rows", "?")] == [
        *("Both are stored.", "That is too low.", "That is too high.", ""),
    ]
    assert "too" not in repr(show.predict(asked, guess=20))
    assert show.question("How many rows?", 3).why("4") == show.question("How many?", (5, 6)).why("5, 7") == ""
    assert show.question("What share?", 2.5).why("4") == "That is too high."


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
    """Unattended: HTML with question and answer in <details>, and the page's data. Everything is escaped.

    The explanations of wrong answers are in the sealed data alone.
    """
    monkeypatch.setenv(UNATTENDED, "1")
    shown = show.predict(show.question("1 < 2?", "<b>", {"<i>": "a & b"}, choices=("<b>", "<i>")))._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html", PAGE}
    html = shown["text/html"]
    assert "1 &lt; 2?" in html and html.index("<details>") < html.index("&lt;b&gt;")
    assert "a &amp; b" not in html and "a & b" not in str(shown)
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


def test_the_widget_keeps_the_last_answer() -> None:
    """What the browser gets is sealed. An answer that it sends back is kept; a lookup of the answer is not one."""
    asked, kept = show.question("How many?", 4711, {1: "One each."}), list[str]()
    widget = PageWidget(question_data(asked), kept.append)
    assert "4711" not in repr(widget.get_state()) and "One each" not in repr(widget.get_state())
    for sent in (
        {"shown": True},
        {"first": "1", "last": "1"},
        {"first": "1", "last": "1", "shown": True},
        {"last": 7},
    ):
        widget.answers = sent
    widget.answers = {"first": "1", "last": "9" * 1000}
    assert kept == ["1", "9" * 500]


def test_an_answer_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a learner's folder, a new kernel shows the answer; the cell, run again, asks again."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    (tmp_path / RECORD).write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", f"{tmp_path}/notebooks/00-start-here.ipynb")
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda each, **_: shown.append(each))
    seen = []
    for _ in range(2):  # as a new kernel does, with a question of its own
        asked = show.question("How many?", 4711, {1: "One each."})
        for _ in range(2):
            show.predict(asked)._ipython_display_()
            still, widget = shown[-2:]
            assert "<details>" in still["text/html"] and widget.data == {"kind": "prediction", **question_data(asked)}
            seen.append(widget.answers)
        shown[1].answers = {"first": "1", "last": "one"}
    assert seen == [{}, {}, {"first": "one", "last": "one"}, {}]
    assert answers.read("00-start-here", "How many?") == "one"


def test_what_is_near_enough_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The box says which numbers are right besides the answer, and does not tell the answer."""
    monkeypatch.delenv(UNATTENDED, raising=False)
    within, rough = show.question("A?", 8, tolerance=2), show.question("B?", 8, tolerance=range(5, 13))
    assert "A number within a factor of 2 is right." in show.predict(within, 9).html()
    assert "A rough number is right." in show.predict(rough, 9).html()
    assert show.question("C?", 8, tolerance=range(5, 12)).near == "A number up to 3 away is right."
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
    """The entry "right" is shown after every answer, and folded with the answer; the others are not."""
    asked = show.question("How many?", 2, {1: "Both are stored.", "right": "One on each side."})
    assert asked.verdict(2)["why"] == "One on each side."
    assert asked.verdict(1)["why"] == "Both are stored. One on each side."
    assert asked.verdict("some")["why"] == ""
    assert asked.verdict(None)["why"] == "One on each side. Not 1: Both are stored."
    html = show.predict(asked).html()
    assert html.index("<details>") < html.index("One on each side.") and "Both are stored" not in html
