"""Every notebook keeps to the conventions and runs top to bottom, unattended and without noise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import lesson_rules as rules
import nbformat
import pytest
from notebook_run import ROOT, run

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    """The notebook in a file, valid by nbformat's own schema."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return notebook


def test_there_are_notebooks() -> None:
    """The folder of notebooks is where it is looked for, and 00 is in it."""
    assert [p.name for p in NOTEBOOKS][:1] == ["00-start-here.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_conventions(path: Path) -> None:
    """A notebook keeps to the conventions."""
    notebook = read(path)
    assert [said for check in rules.CHECKS for said in check(notebook, path)] == []


def test_what_is_needed_twice_lives_in_the_library() -> None:
    """No function of more than four lines stands in two notebooks."""
    assert rules.identical({p.name: read(p) for p in NOTEBOOKS}) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_runs_without_noise(path: Path) -> None:
    """A notebook runs from an empty kernel to its end without an error or a warning."""
    notebook = read(path)
    ran = run(notebook)
    assert ran.error == ""
    assert ran.stderr == []
    assert ran.kernel == ""
    assert list(crooked(notebook)) == []


def crooked(notebook: Any) -> Iterator[str]:
    """Cells that show a table of texts as pandas does, on the right."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            html = "".join(output.get("data", {}).get("text/html", ""))
            if 'class="dataframe"' in html and re.search(r"<td>[^<\d.−-]", html) and "ssl-text" not in html:
                yield f"{rules.name(cell)}: show.tables() comes first"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_every_cell_may_be_run_again(path: Path) -> None:
    """A notebook in which each cell is run twice in a row runs as well: nobody breaks anything by a second click."""
    notebook = read(path)
    again = deepcopy(notebook.cells)
    for cell in again:
        cell["id"] += "-again"
    notebook.cells = [cell for pair in zip(notebook.cells, again, strict=True) for cell in pair]
    assert run(notebook).error == ""


@pytest.mark.slow
def test_the_first_notebook_may_be_run_in_any_order() -> None:
    """As notebook 00 says, each of its cells may be run again: after all the others too, from the last to the first."""
    notebook = read(NOTEBOOKS[0])
    again = deepcopy(notebook.cells[::-1])
    for cell in again:
        cell["id"] += "-again"
    notebook.cells += again
    assert run(notebook).error == ""
