"""Find the solution in what a student has handed in: a file, a folder or an archive.

Names that browsers, editors and systems change still count, if there is no doubt which file is meant.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from ..errors import SubmissionError
from ..folders import ignore, shown, walk
from .archive import ENVIRONMENT, Room, counts, too_long, unpack

MOST_BYTES, MOST_FILES = 20_000_000, 500
"""The maximum size and number of files of a submission."""
ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".rar", ".7z")
"""The last two cannot be unpacked, and are named."""
_PYTHON, _NOTEBOOK = (".py", ".py.txt"), ".ipynb"
_TEXT = ".txt"
_CHECKS, _GRADER = "checks.py", "grader"
"""Python in the student's copy of a lab, besides the solution."""
Files = Sequence[tuple[str, Path]]
"""What was handed in: folders, archives and files, each with the name that it was handed in by."""
_Named = list[tuple[PurePosixPath, Path]]


class AmbiguousError(SubmissionError):
    """There are several files, and nothing says which one counts."""


@dataclass(frozen=True)
class Chosen:
    """The file that counts."""

    name: str
    path: Path
    note: str = ""
    """Why it was taken, if it does not have the name that was asked for, or others have it, too; and ``left_out``."""
    left_out: Sequence[str] = ()
    """Sentences on Python files that it imports, which are not used."""


def packed(name: str | PurePath) -> bool:
    """Return whether this is the name of an archive."""
    return PurePosixPath(name).suffix.lower() in ARCHIVES


def is_submission(name: str, hand_in: Sequence[str] = ()) -> bool:
    """Return whether a file with this name can be a submission. ``hand_in``: the files that were asked for."""
    return packed(name) or name.lower().endswith(_TEXT if _texts(hand_in) else (*_PYTHON, _NOTEBOOK))


def _texts(hand_in: Sequence[str]) -> bool:
    """Return whether texts were asked for, and no Python."""
    return bool(hand_in) and all(name.endswith(_TEXT) for name in hand_in)


def as_handed(path: Path, hand_in: Sequence[str]) -> Files:
    """Return a single folder, archive or file as what was handed in. A .py file, or a text, may have any name."""
    may = _TEXT if _texts(hand_in) else ".py"
    return [(hand_in[0] if path.suffix.lower() == may and path.is_file() else path.name, path)]


def choose(files: Files, wanted: str, scratch: Path) -> Chosen:
    """Return the solution in what was handed in. ``scratch``: a folder that does not exist, for unpacked archives.

    Taken, in this order: ``wanted``; of several, the one on top; a variant of its name, such as "Solution (1).py"; the
    only Python file; the only notebook. Without the first or a variant, archives are opened, and one archive in them.
    Raises AmbiguousError, or SubmissionError if there is no such file, or it cannot be read.
    """
    there: _Named = []
    for name, path in files:
        there += list(_inside(path)) if path.is_dir() else [(PurePosixPath(name), path)]
    room = Room(MOST_BYTES, MOST_FILES)
    for level in range(2):
        archives = {path for name, path in there if packed(name)}
        if any(_is_variant(name, wanted) for name, _ in there) or len(archives) > (1 if level else MOST_FILES):
            break
        there = [one for one in there if one[1] not in archives]
        for number, path in enumerate(sorted(archives)):
            place = scratch / f"{level}-{number}"
            place.mkdir(parents=True)
            there += list(_inside(unpack(path, place, tidy=True, room=room)))
    if len(there) > MOST_FILES or sum(path.stat().st_size for _, path in there) > MOST_BYTES:
        said = f"the submission has more than {MOST_BYTES:,} bytes or {MOST_FILES} files"
        raise SubmissionError(said, "leave out data files")
    (taken, path), note = _chosen(there, wanted)
    left_out = [f"{name} was left out: only {wanted} is used." for name in _imported(taken, path, there)]
    return Chosen(taken.name, path, " ".join(filter(None, [note, *left_out])), left_out)


