"""Messages lost between the browser and Python are repeated, and an error is shown meanwhile.

The script runs in a headless Chromium over a model that loses messages as each case says. The
retry interval is shortened.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.lessons.demo import MESSAGES, SCHEMA, SQL
from sharedstate_lite.show.stepper import widget

HERE = Path(__file__).resolve().parent
QUICK = ["RETRY = 3000", "RETRY = 150"]
DEAF = ["setTimeout(() => this.retry(RETRY), RETRY)", "0"]
"""Removes the repetition from the script."""

pytestmark = pytest.mark.slow


def case(name: str, of: str = "", lost: int = 0, *patches: list[str], **more: Any) -> dict[str, Any]:
    """A case: so many messages of a kind are lost; ``most`` ms are waited for what is to be seen."""
    return {"name": name, "of": of, "lost": lost, "patches": [QUICK, *patches], "most": 2500, "model": "whole", **more}


CASES = [
    case("nothing is lost"),
    case("frames lost", "frames", 2),
    case("frames lost, never asked again", "frames", 2, DEAF),
    case("prediction lost", "predict", 1),
    case("prediction lost, never said again", "predict", 1, DEAF),
    case("nothing is answered", "all"),
    case("nothing can be sent", throws=True),
    case("resized", resized=True),
    case("turned without Python", "all", turned=4, most=300),
    case("before a fork", model="before"),
    case("just forked", model="before", forked=True),
    case("at the end", "all", model="after", most=300),
    case("on a fork", model="after"),
]


@pytest.fixture(scope="module")
def seen(tools: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What the browser saw in each case."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    steppers = {name: show.stepper(ss.replay("full", [view]), MESSAGES) for name in ("whole", "before", "after")}
    for name in ("before", "after"):
        steppers[name].fork(9, "+1 visit Potato, Eve, 5")
    steppers["after"].goto(step=steppers["after"].recording.last)
    made = {name: each.widget for name, each in steppers.items()}
    models = {name: {"state": w.state, "history": w.history, "kept": w.kept} for name, w in made.items()}
    script = (Path(widget.__file__).parent / "widget.js").read_text(encoding="utf-8")
    given = {"script": script, "models": models, "cases": CASES, "chromium": tools["chromium"]}
    done = subprocess.run(
        [tools["node"], str(HERE / "lone.js")],
        input=json.dumps(given),
        env={**os.environ, "PLAYWRIGHT": tools["driver"]},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return {each["name"]: each for each in json.loads(done.stdout)}


def test_frames_are_asked_for_again(seen: dict[str, dict[str, Any]]) -> None:
    """Lost requests for frames are repeated, with a message meanwhile; without repetition no frames arrive."""
    found = seen["frames lost"]
    assert found["frames"] and found["calm"] and found["closed"]
    assert len(found["words"]) == 1 and found["words"][0].startswith("Python does not answer.")
    assert not seen["frames lost, never asked again"]["frames"]


def test_a_prediction_is_said_again(seen: dict[str, dict[str, Any]]) -> None:
    """A lost prediction is repeated under its number and answered; without repetition it is not."""
    assert seen["prediction lost"]["word"] and seen["prediction lost"]["said"] == 1
    assert not seen["prediction lost, never said again"]["word"]


def test_silence_is_told(seen: dict[str, dict[str, Any]]) -> None:
    """If Python is busy or gone, a message says what to do; if it answers, none appears."""
    assert seen["nothing is answered"]["words"] and not seen["nothing is answered"]["calm"]
    assert all("run the cells again" in word for word in seen["nothing is answered"]["words"])
    assert any(word.startswith("Python has released") for word in seen["nothing can be sent"]["words"])
    quiet = seen["nothing is lost"]
    assert quiet["words"] == [] and quiet["frames"] and quiet["moved"] and quiet["calm"]


def test_messages_over_time_need_no_python(seen: dict[str, dict[str, Any]]) -> None:
    """A page that keeps its frames steps through them and, with T or its button, shows messages instead of state."""
    state, turned, next_, back = seen["turned without Python"]["turned"]
    assert state[0] == 0 < state[1] and turned[1] == 0 < turned[0]
    assert turned[2] == state[2] != next_[2] == back[2] and next_[0] >= turned[0] and back[:2] == state[:2]


def test_the_slider_follows_the_width(seen: dict[str, dict[str, Any]]) -> None:
    """A page made narrower and wide again has the slider of its width each time."""
    assert seen["resized"]["resized"] == [True, True, True]


def test_a_fork_says_where_it_begins(seen: dict[str, dict[str, Any]]) -> None:
    """After a fork, the stepper shows the step before the changed message and names the message that comes next."""
    before, after = seen["just forked"]["forked"]
    assert before.startswith("history A: ") and "comes next" not in before
    assert after == "history A: message 9 comes next: +1 visit Potato, Eve, 5"


def test_the_last_step_has_no_next_one(seen: dict[str, dict[str, Any]]) -> None:
    """At the end, nothing is said about a next step."""
    assert seen["at the end"]["question"] == "This was the last step."


def test_one_stands_on_the_history_that_a_fork_left(seen: dict[str, dict[str, Any]]) -> None:
    """Before the fork the mark is on the upper row, clear of the fork's words, and what lies ahead is not inked."""
    before, after = (seen[name]["mark"] for name in ("before a fork", "on a fork"))
    upper, lower = before["rows"]
    assert before["y"] == upper["y"] < lower["y"] == after["y"]
    assert (
        before["walked"] == f"M{upper['xs'][0]:g} {upper['y']:g}H{lower['xs'][24]:g}"
        and lower["xs"][24] < lower["begin"]
    )
    assert after["walked"].startswith(f"M{upper['xs'][0]:g} {upper['y']:g}H{lower['begin']:g}")
