"""The bundle of a lab: what a class is graded with. It is a folder that `lab build` writes.

    checks.py      the visible checks
    hidden.py      the hidden checks
    lab.json       number, title, hand_in, memory_mib, tasks, checks, known
    hash           a hash of these three files
    points.toml    the points of each check; not in the hash, so that new points run nothing again
    stub.py        what students start from; not in the hash

``known`` in lab.json maps the id of a check to the fingerprints of wrong solutions, and these to what is wrong.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .checks import CHECKS, HIDDEN

HASHED = (CHECKS, HIDDEN, "lab.json")
STUB = "stub.py"


@dataclass(frozen=True)
class Bundle:
    """A bundle. ``checks`` is the path of its checks.py, ``lab`` the content of lab.json."""

    checks: Path
    hash: str
    number: int
    title: str
    memory_mib: int
    known: dict[str, dict[str, str]]
    points: dict[str, float]
    lab: dict[str, Any]
    stub: str = ""
    """stub.py, or "" if an earlier version has built the bundle."""


def digest(files: dict[str, str]) -> str:
    """Return the hash of the texts of the checks and lab.json."""
    whole = hashlib.sha256()
    for name in HASHED:
        data = files[name].encode()
        whole.update(b"%s %d\n" % (name.encode(), len(data)) + data)
    return whole.hexdigest()


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle. Raises UsageError if the folder is none, or if its checks have been changed."""
    if (folder / "bundle" / "lab.json").is_file():
        folder = folder / "bundle"
    if not (folder / "lab.json").is_file() or not (folder / "hash").is_file():
        raise UsageError(f"{folder} is no bundle of a lab; build it: python -m grader lab build LAB --out DIR")
    try:
        files = {name: (folder / name).read_text(encoding="utf-8") for name in HASHED}
        said = (folder / "hash").read_text(encoding="utf-8").strip()
        points = tomllib.loads((folder / "points.toml").read_text(encoding="utf-8"))["points"]
        stub = (folder / STUB).read_text(encoding="utf-8") if (folder / STUB).is_file() else ""
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{folder}: cannot be read ({error}); build it again: python -m grader lab build") from None
    if said != digest(files):
        changed = f"{', '.join(HASHED[:-1])} or {HASHED[-1]} has been changed"
        raise UsageError(f"{folder}: {changed}; build it again: python -m grader lab build")
    lab = json.loads(files["lab.json"])
    if lost := [one["id"] for one in lab["checks"] if one["id"] not in points]:
        raise UsageError(f'{folder}/points.toml has no points for {lost[0]!r}\n  example: "{lost[0]}" = 4')
    common = {name: lab[name] for name in ("number", "title", "memory_mib", "known")}
    return Bundle(checks=folder / CHECKS, hash=said, points=points, lab=lab, stub=stub, **common)
