"""Plays a learner who writes into the exercise of a notebook: the solution, the stub, and wrong attempts.

The wrong attempts stand in attempts.toml, by notebook: what the learner writes in place of a part of the solution
(``old`` and ``new``) or of all of it (``code``), and the text that the check must show (``says``).
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lesson_rules as rules
from nbformat.v4 import new_code_cell

ATTEMPTS: dict[str, list[dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("attempts.toml").read_text(encoding="utf-8")
)
TRIED = """
import json, os, warnings
from sharedstate_lite.show.checks import UNATTENDED
from sharedstate_lite.show.written import WRONG

def tried(source):  # in a copy of the notebook's names, by a reader who waits for five seconds, as a first attempt
    WRONG.clear()
    exec(source, scope := {**globals()})
    return repr(eval(%r, scope))


unattended = os.environ.pop(UNATTENDED, None)
with warnings.catch_warnings(action="ignore"):  # such as that of a mean of nothing
    said = [tried(source) for source in json.loads(%r)]
if unattended:
    os.environ[UNATTENDED] = unattended
print(json.dumps(said))
"""
"""A cell that checks what a learner might have written in the cell above."""


@dataclass(frozen=True)
class Exercise:
    """The cell that the learner completes, the cell that checks it, and the folded solution."""

    write: Any
    check: Any
    solution: str

    def attempt(self, wrong: dict[str, str]) -> str:
        """What the learner writes."""
        if "code" in wrong:
            return wrong["code"]
        assert self.solution.count(wrong["old"]) == 1, wrong
        return self.solution.replace(wrong["old"], wrong["new"])


def exercises(notebook: Any) -> list[Exercise]:
    """The exercises of a notebook. A solution gets the name that the check is called with."""
    found = []
    for part in rules.sections(notebook):
        stubs = [cell for cell in part if "write-it" in rules.tags(cell)]
        checks = [cell for cell in part if "check-it" in rules.tags(cell)]
        for write, check in zip(stubs, checks, strict=True):
            after = part[part.index(check) :]
            solution = next(
                s for cell in after if cell.cell_type == "markdown" for s in rules.folded_solutions(cell.source)
            )
            (name,) = re.findall(r"^check\((\w+)\)$", check.source, re.M)
            found.append(Exercise(write, check, re.sub(r"\bsolution\b", name, solution)))
    return found


def solved(notebook: Any, attempts: list[dict[str, str]]) -> list[Any]:
    """Write the solution into the exercise, and let a cell behind its check try the stub and the attempts.

    Return these cells.
    """
    cells = []
    for each in exercises(notebook):
        sources = [each.write.source, *map(each.attempt, attempts)]
        each.write.source = each.solution
        cells.append(new_code_cell(TRIED % (each.check.source, json.dumps(sources))))
        notebook.cells.insert(notebook.cells.index(each.check) + 1, cells[-1])
    return cells
