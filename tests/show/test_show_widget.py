"""The widget without a browser: what it is asked, what it answers, and that nothing typed can break it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from test_show_stepping import ask, shopping

from sharedstate_lite import show
from sharedstate_lite.show.stepper import widget as module


class Browser:
    """Stands for the browser: says something to a stepper's widget, and keeps what comes back."""

    def __init__(self, stepper: show.Stepper, monkeypatch: pytest.MonkeyPatch) -> None:
        self.widget, self.count = stepper.widget, 0
        self.heard: list[dict[str, Any]] = []
        monkeypatch.setattr(self.widget, "send", lambda message, *_: self.heard.append(message))

    def say(self, **message: Any) -> dict[str, Any] | None:
        """Say it, and return the last answer if there is one."""
        self.count += 1
        before = len(self.heard)
        self.widget._received(self.widget, {"seq": self.count, "view": "a", **message}, [])
        assert (self.heard[-1]["seq"], self.heard[-1]["view"]) == (
            message.get("seq", self.count),
            message.get("view", "a"),
        )
        answers = [m for m in self.heard[before:] if m["type"] != "ack"]
        return answers[-1] if answers else None


def test_frames_come_with_all_that_a_step_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames carry the picture, the header's numbers, the caption and the question, and never its answer."""
    stepper = shopping()
    browser = Browser(stepper, monkeypatch)
    answer = browser.say(do="frames", branch="main", width=700, steps=[26, 27, 99])
    assert answer is not None and set(answer["frames"]) == {26, 27}
    frame = answer["frames"][26]
    assert (
        frame["asks"]["text"] == "What will MAX(length) send?"
        and frame["counts"][1][0] == "working state"
        and frame["svg"].count("<svg") == 1
    )
    assert "60" not in str(frame["asks"]) and frame["caption"] == stepper.goto(step=26).caption
    assert len(answer["line"]["rows"][0]["xs"]) == 29


def test_the_browser_moves_the_stepper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of the browser move the Python stepper, and moves in Python update the widget's state."""
    stepper = shopping()
    browser = Browser(stepper, monkeypatch)
    browser.say(do="next")
    browser.say(do="next")
    assert stepper.step == 2 and stepper.score.skipped == 1 and browser.widget.state["step"] == 2
    browser.say(do="goto", step=26)
    browser.say(do="predict", text="-U Vegetable 50, +U Vegetable 60")
    assert browser.widget.state["answers"][27]["right"] is True and browser.widget.state["score"]["right"] == 1
    stepper.goto(3)
    assert browser.widget.state["step"] == stepper.step and browser.widget.state["seq"] == browser.count
    answer = browser.say(do="fork", message=9, text="+1 visit Potato, Eve, 61")
    assert browser.widget.state["branch"] == "A" and len(browser.widget.history["messages"]) == 9
    assert answer == {"type": "forked"}
    browser.say(do="branch", first=True)
    assert browser.widget.state["branch"] == "main"


def test_what_is_said_twice_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated request is acknowledged and not applied again; frames are drawn again."""
    stepper = shopping()
    browser = Browser(stepper, monkeypatch)
    browser.say(do="next")
    browser.say(do="next", seq=1)
    assert stepper.step == 1
    browser.say(do="next", seq=1, view="b")
    assert stepper.step == 2, "another page of the same stepper counts for itself"
    assert all(browser.say(do="frames", branch="main", width=700, steps=[3], seq=5) for _ in range(2))


def test_frames_are_those_of_the_history_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that arrives after a fork, or before one is left, is answered for the history that it names."""
    stepper = shopping(at=3)
    browser = Browser(stepper, monkeypatch)
    stepper.fork(9, "+1 visit Potato, Eve, 61")
    answers = [browser.say(do="frames", branch=name, width=700, steps=[25]) for name in ("main", "A")]
    assert [a and a["branch"] for a in answers] == ["main", "A"]
    assert [a and ", 61" in a["frames"][25]["caption"] for a in answers] == [False, True]
    assert all(a and a["branch"] in [row["branch"] for row in a["line"]["rows"]] for a in answers)


@pytest.mark.parametrize(
    "message",
    [
        {"do": "fork", "message": 9, "text": "<script>"},
        {"do": "fork", "message": 9, "text": ""},
        {"do": "fork", "message": 99, "text": "+1 visit Potato, Eve, 61"},
        {"do": "predict", "text": "what?"},
        {"do": "goto", "step": 999},
        {"do": "fold", "operator": "nobody"},
    ],
)
def test_bad_words_are_answered_in_plain_ones(message: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be done is answered by one plain sentence; the stepper stays as it was."""
    stepper = shopping(at=3)
    browser = Browser(stepper, monkeypatch)
    before = stepper.step
    answer = browser.say(**message)
    assert answer is not None and answer["type"] == "error" and answer["text"] and "Traceback" not in answer["text"]
    assert stepper.step == before and len(stepper.branches) == 1


def test_two_steppers_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steppers over one replay move, score and fork apart from each other."""
    one, other = shopping(), shopping()
    browser = Browser(one, monkeypatch)
    browser.say(do="goto", step=5)
    browser.say(do="fork", message=9, text="+1 visit Potato, Eve, 61")
    assert other.step == 0 and len(other.branches) == 1 and other.widget is not one.widget
    assert one.widget.model_id != other.widget.model_id


def test_nothing_from_the_network() -> None:
    """Neither script nor style sheet names an address, and the script is one module without imports."""
    here = Path(module.__file__).parent
    script, sheet = (here / "widget.js").read_text(), (here / "widget.css").read_text()
    for text in (script.replace("http://www.w3.org/2000/svg", ""), sheet):
        assert not re.search(r"https?:|//cdn|@import|url\(|\bimport\b", text)
    assert "export default" in script and len(script.splitlines()) <= 420


def test_saved_pages_bring_their_frames() -> None:
    """What a saved page keeps of a widget holds the frames of its message, and is bounded."""
    stepper = shopping(at=9)
    ask(stepper, 9, "MAX")
    kept = stepper.widget.kept
    assert set(kept["frames"]) >= {24, 25, 26, 27, 28} and len(str(kept)) < 400_000
