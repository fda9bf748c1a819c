"""The rules of lessons accept a right lesson, and find each thing that they are there to find."""

from __future__ import annotations

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
LESSON: list[str | Cell] = [
    ("longest = {}", "collapsed"),
    "# 01 · A lesson\n\nA screen shows 60, and that is wrong.",
    ("longest",),
    "You can follow one row.\n\n10 minutes · some Python",
    "## A question",
    ("rows = len(longest)\nwhys = {2: 'It has none of 2.'}", "collapsed"),
    ("guess = None\nshow.predict('How many rows?', rows, whys, guess=guess)",),
    ("assert rows == 0 and 2 not in longest and longest != 60", "check"),
    "## Write it",
    (STUB, "write-it"),
    ("check(largest)", "check-it"),
    f"<details><summary>A solution</summary>\n\n```python\n{SOLVED}\n```\n</details>",
    (f"{SOLVED}\nassert check(largest).right", "check"),
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
    return new_notebook(cells=made, nbformat_minor=5, metadata={"lesson": True})


def said(cells: list[str | Cell], path: Path = PATH) -> list[str]:
    """The names of the checks that complain, once per complaint."""
    made = notebook(cells)
    return [check.__name__ for check in rules.CHECKS for _ in check(made, path)]


def changed(old: str, new: str) -> list[str | Cell]:
    texts = [
        cell.replace(old, new) if isinstance(cell, str) else (cell[0].replace(old, new), *cell[1:]) for cell in LESSON
    ]
    assert texts != LESSON
    return texts


def test_a_right_lesson_has_no_complaint() -> None:
    assert said(LESSON) == [] and rules.is_lesson(notebook(LESSON))
    assert rules.minutes(notebook(LESSON)) == 10


@pytest.mark.parametrize(
    ("cells", "complaints"),
    [
        (changed("# 01 ·", "# 02 ·"), ["shape"]),
        (changed("10 minutes", "15 minutes"), ["duration"]),
        (changed("that is wrong", "that is wrong by 17"), ["numbers"]),
        (changed("none of 2", "none of 4711"), ["numbers"]),
        (changed("You can follow", "\n## Inside\n\nYou can follow"), ["headings_first"]),
        (changed("## What you can do now", "## The end"), ["shape"]),
        (changed("[Next](https://example.org)", "Next."), ["shape"]),
        (changed("[Next](https://example.org)", "[Next](nowhere.ipynb)"), ["links"]),
        (changed("rows = len(longest)", "rows = 0"), ["predictions"]),
        (changed("guess=guess", "factor=2"), ["predictions"]),
        (changed("rows, whys,", "rows, {2: 'It has none.'},"), ["predictions"]),
        (changed("guess = None\n", "guess = None\nx = 1\n"), ["predictions"]),
        (changed("raise NotImplementedError", "return None"), ["written"]),
        (changed("return max(values, default=None)\n```", "return max(values)\n```"), ["written"]),
        (changed("assert check(largest).right", "check(largest)"), ["hidden"]),
        (changed("longest = {}", "longest = {}\nlongest"), ["hidden"]),
        ([*LESSON[:3], ("assert longest == {}",), *LESSON[3:]], ["hidden"]),
        ([*LESSON[:2], *LESSON[3:]], ["shape"]),
        ([*LESSON[:5], LESSON[6], *LESSON[7:]], ["predictions"]),
        ([*LESSON[:10], *LESSON[11:]], ["written"]),
        ([*LESSON[:11], *LESSON[12:]], ["written"]),
        ([*LESSON[:4], ("x = 1\n" * 26,), *LESSON[4:]], ["small"]),
        ([*LESSON[:4], ("x = '" + "a" * 90 + "'",), *LESSON[4:]], ["small"]),
        ([*LESSON[:4], "**Try this**: what happens?", *LESSON[4:]], ["shape"]),
    ],
)
def test_each_rule_finds_its_breach(cells: list[str | Cell], complaints: list[str]) -> None:
    assert said(cells) == complaints


def test_the_first_lesson_is_short_and_has_nothing_to_write() -> None:
    """In 00 a write-it is a breach, and so are too many words."""
    first = PATH.with_name("00-start.ipynb")
    start = [*changed("# 01 ·", "# 00 ·")[:8], LESSON[-1]]
    start = [cell.replace("10 minutes", "5 minutes") if isinstance(cell, str) else cell for cell in start]
    assert said(start, first) == []
    assert said([*start[:5], LESSON[9], *start[5:]], first) == ["written", "duration"]
    assert said([*start[:5], "word " * 2001, *start[5:]], first) == ["duration"] * 2


def test_functions_that_stand_in_two_notebooks() -> None:
    """More than four equal lines belong in the library; short ones and different ones may stand in both."""
    long = "def f(x):\n" + "    x += 1\n" * 4 + "    return x"
    same: Callable[[str], Any] = lambda source: notebook([(source,)])  # noqa: E731
    assert len(rules.identical({"a": same(long), "b": same(long)})) == 1
    assert rules.identical({"a": same(long), "b": same(long.replace("1", "2"))}) == []
    assert rules.identical({"a": same("def g(x):\n    return x"), "b": same("def g(x):\n    return x")}) == []
