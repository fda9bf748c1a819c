"""Find the solution in what a student has handed in: a file, a folder or an archive."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import SubmissionError
from ..folders import ignore, shown, walk
from ..submission.archive import too_long, unpack

MOST_BYTES, MOST_FILES = 20_000_000, 500
"""The maximum size and number of files of a submission."""
ARCHIVES = (".zip", ".tar", ".tgz", ".gz")
_LITTER = ("__MACOSX", "__pycache__")
Files = Sequence[tuple[str, Path]]
"""What was handed in: folders, archives and files, each with the name that it was handed in by."""


class AmbiguousError(SubmissionError):
    """There are several files, and nothing says which one counts."""


@dataclass(frozen=True)
class Chosen:
    """The file that counts. ``note``: why it was taken, if that is not plain."""

    name: str
    path: Path
    note: str = ""


def as_handed(path: Path, hand_in: Sequence[str]) -> Files:
    """Return a single folder, archive or file as what was handed in. A .py file may have any name."""
    return [(hand_in[0] if path.suffix == ".py" and len(hand_in) == 1 and path.is_file() else path.name, path)]


def choose(files: Files, wanted: str, scratch: Path) -> Chosen:
    """Return the solution in what was handed in. ``scratch``: a folder that does not exist, for unpacked archives.

    Raises AmbiguousError, or SubmissionError if there is no such file, or it cannot be read.
    """
    there = _all(files, scratch)
    packed = [(name, path) for name, path in there if path.suffix in ARCHIVES]
    if len(packed) == 1 and not any(name.name == wanted for name, _ in there):
        there = _all([(packed[0][0].name, packed[0][1])], scratch.with_name(f"{scratch.name}-again"))
    notebooks = [path for name, path in there if name.suffix == ".ipynb"]
    if len(notebooks) == 1 and not any(name.name == wanted for name, _ in there):
        return Chosen(notebooks[0].name, notebooks[0])
    found = {path.read_bytes(): (name, path) for name, path in there if name.name == wanted}
    if len(found) > 1:
        said = ", ".join(sorted(str(name) for name, _ in found.values()))
        raise AmbiguousError(f"there are {len(found)} different files {wanted}: {said}; hand in one")
    if not found:
        names = sorted(str(name) for name, _ in there)
        near = difflib.get_close_matches(wanted, [PurePosixPath(name).name for name in names], 1, 0.5)
        said = f"{wanted} is missing; found: {', '.join(names[:5]) or 'nothing'}{' and more' * (len(names) > 5)}"
        raise SubmissionError(f"{said}; {f'rename {near[0]} to {wanted}' if near else f'hand in {wanted}'}")
    ((_, path),) = found.values()
    return Chosen(wanted, path)


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
