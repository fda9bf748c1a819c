"""A folder that `check` can run in: a student's copy of a lab, or the master in labs/ (for its author)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..lab.checks import Check, load

_COPY, _MASTER = "lab.json", "lab.toml"


@dataclass(frozen=True)
class Lab:
    """A lab as its folder describes it."""

    title: str
    module: str
    """The name of the student's module, such as "solution"."""
    tasks: Mapping[int, str]
    """What each task asks for, such as {1: "net"}."""
    checks: list[Check]
    known: Mapping[str, Mapping[str, str]]
    """What is wrong with known wrong solutions: {check: {fingerprint: says}}."""
    hidden: int
    """The number of hidden checks."""
    hidden_points: float
    points: float
    """The points of all checks."""
    advice: frozenset[str] = frozenset()
    """Checks without points. `check` goes on after them."""

    def last(self, passed: int, run: int) -> str:
        """Return the line that ends every output. ``passed`` and ``run``: numbers of visible checks.

        Example: visible: 10 of 10 pass. 5 hidden checks decide 26 of 100 points.
        """
        visible = sum(not check.hidden for check in self.checks)
        rest = f", {visible - run} not run" if run < visible else ""
        decide = "1 hidden check decides" if self.hidden == 1 else f"{self.hidden} hidden checks decide"
        return f"visible: {passed} of {visible} pass{rest}. {decide} {self.hidden_points:g} of {self.points:g} points."


def read(folder: Path) -> Lab:
    """Read a folder. Raises UsageError if it contains no lab, or only a part of one."""
    place = next((folder / name for name in (_COPY, _MASTER) if (folder / name).is_file()), None)
    if place is None:
        raise UsageError(
            f"{folder} contains no lab ({_COPY} is missing); give the folder with solution.py: "
            "python -m grader check FOLDER"
        )
    text = place.read_text(encoding="utf-8")
    try:
        said: dict[str, Any] = json.loads(text) if place.name == _COPY else tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{place} is damaged: {error}; take this file from the lab's archive again") from error
    missing = [name for name in (*said["hand_in"], "checks.py") if not (folder / name).is_file()]
    if missing:
        near = ", ".join(sorted(path.name for path in folder.glob("*.py"))) or "none"
        raise UsageError(f"{folder} has no {missing[0]} (its .py files: {near}); rename or restore the file")
    checks = load(folder / "checks.py")
    points: dict[str, float] = said.get("points", {})
    if place.name == _COPY:
        hidden, decided = said["hidden"]["checks"], said["hidden"]["points"]
        total = sum(points.values()) + decided
    else:
        names = [check.id for check in checks if check.hidden]
        hidden, decided, total = len(names), sum(points.get(name, 0) for name in names), sum(points.values())
    advice = frozenset(name for name, number in points.items() if not number)
    tasks = {int(number): name for number, name in said["tasks"].items()}
    module = Path(said["hand_in"][0]).stem
    return Lab(said["title"], module, tasks, checks, said.get("known", {}), hidden, decided, total, advice)
