"""Stepping without a browser: where one is, predictions, forks, and what a page without widgets carries."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.lessons.demo import MESSAGES, SCHEMA, SQL
from sharedstate_lite.show.stepper.__main__ import main
from sharedstate_lite.show.stepper.timeline import TimelineRow, timeline


def shopping(kind: str = "full", **options: Any) -> show.Stepper:
    """The seed's nine messages."""
    return show.stepper(ss.replay(kind, [ss.Catalog(**SCHEMA).view(SQL)]), MESSAGES, **options)


def ask(stepper: show.Stepper, message: int, text: str) -> None:
    """Go to where a question with this text in it comes next, within a message."""
    told = stepper.recording.messages[message - 1]
    steps = stepper.recording.steps[told.first - 1 : told.last]
    at = next(s.number for s in steps if s.question is not None and text in s.question.text)
    stepper.goto(step=at - 1)


def test_the_page_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that cannot be written gives one line on stderr and exit status 1."""
    for odd in (tmp_path / "frame.svg", tmp_path / "none" / "x.svg"):
        (tmp_path / "frame.svg").mkdir(exist_ok=True)
        assert main([str(odd)]) == 1
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and f"{odd}: cannot write this file" in said.err
    assert main([str(tmp_path / "x.svg")]) == 0 and (tmp_path / "x.svg").read_text().startswith("<svg")


def test_moving() -> None:
    """Next and back go one step, end to the end of a message, and none leaves the history."""
    stepper = shopping()
    assert stepper.step == 0 and stepper.back().step == 0
    assert stepper.next().step == 1 and stepper.next().back().step == 1
    assert stepper.end().step == stepper.recording.messages[0].last
    assert stepper.end().step == stepper.recording.messages[1].last
    last = stepper.recording.last
    assert stepper.goto(9).step == last == stepper.next().step == stepper.end().step
    told = stepper.recording.messages[8]
    assert stepper.goto(9, 1).step == told.first and stepper.goto(0).step == 0
    assert shopping(at=9).step == last and shopping(at=(9, 2)).step == told.first + 1


@pytest.mark.parametrize(
    ("message", "step", "word"), [(10, None, "1 to 9"), (-1, None, "1 to 9"), (9, 9, "1 to 4"), (None, 99, "0 to 28")]
)
def test_places_that_are_not_there(message: int | None, step: int | None, word: str) -> None:
    """A place that is not there is an error that says which there are, and one stays where one was."""
    stepper = shopping(at=3)
    before = stepper.step
    with pytest.raises(ss.Error, match=word):
        stepper.goto(message, step)
    assert stepper.step == before


def test_predictions_are_counted() -> None:
    """A right and a wrong answer count once, one that cannot be read does not, and going on without one skips."""
    stepper = shopping()
    ask(stepper, 9, "MAX")
    assert stepper.question is not None and "MAX" in stepper.question.text
    verdict = stepper.predict("-U Vegetable 50, +U Vegetable 60")
    assert verdict.right and str(stepper.score) == "1 of 1 right"
    assert not stepper.predict("+1 Fruit 3").right and str(stepper.score) == "1 of 1 right"
    ask(stepper, 8, "MAX")
    assert stepper.predict("nothing").right is False and (stepper.score.right, stepper.score.wrong) == (1, 1)
    ask(stepper, 7, "MAX")
    stepper.next()
    assert str(stepper.score) == "1 of 2 right, 1 skipped"
    stepper.goto(0)
    with pytest.raises(ss.Error, match="there is no question here"):
        stepper.predict("x")
    assert shopping(predict=False, at=(9, 2)).question is None


def test_a_fork_leaves_its_history_as_it_was() -> None:
    """A fork is gone to before the message that it changes; the history that it left is still there, step for step."""
    stepper = shopping(at=9)
    before = [s.caption for s in stepper.recording.steps]
    stepper.fork(7, "+1 visit Carrot, Bob, 70")
    assert [b.name for b in stepper.branches] == ["main", "A"] and stepper.current.name == "A"
    assert stepper.step == stepper.recording.messages[6].first - 1
    ask(stepper, 9, "MAX")
    assert stepper.predict("nothing").right
    assert "70" in stepper.goto(9).svg() and stepper.branch("main").current.name == "main"
    assert [s.caption for s in stepper.recording.steps] == before
    stepper.fork(9, "+1 visit Potato, Dan, 5", insert=True)
    assert len(stepper.recording.messages) == 10 and stepper.branch().current.name == "main"


@pytest.mark.parametrize("text", ["", "no such thing", "+1 visit Potato, Eve", "-1 visit Potato, Eve, 61"])
def test_a_message_that_cannot_be_taken(text: str) -> None:
    """What cannot be read, or is refused, is an error in a plain word and makes no history."""
    stepper = shopping(at=9)
    with pytest.raises(ss.Error) as caught:
        stepper.fork(9, text)
    assert "\n" not in str(caught.value) and len(stepper.branches) == 1 and stepper.step == stepper.recording.last


def test_answers_from_before_a_fork_stay() -> None:
    """What was answered before a fork left is answered on the fork, and counts once."""
    stepper = shopping()
    ask(stepper, 5, "MAX")
    stepper.predict("+I Fruit 10")
    at = stepper.step
    stepper.fork(9, "+1 visit Potato, Eve, 61")
    stepper.goto(step=at)
    assert stepper.answered is not None and str(stepper.score) == "1 of 1 right"


def test_a_step_as_a_file() -> None:
    """A step is an SVG of its own that needs nothing, in either theme; another theme is an error."""
    stepper = shopping(at=9)
    light, dark = stepper.svg(900, "light"), stepper.svg(900, "dark")
    assert 'width="900"' in light and "#ffffff" in light and "prefers-color-scheme" not in light
    assert light.replace("#", "") != dark and "--page:#14171a" in dark
    assert not re.search(r"(src|href)=|url\(", light)
    with pytest.raises(ss.Error, match="light, dark"):
        stepper.svg(theme="pink")


def test_pages_without_widgets(tmp_path: Path) -> None:
    """Where no widget runs there are the steps of the message that one stands in, bounded in size, and words."""
    bundle = shopping(at=9)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/svg+xml", "text/html"}
    assert bundle["text/html"].count("<svg") == 4 and len(bundle["text/html"]) < 200_000
    assert "step 27" in bundle["text/plain"] and "<script" not in bundle["text/html"]
    pages = show.static(ss.replay("shared", [ss.Catalog(**SCHEMA).view(SQL)]), MESSAGES, at=9)
    assert len(pages) == len(pages.drawings) > 3
    pages.save(tmp_path / "dark.html", theme="dark")
    assert "<style>:root{color-scheme:dark}</style>" in (tmp_path / "dark.html").read_text("utf-8")
    with pytest.raises(ss.Error, match="0 to"):
        show.static(ss.replay("full", [ss.Catalog(**SCHEMA).view(SQL)]), MESSAGES, steps=[99])


def test_folding() -> None:
    """An operator folds to a plate and opens again; one that is not there is an error."""
    stepper = shopping(at=9)
    whole = stepper.svg(1100)
    stepper.fold("result.join1")
    assert "info side" in whole and "info side" not in stepper.svg(1100)
    assert stepper.fold("result.join1").svg(1100) == whole
    with pytest.raises(ss.Error, match="the operators are info"):
        stepper.fold("nobody")


def test_the_slider_stands_straight_over_its_forks() -> None:
    """Every step has a place, in order and within the width; a fork's messages stand under those that it left."""
    stepper = shopping(at=9)
    stepper.fork(7, "+1 visit Carrot, Bob, 70")
    main, fork = stepper.branches
    drawn = timeline([TimelineRow(main.recording), TimelineRow(fork.recording, fork.forked_at, "A")], 700)
    for row, branch in zip(drawn.xs, (main, fork), strict=True):
        assert len(row) == branch.recording.last + 1 and row == sorted(row) and 0 < row[0] and row[-1] < 700
    same = [m.first for m in main.recording.messages if m.last - m.first == 3][-1]
    assert drawn.xs[0][same] == pytest.approx(drawn.xs[1][fork.recording.messages[8].first], abs=30)


