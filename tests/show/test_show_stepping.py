"""Steppers without a browser: where one begins, forks, what the page gets, and what a page without a script shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.lessons.demo import MESSAGES, SCHEMA, SQL
from sharedstate_lite.replay.messages import Read
from sharedstate_lite.show.page import PAGE, SCRIPT, STEPPER_STYLE
from sharedstate_lite.show.stepper.__main__ import main

KINDS = ("full", "shared", "partial")


def shopping(kind: str = "full", **options: Any) -> show.Stepper:
    """The seed's nine messages."""
    return show.stepper(ss.replay(kind, [ss.Catalog(**SCHEMA).view(SQL)]), MESSAGES, **options)


def test_the_page_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that cannot be written gives one line on stderr and exit status 1."""
    for odd in (tmp_path / "page.html", tmp_path / "none" / "x.html"):
        (tmp_path / "page.html").mkdir(exist_ok=True)
        assert main([str(odd)]) == 1
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and f"{odd}: cannot write this file" in said.err


def test_where_a_stepper_begins() -> None:
    """At the end of a message, at one of its steps, or at the start."""
    messages = shopping().recording.messages
    assert [shopping(at=at).step for at in (None, 0, 9, (9, 1), (9, 2))] == [
        *(0, 0, messages[8].last),
        *(messages[8].first, messages[8].first + 1),
    ]


@pytest.mark.parametrize(("at", "word"), [(10, "1 to 9"), (-1, "1 to 9"), ((9, 9), "1 to 4"), ((9, 0), "1 to 4")])
def test_places_that_are_not_there(at: Any, word: str) -> None:
    """A place that is not there is an error that says which there are."""
    with pytest.raises(ss.Error, match=word):
        shopping(at=at)


def test_a_fork_leaves_its_history_as_it_was() -> None:
    """A fork is a history of its own, and the one that it left is still there, step for step."""
    stepper = shopping(at=9)
    before = [s.caption for s in stepper.recording.steps]
    made = stepper.fork(7, "+1 visit Carrot, Bob, 70")
    assert [b.name for b in stepper.histories] == ["main", "A"] and made.forked_at == 7
    assert "70" in made.recording.caption(made.recording.messages[6].first)
    assert [s.caption for s in stepper.recording.steps] == before
    assert len(stepper.fork(9, "+1 visit Potato, Dan, 5", insert=True, history="A").recording.messages) == 10
    assert stepper.fork(7, "+1 visit Carrot, Bob, 50") is stepper.histories[0], "an edit without effect"
    with pytest.raises(ss.Error, match="history 'Z' does not exist; the histories are main, A"):
        stepper.fork(1, "x", history="Z")


@pytest.mark.parametrize("text", ["", "no such thing", "+1 visit Potato, Eve", "-1 visit Potato, Eve, 61"])
def test_a_message_that_cannot_be_taken(text: str) -> None:
    """What cannot be read, or is refused, is an error in a plain word and makes no history."""
    stepper = shopping(at=9)
    with pytest.raises(ss.Error) as caught:
        stepper.fork(9, text)
    assert "\n" not in str(caught.value) and len(stepper.histories) == 1


def test_the_widget_answers_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit gets a recording with the same number; a wrong one gets words, and the next one works."""
    heard: list[Any] = []
    widget = shopping(at=9).widget()
    monkeypatch.setattr(widget, "send", lambda message, *_: heard.append(message))
    edit = {"history": "main", "message": 9, "insert": False}
    for number, text in enumerate(["visit Potato", "+1 visit Potato, Eve, 61", "-1 visit Nut, Eve, 5"]):
        widget._asked(widget, {"number": number, "text": text, **edit}, [])
    assert [answer["number"] for answer in heard] == [0, 1, 2]
    assert "visit takes 3 values" in heard[0]["error"] and "error" in heard[2]
    assert heard[1]["name"] == "A" and heard[1]["data"]["messages"][8]["text"] == "+1 visit Potato, Eve, 61"


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_all_steps_and_no_answer(kind: str) -> None:
    """The recording has each step's caption; an answer is sealed; it is plain JSON, and small."""
    stepper = shopping(kind, at=9)
    data = stepper.data()
    text = json.dumps(data)
    assert data["kind"] == "stepper" and len(data["steps"]) == stepper.recording.last + 1
    assert [step["caption"] for step in data["steps"]] == [
        stepper.recording.caption(n) for n in range(stepper.recording.last + 1)
    ]
    asked = [step["question"] for step in data["steps"] if "question" in step]
    assert asked and all(set(each) == {"text", "hint", "sealed"} for each in asked)
    assert len(text) < 150_000 and all("question" not in s for s in shopping(kind, predict=False).data()["steps"])


def test_pages_without_a_script() -> None:
    """Where no script runs there are the tables of the step, and a sentence; the page gets the data beside them."""
    bundle = shopping(at=9)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", PAGE}
    still = bundle["text/html"]
    assert "<script" not in still and "Run this cell in JupyterLab" in still and "step 28 of 28" in bundle["text/plain"]
    assert "<td>Vegetable</td><td>50 60</td><td>60</td>" in still, "what MAX stores, and its result"


@pytest.mark.parametrize("kind", KINDS)
def test_histories_of_nothing(kind: str) -> None:
    """A history without messages, and one of messages that cannot be taken, can be shown and forked."""
    view = ss.Catalog(**SCHEMA).view(SQL)
    for messages in ([], ["nonsense", ("visit", ("Apple", "Ann", "long")), Read("no_view")]):
        made = show.stepper(ss.replay(kind, [view]), messages)
        assert len(made.data()["messages"]) == len(messages) and made.html()
        assert made.fork(1, "+1 visit Apple, Ann, 3", insert=True).recording.messages[0].refused == ""


def test_nothing_from_the_network() -> None:
    """Neither script nor style sheet names an address, and the script has no imports."""
    for text in (SCRIPT.replace("http://www.w3.org/2000/svg", ""), STEPPER_STYLE):
        assert not re.search(r"https?:|//cdn|@import|url\(|\bimport\b", text)


def test_the_demo_writes_a_page(tmp_path: Path) -> None:
    """The demo writes a page of its own with all three strategies, and says where; a word too many is refused."""
    command = [sys.executable, "-m", "sharedstate_lite.show.stepper"]
    root = Path(__file__).resolve().parents[2]
    page = tmp_path / "page.html"
    done = subprocess.run([*command, str(page)], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0 and done.stdout.strip() == str(page), done.stderr
    text = page.read_text(encoding="utf-8")
    assert all(f'"title":"{kind} state"' in text for kind in ("Full", "Shared", "Partial"))
    assert not re.search(r"(src|href)=", text.split("<script>")[0]) and ":root{color-scheme:light dark}" in text
    assert subprocess.run([*command, "a", "b"], capture_output=True, cwd=root).returncode == 2


def test_the_lines_of_the_readme_step_a_view_of_ones_own() -> None:
    """They run as they stand, and open the stepper at the first step of the second message."""
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    own, stepped = re.findall(r"```python\n(.*?)```", readme, re.S)[:2]
    names: dict[str, Any] = {}
    exec(own, names)
    exec(stepped.replace("\nshow.stepper(", "\nshown = show.stepper("), names)
    shown = names["shown"]
    assert shown.step == shown.recording.messages[1].first and len(shown.recording.messages) == 2
    assert "Potato" in shown.html()
