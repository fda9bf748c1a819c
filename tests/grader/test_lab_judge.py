"""The judge of a lab's checks: outcomes and flags by CPU time, and failing cases that are asked again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from grader.lab import Case, check
from grader.lab.judge import judge, judging
from grader.outcomes import Outcome
from grader.worker import Answer, Student


class Clock:
    """A runner with simulated time: the test sets the CPU time and the idle time of each question.

    After ``total`` seconds, the time for all checks is used up.
    """

    def __init__(self, seconds: float, value: int, idle: float = 0.0, total: float = 1000.0) -> None:
        self.seconds, self.value, self.idle, self.total = seconds, value, idle, total
        self.used, self.slept, self.most, self.patience = 0.0, 0.0, 0.0, 0.0

    def limit(self, seconds: float, idle: float = 5.0) -> None:
        """From now on, allow this many seconds."""
        self.most, self.patience = self.used + seconds, idle

    def cpu(self) -> float:
        """Return the seconds used so far."""
        return self.used

    def restart(self) -> None:
        """Nothing is kept."""

    def run(self, steps: Sequence[Sequence[Any]], asks: Any = None) -> Answer:
        """Use the time, and return the value."""
        if self.idle > self.patience:
            self.slept += self.patience
            return Answer("timeout", why="no answer")
        self.used = min(self.used + self.seconds, self.most + 0.1)
        if self.used > self.total:
            return Answer("timeout", why="more than 60 s", waited=True, spent=True)
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
    assert clock.most == 4 and judged.cpu <= 4 + seconds and clock.patience == 5
    assert judged.result.waited == (outcome == "timeout" and not stopped)  # alone, it could be faster
    assert bool(judged.fingerprint) == (outcome != "timeout" and not stopped)
    assert outcome != "timeout" or judged.result.got == "more than 2 s of CPU time"


def in_tasks(*tasks: int) -> list[Any]:
    """The check "three", once for each of these tasks."""
    return [replace(three, id=f"three-{n}", task=task) for n, task in enumerate(tasks)]


def test_two_timeouts_end_a_task() -> None:
    """The other checks of the task are not run. Checks of other tasks are, and have half the time after the second."""
    for seconds in (0.6, 1.1):
        clock = Clock(seconds, 7)
        found = [judged.result for judged in judging(in_tasks(1, 1, 1, 2, 1, 2, 2, 3), clock, {})]
        late, not_run = "timeout", Outcome.NOT_RUN
        assert [one.outcome for one in found] == [late, late, not_run, late, not_run, late, not_run, late]
        assert {one.got for one in found if one.outcome == Outcome.NOT_RUN} == {
            "two checks of task 1 have timed out",
            "two checks of task 2 have timed out",
        }
        assert clock.used == pytest.approx(2 * min(4 * seconds, 4.1) + 3 * 2.1)
        assert [one.waited for one in found if one.outcome == "timeout"] == [seconds == 0.6] * 2 + [False] * 3
    clock = Clock(0.0, 7, idle=600)
    found = [judged.result for judged in judging(in_tasks(1, 1, 1, 2, 2, 2, 3), clock, {})]
    assert [one.outcome for one in found].count(Outcome.NOT_RUN) == 2
    assert clock.slept == 5 + 5 + 2 + 2 + 2


def test_a_wrong_answer_before_a_timeout() -> None:
    """A check that is stopped counts as one of the two timeouts of its task, whatever it has found before."""
    found = [judged.result.outcome for judged in judging(in_tasks(1, 1, 1, 2), Clock(1.9, 8), {})]
    assert found == ["wrong", "wrong", Outcome.NOT_RUN, "wrong"]


def test_the_time_of_a_submission() -> None:
    """When the time for all checks is used up, the rest is not run, and the submission is judged again, alone."""
    found = [judged.result for judged in judging(in_tasks(1, 2, 3, 4), Clock(0.2, 7, total=1.3), {})]
    assert [one.outcome for one in found] == ["pass", "timeout", Outcome.NOT_RUN, Outcome.NOT_RUN]
    assert [one.waited for one in found] == [False, True, False, False]
    assert found[1].flags == ("stopped, perhaps because of a busy machine: more than 60 s",)
    assert found[2].got == "the time for all checks is used up"


class Code:
    """A runner of a module's text, in which SECOND tells the two runners apart.

    ``log`` has "start" for each new process, and the arguments of all calls.
    """

    def __init__(self, text: str, second: bool = False, log: list[Any] | None = None) -> None:
        self.text, self.second, self.log = text, second, [] if log is None else log
        self.names: dict[str, Any] = {}

    def limit(self, seconds: float, idle: float = 5.0) -> None:
        """There is no limit."""

    def cpu(self) -> float:
        """Return 0.0, because nothing is measured."""
        return 0.0

    def restart(self) -> None:
        """Forget everything."""
        self.names = {}

    def run(self, steps: Sequence[Sequence[Any]], asks: Any = None) -> Answer:
        """Run the steps, which are "forget", "import" and "call"."""
        if not self.names:
            self.names = {"SECOND": self.second}
            exec(self.text, self.names)
            self.log.append("start")
        results: list[Any] = []
        try:
            for kind, *given in steps:
                if kind == "call":
                    self.log.append(tuple(given[2]))
                results += [self.names[given[1]](*given[2])] if kind == "call" else [[]] * (kind == "import")
        except (EOFError, TimeoutError) as error:
            self.restart()
            return Answer("crash" if isinstance(error, EOFError) else "timeout", why="nothing came")
        except Exception as error:
            return Answer("error", why=str(error), types=tuple(one.__name__ for one in type(error).__mro__))
        return Answer("value", results)


def doubling(id: str, task: int, *numbers: int, hidden: bool = False) -> Any:
    """A check that double(n) is 2 * n."""

    @check(id, task)
    def asks(student: Student) -> Iterator[Case]:
        """double(n) is 2 * n."""
        for n in numbers:
            yield Case(str(n), 2 * n, partial(student.call, "double", n))

    return replace(asks, hidden=hidden)


CHECKS = [
    doubling("a", 1, 1, 2, 3),
    doubling("b", 1, 4, 5),
    doubling("secret", 1, 70, 80, hidden=True),
    doubling("c", 2, 6),
]


def judged(text: str) -> tuple[dict[str, Any], list[Any]]:
    """The results by check, and what both runners were asked; "beside": the second was made."""
    log: list[Any] = []

    @contextmanager
    def beside() -> Iterator[Code]:
        log.append("beside")
        yield Code(text, True, log)

    results = judge(CHECKS, Code(text, False, log), {}, beside)
    assert [one.check for one in results] == ["a", "b", "secret", "c"]
    return {one.check: one for one in results}, log


VISIBLE = ["start", (1,), (1,), (2,), (3,), (4,), (4,), (5,), (6,), (6,)]
HIDDEN = [(70,), (70,), (80,)]


def test_a_wrong_answer_is_asked_again_in_one_process_a_task() -> None:
    """It stays wrong if it comes again. The visible checks are asked again before any hidden one is judged."""
    results, log = judged("def double(n): return n")
    assert {(one.outcome, one.alone, one.other, one.case) for one in results.values()} == {("wrong", False, "", 1)}
    assert log == [*VISIBLE, "beside", "start", (1,), (4,), "start", (6,), *HIDDEN, "start", (70,)]
    results, log = judged("def double(n): return n + 6")
    assert [one.outcome for one in results.values()] == ["wrong", "wrong", "wrong", "pass"]
    assert log == [*VISIBLE, "beside", "start", (1,), (4,), *HIDDEN, (70,)]


@pytest.mark.parametrize(
    "shared",
    [
        "def double(n, before=[]):\n    before.append(n)\n    return 2 * n if len(before) < 3 else sum(before)\n",
        "def double(n, known={}):\n    return known.setdefault('n', 2 * n)\n",
        "def double(n, before=[]):\n    before.append(n)\n    return 0 if before[1:] else 2 * n\n",
    ],
)
def test_shared_state_passes_alone(shared: str) -> None:
    """Each check fails because of earlier questions, also those of other checks: wrong, and its case passes alone."""
    results, _ = judged(shared)
    assert {id: (one.outcome, one.alone, one.other) for id, one in results.items()} == dict.fromkeys(
        ("a", "b", "secret", "c"), ("wrong", True, "")
    )


def test_answers_that_differ() -> None:
    """A wrong answer that does not come again when the same is asked is listed with the other one, and fails."""
    results, _ = judged("def double(n): return 2 * n if SECOND or n < 3 else 7")
    assert {id: (one.outcome, one.case, one.got, one.other) for id, one in results.items()} == {
        "a": (Outcome.DIFFER, 3, "7", "6"),
        "b": (Outcome.DIFFER, 1, "7", "8"),
        "secret": (Outcome.DIFFER, 1, "7", "140"),
        "c": (Outcome.DIFFER, 1, "7", "12"),
    }
    assert not any(one.alone for one in results.values())


@pytest.mark.parametrize(("questions", "answer"), [(3, 7), (2, 8)])
def test_the_same_wrong_answer_in_the_same_case_is_no_chance(questions: int, answer: int) -> None:
    """If the checks are asked once more, another failing case, or another wrong answer, means that answers differ."""
    late = f"{answer} if len(asked) > {questions} else 2 * n"
    text = f"asked = []\ndef double(n):\n    asked.append(n)\n    late = {late}\n"
    results, _ = judged(f"{text}    return late if SECOND else 7 if n == 2 else 2 * n\n")
    assert (results["a"].outcome, results["a"].got, results["a"].other) == (Outcome.DIFFER, "7", "4")


def test_a_process_that_was_asked_something_else_does_not_decide() -> None:
    """The second case of a task fails in the process that was asked the first one, so it is asked in a new one."""
    answer = "9 if n == 1 else 2 * n if len(seen) < 2 else len(seen)"
    results, log = judged(f"seen = set()\ndef double(n):\n    seen.add(n)\n    return {answer}\n")
    assert {id: (one.outcome, one.alone) for id, one in results.items()} == {
        "a": ("wrong", False),
        **dict.fromkeys(("b", "secret", "c"), ("wrong", True)),
    }
    assert log[len(VISIBLE) :][:6] == ["beside", "start", (1,), (4,), "start", (4,)]


def test_a_second_process_that_hangs_is_asked_once() -> None:
    """A case that times out when it is asked again ends the asking, so that hanging costs little. It stays wrong."""
    results, log = judged("def double(n):\n    if SECOND:\n        raise TimeoutError\n    return n\n")
    assert {(one.outcome, one.got) for one in results.values()} == {("wrong", n) for n in ("1", "4", "70", "6")}
    assert log == [*VISIBLE, "beside", "start", (1,), *HIDDEN, "start", (70,)]


@pytest.mark.parametrize(
    "text",
    [
        "def double(n): return 2 * n",
        "def double(n): raise NotImplementedError('task 1')",
        "def double(n): return 2 * m",
        "def double(n): raise EOFError",
    ],
)
def test_no_second_process_without_need(text: str) -> None:
    """Code that is right, not written yet, names nothing, or ends its process is asked once."""
    results, log = judged(text)
    assert "beside" not in log
    assert {one.outcome for one in results.values()} <= {"pass", "error", "crash"}


def test_an_exception_is_asked_again() -> None:
    """An exception that depends on the process is a lost check, whose answers differ."""
    results, _ = judged("def double(n): return 2 * n if SECOND else {}[n]")
    assert {(one.outcome, one.other) for one in results.values()} == {
        (Outcome.DIFFER, "2"),
        (Outcome.DIFFER, "8"),
        (Outcome.DIFFER, "140"),
        (Outcome.DIFFER, "12"),
    }


@pytest.mark.parametrize(
    ("value", "flagged"),
    [("2 * n", False), ("2 * n + len(asked) % 2", True), ("(2 * n, 2.0 * n)[len(asked) % 2]", True)],
)
def test_the_first_case_is_asked_twice(value: str, flagged: bool) -> None:
    """Two different answers of the first case are a flag, also if they differ in their type only."""
    text = f"asked = []\ndef double(n):\n    value = {value}\n    asked.append(n)\n    return value\n"
    found = next(judging([doubling("a", 1, 1)], Code(text), {})).result
    assert (found.outcome, found.flags) == (
        "pass",
        ("the first case has given two different answers",) * flagged,
    )
