"""Judge one submission: find the file, start it in a sandbox, and run the checks of the lab."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from ..errors import SubmissionError, UsageError, VoidError, text_of
from ..folders import ignore, shown, walk
from ..lab.bundle import Bundle
from ..lab.checks import Check, load
from ..lab.judge import IMPORT, PASS, Result, judge, judging, replay, split, start
from ..sandbox import LAB, Tier, make
from ..submission.archive import too_long, unpack
from ..worker import Answer, NoValueError, Student, Worker
from .results import AMBIGUOUS, GRADED, UNREADABLE, VOID, Found, fresh

MOST_BYTES, MOST_FILES = 20_000_000, 500
"""The maximum size and number of files of a submission."""
ARCHIVES = (".zip", ".tar", ".tgz", ".gz")
_LITTER = ("__MACOSX", "__pycache__")
_MOST_NOTES, _LONGEST_NOTE = 100, 300
Files = Sequence[tuple[str, Path]]
"""What was handed in: folders, archives and files, each with the name that it was handed in by."""


class AmbiguousError(SubmissionError):
    """There are several files, and nothing says which one counts."""


def as_handed(path: Path, hand_in: Sequence[str]) -> Files:
    """Return a single folder, archive or file as what was handed in. A .py file may have any name."""
    return [(hand_in[0] if path.suffix == ".py" and len(hand_in) == 1 and path.is_file() else path.name, path)]


def one(files: Files, bundle: Bundle, key: dict[str, str], tier: Tier, scratch: Path) -> Found:
    """Judge a submission. ``scratch``: an empty folder that is used for this submission only."""
    found = fresh(bundle.number, key, tier.number)
    folder = scratch / "submission"
    folder.mkdir()
    folder.chmod(0o755)
    try:
        module = _handed_in(files, bundle.lab["hand_in"], folder, scratch)
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
    return {**found, "status": GRADED, "why": why, "notes": notes, "checks": checks}


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
    module = _handed_in(files, bundle.lab["hand_in"], folder, scratch)
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


def _handed_in(files: Files, hand_in: Sequence[str], folder: Path, scratch: Path) -> str:
    """Copy the files of the lab into the folder, and return the name of the module. Raises SubmissionError."""
    there = _all(files, scratch / "unpacked")
    packed = [(name, path) for name, path in there if path.suffix in ARCHIVES]
    if len(packed) == 1 and not any(name.name in hand_in for name, _ in there):
        there = _all([(packed[0][0].name, packed[0][1])], scratch / "unpacked-again")
    names, module = [name.name for name, _ in there], hand_in[0].removesuffix(".py")
    notebooks = [(name.name, path) for name, path in there if name.suffix == ".ipynb"]
    if len(notebooks) == 1 and len(hand_in) == 1 and hand_in[0] not in names:
        (folder / f"{module}.ipynb").write_bytes(_notebook(*notebooks[0]))
        return module
    for wanted in hand_in:
        (folder / wanted).write_bytes(_content(wanted, there))
    return module


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


def _content(wanted: str, there: list[tuple[PurePosixPath, Path]]) -> bytes:
    found = {path.read_bytes(): name for name, path in there if name.name == wanted}
    if len(found) > 1:
        said = ", ".join(sorted(map(str, found.values())))
        raise AmbiguousError(f"there are {len(found)} different files {wanted}: {said}; hand in one")
    if not found:
        names = sorted(str(name) for name, _ in there)
        near = difflib.get_close_matches(wanted, [PurePosixPath(name).name for name in names], 1, 0.5)
        said = f"{wanted} is missing; found: {', '.join(names[:5]) or 'nothing'}{' and more' * (len(names) > 5)}"
        raise SubmissionError(f"{said}; {f'rename {near[0]} to {wanted}' if near else f'hand in {wanted}'}")
    (content,) = found
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        said = f"{wanted} is not UTF-8: byte {error.start + 1}, in line {line}"
        raise SubmissionError(f"{said}; save it as UTF-8") from None
    return content


def _all(files: Files, scratch: Path) -> list[tuple[PurePosixPath, Path]]:
    """Return the names and paths of all files in what was handed in. Archives are unpacked."""
    found = []
    for name, path in files:
        if path.is_dir():
            found += list(_inside(path))
        elif path.suffix in ARCHIVES:
            scratch.mkdir(exist_ok=True)
            place = scratch / str(len(list(scratch.iterdir())))
            place.mkdir()
            unpack(path, place, MOST_BYTES, MOST_FILES)
            found += list(_inside(place))
        else:
            found.append((PurePosixPath(name), path))
    sizes = [path.stat().st_size for _, path in found]
    if len(found) > MOST_FILES or sum(sizes) > MOST_BYTES:
        said = f"the submission has more than {MOST_BYTES:,} bytes or {MOST_FILES} files"
        raise SubmissionError(f"{said}; leave out data files")
    return found


def _inside(top: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    for level in walk(top, ignore):
        level.folders = sorted((one for one in level.folders if _counts(one.name)), key=lambda one: one.name)
        for entry in sorted(level.others, key=lambda one: one.name):
            if not _counts(entry.name):
                continue
            path = level.path(entry.name)
            if why := too_long(path):
                raise SubmissionError(f"{why}; hand in the file itself")
            if not entry.is_file(follow_symlinks=False):
                raise SubmissionError(f"{shown(entry.name)!r} is neither a file nor a folder; hand in the file itself")
            yield PurePosixPath(path), top / path


def _counts(name: str) -> bool:
    return name not in _LITTER and not name.startswith(".")
