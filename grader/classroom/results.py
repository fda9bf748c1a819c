"""Results of submissions: what a result belongs to, and how results are stored.

A result belongs to the hashes of a submission, a bundle and the grader. ``submissions/ID/result.json`` is the newest
result. ``result-1.json``, ``result-2.json`` and so on are earlier ones. A killed grader leaves no half result.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import as_json, write
from ..folders import ignore, walk

VERSION = 1
GRADED, UNREADABLE, AMBIGUOUS, VOID, MISSING = "graded", "unreadable", "ambiguous", "void", "missing"
"""The status of a submission. Only a graded one has points; a student without a submission is missing."""
UNFINISHED = "unfinished"
"""The status of a checkout that is a fail, but has no points yet, because the machine kept it from being judged."""
SETTLED = (GRADED, UNREADABLE, AMBIGUOUS)
"""The status of a result that the same submission would have again."""
RESULT, FIRST = "result.json", "first.json"
"""FIRST is a result that is tried once more before it counts."""
_GRADER = Path(__file__).resolve().parent.parent
_SOURCES = (
    *("lab", "worker", "sandbox", "errors.py", "folders.py", "outcomes.py", "proc.py", "classroom/one.py"),
    *("processes/bounds.py", "processes/logs.py", "submission/archive.py", "submission/upload.py"),
)
Found = dict[str, Any]
"""A result as a JSON object."""


def grader_hash(sources: Sequence[str] = _SOURCES) -> str:
    """Return a hash of the sources that can change a result. ``sources``: files and folders below grader/."""
    digest = hashlib.sha256()
    for name in sources:
        place = _GRADER / name
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{path.relative_to(_GRADER)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def hash_of(handed: Sequence[tuple[str, Path]]) -> str:
    """Return a hash of what was handed in: the names and contents of all files."""
    digest = hashlib.sha256()
    for name, top in sorted(handed):
        for path, content in sorted(_contents(top).items()):
            digest.update(os.fsencode(f"{name}/{path}\0") + content)
    return digest.hexdigest()


def _contents(top: Path) -> dict[str, bytes]:
    """Return a hash of each file in a folder, or of the file itself, by its path. The hash of anything else is b""."""
    if not top.is_dir():
        return {".": _digest(str(top), None) if top.is_file() and not top.is_symlink() else b""}
    return {
        level.path(entry.name): _digest(entry.name, level.fd) if entry.is_file(follow_symlinks=False) else b""
        for level in walk(top, ignore)
        for entry in level.others
    }


def _digest(name: str, at: int | None) -> bytes:
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at), "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def fresh(lab: int, key: Mapping[str, str], tier: int, status: str = VOID, why: str = "", mend: str = "") -> Found:
    """Return a result without checks. ``key``: the hashes submission, bundle and grader; ``mend``: what to do."""
    about = {"version": VERSION, "lab": lab, **key, "tier": tier, "status": status, "why": why, "mend": mend}
    return {**about, "notes": [], "checks": []}


def reason(found: Found) -> tuple[str, str]:
    """Return why a result is no grade, and what to do. Earlier versions stored both as one text.

    >>> reason({"why": "2 files; hand in one"}), reason({"why": "2 files", "mend": "hand in one"})
    (('2 files', 'hand in one'), ('2 files', 'hand in one'))
    """
    why, _, mend = (found["why"], "", found["mend"]) if "mend" in found else found["why"].rpartition("; ")
    return why, mend


def sentence(found: Found) -> str:
    """Return why a result is no grade, and what to do, as one text."""
    return "; ".join(filter(None, reason(found)))


def read(path: Path) -> Found | None:
    """Return a stored result, or None if there is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(f"{path} is not a result ({error}); delete it, and run `class` again") from error
    return found if type(found) is dict else None


def earlier(folder: Path) -> list[Found]:
    """Return the earlier results in a folder, oldest first."""
    names = sorted((path for path in folder.glob("result-*.json")), key=lambda path: (len(path.name), path.name))
    return [found for path in names if (found := read(path)) is not None]


def store(folder: Path, found: Found) -> None:
    """Store a result, and keep the one before it. Raises VoidError if the disk is full."""
    folder.mkdir(parents=True, exist_ok=True)
    before, place = read(folder / RESULT), folder / RESULT
    if before is not None and before != found and before["status"] != VOID:
        place.rename(folder / f"result-{len(earlier(folder)) + 1}.json")
    write(place, as_json(found))
    (folder / FIRST).unlink(missing_ok=True)
