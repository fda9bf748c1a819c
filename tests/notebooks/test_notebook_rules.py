"""The checks of notebooks find what they are there to find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import notebook_rules as rules
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebook_run import run

HERE = Path(__file__).parent / "00-none.ipynb"


def notebook(*cells: Any) -> Any:
    """Strings are Markdown cells, tuples code cells with tags."""
    made = [
        new_markdown_cell(c) if isinstance(c, str) else new_code_cell(c[0], metadata={"tags": list(c[1:])})
        for c in cells
    ]
    return new_notebook(cells=made, nbformat_minor=5)


def complaints(check: Any, *cells: Any) -> int:
    """How many complaints a check has about these cells."""
    return len(list(check(notebook(*cells), HERE)))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It holds 14 rows beside 8.", {14, 8}),
        ("7 rows, 1,200 bytes, 2.5 times, −3 and 60.", {7, 1200, 2.5, -3, 60}),
        ("Seven rows in a dozen tables; one, two or three do not count.", {7, 12}),
        ("`14 rows`, ```\n15\n``` and [a link](page-16.html#17) are no prose", set()),
        ("Rule 10, rules 16 and 17, epoch 9, in 2022, a row with +1 or −1", set()),
        ("**1.** first\n\n2. second", set()),
        ("# 00 · Start here\n\n**Time** 25 minutes, 1 minute. **Difficulty** 3 of 5", {3, 5}),
        ("top-10 products, v2, a1 and $x^2$", {10}),
    ],
)
def test_numbers_of_a_text(text: str, numbers: set[float]) -> None:
    """Digits and number words count as stated; code, addresses, ordinals, rules, epochs and years do not."""
    assert rules.stated(text) == numbers


def test_numbers_need_an_assert_above_in_the_section() -> None:
    """A number in prose is accepted when a cell above asserts it, and in no other case."""
    assert complaints(rules.numbers, ("assert len(x) == 14",), "14 rows") == 0
    assert complaints(rules.numbers, ("assert len(x) == 14",), "fourteen is fine, 15 is not") == 1
    assert complaints(rules.numbers, ("x = 14",), "14 rows") == 1
    assert complaints(rules.numbers, "14 rows", ("assert x == 14",)) == 1
    assert complaints(rules.numbers, ("assert x == 14",), "## Next\n\n14 rows") == 1
    assert complaints(rules.numbers, ("assert x, '14'",), "14 rows") == 1
    assert complaints(rules.numbers, ("assert x == -5",), "5 less") == 0


def test_predictions_have_answers() -> None:
    """A prediction is an assignment of None, directly before the cell that compares it."""
    ask, answer = ("guess = None  # a number", "predict"), ("show(guess)", "answer")
    assert complaints(rules.predictions, "### Predict before you run", ask, answer) == 0
    assert complaints(rules.predictions, ask) == 1
    assert complaints(rules.predictions, ask, "text", answer) == 2
    assert complaints(rules.predictions, ask, ("show(other)", "answer")) == 1
    assert complaints(rules.predictions, ("guess = 7", "predict"), answer) == 1
    assert complaints(rules.predictions, ("guess", "predict"), answer) == 1
    assert complaints(rules.predictions, "### Predict before you run", "## Next", ask, answer) == 1


def test_small_cells() -> None:
    """A long cell, a long line, a class and a long function are each found."""
    assert complaints(rules.small, ("\n".join(["x = 1"] * 25),)) == 0
    assert complaints(rules.small, ("\n".join(["x = 1"] * 26),)) == 1
    assert complaints(rules.small, ("x = '" + "a" * 100 + "'",)) == 1
    assert complaints(rules.small, ("class A:\n    pass",)) == 1
    assert complaints(rules.small, ("def f():\n" + "    x = 1\n" * 15,)) == 1
    assert complaints(rules.small, ("def f():\n    return 1",)) == 0


def test_outputs_and_ids() -> None:
    """A committed output, an execution count and a repeated or missing id are each found."""
    good = notebook("text", ("1",))
    assert list(rules.clean(good, HERE)) == []
    good.cells[1].execution_count = 3
    assert len(list(rules.clean(good, HERE))) == 1
    good.cells[1].id = good.cells[0].id
    assert len(list(rules.clean(good, HERE))) == 2
    good.nbformat_minor = 4
    assert len(list(rules.clean(good, HERE))) == 3


def test_links() -> None:
    """A link to a file that is not there and one to a heading that is not there are found; others pass."""
    assert complaints(rules.links, "[a](test_notebook_rules.py) [b](https://example.org/none) `[c](none.md)`") == 0
    assert complaints(rules.links, "[a](none.md)") == 1
    assert complaints(rules.links, "<img src='none.png'>") == 1
    assert complaints(rules.links, "## Some heading\n\n[a](#Some-heading)") == 0
    assert complaints(rules.links, "[a](#Some-heading)") == 1


def test_shape_and_duration() -> None:
    """A notebook without the parts of the curriculum's shape is told each of them; a wrong time is told."""
    assert complaints(rules.shape, "# 00 · Empty") == len(rules.PARTS)
    assert complaints(rules.shape, "# 01 · Of another number\n\n" + "\n\n".join(rules.PARTS)) == 1
    assert complaints(rules.duration, "no time at all") == 1
    time = "**Time** 20 minutes to read and try, 1 minute to run at most."
    assert complaints(rules.duration, time) == 1
    assert complaints(rules.duration, time, "word " * 20 * rules.READING) == 0


def test_a_run_hears_everything() -> None:
    """An error, standard error of Python and of a child process, and a plain result are each told apart."""
    quiet = run(notebook(("print('out')",)))
    assert (quiet.error, quiet.stderr, quiet.kernel) == ("", [], "")
    assert "ZeroDivisionError" in run(notebook(("1 / 0",))).error
    loud = run(
        notebook(("import subprocess, sys\nprint('a', file=sys.stderr)\nsubprocess.run('echo jvm >&2', shell=True)",))
    )
    assert loud.error == "" and "jvm" in "".join(loud.stderr) + loud.kernel and "a" in "".join(loud.stderr)
