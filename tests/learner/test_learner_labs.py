"""A learner solves a lab: its notebook runs with the stub, with wrong solutions and with the solution beside it.

All runs share a kernel, as if Run All was clicked after each change of solution.py. A build of a lab (tests/labs) runs
the cells for teachers, too, and proves what each check says.
"""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from notebook_run import ROOT, run

from grader.files import write_all
from grader.lab.build import GRADER, student
from grader.lab.master import read
from grader.student.files import FILES

LABS = sorted(path.parent for path in (ROOT / "labs").glob("*/lab.toml"))
WRITE = """import sys
from pathlib import Path
sys.dont_write_bytecode = True
Path("solution.py").write_text({text!r}, encoding="utf-8")
sys.modules.pop("solution", None)"""


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_no_solution_stops_the_notebook(lab: Path, tmp_path: Path) -> None:
    """No cell raises with the stub, the first and the last of the wrong solutions, and the solution."""
    master = read(lab, tmp_path)
    folder = tmp_path / "student"
    grader = {f"grader/{name}": (GRADER / name).read_text(encoding="utf-8") for name in FILES}
    write_all(folder, {**student(master), **grader})
    notebook = nbformat.read(folder / "lab.ipynb", as_version=nbformat.NO_CONVERT)
    texts = [master.stub, master.mutants[0].text, master.mutants[-1].text, master.solution]
    cells = notebook.cells
    notebook.cells = []
    for at, text in enumerate(texts):
        again = deepcopy(cells)
        for cell in again:
            cell["id"] += f"-{at}"
        notebook.cells += [new_code_cell(WRITE.format(text=text)), *again]
    assert run(notebook, folder, attended=True).error == ""
    said = [cell.outputs for cell in notebook.cells if re.fullmatch(r"check\(\d\)", cell.source.splitlines()[-1])]
    assert len(said) % len(texts) == 0 and all(said)
