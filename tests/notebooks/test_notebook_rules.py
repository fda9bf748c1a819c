"""The checks of notebooks find what they are there to find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import notebook_rules as rules
import pytest
import times
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
        ("Two rows and three long batches, of two tables and a hundred users", {2, 3, 100}),
        ("It holds `5` and `{10, 20.5}` of `x14`", {5, 10, 20.5}),
        ("`14 rows`, ```\n15\n``` and [a link](page-16.html#17) are no prose", set()),
        ("Rule 10, rules 16 and 17, epoch 9, epochs 4 to 8, notebook 03, 2022, a row with +1 or −1", set()),
        ("**1.** first\n\n2. second", set()),
        ("# 00 · Start here\n\n**Time** 25 minutes, 1 minute. **Difficulty** 3 of 5: 7 rows", {7}),
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
    assert complaints(rules.numbers, ("assert 14 == 14",), "14 rows") == 1


def test_predictions_have_answers() -> None:
    """A prediction is an assignment of None, directly before the cell that compares it."""
    ask, answer = ("guess = None  # a number", "predict"), ("x = 1\nshow.compare(guess, x)", "answer")
    assert complaints(rules.predictions, "### Predict before you run", ask, answer) == 0
    assert complaints(rules.predictions, ask) == 1
    assert complaints(rules.predictions, ask, "text", answer) == 2
    for wrong in ("show.compare(other, 1)", "show(guess, 1)", "show.compare(1, guess)", "show.compare(guess, 1)\n1"):
        assert complaints(rules.predictions, ask, (wrong, "answer")) == 1
    assert complaints(rules.predictions, ("guess = 7", "predict"), answer) == 1
    assert complaints(rules.predictions, ("guess", "predict"), answer) == 1
    assert complaints(rules.predictions, "### Predict before you run", "## Next", ask, answer) == 1


def test_small_cells() -> None:
    """A long cell, a long line, a class and a long function are each found."""
    assert complaints(rules.small, ("\n".join(["x = 1"] * 25),)) == 0
    assert complaints(rules.small, ("\n".join(["x = 1"] * 26),)) == 1
    assert complaints(rules.small, ("x = '" + "a" * 100 + "'",)) == 1
    assert complaints(rules.small, ("class A:\n    pass",)) == 1
    assert complaints(rules.small, ("def f():\n" + "    x = 1\n" * 4,)) == 1
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
    assert complaints(rules.links, "[a](../../docs/rules.md#The-rules)") == 0
    assert complaints(rules.links, "[a](../../docs/rules.md#No-rules)") == 1
    assert complaints(rules.links, "[a](../../notebooks/00-start-here.ipynb#Where-the-simplification-ends)") == 0
    assert complaints(rules.links, "[a](../../notebooks/00-start-here.ipynb#check)") == 1


def test_shape() -> None:
    """A notebook without the parts of the curriculum's shape is told each of them."""
    assert complaints(rules.shape, "# 00 · Empty") == len(rules.PARTS)
    assert complaints(rules.shape, "# 01 · Of another number\n\n" + "\n\n".join(rules.PARTS)) == 1


def timed(*cells: Any) -> list[Any]:
    """The cells, with the line of their time where the first one leaves room for it."""
    made = notebook(*cells)
    times.put(made, times.line(times.count(made), times.Run(3, 2), HERE.name[:2]))
    return [made.cells[0].source, *cells[1:]]


def test_time_is_counted() -> None:
    """Words, predictions, questions, steppers and cells are counted; a line that says other numbers is found."""
    title, end = "# 00 · Title\n\n**Time** - **Difficulty** 1 of 5", ("print(perf_counter() - started)",)
    ask, step = ("guess = None", "predict"), ("show.stepper(replay, messages)",)
    cells = timed(title, "two words, and - three <details>more</details>", ask, step, end)
    counts = times.count(notebook(*cells))
    assert counts == times.Counts(words=11, predictions=1, questions=1, steppers=1, cells=3)
    assert counts.minutes == 5 and times.Counts(160 * 20, 2, 0, 1, 10).minutes == 30
    assert "about 5 minutes, an estimate: 11 words at 160 a minute" in cells[0] and "To run, 3 seconds" in cells[0]
    assert times.announced(notebook(*cells)) == times.Run(3, 2)
    assert complaints(rules.duration, *cells) == 0
    assert complaints(rules.duration, *cells[:1], "one word more", *cells[2:]) == 1
    assert complaints(rules.duration, cells[0].replace("3 seconds", "a second"), *cells[1:]) == 1
    assert complaints(rules.duration, *cells, "text") == 1 + 1
    assert complaints(rules.duration, title, end) == 1


