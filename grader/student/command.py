"""``python -m grader check [FOLDER]``: run the checks of a lab on one's own code."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..errors import UsageError, VoidError
from ..lab.checks import Check
from ..lab.hints import hint
from ..lab.judge import IMPORT, NOT_RUN, PASS, Result, judging, replay, split
from ..statuses import FAILED, OK, Parser, status_of
from ..worker import NoValueError, Student
from .folder import Lab, read
from .local import Local

_NAME = "python -m grader check"
_TODO = "NotImplementedError: "
"""The code of a task that is not written yet raises this."""
_WIDTH = 78
"""Longer lines are wrapped, for terminals and notebooks in half a screen."""
_LINES = 20
"""At most this many lines of the student's output are shown."""


def main(args: list[str]) -> int:
    """Run the command line. Returns 0 if the checks pass, 1 if one fails, 2 if none can be run, and 64 for usage."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a console of Windows may lack a letter
    return status_of(_NAME, lambda: _main(args), "interrupted")


def _main(args: list[str]) -> int:
    parser = Parser(prog=_NAME, description="Run the visible checks of a lab on your code.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="the lab's folder (default: this folder)")
    parser.add_argument("--task", type=int, metavar="N", help="only the checks of this task")
    parser.add_argument("--all", action="store_true", help="go on after a task that fails")
    parser.add_argument("--case", metavar="CHECK:N", help="run one case of a check again, such as max.second:12")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args(args)
    return _check(given.folder, given.task, given.case, given.all, given.json)


def check(task: int | None = None, case: str | None = None, folder: Path | str = ".") -> None:
    """Run the checks of a task, or of all tasks, or one case of a check, from a notebook, and print what they find.

    Example: ``from grader import check; check(3); check(case="max.second:8")``.
    """
    try:
        _check(Path(folder), task, case, cell=True)
    except (UsageError, VoidError) as error:
        print(error)


def _check(
    folder: Path, task: int | None, case: str | None, go_on: bool = False, as_json: bool = False, cell: bool = False
) -> int:
    lab = read(folder)
    with Local(folder, lab.module) as local:
        if case is not None:
            found, number = _found(lab, case)
            return _broken(lab, local, as_json, cell) or _replay(found, number, local, as_json, cell)
        checks = _chosen(lab, task)
        return _broken(lab, local, as_json, cell) or _run(lab, local, checks, go_on, as_json, cell)


def _broken(lab: Lab, local: Local, as_json: bool, cell: bool) -> int:
    """Import the module. If that fails, print why, which no check needs to repeat, and return FAILED; otherwise OK."""
    local.limit(IMPORT)
    try:
        Student(local).load()
        return OK
    except NoValueError as error:
        failed = error.answer
    result = Result(f"{lab.module}.py", 0, "", False, failed.kind, got=failed.why)
    return _alone(result, local.printed(), lab.last(0, 0), as_json, cell)


def _alone(result: Result, printed: str, last: str, as_json: bool, cell: bool) -> int:
    """Print a single result and the last line, and return the exit status."""
    passed = result.outcome == PASS
    if as_json:
        print(json.dumps({"checks": [{**result.as_json(), "printed": printed}], "last": last}, indent=1))
    else:
        more = [f"    trace   {result.trace}", f"    got     {result.got}"] if passed else []
        print("\n".join([*_message(result, printed, cell), *more, last]))
    return OK if passed else FAILED


def _chosen(lab: Lab, task: int | None) -> list[Check]:
    if task is not None and task not in lab.tasks:
        raise UsageError(f"there is no task {task}; the tasks are {', '.join(map(str, lab.tasks))}")
    return [check for check in lab.checks if task in (None, check.task)]


def _run(lab: Lab, local: Local, checks: list[Check], go_on: bool, as_json: bool, cell: bool) -> int:
    """Run checks in the order of their tasks, and print what they find as soon as it is known."""
    checks = sorted(checks, key=lambda check: check.task)
    running, entries, results = judging(checks, local, {}), [], list[Result]()
    task, failed = 0, set[int | str]()
    for check in checks:
        if check.task != task and failed and not go_on:
            break
        judged = next(running)
        result = judged.result
        if result.outcome != PASS:
            result = replace(result, says=hint(check.id, lab.hints.get(check.id, {}), judged.fingerprint))
        printed = _printed(check, result, local)
        results.append(result)
        entries.append({**result.as_json(), "printed": printed})
        if not as_json:
            if check.task != task:
                print(f"task {check.task}: {lab.tasks.get(check.task, '')}")
            brief = not failed.isdisjoint((check.task, *check.needs))
            print("\n".join(_message(result, printed, cell, brief, check.id in lab.advice)), flush=True)
        task = check.task
        if result.outcome != PASS and check.id not in lab.advice:
            failed |= {task, check.id}
    ran = [result for result in results if result.outcome != NOT_RUN]
    last = lab.last(sum(result.outcome == PASS for result in ran), len(ran))
    print(json.dumps({"checks": entries, "last": last}, indent=1) if as_json else last)
    return FAILED if failed else OK


def _printed(check: Check, result: Result, local: Local) -> str:
    """Return what the student's code prints in the case that fails."""
    if result.outcome == PASS:
        return ""
    if result.outcome in ("wrong", "error"):  # the check has gone on after this case, so run it alone
        start = local.bytes_printed()
        replay(check, result.case, local)
        return local.printed(start)
    return local.printed()


def _message(result: Result, printed: str, cell: bool, brief: bool = False, advice: bool = False) -> Iterator[str]:
    """Yield the lines about a result. ``cell``: whether they are shown in a notebook.

    ``brief``: one line, because a check of its task, or one that it needs, has failed before. ``advice``: the check
    has no points.
    """
    if result.got.startswith(_TODO):
        yield f"  to do   {result.check}: {result.got.removeprefix(_TODO)}"
        return
    failed = result.outcome != PASS
    again = f'case="{result.check}:{result.case}"' if cell else f"--case {result.check}:{result.case}"
    notes = {"advice, no points": advice and failed, again: brief and failed and result.case}
    yield f"  {result.outcome:7} {result.check}" + "".join(f"  ({note})" for note, shown in notes.items() if shown)
    if brief or not failed:
        return
    rule = "" if result.number is None else f" (rule\u00a0{result.number})"  # not broken
    said = {
        "rule": result.rule + rule,
        "trace": result.trace,
        "right": result.right,
        "got": result.got,
        "says": result.says,
        "flag": "; ".join(result.flags),
    }
    indent, lines = " " * 12, printed.splitlines()[-_LINES:]
    for name, text in said.items():
        if text:
            wrapped = textwrap.fill(f"    {name:8}{text}", _WIDTH, subsequent_indent=indent, break_on_hyphens=False)
            yield wrapped.replace("\u00a0", " ")
    if lines:
        yield "    printed " + f"\n{indent}".join(lines)
    if result.case:
        yield f"    again   check({again})" if cell else f"    again   {_NAME} {again}"


def _found(lab: Lab, case: str) -> tuple[Check, int]:
    """Return the check and the number of a case such as max.second:12."""
    name, number = split(case)
    found = next((check for check in lab.checks if check.id == name), None)
    if found is None:
        visible = ", ".join(check.id for check in lab.checks)
        raise UsageError(f"--case {case}: {name} is hidden, or no check of this lab; the visible ones are {visible}")
    return found, number


def _replay(check: Check, number: int, local: Local, as_json: bool, cell: bool) -> int:
    result = replay(check, number, local)
    last = f"Only case {number} of {check.id} has run. To run all checks: {'check()' if cell else _NAME}"
    return _alone(result, local.printed(), last, as_json, cell)
