"""The learner's copies of the lessons, in which JupyterLab works.

A copy is never overwritten once the learner has changed it. A lesson is *changed* if its cells are: outputs and what
JupyterLab itself writes into a notebook do not count. Beside the copies are links to the kit's other folders, so that
each relative link and path in a lesson works in its copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from sharedstate_lite.errors import Error
from sharedstate_lite.system.cache import checkout
from sharedstate_lite.system.notes import note
from sharedstate_lite.system.work import RECORD, cells, read_record, replace, write_record

LESSONS = ("notebooks", "labs")
LINKED = (
    "bench",
    "data",
    "docs",
    "grader",
    "sharedstate_lite",
    "tests",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
)
LEFT_OUT = ("__pycache__", "ruff.toml")
PACKAGED = Path(__file__).parents[1] / "kit"
"""The lessons in a package that was installed from a wheel."""


def copy_lessons(target: Path, kit: Path | None = None) -> None:
    """Copy the lessons of ``kit`` to ``target``, or bring the copies there up to date.

    By default, ``kit`` is this checkout, or the installed package.

    | the kit's lesson since it was copied | the learner's copy | what happens |
    |---|---|---|
    | the same | any | the copy stays |
    | changed | as delivered | the new lesson replaces it |
    | changed | changed | the new lesson arrives beside it, as ``NAME.new.ipynb``, and a note says so |
    | any | missing | the lesson is copied |

    Raises Error if the kit has no lessons, and OSError if the folder cannot be written.
    """
    kit = kit or checkout() or PACKAGED
    if not (kit / LESSONS[0]).is_dir():
        raise Error(f"{kit} has no lessons; install the kit from a wheel, or clone it and run make lab there")
    found = read_record(target / RECORD).items()
    record = {key: each for key, each in found if isinstance(each, list) and len(each) == 2}
    target.mkdir(parents=True, exist_ok=True)
    linked = [each for each in LINKED if (kit / each).exists()]
    folders = [*LESSONS, *(each for each in linked if not _linked(kit / each, target / each))]
    try:
        for source in (each for folder in folders for each in _files(kit / folder)):
            place = target / source.relative_to(kit)
            _update(source, place, place.relative_to(target).parent, record)
    finally:
        write_record(target / RECORD, record)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that belong to the kit, or the file itself."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part in LEFT_OUT for part in inside):
            yield path


def _update(source: Path, place: Path, folder: Path, record: dict[str, list[str]]) -> None:
    """Bring one copy up to date. ``record`` maps each copy to the digests of the lesson that was copied."""
    key, now = str(folder / place.name), _digests(source)
    known = record.get(key, ["", ""])
    if place.exists() and now != known:
        mine = _digests(place)[1]
        if mine not in (known[1], now[1]):
            new = _beside(place, folder, record, now[1])
            _copy(source, new)
            record[key] = record[str(folder / new.name)] = now  # so it arrives once
            note(f"{place} was changed by you and by the kit: yours stays, and the kit's is {new.name} beside it")
            return
    if not place.exists() or (now != known and known[1]):
        _copy(source, place)
    record[key] = now


def _beside(place: Path, folder: Path, record: dict[str, list[str]], text: str) -> Path:
    """Return the path for a lesson beside a changed copy: NAME.new.ipynb, or NAME.new2.ipynb if that was changed."""
    count = 1
    while True:
        new = place.with_name(f"{place.stem}.new{'' if count == 1 else count}{place.suffix}")
        if not new.exists() or _digests(new)[1] in (text, record.get(str(folder / new.name), ["", ""])[1]):
            return new
        count += 1


def _copy(source: Path, place: Path) -> None:
    replace(place, source.read_bytes())
    shutil.copymode(source, place)


def _digests(path: Path) -> list[str]:
    """Return two digests: of a file, and of what a learner changes in it, which for a notebook is its cells' text."""
    data = text = path.read_bytes()
    if path.suffix == ".ipynb":
        with contextlib.suppress(ValueError):  # a damaged notebook is no longer what was delivered
            text = json.dumps([[each["cell_type"], each["source"]] for each in cells(data)]).encode()
    return [hashlib.sha256(each).hexdigest() for each in (data, text)]


def _linked(source: Path, place: Path) -> bool:
    """Make a link to a folder or file of the kit. Return False if it must be copied, because there are no links here.

    Links are relative, so that a folder that is copied to another checkout has the links of that one.
    """
    if place.is_symlink() and not place.exists():
        place.unlink()
    try:
        if not os.path.lexists(place):
            place.symlink_to(os.path.relpath(source, place.parent), target_is_directory=source.is_dir())
    except (OSError, NotImplementedError):
        return False
    return place.is_symlink()
