"""The student's copies: the notebook without cells for teachers, and a search for what students must not have."""

from __future__ import annotations

import copy
import re
from typing import Any

from .checks import CHECKS
from .master import Master
from .regions import regions

TEACHER = "teacher"
"""The tag of cells that are left out of the student's notebook."""
_LONG = 30
"""A line of the solution with this many characters, or two lines in a row, must not be in the student's copy."""


def student_notebook(notebook: Any, teacher: bool = False) -> Any:
    """Return the notebook without outputs and, unless ``teacher``, without cells that have the tag `teacher`."""
    made = copy.deepcopy(notebook)
    made.cells = [cell for cell in made.cells if teacher or TEACHER not in cell.metadata.get("tags", ())]
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return made


def solved(text: str) -> str:
    """Return the solution without the lines that mark its regions."""
    marks = {line for region in regions(text) for line in (region.first, region.last)}
    return "\n".join(line for number, line in enumerate(text.splitlines(), 1) if number not in marks) + "\n"


def leaks(master: Master, files: dict[str, str]) -> list[str]:
    """Return which hidden checks and lines of the solution are in the student's files, which map names to texts.

    checks.py may repeat lines of the solution: its answers are recomputed in plain Python, so it can contain the same
    loops.
    """
    problems = []
    hidden = [check for check in master.checks if check.hidden]
    regional = [line for part in regions(master.solution) for line in _lines(master.solution, part.first, part.last)]
    for name, text in files.items():
        there = set() if name == CHECKS else set(_lines(text))
        what = [
            f"the hidden check {check.id}"
            for check in hidden
            if re.search(rf"""["'`]{re.escape(check.id)}["'`\\]""", text) or check.rule in text
        ]
        what += [f"a line of the solution: {line!r}" for line in regional if line in there]
        problems += [f"{name} (student's copy): contains {one}; leave it out" for one in what]
    return problems


def _lines(text: str, first: int = 0, last: int | None = None) -> list[str]:
    """Return the long lines between two lines, and any two lines in a row, without indentation and comments."""
    lines = [line.strip() for line in text.splitlines()[first : last and last - 1]]
    lines = [line for line in lines if line and not line.startswith("#")]
    pairs = [f"{one}\n{two}" for one, two in zip(lines, lines[1:], strict=False)]
    return [line for line in [*lines, *pairs] if len(line) >= _LONG]
