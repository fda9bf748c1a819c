"""``python -m grader check [FOLDER]``: run the checks of a lab on one's own code."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import SubmissionError, UsageError, VoidError
from ..lab.checks import Check
from ..lab.judge import IMPORT, Result, judging, replay, split
from ..lab.source import RUNS_LATER, put, runs_later
from ..outcomes import Outcome
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


@dataclass(frozen=True)
class _How:
    """How results are shown."""

    as_json: bool = False
    cell: bool = False
    """Whether they are shown in a notebook."""
    file: Path | None = None
    """What is checked in place of the solution in the lab's folder."""
    notes: list[str] = field(default_factory=list)
    """How the file was read."""

    def again(self, case: str = "") -> str:
        """Return what runs the checks, or one case, again."""
        if self.cell:
            return f'check(case="{case}")' if case else "check()"
        words = [_NAME, *([] if self.file is None else ["--file", shlex.quote(str(self.file))])]
        return " ".join([*words, *(["--case", case] if case else [])])

    def dump(self, entries: list[dict[str, Any]], last: str) -> str:
        """Return the results as JSON."""
        return json.dumps({"notes": self.notes, "checks": entries, "last": last}, indent=1)


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
    parser.add_argument(
        "--file", type=Path, metavar="UPLOAD", help="check what you hand in: a .py, .ipynb, .zip or folder"
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    given = parser.parse_args(args)
    try:
        return _check(given.folder, given.task, given.case, _How(given.json, file=given.file), given.all)
    except SubmissionError as error:
        print(f"This file cannot be graded: {error}", file=sys.stderr)
        return FAILED


def check(task: int | None = None, case: str | None = None, folder: Path | str = ".") -> None:
    """Run the checks of a task, or of all tasks, or one case of a check, from a notebook, and print what they find.

    Example: ``from grader import check; check(3); check(case="max.second:8")``.
    """
    try:
        _check(Path(folder), task, case, _How(cell=True))
    except (SubmissionError, UsageError, VoidError) as error:
        print(error)


def _check(folder: Path, task: int | None, case: str | None, how: _How, go_on: bool = False) -> int:
    lab = read(folder, how.file is None)
    asked, checks = None if case is None else _found(lab, case), _chosen(lab, task)
    with _handed_in(folder, f"{lab.module}.py", how) as place, Local(place, lab.module) as local:
        failed = _imported(lab, local, how)
        if not how.as_json:
            for note in how.notes:
                print(_wrapped("note", note))
        if failed is not None:
            return _alone(failed, local.printed(), lab.last(0, 0), how)
        return _run(lab, local, checks, go_on, how) if asked is None else _replay(*asked, local, how)


@contextmanager
def _handed_in(folder: Path, wanted: str, how: _How) -> Iterator[Path]:
    """Yield the folder with the solution. It is a new one if the file is to be chosen, or is not in UTF-8."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made, "submission")
        place.mkdir()
        name, path, note = (wanted, folder / wanted, "") if how.file is None else _taken(how.file, wanted, Path(made))
        how.notes.extend([note] * bool(note) + put(content := path.read_bytes(), name, place, wanted))
        if (place / wanted).is_file() and runs_later((place / wanted).read_text("utf-8")):
            how.notes.append(f"{wanted} {RUNS_LATER}; a class can be graded with Python 3.11")
        as_it_is = how.file is None and (place / wanted).read_bytes() == content
        yield folder if as_it_is else place


def _taken(upload: Path, wanted: str, made: Path) -> tuple[str, Path, str]:
    """Return the name and path of the solution in what is handed in, and a note."""
    if not upload.exists():
        raise UsageError(f"--file {upload} is missing; give what you hand in: a .py, .ipynb, .zip or folder")
    if sys.platform == "win32":  # which cannot open a folder as `choose` does
        if not upload.is_file() or upload.suffix.lower() not in (".py", ".ipynb"):
            raise UsageError(f"--file {upload}: on Windows, give the .py or .ipynb file itself")
        return wanted if upload.suffix.lower() == ".py" else upload.name, upload, ""
    from ..submission.upload import as_handed, choose

    chosen = choose(as_handed(upload.resolve(), [wanted]), wanted, made / "unpacked")
    return chosen.name, chosen.path, chosen.note


def _imported(lab: Lab, local: Local, how: _How) -> Result | None:
    """Import the module. If that fails, return why, which no check needs to repeat."""
    local.limit(IMPORT)
    try:
        how.notes.extend(Student(local).load())
        return None
    except NoValueError as error:
        return Result(f"{lab.module}.py", 0, "", False, error.answer.kind, got=error.answer.why)


def _alone(result: Result, printed: str, last: str, how: _How) -> int:
    """Print a single result and the last line, and return the exit status."""
    passed = result.outcome == Outcome.PASS
    if how.as_json:
        print(how.dump([{**result.as_json(), "printed": printed}], last))
    else:
        more = [f"    trace   {result.trace}", f"    got     {result.got}"] if passed else []
        print("\n".join([*_message(result, printed, how), *more, last]))
    return OK if passed else FAILED


def _chosen(lab: Lab, task: int | None) -> list[Check]:
    if task is not None and task not in lab.tasks:
        raise UsageError(f"there is no task {task}; the tasks are {', '.join(map(str, lab.tasks))}")
    return [check for check in lab.checks if task in (None, check.task)]


def _run(lab: Lab, local: Local, checks: list[Check], go_on: bool, how: _How) -> int:
    """Run checks, and print what they find as soon as it is known."""
    running, entries, results = judging(checks, local, lab.hints), [], list[Result]()
    task, failed = 0, set[int | str]()
    for check in checks:
        if check.task != task and failed and not go_on:
            break
        result = next(running).result
        printed = _printed(check, result, local)
        results.append(result)
        entries.append({**result.as_json(), "printed": printed})
        if not how.as_json:
            if check.task != task:
                print(f"task {check.task}: {lab.tasks.get(check.task, '')}")
            brief = not failed.isdisjoint((check.task, *check.needs))
            print("\n".join(_message(result, printed, how, brief, check.id in lab.advice)), flush=True)
        task = check.task
        if result.outcome != Outcome.PASS and check.id not in lab.advice:
            failed |= {task, check.id}
    ran = [result for result in results if result.outcome != Outcome.NOT_RUN]
    last = lab.last(sum(result.outcome == Outcome.PASS for result in ran), len(ran))
    print(how.dump(entries, last) if how.as_json else last)
    return FAILED if failed else OK


def _printed(check: Check, result: Result, local: Local) -> str:
    """Return what the student's code prints in the case that fails."""
    if result.outcome == Outcome.PASS:
        return ""
    if result.outcome in (Outcome.WRONG, Outcome.ERROR):  # the check has gone on after this case, so run it alone
        start = local.bytes_printed()
        replay(check, result.case, local)
        return local.printed(start)
    return local.printed()


def _message(result: Result, printed: str, how: _How, brief: bool = False, advice: bool = False) -> Iterator[str]:
    """Yield the lines about a result.

    ``brief``: one line, because a check of its task, or one that it needs, has failed before. ``advice``: the check
    has no points.
    """
    if result.got.startswith(_TODO):
        yield f"  to do   {result.check}: {result.got.removeprefix(_TODO)}"
        return
    failed = result.outcome != Outcome.PASS
    again = f'case="{result.check}:{result.case}"' if how.cell else f"--case {result.check}:{result.case}"
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
            yield _wrapped(name, text)
    if lines:
        yield "    printed " + f"\n{indent}".join(lines)
    if result.case:
        yield f"    again   {how.again(f'{result.check}:{result.case}')}"


def _wrapped(name: str, text: str) -> str:
    filled = textwrap.fill(f"    {name:8}{text}", _WIDTH, subsequent_indent=" " * 12, break_on_hyphens=False)
    return filled.replace("\u00a0", " ")


def _found(lab: Lab, case: str) -> tuple[Check, int]:
    """Return the check and the number of a case such as max.second:12."""
    name, number = split(case)
    found = next((check for check in lab.checks if check.id == name), None)
    if found is None:
        visible = ", ".join(check.id for check in lab.checks)
        raise UsageError(f"--case {case}: {name} is hidden, or no check of this lab; the visible ones are {visible}")
    return found, number


def _replay(check: Check, number: int, local: Local, how: _How) -> int:
    result = replay(check, number, local)
    last = f"Only case {number} of {check.id} has run. To run all checks: {how.again()}"
    return _alone(result, local.printed(), last, how)
