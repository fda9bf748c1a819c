"""A run of a notebook reports every error and everything that is said on standard error."""

from __future__ import annotations

from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_run import RACE, run

CELLS = ["x = 4", "assert x == 4", "print(x)"]


def notebook(*sources: str) -> Any:
    """A notebook of code cells."""
    return new_notebook(cells=[new_code_cell(source) for source in sources], nbformat_minor=5)


@pytest.mark.parametrize("at", range(len(CELLS)))
def test_an_error_in_any_cell_is_an_error_of_the_run(at: int) -> None:
    """An assert that does not hold, wherever it is, fails the run."""
    sources = list(CELLS)
    sources[at] += "\nassert not x"
    assert "AssertionError" in run(notebook(*sources)).error


def test_a_run_hears_everything() -> None:
    """An error, standard error of Python and of a child process, and a plain result are each told apart."""
    quiet = run(notebook("print('out')"))
    assert (quiet.error, quiet.stderr, quiet.kernel) == ("", [], "")
    assert "ZeroDivisionError" in run(notebook("1 / 0")).error
    loud = run(
        notebook("import subprocess, sys\nprint('a', file=sys.stderr)\nsubprocess.run('echo jvm >&2', shell=True)")
    )
    assert loud.error == "" and "jvm" in "".join(loud.stderr) + loud.kernel and "a" in "".join(loud.stderr)


@pytest.mark.parametrize(("said", "heard"), [("WARN: not stopped", True), (RACE, False)])
def test_what_the_kernel_says_when_it_ends(said: str, heard: bool) -> None:
    """It is heard, too, except for the error that ipykernel itself may print then."""
    late = f"import atexit, os\natexit.register(os.write, 2, {said.encode()})"
    assert (said in run(notebook(late)).kernel) == heard
