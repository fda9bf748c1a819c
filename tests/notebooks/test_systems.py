"""docs/systems.md and the notebooks keep step: what is said of another system has a source, and the source a place.

A statement on a page is a link to its row. The row names the page and the section in which the link stands.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lesson_rules as rules
from notebook_run import ROOT

PAGE = ROOT / "docs/systems.md"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_ROW = re.compile(r'\| <a id="([\w-]+)"></a>([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|')
_MARK = re.compile(rf"\]\({re.escape(rules.SYSTEMS)}#([\w-]+)\)")


class Row(NamedTuple):
    """A row of the table: cells as text, and the links in them."""

    id: str
    system: str
    says: str
    where: str
    source: str
    date: str

    def places(self) -> set[tuple[str, str]]:
        """File names and headings of the pages that the row names; the heading is "" for a page's opening."""
        found = re.findall(r"\]\(\.\./notebooks/([^#)]+)(?:#([^)]+))?\)", self.where)
        return {(name, heading.replace("-", " ")) for name, heading in found}


def rows() -> list[Row]:
    """The rows of the table."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| <a ")]
    found = [_ROW.fullmatch(line) for line in lines]
    assert lines and all(found), next(line for line, row in zip(lines, found, strict=True) if not row)
    return [Row(*row.groups()) for row in found if row]


def marks(path: Path) -> Iterator[tuple[str, str]]:
    """The rows that a notebook links to, each with the heading above the link; "" in the opening."""
    heading = ""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
        for line in text.splitlines():
            if title := re.match(r"(#+) (.*)", line):
                heading = "" if title[1] == "#" else title[2]
            for row in _MARK.findall(line):
                yield row, heading.replace("-", " ")


def test_every_row_has_a_source_and_a_date() -> None:
    """A row has an id of its own, a system, a statement, an address and a day that has been."""
    table = rows()
    assert len({row.id for row in table}) == len(table) >= 60
    for row in table:
        assert re.search(r"\]\(https://[^)]+\)", row.source), row.id
        assert datetime.date(2026, 11, 1) <= datetime.date.fromisoformat(row.date) <= datetime.date.today(), row.id


def test_rows_and_marks_are_in_step() -> None:
    """Each row stands for links on exactly the pages and in the sections that it names, and each link has its row."""
    marked = {(row, path.name, heading) for path in NOTEBOOKS for row, heading in marks(path)}
    said = {(row.id, *place) for row in rows() for place in row.places()}
    assert {row for row, *_ in marked} == {row for row, *_ in said}
    assert said <= marked
    assert {(row, name) for row, name, _ in marked} == {(row, name) for row, name, _ in said}


def test_a_version_on_a_page_is_in_its_row() -> None:
    """If the words of a link name a version, as in Flink 2.1, the row has that version."""
    systems = {row.id: row.system for row in rows()}
    for path in NOTEBOOKS:
        for text in rules._markdown(path):
            for words, row in re.findall(rf"\[([^\]]+)\]\({re.escape(rules.SYSTEMS)}#([\w-]+)\)", text):
                for number in re.findall(r"\d+\.\d+", words):
                    assert number in systems[row], f"{path.name}: {words}, and the row says {systems[row]}"
