"""Judge one submission: find the file, start it in a sandbox, and run the checks of the lab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import SubmissionError, UsageError, VoidError, text_of
from ..lab import judge as judges
from ..lab.bundle import Bundle, read_bundle
from ..lab.checks import Check, load
from ..lab.judge import IMPORT, Result, judging, replay, split, start
from ..lab.source import look, put
from ..outcomes import Outcome
from ..sandbox import LAB, Tier, make, own_uid
from ..submission.upload import AmbiguousError, Chosen, Files, choose
from ..worker import Answer, NoValueError, Student, Worker
from .results import AMBIGUOUS, GRADED, UNREADABLE, VOID, Found, fresh

_MOST_NOTES, _LONGEST_NOTE = 100, 300
_TEXT = " is text, not code, and defines "
"""What `child.py` says of a text cell that looks like a part of the solution."""


def judge(task: Mapping[str, Any], scratch: Path) -> Found:
    """Judge the submission of a task of the pool, as `one`."""
    files = [(name, Path(path)) for name, path in task["files"]]
    return one(files, read_bundle(Path(task["bundle"])), task["key"], Tier(**task["tier"]), scratch)


def one(files: Files, bundle: Bundle, key: dict[str, str], tier: Tier, scratch: Path) -> Found:
    """Judge a submission. ``scratch``: an empty folder that is used for this submission only."""
    found = fresh(bundle.number, key, tier.number)
    folder = scratch / "submission"
    folder.mkdir()
    folder.chmod(0o755)
    try:
        module, chosen, read = _handed_in(files, bundle.lab["hand_in"][0], folder, scratch)
        results, why, notes = _judged(module, folder, bundle, tier, scratch)
        odd = [note for note in notes if _TEXT in note]
        for path in folder.iterdir():
            said = [*notes, why, *(result.got for result in results)]
            odd += [f"{path.name} {what}" for what in look(path.read_text("utf-8"), said, bundle.stub)]
    except Exception as error:
        return {**found, **ungraded(error)}
    checks = [_scrubbed(result, scratch).as_json() for result in results]
    about = {"why": why, "notes": [*read, *notes], "left_out": list(chosen.left_out), "look": odd, "checks": checks}
    return {**found, "status": GRADED, **about}


def ungraded(error: Exception) -> Found:
    """Return what an error makes of a submission: its status, why, and what to do.

    A mistake in a lab's code must not end the grading of the others, so it is a status, too.
    """
    if isinstance(error, AmbiguousError | SubmissionError):
        status = AMBIGUOUS if isinstance(error, AmbiguousError) else UNREADABLE
        return {"status": status, "why": error.reason, "mend": error.mend}
    if isinstance(error, VoidError | OSError):
        return {"status": VOID, "why": str(error), "mend": "run the same command again"}
    failed = f"the grader itself failed ({text_of(error)})"
    return {"status": VOID, "why": failed, "mend": "tell the authors of the lab"}


def one_case(files: Files, bundle: Bundle, tier: Tier, scratch: Path, case: str) -> Result:
    """Run one case of a check, such as max.second:12, alone. If it passes, run it again after all that comes before it.

    A result that fails has ``alone`` if only the second run does. Raises UsageError if there is no such case, and
    SubmissionError if the submission cannot be read. ``scratch`` is that of `one`.
    """
    id, number = split(case)
    order = sorted(load(bundle.checks), key=lambda check: check.hidden)
    at = next((at for at, check in enumerate(order) if check.id == id), None)
    if at is None:
        names = ", ".join(check.id for check in order) + "; none of them is hidden" * (not order[-1].hidden)
        raise UsageError(f"--case {case}: there is no check {id!r}; the checks are {names}")
    folder = scratch / "submission"
    folder.mkdir()
    folder.chmod(0o755)
    module, _, _ = _handed_in(files, bundle.lab["hand_in"][0], folder, scratch)
    with _worker(module, folder, bundle, tier, scratch) as worker:
        start(worker)
        found = replay(order[at], number, worker)
        if found.outcome == Outcome.PASS:
            start(worker)
            *_, whole = judging(order[: at + 1], worker, {})
            if whole.result.case == number:
                found = replace(whole.result, alone=True)
    return _scrubbed(found, scratch)


def waited(found: Found) -> bool:
    """Return whether a result could be due to a busy machine, so that the submission is tried once more, alone."""
    return found["status"] == VOID or any(check.get("waited") for check in found["checks"])


def _judged(
    module: str, folder: Path, bundle: Bundle, tier: Tier, scratch: Path
) -> tuple[list[Result], str, list[str]]:
    checks = load(bundle.checks)
    started = partial(_worker, module, folder, bundle, tier)
    with started(scratch) as worker:
        worker.limit(IMPORT)
        try:
            notes = [note[:_LONGEST_NOTE] for note in Student(worker).load()[:_MOST_NOTES]]
        except NoValueError as failed:
            why = f"The module cannot be imported: {failed.answer.why}"
            return [_failed(check, failed.answer) for check in checks], why, []
        return judges.judge(checks, worker, bundle.known, lambda: started(scratch / "again", worker)), "", notes


@contextmanager
def _worker(
    module: str, folder: Path, bundle: Bundle, tier: Tier, scratch: Path, after: Worker | None = None
) -> Iterator[Worker]:
    """Make a worker in a sandbox of its own. ``scratch``: a folder for both that no other worker has."""
    scratch.mkdir(exist_ok=True)
    box = make(tier.number, scratch, folder, LAB, owner=own_uid())
    try:
        with Worker(box, tier, folder, module, scratch, bundle.memory_mib << 20, after) as worker:
            yield worker
    finally:
        box.close()


def _failed(check: Check, answer: Answer) -> Result:
    about = (check.id, check.task, check.rule, check.hidden, answer.kind, check.number)
    return Result(*about, got=answer.why, waited=answer.waited)


def _scrubbed(result: Result, scratch: Path) -> Result:
    """Return a result without the paths of this run."""
    got, other = (text.replace(f"{scratch}/", "") for text in (result.got, result.other))
    return replace(result, got=got, other=other)


def _handed_in(files: Files, wanted: str, folder: Path, scratch: Path) -> tuple[str, Chosen, list[str]]:
    """Copy the solution into the folder. Return the name of the module, what was chosen, and notes.

    Raises SubmissionError.
    """
    chosen = choose(files, wanted, scratch / "unpacked")
    read = put(chosen.path.read_bytes(), chosen.name, folder, wanted)
    return wanted.removesuffix(".py"), chosen, [chosen.note] * bool(chosen.note) + read
