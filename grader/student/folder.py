"""A student's copy of a lab: the folder in which `check` runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..lab.checks import CHECKS, Check, load

_ABOUT = "lab.json"


@dataclass(frozen=True)
class Lab:
    """A lab as its folder describes it."""

    module: str
    """The name of the student's module, such as "solution"."""
    tasks: Mapping[int, str]
    """What each task asks for, such as {1: "net"}."""
    checks: list[Check]
    """The visible checks."""
    advice: frozenset[str]
    """Checks without points. `check` goes on after them."""
    hints: Mapping[str, Mapping[str, str]]
    """What is wrong with known wrong solutions, for each check by the fingerprint of their answers."""
    hidden: int
    """The number of hidden checks."""
    hidden_points: float
    points: float
    """The points of all checks."""

    def last(self, passed: int, run: int) -> str:
        """Return the line that ends a run of the checks. ``passed`` and ``run``: numbers of visible checks.

        Example: visible: 10 of 10 pass. 5 hidden checks decide 26 of 100 points.
        """
        visible = len(self.checks)
        rest = f", {visible - run} not run" if run < visible else ""
        decide = "1 hidden check decides" if self.hidden == 1 else f"{self.hidden} hidden checks decide"
        return f"visible: {passed} of {visible} pass{rest}. {decide} {self.hidden_points:g} of {self.points:g} points."


def read(folder: Path, solved: bool = True) -> Lab:
    """Read a folder. Raises UsageError if it contains no lab, or only a part of one.

    ``solved``: whether the solution must be there.
    """
    place = folder / _ABOUT
    try:
        said = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        example = "give the folder with solution.py: python -m grader check FOLDER"
        raise UsageError(f"{folder} contains no lab ({_ABOUT} is missing); {example}") from None
    except ValueError as error:
        raise UsageError(f"{place} is damaged: {error}; take this file from the lab's archive again") from error
    missing = [name for name in (*said["hand_in"][: int(solved)], CHECKS) if not (folder / name).is_file()]
    if missing:
        near = ", ".join(sorted(path.name for path in folder.glob("*.py"))) or "none"
        raise UsageError(f"{folder} has no {missing[0]} (its .py files: {near}); rename or restore the file")
    points, hidden = said["points"], said["hidden"]
    return Lab(
        module=Path(said["hand_in"][0]).stem,
        tasks={int(number): name for number, name in said["tasks"].items()},
        checks=load(folder / CHECKS),
        advice=frozenset(name for name, number in points.items() if not number),
        hints=said.get("hints", {}),
        hidden=hidden["checks"],
        hidden_points=hidden["points"],
        points=sum(points.values()) + hidden["points"],
    )
