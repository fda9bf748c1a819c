"""docs/entities.md: its program and examples run as they stand, and its table names every rule."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from carriers import cell

import sharedstate_lite.entities as entities
from sharedstate_lite.entities.routes import Routes

PAGE = (Path(__file__).parents[2] / "docs" / "entities.md").read_text(encoding="utf-8")
RAISED = re.compile(r'(?:refuse\(|EntityError\(|rule, text =)\s*"([A-Z]\w+)"')


def test_the_page_runs() -> None:
    """The examples give what stands below them, and the routes fit the methods."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names = cell(program)
    assert len(Routes(names["shop"]).all) == 5
    said: list[str] = []
    runner = doctest.DocTestRunner()
    for at, example in enumerate(re.findall(r"```pycon\n(.*?)```", PAGE, re.S)):
        test = doctest.DocTestParser().get_doctest(example, names, f"example {at}", "entities.md", 0)
        runner.run(test, out=said.append, clear_globs=False)
        names |= test.globs
    assert (runner.tries, "".join(said)) == (runner.tries, "") and runner.tries > 15


def test_the_table_has_every_rule() -> None:
    """The rules in the first column are those that the code raises."""
    table = PAGE.partition("| rule |")[2].partition("\n\n")[0]
    listed = {rule for row in table.splitlines()[2:] for rule in row.split("|")[1].strip().split(", ")}
    files = Path(entities.__file__).parent.glob("*.py")
    assert listed == {rule for file in files for rule in RAISED.findall(file.read_text(encoding="utf-8"))}