def test_the_demo_writes_a_page(tmp_path: Path) -> None:
    """The demo writes a page of its own with all three strategies, and says where; a word too many is refused."""
    command = [sys.executable, "-m", "sharedstate_lite.show.stepper"]
    root = Path(__file__).resolve().parents[2]
    page = tmp_path / "page.html"
    done = subprocess.run([*command, str(page)], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0 and done.stdout.strip() == str(page), done.stderr
    text = page.read_text(encoding="utf-8")
    assert (
        all(f"{kind} state" in text for kind in ("Full", "Shared", "Partial")) and "http" not in text.split("<svg")[0]
    )
    assert ":root{color-scheme:light dark}" in text  # the page is as dark as its frames
    assert subprocess.run([*command, "a", "b"], capture_output=True, cwd=root).returncode == 2


def test_the_readme_shows_what_the_demo_draws(tmp_path: Path) -> None:
    """docs/stepper.svg is the frame that the command beside it writes; what Python's own objects weigh differs."""
    root, drawn = Path(__file__).resolve().parents[2], tmp_path / "stepper.svg"
    command = [sys.executable, "-m", "sharedstate_lite.show.stepper", str(drawn)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert "`python -m sharedstate_lite.show.stepper docs/stepper.svg`" in (root / "README.md").read_text()
    kept, fresh = (
        re.sub(r'textLength="[0-9.]+"([^>]*>base 9 rows), [0-9.]+ KiB', r"\1", path.read_text(encoding="utf-8"))
        for path in (root / "docs" / "stepper.svg", drawn)
    )
    assert kept == fresh, "the frame has changed: run the command, look at the picture, commit it"


def test_the_lines_of_the_readme_step_a_view_of_ones_own() -> None:
    """They run as they stand, and open the stepper at the first step of the second message."""
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    own, stepped = re.findall(r"```python\n(.*?)```", readme, re.S)[:2]
    names: dict[str, Any] = {}
    exec(own, names)
    exec(stepped.replace("\nshow.stepper(", "\nshown = show.stepper("), names)
    shown = names["shown"]
    assert shown.step == shown.recording.messages[1].first and len(shown.recording.messages) == 2
    assert "Potato" in shown.svg()
