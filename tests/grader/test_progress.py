"""The progress of a run: lines in a log, and one moving line in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from grader.progress import Shown


def test_a_log_has_a_line_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    """A line has the seconds so far, the step, and the seconds left, or by how much the run is longer than usual."""
    times = iter([0.0, 2.0, 9.0, 31.0])
    with Shown(30.0, Console(file=io.StringIO()), clock=lambda: next(times)) as shown:
        for text in ("load: probe", "load: 648 checkouts at 133 a second", "last look at everything"):
            shown.say(text)
    assert capsys.readouterr().err == (
        "[   2.0 s, about 28 s left] load: probe\n"
        "[   9.0 s, about 21 s left] load: 648 checkouts at 133 a second\n"
        "[  31.0 s, 1 s longer than usual] last look at everything\n"
    )


def test_the_build_is_not_part_of_the_usual_length(capsys: pytest.CaptureFixture[str]) -> None:
    """After a build of 50 s, all of the usual 30 s are left."""
    times = iter([0.0, 0.0, 50.0, 60.0])
    with Shown(30.0, Console(file=io.StringIO()), clock=lambda: next(times)) as shown:
        for text in ("building", "starting order", "load: probe"):
            shown.say(text)
    assert capsys.readouterr().err.splitlines() == [
        "[   0.0 s, about 30 s left] building",
        "[  50.0 s, about 30 s left] starting order",
        "[  60.0 s, about 20 s left] load: probe",
    ]


def test_a_terminal_has_one_line_and_what_is_done() -> None:
    """A moving line shows step and time left. A finished phase leaves a line with its seconds."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    times = iter([0.0, 1.0, 2.0, 4.5])
    with Shown(30.0, screen, clock=lambda: next(times)) as shown:
        shown.say("load: probe")
        shown.say("load: [bold]648 checkouts")
        shown.say("faults: 1 of 13, kill stock")
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "load                                3.5 s" in text.replace("\x1b", "")
    assert "faults: 1 of 13, kill stock" in text and "s left" in text and text.count("\n  load") <= 1


def test_the_time_left_stays_where_a_terminal_is_narrow() -> None:
    """A terminal of 60 columns cuts the step short, and never wraps."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=60, color_system=None)
    with Shown(700.0, screen) as shown:
        shown.say("faults: 6, killed right after an answer stock; 8 are to follow")
    lines = screen.file.getvalue().replace("\r", "\n").splitlines()  # type: ignore[attr-defined]
    told = [line for line in lines if "faults" in line]
    assert told and all(" 0 s, about 700 s left faults: 6, " in line and "…" in line for line in told)


def test_a_terminal_says_when_a_run_is_longer_than_usual() -> None:
    """The countdown does not stop at zero without a word."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with Shown(1e-9, screen) as shown:
        shown.say("faults: settling")
    assert "0 s, 0 s longer than usual faults: settling" in screen.file.getvalue()  # type: ignore[attr-defined]
