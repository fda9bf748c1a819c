"""Run the checks of a lab on a student's code.

The first case that differs is the message. The cases after it only serve to recognise a known mistake: if all answers
are exactly those of a wrong solution of the lab, the message names the mistake.

Before a wrong answer costs points, its case is asked again in another process, alone. If it passes there, all checks
are asked once more in a new process, in the same order. If the same case gives the same wrong answer, what the code was
asked before has changed it: the result says that it passes alone. Otherwise the answers differ. Both lose the points.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

from ..errors import GraderError, UsageError, text_of
from ..outcomes import Outcome
from ..worker import Answer, NoValueError, Runner, Student, same
from ..worker.allowance import IDLE
from .checks import Case, Check, UnlikeError, jsonable, python

ALONE = "passes alone: do your objects share state?"
"""What a failing check with `Result.alone` means."""
_GOES_ON = (Outcome.PASS, Outcome.WRONG, Outcome.ERROR)
"""After these, the next case is asked."""
IMPORT = 5.0
"""CPU seconds that importing a module may take."""
_TIMEOUTS = 2
"""After this many timeouts, the remaining checks of a task are not run, and those of other tasks have less time."""
_STOPPED = 2
"""A check is stopped at this many times its CPU limit. Between the limit and this, it ends, and is a timeout, too."""
_SHORT = 2.0
"""With less time, a check is stopped at its CPU limit, and after this many seconds without using the CPU."""
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
    other: str = ""
    """The second answer, if the answers differ."""
    alone: bool = False
    """Whether the failing case passes in a process that is asked nothing else, and fails again after the same cases."""
    waited: bool = False
    """Whether a timeout could be due to a busy machine, so that the submission is judged again, alone."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {**asdict(self), "flags": list(self.flags)}


class Seen(NamedTuple):
    """What came when a case was asked."""

    outcome: str
    text: str
    answer: Any
    """The answer as it goes into the fingerprint."""
    none: Answer | None = None
    """The reason why there is no value."""

    @property
    def doubtful(self) -> bool:
        """Whether another process could answer otherwise. Code that is not complete cannot."""
        types = () if self.none is None else self.none.types
        incomplete = {"NotImplementedError", "NameError"}.intersection(types)
        return self.outcome in (Outcome.WRONG, Outcome.ERROR) and not incomplete


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
    seen: Seen | None = None
    """What came in the failing case."""
    last: Answer | None = None
    """The reason why the last case has no value, if it has none."""


Beside = Callable[[], AbstractContextManager[Runner]]


def judge(
    checks: Sequence[Check], runner: Runner, known: Mapping[str, Mapping[str, str]], beside: Beside | None = None
) -> list[Result]:
    """Return a result for each check, in the order of ``checks``.

    Hidden checks run last, so that no message of a visible check can contain what the code has seen in a hidden one.
    ``known`` maps the id of a check to the fingerprints of wrong solutions, and these to what is wrong with them.
    ``beside`` makes a second runner, in which failing cases are asked again; without it, they are not.
    """
    order = sorted(checks, key=lambda check: check.hidden)
    running, found = judging(order, runner, known), dict[str, Judged]()
    with ExitStack() as opened:
        second: _Second | None = None
        for _, some in groupby(order, lambda check: check.hidden):
            new = [(check, next(running)) for check in some]
            found |= {check.id: judged for check, judged in new}
            failed = [check for check, judged in new if judged.seen is not None and judged.seen.doubtful]
            if beside is not None and failed:
                second = second or _Second(opened.enter_context(beside()))
                found |= second.again(failed, found, order[: len(found)])
    return [found[check.id].result for check in checks]


