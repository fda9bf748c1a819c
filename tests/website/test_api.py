"""The page of public names is complete, and each line is the docstring's."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest

from website import api
from website.execution import SiteError
from website.github_markdown import faults

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page() -> str:
    """The page's Markdown."""
    return api.page()


def declared(file: Path) -> list[str]:
    """The names in ``__all__`` of a file, read without importing it."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    lists = [each.value for each in body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__"]
    return [name for each in lists for name in ast.literal_eval(each)]


def test_every_public_name_has_its_line(page: str) -> None:
    """What the sources declare is on the page, in their order, below the name of the package."""
    files = [
        *(ROOT / "sharedstate_lite").rglob("__init__.py"),
        ROOT / "grader/__init__.py",
        ROOT / "grader/lab/__init__.py",
    ]
    there = {".".join(file.relative_to(ROOT).parts[:-1]): declared(file) for file in files}
    found = {part.partition("\n")[0]: re.findall(r"^\| \[`(\w+)`\]", part, re.M) for part in page.split("\n## ")[1:]}
    assert found == {name: names for name, names in there.items() if names}
    assert len(found) > 20 and faults(page) == []


def test_a_line_is_the_sentence_of_the_docstring(page: str) -> None:
    """A function, a class and a constant; links lead to the files that define them."""
    for row in (
        "| [`engine`](../sharedstate_lite/__init__.py) | Return a new engine for ``views`` at epoch 0. |",
        "| [`SqlError`](../sharedstate_lite/errors.py) | Raised for SQL that does not parse, does not bind, or is not "
        "supported. |",
        "| [`KINDS`](../sharedstate_lite/__init__.py) | Maps the name of each strategy to its engine class. |",
    ):
        assert row in page.splitlines()
    links = re.findall(r"^\| \[`\w+`\]\(\.\./([^)]+)\) \| (.+) \|$", page, re.M)
    assert len(links) == page.count("\n| [`") > 200
    assert [file for file, _ in links if not (ROOT / file).is_file()] == []
    assert [line for _, line in links if not line.endswith(".") or ":`" in line] == []


def test_the_examples_are_true() -> None:
    """Those in the docstrings of the module."""
    assert doctest.testmod(api) == (0, 4)


def test_a_name_without_a_docstring_stops_the_build(tmp_path: Path) -> None:
    """The error names it, and says what to write."""
    (tmp_path / "__init__.py").write_text("X = 1\nY = 2\n")
    package = ModuleType("made")
    package.__path__, package.__all__, package.X = [str(tmp_path)], ["X"], 1  # type: ignore[attr-defined]
    with pytest.raises(SiteError, match=r"made\.X has no docstring: write one sentence"):
        list(api.names(package))
