"""The progress of a build: shares, and the time that is left."""

from __future__ import annotations

import io

import pytest

from website.progress import EVERY, GUESS, Progress, duration


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_the_rest_is_estimated_from_the_last_run_and_from_this_one() -> None:
    """Before a fifth is done, the last run counts; later, this run does if it is slower."""
    now = [0.0]
    progress = Progress([("01", 100.0), ("02", None)], io.StringIO(), lambda: now[0])
    progress.begin(0)
    assert progress.left(0.0) == 100 + GUESS
    now[0] = 30.0
    assert progress.left(0.1) == 90 + GUESS
    assert progress.left(0.5) == 50 + GUESS
    now[0] = 100.0
    assert progress.left(0.5) == 100 + GUESS
    progress.begin(1)
    assert progress.left(1.0) == 0


def test_a_log_gets_a_line_now_and_then() -> None:
    """Without a terminal, a line is printed at the beginning of each job and every few seconds."""
    now, out = [0.0], io.StringIO()
    progress = Progress([("01-full-state", 40.0)], out, lambda: now[0])
    progress.begin(0)
    for now[0] in (1.0, EVERY - 1, EVERY, EVERY + 1):
        progress.done(0.5)
    assert out.getvalue().splitlines() == [
        "1 of 1  01-full-state  0%  about 40 s left",
        "1 of 1  01-full-state  50%  about 20 s left",
    ]


def test_a_terminal_keeps_one_line() -> None:
    """On a terminal, the line is rewritten, and cleared at the end."""
    out = Terminal()
    progress = Progress([("01", 40.0)], out, lambda: 0.0)
    progress.begin(0)
    progress.done(0.5)
    progress.end()
    assert "\n" not in out.getvalue()
    assert out.getvalue().endswith("\r" + " " * 78 + "\r")


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (620, "10 min")])
def test_durations(seconds: float, words: str) -> None:
    """Short durations are seconds, longer ones minutes."""
    assert duration(seconds) == words
