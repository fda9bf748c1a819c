"""Run the checks of a lab on a student's code.

The first case that differs is the message. The cases after it only serve to recognise a known mistake: if all answers
are exactly those of a wrong solution of the lab, the message names the mistake.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from traceback import format_exception_only
from typing import Any

from ..errors import GraderError, UsageError
from ..worker import NoValueError, Runner, Student, same
from .checks import Case, Check, UnlikeError, jsonable, python

PASS, WRONG, ERROR, CRASH, TIMEOUT, BAD, VOID = "pass", "wrong", "error", "crash", "timeout", "bad", "void"
"""Outcomes of a check. The kinds of `grader.worker.Answer`, pass, wrong, and void if the machine could not run it."""
_TIMEOUTS = 2
"""After this many timeouts, the remaining checks of a submission are timeouts without a try."""
_STOPPED = 2
"""A check is stopped at this many times its CPU limit. Between the limit and this, it ends, and is a timeout, too."""
_LONGEST = 2000
"""The maximum length of a text in a message."""


@dataclass(frozen=True)
class Result:
    """What a check has found. The texts are empty if it has passed."""

    check: str
    task: int
    rule: str
    hidden: bool
    outcome: str
    number: int | None = None
    case: int = 0
    """The number of the failing case, from 1."""
    trace: str = ""
    right: str = ""
    got: str = ""
    says: str = ""
    """What is wrong, if the mistake is known."""
    flags: tuple[str, ...] = ()
    """Why the outcome could differ if the check is run again."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {**asdict(self), "flags": list(self.flags)}


@dataclass(frozen=True)
class Judged:
    """A result, and what `lab build` needs besides."""

    result: Result
    fingerprint: str = ""
    """The fingerprint of all answers; empty after a timeout, or if the process has ended before the last case."""
    cases: int = 0
    """The number of cases that were asked."""
    cpu: float = 0.0
    """The CPU seconds that the check has taken."""


def judge(checks: Sequence[Check], runner: Runner, known: Mapping[str, Mapping[str, str]]) -> list[Result]:
    """Return a result for each check, in the order of ``checks``.

    Hidden checks run last, so that no message of a visible check can contain what the code has seen in a hidden one.
    ``known`` maps the id of a check to the fingerprints of wrong solutions, and these to what is wrong with them.
    """
    order = sorted(checks, key=lambda check: check.hidden)
    found = {judged.result.check: judged.result for judged in judging(order, runner, known)}
    return [found[check.id] for check in checks]


def judging(checks: Sequence[Check], runner: Runner, known: Mapping[str, Mapping[str, str]]) -> Iterator[Judged]:
    """Yield the results one by one. The caller may stop after any of them."""
    student, timeouts = Student(runner), 0
    for check in checks:
        passed = _passed(check)
        if timeouts >= _TIMEOUTS:
            late = "not run, because two checks before it have timed out"
            yield Judged(replace(passed, outcome=TIMEOUT, got=late))
            continue
        judged = _judge(check, passed, student, runner, known.get(check.id, {}))
        timeouts += judged.result.outcome == TIMEOUT
        yield judged


def _passed(check: Check) -> Result:
    return Result(check.id, check.task, check.rule, check.hidden, PASS, check.number)


def _judge(check: Check, passed: Result, student: Student, runner: Runner, known: Mapping[str, str]) -> Judged:
    before = runner.cpu()
    runner.limit(_STOPPED * check.cpu)
    result, answers, flags, mark, number = passed, [], [], "", 0
    for number, case in enumerate(check.cases(student), 1):
        outcome, seen, answer = _ask(case, student)
        if number == 1 and outcome in (PASS, WRONG, ERROR) and _ask(case, student)[2] != answer:
            flags.append("the first case has given two different answers")
        answers.append(answer)
        if result is passed and outcome != PASS:
            result = _failed(passed, outcome, number, case, seen)
        if outcome not in (PASS, WRONG, ERROR):
            break
    else:
        mark = fingerprint(answers)
    cpu = runner.cpu() - before
    if cpu > check.cpu and result.outcome in (PASS, TIMEOUT):
        result, mark = replace(result, outcome=TIMEOUT, got=f"more than {check.cpu:g} s of CPU time"), ""
    if check.cpu / 2 < cpu <= _STOPPED * check.cpu:
        flags.append("the check has taken between half and twice its CPU time")
    says = "" if result is passed else known.get(mark, "")
    return Judged(replace(result, says=says, flags=tuple(flags)), mark, number, cpu)


def _failed(passed: Result, outcome: str, number: int, case: Case, seen: str) -> Result:
    right = cut(case.shape.show(jsonable(case.right)))
    return replace(passed, outcome=outcome, case=number, trace=case.trace, right=right, got=cut(seen))


def replay(check: Check, number: int, runner: Runner) -> Result:
    """Run one case of a check, counted from 1, and return its result; trace and answer are there if it passes, too.

    Raises UsageError if the check has fewer cases.
    """
    student, count = Student(runner), 0
    runner.limit(_STOPPED * check.cpu)
    for count, case in enumerate(check.cases(student), 1):
        if count == number:
            outcome, seen, _ = _ask(case, student)
            return _failed(_passed(check), outcome, number, case, seen)
    raise UsageError(f"{check.id} has no case {number}; it has {count}")


def _ask(case: Case, student: Student) -> tuple[str, str, Any]:
    """Return the outcome of a case, the answer as text, and the answer as it goes into the fingerprint."""
    student.forget()
    value, shown = None, ""
    try:
        value = jsonable(case.ask())
        shown = f"{python(value)}; "
        like, seen = jsonable(case.shape.like(value)), case.shape.show(value)
    except NoValueError as failed:
        kind, why = failed.answer.kind, failed.answer.why
        return kind, why, [kind, why.partition(":")[0]]
    except UnlikeError as unlike:
        return WRONG, f"{shown}{unlike}", ["unlike", value]
    except (GraderError, OSError):  # of the machine
        raise
    except Exception as error:  # the proof of the lab shows that right answers raise none
        text = "".join(format_exception_only(error)).strip()  # str(error) can raise, if a number in it is too long
        said = f"an answer that the check cannot use ({text})"
        return WRONG, f"{shown}{said}", ["unlike", value]
    right = jsonable(case.shape.like(jsonable(case.right)))
    return (PASS if same(like, right) else WRONG), seen, ["value", like]


def fingerprint(answers: Sequence[Any]) -> str:
    """Return a hash of all answers to the cases of a check, which are JSON values."""
    return hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()[:16]


def cut(text: str) -> str:
    """Return a text, shortened if it is very long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"
