"""Judge one submission: find the file, start it in a sandbox, and run the checks of the lab."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import SubmissionError, UsageError, VoidError, text_of
from ..lab.bundle import Bundle
from ..lab.checks import Check, load
from ..lab.judge import IMPORT, PASS, Result, judge, judging, replay, split, start
from ..sandbox import LAB, Tier, make
from ..worker import Answer, NoValueError, Student, Worker
from .results import AMBIGUOUS, GRADED, UNREADABLE, VOID, Found, fresh
from .upload import AmbiguousError, Chosen, Files, choose

_MOST_NOTES, _LONGEST_NOTE = 100, 300


def one(files: Files, bundle: Bundle, key: dict[str, str], tier: Tier, scratch: Path) -> Found:
    """Judge a submission. ``scratch``: an empty folder that is used for this submission only."""
    found = fresh(bundle.number, key, tier.number)
    folder = scratch / "submission"
    folder.mkdir()
    folder.chmod(0o755)
    try:
        module, chosen = _handed_in(files, bundle.lab["hand_in"][0], folder, scratch)
        results, why, notes = _judged(module, folder, bundle, tier, scratch)
    except AmbiguousError as error:
        return {**found, "status": AMBIGUOUS, "why": str(error)}
    except SubmissionError as error:
        return {**found, "status": UNREADABLE, "why": str(error)}
    except (VoidError, OSError) as error:
        return {**found, "status": VOID, "why": f"{error}; run the same command again"}
    except Exception as error:  # a mistake in a check must not end the grading of the others
        said = f"the grader itself failed ({text_of(error)}); tell the authors of the lab"
        return {**found, "status": VOID, "why": said}
    checks = [_scrubbed(result, scratch).as_json() for result in results]
    notes = [chosen.note] * bool(chosen.note) + notes
    about = {"why": why, "notes": notes, "left_out": list(chosen.left_out), "checks": checks}
    return {**found, "status": GRADED, **about}


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
    module, _ = _handed_in(files, bundle.lab["hand_in"][0], folder, scratch)
    with _worker(module, folder, bundle, tier, scratch) as worker:
        start(worker)
        found = replay(order[at], number, worker)
        if found.outcome == PASS:
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
        return judge(checks, worker, bundle.known, lambda: started(scratch / "again")), "", notes


@contextmanager
def _worker(module: str, folder: Path, bundle: Bundle, tier: Tier, scratch: Path) -> Iterator[Worker]:
    """Make a worker in a sandbox of its own. ``scratch``: a folder for both that no other worker has."""
    scratch.mkdir(exist_ok=True)
    box = make(tier.number, scratch, folder, LAB)
    try:
        with Worker(box, tier, folder, module, scratch, bundle.memory_mib << 20) as worker:
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


def _handed_in(files: Files, wanted: str, folder: Path, scratch: Path) -> tuple[str, Chosen]:
    """Copy the solution into the folder. Return the name of the module, and what was chosen. Raises SubmissionError."""
    chosen, module = choose(files, wanted, scratch / "unpacked"), wanted.removesuffix(".py")
    if chosen.name.lower().endswith(".ipynb"):
        (folder / f"{module}.ipynb").write_bytes(_notebook(chosen.name, chosen.path))
    else:
        (folder / wanted).write_bytes(_content(wanted, chosen.path))
    return module, chosen


def _notebook(name: str, path: Path) -> bytes:
    """Return a notebook of format 4. Raises SubmissionError if it is none."""
    content = path.read_bytes()
    try:
        found = json.loads(content.decode("utf-8-sig"))
        cells, version = found.get("cells"), found.get("nbformat")
    except (ValueError, RecursionError, AttributeError) as error:
        raise SubmissionError(f"{name} is not a notebook: {error}; save it again and hand in that") from None
    if version != 4 or type(cells) is not list:
        raise SubmissionError(f"{name} has format {version}; open it in JupyterLab and save it in format 4")
    return content


def _content(wanted: str, path: Path) -> bytes:
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        said = f"{wanted} is not UTF-8: byte {error.start + 1}, in line {line}"
        raise SubmissionError(f"{said}; save it as UTF-8") from None
    return content
