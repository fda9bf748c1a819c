"""The judge of a lab's checks: which outcome and which flag a check gets for the CPU time that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from grader.lab import Case, check
from grader.lab.judge import judging
from grader.worker import Answer, Student


class Clock:
    """A runner whose CPU time is computed: each question takes as much as the runner is told."""

    def __init__(self, seconds: float, value: int) -> None:
        self.seconds, self.value, self.used, self.most = seconds, value, 0.0, 0.0

    def limit(self, seconds: float) -> None:
        """From now on, allow this many seconds."""
        self.most = self.used + seconds

    def cpu(self) -> float:
        """Return the seconds used so far."""
        return self.used

    def restart(self) -> None:
        """Nothing is kept."""

    def run(self, steps: Sequence[Sequence[Any]], asks: Any = None) -> Answer:
        """Use the time, and return the value."""
        self.used += self.seconds
        return Answer("value", [self.value]) if self.used <= self.most else Answer("timeout", why="more than 4 s")


@check("three", task=1, cpu=2)
def three(student: Student) -> Iterator[Case]:
    """f(n) is 7."""
    for n in range(3):
        yield Case(str(n), 7, partial(student.call, "f", n))


@pytest.mark.parametrize(
    ("seconds", "value", "outcome", "flagged"),
    [
        (0.2, 7, "pass", False),
        (0.3, 7, "pass", True),
        (0.6, 7, "timeout", True),
        (0.9, 7, "timeout", True),
        (1.1, 7, "timeout", False),
        (9.0, 7, "timeout", False),
        (0.2, 8, "wrong", False),
        (0.6, 8, "wrong", True),
        (1.1, 8, "wrong", False),
    ],
)
def test_time(seconds: float, value: int, outcome: str, flagged: bool) -> None:
    """More than the limit is a timeout; at twice the limit, the check is stopped. Near the limit, there is a flag.

    A wrong answer before that is wrong on every machine. The check has three cases, of which the first is asked twice.
    """
    clock = Clock(seconds, value)
    (judged,) = judging([three], clock, {})
    stopped = 4 * seconds > 4
    assert (judged.result.outcome, bool(judged.result.flags)) == (outcome, flagged)
    assert clock.most == 4 and judged.cpu <= 4 + seconds
    assert bool(judged.fingerprint) == (outcome != "timeout" and not stopped)
    assert outcome != "timeout" or judged.result.got == "more than 2 s of CPU time"


def test_two_timeouts_end_a_submission() -> None:
    """The other checks are timeouts without a try, whether the first two were stopped or have ended late."""
    for seconds in (0.6, 1.1):
        clock = Clock(seconds, 7)
        found = [judged.result for judged in judging([three] * 4, clock, {})]
        assert [one.outcome for one in found] == ["timeout"] * 4
        assert ["not run" in one.got for one in found] == [False, False, True, True]
        assert clock.used == pytest.approx(8 * seconds)
