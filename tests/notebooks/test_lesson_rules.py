"""The rules accept a right notebook, and find each thing that they are there to find."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lesson_rules as rules
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

PATH = Path(__file__).parent / "01-a-lesson.ipynb"
Cell = tuple[str, ...]
"""The source and the tags of a code cell."""
STUB = "def largest(values):\n    raise NotImplementedError"
SOLVED = "def largest(values):\n    return max(values, default=None)"
SPARK = "session = ss.spark.session()"
CHECKED = f"with show.checks():\n{textwrap.indent(SOLVED, '    ')}\n    assert check(largest).right"
LESSON: list[str | Cell] = [
    "# 01 · A lesson\n\nA screen shows 60, and that is wrong.",
    ("longest = {}", "collapsed"),
    ("longest",),
    "You can follow one row.\n\n10 minutes · some Python",
    "## A question",
    (
        "rows = len(longest)\nwhys = {2: 'It has none of 2.'}\nhow_many = show.question('How many?', rows, whys)",
        "collapsed",
    ),
    ("show.predict(how_many, guess=None)  # a number",),
    ("rows",),
    ("with show.checks():\n    assert rows == 0 and 2 not in longest and longest != 60", "check"),
    "## Write it",
    (STUB, "write-it"),
    ("check(largest)", "check-it"),
    f"<details><summary>A solution</summary>\n\n```python\n{SOLVED}\n```\n</details>",
    (CHECKED, "check"),
    "## What you can do now\n\n[Next](https://example.org)",
]


def notebook(cells: list[str | Cell]) -> Any:
    """Strings are Markdown cells, tuples are code cells with tags."""
    made = []
    for cell in cells:
        if isinstance(cell, str):
            made.append(new_markdown_cell(cell))
            continue
        metadata: dict[str, Any] = {"tags": list(cell[1:])} if cell[1:] else {}
        if rules.HIDDEN & set(cell[1:]):
            metadata["jupyter"] = {"source_hidden": True}
        made.append(new_code_cell(cell[0], metadata=metadata))
    return new_notebook(cells=made, nbformat_minor=5)


def said(cells: list[str | Cell], path: Path = PATH) -> list[str]:
    """The names of the checks that complain, once per complaint."""
    made = notebook(cells)
    return [check.__name__ for check in rules.CHECKS for _ in check(made, path)]


def complaints(check: Any, *cells: str | Cell) -> int:
    """How many complaints one check has about these cells."""
    return len(list(check(notebook(list(cells)), PATH)))


def changed(old: str, new: str) -> list[str | Cell]:
    texts = [
        cell.replace(old, new) if isinstance(cell, str) else (cell[0].replace(old, new), *cell[1:]) for cell in LESSON
    ]
    assert texts != LESSON
    return texts


def test_a_right_lesson_has_no_complaint() -> None:
    assert said(LESSON) == []
    assert rules.minutes(notebook(LESSON)) == 10


@pytest.mark.parametrize(
    ("cells", "complaints"),
    [
        (changed("# 01 ·", "# 02 ·"), ["shape"]),
        ([LESSON[1], LESSON[0], *LESSON[2:]], ["shape"]),
        (changed("10 minutes", "15 minutes"), ["duration"]),
        (changed("that is wrong", "that is wrong by 17"), ["numbers"]),
        (changed("none of 2", "none of 4711"), ["numbers"]),
        (changed("You can follow", "\n## Inside\n\nYou can follow"), ["headings_first"]),
        (changed("## What you can do now", "## The end"), ["shape"]),
        (changed("[Next](https://example.org)", "Next."), ["shape"]),
        (changed("[Next](https://example.org)", "[Next](nowhere.ipynb)"), ["links"]),
        (changed("rows = len(longest)", "rows = 0"), ["predictions"]),
        (changed("rows, whys)", "0, whys)"), ["predictions"]),
        (changed("guess=None", "guess=0"), ["predictions"]),
        (changed("show.predict(how_many", "x = 1\nshow.predict(how_many"), ["predictions"]),
        (changed("show.predict(how_many", "show.predict(rows"), ["predictions"]),
        ([*LESSON[:8], *LESSON[5:]], ["predictions"]),
        ([*LESSON[:7], *LESSON[8:]], ["answered_later"]),
        ([*LESSON[:7], "The answer is none.", *LESSON[7:]], ["answered_later"]),
        (changed("raise NotImplementedError", "return None"), ["written"]),
        (changed("return max(values, default=None)\n```", "return max(values)\n```"), ["written"]),
        (changed("    assert check(largest).right", "    check(largest)"), ["hidden"]),
        (changed("    assert check(largest).right", "assert check(largest).right"), ["hidden"]),
        (changed("with show.checks()", "with show.checks(), open(name)"), ["hidden"] * 2),
        (changed("    assert rows == 0", "    rows = 0\n    assert rows == 0"), []),
        (changed("    assert rows == 0", "    check = 0\n    assert rows == 0"), ["independent"]),
        (changed("longest = {}", "longest = {}\nlongest"), ["hidden"]),
        (changed("longest = {}", "longest = {}\none = frame.n.item()"), ["robust"]),
        (changed("longest = {}", "longest = {}\none = frame[frame.n == 1].iloc[0]"), ["robust"]),
        (changed("longest = {}", "longest = {}\none = frame['n'].iloc[0]"), []),
        ([*LESSON[:3], ("assert longest == {}",), *LESSON[3:]], ["hidden"]),
        ([*LESSON[:2], *LESSON[3:]], ["shape"]),
        ([*LESSON[:5], ("rows = 0",), *LESSON[6:]], ["predictions"]),
        ([*LESSON[:11], *LESSON[12:]], ["written"]),
        ([*LESSON[:12], *LESSON[13:]], ["written"]),
        ([*LESSON[:4], ("x = 1\n" * 26,), *LESSON[4:]], ["small"]),
        ([*LESSON[:4], ("x = '" + "a" * 90 + "'",), *LESSON[4:]], ["small"]),
        ([*LESSON[:4], "**Try this**: what happens?", *LESSON[4:]], ["shape"]),
        ([*LESSON[:4], "Press <kbd>→</kbd>. In JupyterLab, <kbd>M</kbd> edits.", *LESSON[4:]], []),
        ([*LESSON[:4], "Press <kbd>Q</kbd>, or edit with <kbd>M</kbd>.", *LESSON[4:]], ["keys"] * 2),
        ([*LESSON, (SPARK,)], ["closed"]),
        ([*LESSON, (SPARK,), ("# Close everything\nsession.stop()",)], []),
        ([*LESSON, (SPARK,), ("# Close everything\nsession.stop()", "collapsed")], ["closed"]),
        ([*LESSON, (SPARK,), ("# Close everything\nserver.close()",)], ["closed"]),
    ],
)
def test_each_rule_finds_its_breach(cells: list[str | Cell], complaints: list[str]) -> None:
    assert said(cells) == complaints


def test_the_first_lesson_is_short_and_has_nothing_to_write() -> None:
    """In 00 a write-it is a breach, and so are too many words."""
    first = PATH.with_name("00-start.ipynb")
    start = [*changed("# 01 ·", "# 00 ·")[:9], LESSON[-1]]
    start = [cell.replace("10 minutes", "5 minutes") if isinstance(cell, str) else cell for cell in start]
    assert said(start, first) == []
    assert said([*start[:5], LESSON[10], *start[5:]], first) == ["written", "duration"]
    assert said([*start[:5], "word " * 2001, *start[5:]], first) == ["duration"] * 2


def test_functions_that_stand_in_two_notebooks() -> None:
    """More than four equal lines belong in the library; short ones and different ones may stand in both."""
    long = "def f(x):\n" + "    x += 1\n" * 4 + "    return x"
    same: Callable[[str], Any] = lambda source: notebook([(source,)])  # noqa: E731
    assert len(rules.identical({"a": same(long), "b": same(long)})) == 1
    assert rules.identical({"a": same(long), "b": same(long.replace("1", "2"))}) == []
    assert rules.identical({"a": same("def g(x):\n    return x"), "b": same("def g(x):\n    return x")}) == []


@pytest.mark.parametrize(
    ("cell", "reads"),
    [
        ("bound", 1),
        ("bound = 1\nbound", 0),
        ("bound = bound + 1", 1),
        ("bound += 1", 1),
        ("for bound in rows:\n    print(bound)", 0),
        ("for row in bound:\n    print(row)", 1),
        ("[bound for bound in rows]", 0),
        ("[row for row in rows if row in bound]", 1),
        ("def f(bound):\n    return bound", 0),
        ("import bound\nbound.x", 0),
        ("uses()", 1),
        ("lambda: bound", 1),
        ("if bound := 1:\n    bound", 0),
        ("with x as bound:\n    bound", 0),
    ],
)
def test_what_a_check_binds_is_not_read(cell: str, reads: int) -> None:
    """A name is read if a cell needs it from above, by itself or through a function that it calls."""
    above = [("def uses():\n    return bound",), ("with show.checks():\n    bound = 1\n    assert bound", "check")]
    assert complaints(rules.independent, *above, (cell,)) == reads
    assert complaints(rules.independent, *above, ("bound = 2",), (cell,)) == 0
    assert (
        complaints(rules.independent, *above, (f"with show.checks():\n{textwrap.indent(cell, '    ')}", "check")) == 0
    )


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
        ("# 00 · Start here\n\n7 rows", {7}),
        ("top-10 products, v2, a1 and $x^2$", {10}),
    ],
)
def test_numbers_of_a_text(text: str, numbers: set[float]) -> None:
    """Digits and number words count as stated; code, addresses, ordinals, rules, epochs and years do not."""
    assert rules.stated(text) == numbers


def test_numbers_need_an_assert_in_the_section() -> None:
    """A number in prose is accepted if an assert of its section computes it; the opening may use any section's."""
    assert complaints(rules.numbers, ("assert len(x) == 14",), "14 rows") == 0
    assert complaints(rules.numbers, ("assert len(x) == 14",), "fourteen is fine, 15 is not") == 1
    assert complaints(rules.numbers, ("x = 14",), "14 rows") == 1
    assert complaints(rules.numbers, "14 rows", "## Next", ("assert x == 14",)) == 0
    assert complaints(rules.numbers, ("assert x == 14",), "## Next", "14 rows") == 1
    assert complaints(rules.numbers, "text", "## Next", "14 rows", ("assert x == 14",)) == 0
    assert complaints(rules.numbers, ("assert x, '14'",), "14 rows") == 1
    assert complaints(rules.numbers, ("assert x == -5",), "5 less") == 0
    assert complaints(rules.numbers, ("assert 14 == 14",), "14 rows") == 1