class _Second:
    """Asks failing cases again, in one new process for each task."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._task: int | None = None
        """The task of the process; None: what it was asked may have changed it, or it has not started."""

    def again(self, failed: Sequence[Check], first: Mapping[str, Judged], asked: Sequence[Check]) -> dict[str, Judged]:
        """Ask the failing cases alone, and return what changes in ``first``.

        ``asked``: the checks of ``first``, in the order in which they were asked. If a process that was asked something
        before gives another answer than at first, a new one decides.
        """
        found = dict[str, Judged]()
        for check in sorted(failed, key=lambda check: (check.task != self._task, check.task)):
            was, new = first[check.id], check.task != self._task
            result, seen = self._alone(check, was, new)
            if self._task is None and not new:
                result, seen = self._alone(check, was, True)
            if seen.outcome == Outcome.PASS:
                found[check.id] = replace(was, result=replace(was.result, outcome=Outcome.DIFFER, other=result.got))
            elif seen.outcome == Outcome.TIMEOUT:
                break  # each further one could take as long
        if found:
            start(self._runner)
            for judged in judging(asked, self._runner, {}):
                was = first[judged.result.check]
                if was.result.check in found and judged.result.case == was.result.case and _same(judged.seen, was.seen):
                    found[was.result.check] = replace(was, result=replace(was.result, alone=True))
            self._task = None
        return found

    def _alone(self, check: Check, was: Judged, new: bool) -> tuple[Result, Seen]:
        if new:
            start(self._runner)
        result, seen = _replay(check, was.result.case, self._runner)
        self._task = check.task if _same(seen, was.seen) else None
        return result, seen


def start(runner: Runner) -> None:
    """Import the module in a new process. If that fails, each case fails for the same reason."""
    runner.restart()
    runner.limit(IMPORT)
    with suppress(NoValueError):
        Student(runner).load()


def _same(one: Seen | None, other: Seen | None) -> bool:
    return one is not None and other is not None and same(one.answer, other.answer)


def judging(checks: Sequence[Check], runner: Runner, known: Mapping[str, Mapping[str, str]]) -> Iterator[Judged]:
    """Yield the results one by one. The caller may stop after any of them."""
    student, late, spent = Student(runner), Counter[int](), False
    for check in checks:
        passed = _passed(check)
        if spent or late[check.task] >= _TIMEOUTS:
            why = "the time for all checks is used up" if spent else f"two checks of task {check.task} have timed out"
            yield Judged(replace(passed, outcome=Outcome.NOT_RUN, got=why))
            continue
        judged = _judge(check, passed, student, runner, known.get(check.id, {}), late.total() >= _TIMEOUTS)
        spent = judged.last is not None and judged.last.spent
        late[check.task] += Outcome.TIMEOUT in (judged.result.outcome, judged.last and judged.last.kind)
        yield judged


def _passed(check: Check) -> Result:
    return Result(check.id, check.task, check.rule, check.hidden, Outcome.PASS, check.number)


def _judge(
    check: Check, passed: Result, student: Student, runner: Runner, known: Mapping[str, str], short: bool
) -> Judged:
    before, most = runner.cpu(), check.cpu if short else _STOPPED * check.cpu
    runner.limit(most, _SHORT if short else IDLE)
    result, answers, flags, mark, number = passed, [], [], "", 0
    failing = last = None
    for number, case in enumerate(check.cases(student), 1):
        seen = ask(case, student)
        if number == 1 and seen.outcome in _GOES_ON and not _same(ask(case, student), seen):
            flags.append("the first case has given two different answers")
        answers.append(seen.answer)
        if failing is None and seen.outcome != Outcome.PASS:
            result, failing = _failed(passed, number, case, seen), seen
        last = seen.none
        if seen.outcome not in _GOES_ON:
            break
    else:
        mark = fingerprint(answers)
    cpu = runner.cpu() - before
    waited = last is not None and last.waited
    if cpu > check.cpu and result.outcome in (Outcome.PASS, Outcome.TIMEOUT):
        waited |= last is None or last.kind != Outcome.TIMEOUT  # it has ended, and other programs make it slower
        result, mark = replace(result, outcome=Outcome.TIMEOUT, got=f"more than {check.cpu:g} s of CPU time"), ""
    if check.cpu / 2 < cpu <= most:
        flags.append("the check has taken between half and twice its CPU time")
    if last is not None and last.waited:
        flags.append(f"stopped, perhaps because of a busy machine: {last.why}")
    says = "" if result is passed else known.get(mark, "")
    result = replace(result, says=says, flags=tuple(flags), waited=waited)
    return Judged(result, mark, number, cpu, failing, last)


def _failed(passed: Result, number: int, case: Case, seen: Seen) -> Result:
    failed = replace(passed, outcome=seen.outcome, case=number, trace=case.trace, got=cut(seen.text))
    return replace(failed, right=cut(case.shape.show(jsonable(case.right))))


def split(case: str) -> tuple[str, int]:
    """Return the check and the number of a case such as max.second:12. Raises UsageError."""
    name, _, number = case.rpartition(":")
    if not (name and number.isascii() and number.isdigit() and int(number)):
        raise UsageError(f"--case {case}: give a check and the number of a case, such as max.second:12")
    return name, int(number)


def replay(check: Check, number: int, runner: Runner) -> Result:
    """Run one case of a check, counted from 1, and return its result; trace and answer are there if it passes, too.

    Raises UsageError if the check has fewer cases.
    """
    return _replay(check, number, runner)[0]


def _replay(check: Check, number: int, runner: Runner) -> tuple[Result, Seen]:
    student, count = Student(runner), 0
    runner.limit(_STOPPED * check.cpu)
    for count, case in enumerate(check.cases(student), 1):
        if count == number:
            seen = ask(case, student)
            return _failed(_passed(check), number, case, seen), seen
    raise UsageError(f"{check.id} has no case {number}; it has {count}")


def ask(case: Case, student: Student) -> Seen:
    """Ask the student's code one case, without the objects of earlier ones."""
    student.forget()
    value, shown = None, ""
    try:
        value = jsonable(case.ask())
        shown = f"{python(value)}; "
        like, seen = jsonable(case.shape.like(value)), case.shape.show(value)
    except NoValueError as failed:
        kind, why = failed.answer.kind, failed.answer.why
        return Seen(kind, why, [kind, why.partition(":")[0]], failed.answer)
    except UnlikeError as unlike:
        return Seen(Outcome.WRONG, f"{shown}{unlike}", ["unlike", value])
    except (GraderError, OSError):  # of the machine
        raise
    except Exception as error:  # the proof of the lab shows that right answers raise none
        said = f"an answer that the check cannot use ({text_of(error)})"
        return Seen(Outcome.WRONG, f"{shown}{said}", ["unlike", value])
    right = jsonable(case.shape.like(jsonable(case.right)))
    return Seen(Outcome.PASS if same(like, right) else Outcome.WRONG, seen, ["value", like])


def fingerprint(answers: Sequence[Any]) -> str:
    """Return a hash of all answers to the cases of a check, which are JSON values."""
    return hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()[:16]


def cut(text: str) -> str:
    """Return a text, shortened if it is very long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"
