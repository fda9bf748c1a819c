"""A notebook handed in in place of a module: what the student's process keeps of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.student.local import Local
from grader.worker import NoValueError, Student

Make = Callable[..., Student]


def notebook(*cells: str, **more: Any) -> str:
    """A notebook of code cells, with outputs and ids that must not matter."""
    made = [
        {"cell_type": "code", "id": "6", "source": text, "metadata": {"points": 9}, "outputs": ["all passed"]}
        for text in cells
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made, **more})


@pytest.fixture
def student(tmp_path: Path) -> Make:
    """A student whose notebook has this text."""
    locals = []

    def made(text: str) -> Student:
        (tmp_path / "solution.ipynb").write_text(text, encoding="utf-8")
        locals.append(Local(tmp_path, "solution"))
        return Student(locals[-1])

    yield made
    for local in locals:
        local.__exit__()


def test_definitions_and_assignments_are_kept(student: Make) -> None:
    """Imports, functions, classes and assignments at the top of a cell are kept, and the rest is listed."""
    one = student(
        notebook(
            "%matplotlib inline\nfrom __future__ import annotations\nimport math\nbase = 10  # why?\n!ls",
            "%%script bash\nkill -9 $PPID",
            "def double(x: Later) -> int:\n    return 2 * x\nprint(double(3))\nfor n in range(3): pass",
            "'a string'",
            "class Max:\n    def step(self, x):\n        return max(x, base)\n",
            "this is = no Python",
            ["scale = base * 2\n", "scale += 1"],
            "def fails():\n    'x'\n    return 1 / 0",
        )
    )
    left_out = [
        "cell 1: left out: %matplotlib inline", "cell 1: left out: !ls", "cell 2: left out: %%script bash",
        "cell 3: left out: print(double(3))", "cell 3: left out: for n in range(3): pass",
        "cell 6: left out: the whole cell  (SyntaxError: invalid syntax (<unknown>, line 1))",
    ]  # fmt: skip
    assert one.cells() == left_out and one.load() == left_out
    assert one.call("double", 4) == 8 and one.play("Max", "step", [7, 12]) == [10, 12]
    with pytest.raises(NoValueError, match=r"ZeroDivisionError: division by zero \(cell 8, line 3\)"):
        one.call("fails")


def test_the_last_definition_counts(student: Make) -> None:
    """Of several definitions the last one counts, and the notes say which cell it is in."""
    one = student(
        notebook("def f(): return 1", "x = 1", "def f(): return 3", "def g(): return f()", "def f(): return 5")
    )
    assert one.load() == ["f is defined 3 times; cell 5 counts"] and one.call("g") == 5


def test_a_statement_that_fails_is_left_out(student: Make) -> None:
    """An import of the kit, and what needs a cell that was left out, do not lose the definitions beside them."""
    one = student(notebook("import sharedstate_lite as ss\nrows = ss.rows()", "def f(): return 1"))
    first, second = one.load()
    assert first.startswith("cell 1: left out: import sharedstate_lite as ss  (ModuleNotFoundError: 'sharedstate_lite'")
    assert second == "cell 1: left out: rows = ss.rows()  (NameError: name 'ss' is not defined)"
    assert one.call("f") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "JSONDecodeError: Expecting property name"),
        (notebook().replace('"nbformat": 4', '"nbformat": 3'), "not a notebook of format 4; open it in JupyterLab"),
        ("[1]", "not a notebook of format 4"),
        (notebook(cells=[7]), "TypeError"),
        (notebook(cells=7), "not a notebook of format 4"),
    ],
)
def test_what_is_no_notebook(text: str, why: str, student: Make) -> None:
    """A damaged file and an old format are errors before anything runs."""
    with pytest.raises(NoValueError, match=why):
        student(text).cells()


def test_a_module_is_not_a_notebook(student: Make, tmp_path: Path) -> None:
    """Without a notebook there are no notes."""
    one = student(notebook())
    (tmp_path / "solution.ipynb").unlink()
    (tmp_path / "solution.py").write_text("def f(): return 1")
    assert one.load() == [] and one.call("f") == 1