def test_a_function_of_two_notebooks() -> None:
    """A function that is defined in more than one notebook is named, with the notebooks."""
    one, other = notebook(("def f():\n    return 1",)), notebook(("x = 1",), ("def f():\n    return 2",))
    assert rules.repeated({"01": one, "02": notebook(("f = 1",))}) == []
    assert rules.repeated({"01": one, "02": other}) == ["f is defined in 01, 02"]


GOOD: list[Any] = timed(
    "# 00 · Good\n\nWhen you are through, you can\n\n**Time** - **Difficulty** 1 of 5",
    ("from time import perf_counter\n\nfrom sharedstate_lite import show\n\nstarted = perf_counter()",),
    "## Rows\n\n### Predict before you run",
    ("prediction = None  # a number", "predict"),
    ("rows = 4\nassert rows == 4\nshow.compare(prediction, rows)", "answer"),
    "4 rows. Change one thing. What must always hold: [rules](../../docs/rules.md). Where the simplification ends. "
    "Check yourself <details></details>",
    ("print(perf_counter() - started)",),
)
"""A notebook that keeps to everything, in a folder two below the root."""

VIOLATIONS: dict[str, tuple[int, Any]] = {
    "small": (4, ("rows = 4\nassert rows == 4\nclass A: pass\nshow.compare(prediction, rows)", "answer")),
    "predictions": (4, ("rows = 4\nassert rows == 4", "answer")),
    "shape": (5, GOOD[5].replace("What must always hold", "What should always hold")),
    "numbers": (5, GOOD[5].replace("4 rows", "5 rows")),
    "duration": (6, ("print(0)",)),
    "links": (5, GOOD[5].replace("rules.md", "none.md")),
}
"""For each check, the cell to put in place of a good one so that it, and no other check, complains."""


def complaining(made: Any) -> set[str]:
    """The checks that have a complaint."""
    return {check.__name__ for check in rules.CHECKS if list(check(made, HERE))}


def test_a_good_notebook_passes_and_runs() -> None:
    """A notebook that keeps to everything is left in peace by every check, and runs without noise."""
    good = notebook(*GOOD)
    assert complaining(good) == set()
    ran = run(good)
    assert (ran.error, ran.stderr, ran.kernel) == ("", [], "")


@pytest.mark.parametrize("check", rules.CHECKS, ids=lambda c: c.__name__)
def test_one_violation_is_found_by_the_check_meant_for_it(check: Any) -> None:
    """For each check there is a notebook that violates it alone, and that check alone complains."""
    cells = list(GOOD)
    if check.__name__ in VIOLATIONS:
        at, bad = VIOLATIONS[check.__name__]
        cells[at] = bad
    made = notebook(*cells)
    if check.__name__ == "clean":
        made.cells[1].execution_count = 1
    assert complaining(made) == {check.__name__}


@pytest.mark.parametrize("at", [1, 4, 6])
def test_an_error_in_any_cell_is_an_error_of_the_run(at: int) -> None:
    """A cell that raises, and an assert that does not hold, wherever it is, fail the run."""
    cells = list(GOOD)
    source, *tags = cells[at]
    cells[at] = (f"{source}\nassert not started", *tags)
    assert "AssertionError" in run(notebook(*cells)).error


def test_a_run_hears_everything() -> None:
    """An error, standard error of Python and of a child process, and a plain result are each told apart."""
    quiet = run(notebook(("print('out')",)))
    assert (quiet.error, quiet.stderr, quiet.kernel) == ("", [], "")
    assert "ZeroDivisionError" in run(notebook(("1 / 0",))).error
    loud = run(
        notebook(("import subprocess, sys\nprint('a', file=sys.stderr)\nsubprocess.run('echo jvm >&2', shell=True)",))
    )
    assert loud.error == "" and "jvm" in "".join(loud.stderr) + loud.kernel and "a" in "".join(loud.stderr)