def _imported(taken: PurePosixPath, path: Path, there: _Named) -> list[str]:
    """Return the names of Python files, and of folders with some, beside a module that seems to import them.

    The module is not parsed, because it can be large or nested.
    """
    beside = [name.relative_to(taken.parent).parts for name, _ in there if taken.parent in name.parents]
    found, content = [], path.read_bytes()
    for name in sorted({parts[0] for parts in beside if parts[-1].endswith(".py")} - {taken.name}):
        stem = re.escape(name.removesuffix(".py").encode())
        if re.search(rb"^[ \t]*(from[ \t]+|import[ \t][^#\n]*\b)" + stem + rb"\b", content, re.M):
            found.append(name)
    return found


def _chosen(there: _Named, wanted: str) -> tuple[tuple[PurePosixPath, Path], str]:
    """Return the file that counts, and why if it does not have the name ``wanted`` alone."""
    if called := _different(one for one in there if one[0].name == wanted):
        depth = min(len(name.parts) for name, _ in called)
        top = [one for one in called if len(one[0].parts) == depth]
        if len(top) > 1:
            raise AmbiguousError(f"there are {len(called)} different files {wanted}: {_listed(called)}", "hand in one")
        return top[0], f"There are {len(called)} files {wanted}. The one on top was taken." * (len(called) > 1)
    python = _different(one for one in there if _is_kind(one[0], wanted))
    notebooks = _different(one for one in there if one[0].suffix.lower() == _NOTEBOOK and not _texts([wanted]))
    if variants := [one for one in python if _is_variant(one[0], wanted)]:
        if len(variants) > 1:
            said = f"there are {len(variants)} different files that can be {wanted}: {_listed(variants)}"
            raise AmbiguousError(said, f"hand in one, with the name {wanted}")
        return variants[0], f"{variants[0][0].name} was taken as {wanted}."
    if python and notebooks:
        said = f"there is no {wanted}, but Python and a notebook: {_listed([*python, *notebooks])}"
        raise AmbiguousError(said, f"hand in {wanted}")
    if len(python) == 1:
        return python[0], f"The only {'text' if _texts([wanted]) else 'Python'} file was taken as {wanted}."
    if len(notebooks) == 1:
        return notebooks[0], ""
    near = difflib.get_close_matches(wanted, [name.name for name, _ in python], 1, 0.8)
    mend = f"rename {near[0]} to {wanted}" if near else f"hand in {wanted}"
    raise SubmissionError(f"{wanted} is missing; found: {_listed(there) or 'nothing'}", mend)


def _different(named: Iterator[tuple[PurePosixPath, Path]]) -> _Named:
    """Return one file for each content."""
    return list({path.read_bytes(): (name, path) for name, path in named}.values())


def _listed(named: _Named) -> str:
    names = sorted(str(name) for name, _ in named)
    return f"{', '.join(names[:5])}{' and more' * (len(names) > 5)}"


def _is_kind(name: PurePosixPath, wanted: str) -> bool:
    """Return whether a file is Python of the student, or a text if a text is wanted."""
    if _texts([wanted]):
        return name.suffix.lower() == _TEXT
    return name.name.lower().endswith(_PYTHON) and name.name != _CHECKS and _GRADER not in name.parts[:-1]


def _is_variant(name: PurePosixPath, wanted: str) -> bool:
    """Return whether a file has the name ``wanted``, or what browsers, editors and systems make of it."""
    stem, suffix = (re.escape(part) for part in (PurePosixPath(wanted).stem, PurePosixPath(wanted).suffix))
    return re.fullmatch(rf"{stem}( ?\(\d+\)|-\d+)?{suffix}(\.txt)?", name.name, re.I) is not None


def _inside(top: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    for level in walk(top, ignore):
        level.folders = sorted((one for one in level.folders if counts(one.name)), key=lambda one: one.name)
        if any(one.name == ENVIRONMENT for one in level.others):
            level.folders = []
        for entry in sorted(level.others, key=lambda one: one.name):
            if not counts(entry.name):
                continue
            path = level.path(entry.name)
            if why := too_long(path):
                raise SubmissionError(why, "hand in the file itself")
            if not entry.is_file(follow_symlinks=False):
                raise SubmissionError(
                    f"{shown(entry.name)!r} is neither a file nor a folder", "hand in the file itself"
                )
            yield PurePosixPath(path), top / path
