"""A learner changes a cell and runs all: nothing stops.

Two changes for each notebook stand in changes.toml. Both runs share a kernel, as if Run All was clicked twice. Three
notebooks are changed by `make test`; the others are slow: `make slow ARGS="tests/learner"`.
"""

from __future__ import annotations

import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import lesson_rules as rules
import nbformat
import pytest
from notebook_run import ROOT, run

CHANGES = tomllib.loads(Path(__file__).with_name("changes.toml").read_text(encoding="utf-8"))
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
FAST = ("02-shared-state", "03b-races", "18-entities")


def read(name: str) -> Any:
    """A notebook."""
    return nbformat.read(NOTEBOOKS[name], as_version=nbformat.NO_CONVERT)


def places(notebook: Any) -> dict[str, Any]:
    """The first cell in sight behind the set-up, and the one below "Change one thing"."""
    open_ = [cell for cell in rules.code(notebook) if not rules.HIDDEN & {*rules.tags(cell)}]
    found = {"first": next(cell for cell in open_ if not cell.source.startswith("# Set up"))}
    for at, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown" and "Change one thing" in cell.source:
            found["change"] = next(each for each in notebook.cells[at + 1 :] if each in open_)
    return found


def test_each_notebook_is_changed() -> None:
    """Each notebook has both changes in each of its places."""
    assert {name: {*places(read(name))} for name in NOTEBOOKS} == {name: {*each} for name, each in CHANGES.items()}
    assert {len(ways) for each in CHANGES.values() for ways in each.values()} == {2}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_only_its_check_reads_an_exercise(name: str) -> None:
    """No other cell reads what the learner writes, so what goes through the check goes through the notebook."""
    written: set[str] = set()
    for cell in rules.code(read(name)):
        flow = rules.Flow(cell.source)
        if "check-it" not in rules.tags(cell):
            assert not written & flow.reads.union(*flow.inside.values()), cell.source
        written = written - flow.binds | (flow.binds if "write-it" in rules.tags(cell) else set())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in NOTEBOOKS]
)
def test_a_change_stops_nothing(name: str) -> None:
    """With a reader, all cells run after each of the changes."""
    notebook = read(name)
    runs = []
    for way in range(2):
        changed = deepcopy(notebook)
        for place, cell in places(changed).items():
            old, new = CHANGES[name][place][way]
            assert cell.source.count(old) == 1
            cell.source = cell.source.replace(old, new)
        for cell in changed.cells:
            cell["id"] += f"-{way}"
        runs.append(changed.cells)
    notebook.cells = sum(runs, [])
    assert run(notebook, attended=True).error == ""
