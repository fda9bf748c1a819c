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


def test_what_a_magic_leaves(student: Make) -> None:
    """A cell magic that runs Python keeps its cell; another one, such as %%bash, does not."""
    one = student(
        notebook(
            "%%time\ndef f(): return 1",
            "\n%%capture out\n%%timeit -n 3\n!ls\nclass C:\n    def g(self): return 2\n",
            "%%bash\ndef f(): return 3",
            "%%writefile solution.py\ndef f(): return 4",
            "%%timeit x = 1\ndef h(): return x",
            "%%time",
            "%%",
        )
    )
    left_out = [
        "cell 1: left out: %%time", "cell 2: left out: %%capture out", "cell 2: left out: %%timeit -n 3",
        "cell 2: left out: !ls", "cell 3: left out: %%bash", "cell 4: left out: %%writefile solution.py",
        "cell 5: left out: %%timeit x = 1", "cell 6: left out: %%time", "cell 7: left out: %%",
    ]  # fmt: skip
    assert one.load() == left_out
    assert one.call("f") == 1 and one.play("C", "g", [()]) == [2]


def test_only_lines_that_are_no_python_are_left_out(student: Make) -> None:
    """A line within an expression or a text stays, although it looks like a magic; lines keep their numbers."""
    one = student(
        notebook(
            "!ls\ndef f(a, b):\n    return (a\n  % b)\n%time f(3, 2)\n",
            'text = """\n%time is money\n!\n"""\nwhat?\n?what\nname = "why?"\nhelp??',
            "if True:\n    %pip install x\n    pass\nx = 1\nfiles = !ls\nvalue = %time f(1)\nprint?",
            "!ls\x0c\ndef fails():\n    '\x85\u2028'\n    return 1 / 0",
            "!ls \\\n  -l\ndef g(): return 7",
        )
    )
    notes = one.load()
    assert [note for note in notes if "whole cell" in note] == []
    assert one.call("f", 5, 3) == 2 and one.call("g") == 7
    assert [note.replace("cell ", "").replace(" left out: ", "") for note in notes if "if True" not in note] == [
        *("1:!ls", "1:%time f(3, 2)", "2:what?", "2:?what", "2:help??"),
        *("3:%pip install x", "3:files = !ls", "3:value = %time f(1)", "3:print?", "4:!ls", "5:!ls \\", "5:-l"),
    ]
    with pytest.raises(NoValueError, match=r"ZeroDivisionError: division by zero \(cell 4, line 4\)"):
        one.call("fails")


def test_code_in_a_text_cell(student: Make) -> None:
    """A text cell that is Python, and defines what no code cell defines, is named. Other text is not."""
    text = {"cell_type": "markdown", "source": "def f(): return 1"}
    raw = {"cell_type": "raw", "source": ["class C:\n", "    pass\n", "def f(): return 2\n"]}
    prose = [{"cell_type": "markdown", "source": said} for said in ("# Title", "x", "x = 1", "def f()", "a b\nclass C")]
    code = {"cell_type": "code", "source": "def f(): return 3\nx = 1"}
    one = student(notebook(cells=[text, code, raw, *prose]))
    assert one.cells() == ["cell 3 is text, not code, and defines C: make it a code cell"]
    assert one.call("f") == 3
    fenced = {"cell_type": "markdown", "source": "```python\ndef g(): return 1\n```\n"}
    one = student(notebook(cells=[text, raw, fenced]))
    assert one.cells() == [
        "cell 1 is text, not code, and defines f: make it a code cell",
        "cell 2 is text, not code, and defines C, f: make it a code cell",
    ]


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