def test_outputs_and_ids() -> None:
    """A committed output, an execution count and a repeated or missing id are each found."""
    good = notebook(["text", ("1",)])
    assert list(rules.clean(good, PATH)) == []
    good.cells[1].execution_count = 3
    assert len(list(rules.clean(good, PATH))) == 1
    good.cells[1].id = good.cells[0].id
    assert len(list(rules.clean(good, PATH))) == 2
    good.nbformat_minor = 4
    assert len(list(rules.clean(good, PATH))) == 3


def test_links() -> None:
    """A link to a file that is not there and one to a heading that is not there are found; others pass."""
    assert complaints(rules.links, "[a](test_lesson_rules.py) [b](https://example.org/none) `[c](none.md)`") == 0
    assert complaints(rules.links, "[a](none.md)") == 1
    assert complaints(rules.links, "<img src='none.png'>") == 1
    assert complaints(rules.links, "## Some heading\n\n[a](#Some-heading)") == 0
    assert complaints(rules.links, "[a](#Some-heading)") == 1
    assert complaints(rules.links, "[a](../../docs/rules.md#The-rules)") == 0
    assert complaints(rules.links, "[a](../../docs/rules.md#No-rules)") == 1
    assert complaints(rules.links, "[a](../../notebooks/00-start-here.ipynb#What-you-can-do-now)") == 0
    assert complaints(rules.links, "[a](../../notebooks/00-start-here.ipynb#check)") == 1


def test_versions_are_links() -> None:
    """A version of a system that is no link to docs/systems.md is found; it is no number that a cell must assert."""
    assert complaints(rules.versions, "Since Flink 2.1, it joins.") == 1
    assert (
        complaints(rules.versions, "Since [Flink 2.1](../docs/systems.md#flink-delta-join), `Spark 4.1`, Spark 3.") == 0
    )
    assert rules.stated("Since Flink 2.1 and Spark 4.10, 7 joins.") == {7.0}


def test_visible_words() -> None:
    """Folds, addresses and signs are no words that a reader sees at first."""
    text = "One [two three](a/b.md) – four.\n\n<details><summary>Five</summary>\n\nsix\n</details>"
    assert rules.visible_words(notebook([text, ("seven = 7",)])) == 4


def test_named_places(tmp_path: Path) -> None:
    """A link may lead to a place that a page names itself."""
    (tmp_path / "page.md").write_text('| <a id="a-row"></a>cell |')
    made = notebook(["[a](page.md#a-row) [b](page.md#no-row)"])
    assert len(list(rules.links(made, tmp_path / "01-a-lesson.ipynb"))) == 1
