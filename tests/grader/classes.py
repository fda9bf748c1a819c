"""A tiny lab with its bundle, and the commands of class grading as a teacher calls them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from grader.__main__ import main
from grader.lab.bundle import digest

CHECKS = '''
from functools import partial
from grader.lab import Case, check

@check("double", task=1, cpu=1)
def doubles(student):
    """double(x) returns 2 * x."""
    for x in range(3):
        yield Case(f"double({x})", 2 * x, partial(student.call, "double", x))

@check("words", task=1, rule=7, cpu=1)
def words(student):
    """A text is repeated."""
    yield Case("double('ab')", "abab", partial(student.call, "double", "ab"))
'''
HIDDEN = '''
from checks import Case, check, partial

@check("large", task=1, cpu=1)
def large(student):
    """Large numbers are doubled, too."""
    yield Case("double(7654321)", 15308642, partial(student.call, "double", 7654321))
'''
POINTS = {"double": 50, "words": 20, "large": 30}
RIGHT = "def double(x):\n    return x + x\n"
SMALL = "def double(x):\n    return x + x if type(x) is str or x < 1000 else 0\n"
WRONG = "def double(x):\n    return x * x\n"


def bundle(folder: Path, number: int = 1, checks: str = CHECKS, hidden: str = HIDDEN) -> Path:
    """Write the bundle of the tiny lab, as `lab build` would."""
    folder.mkdir()
    ids = [{"id": id, "task": 1, "rule": id, "number": None, "hidden": id == "large"} for id in POINTS]
    about = {"version": 1, "number": number, "title": "Doubles", "hand_in": ["solution.py"], "memory_mib": 512}
    lab = {**about, "tasks": {"1": "double"}, "checks": ids, "known": {}}
    files = {"checks.py": checks, "hidden.py": hidden, "lab.json": json.dumps(lab)}
    for name, text in {**files, "hash": digest(files) + "\n"}.items():
        (folder / name).write_text(text)
    points = "".join(f'"{id}" = {number}\n' for id, number in POINTS.items())
    (folder / "points.toml").write_text(f"[points]\n{points}")
    return folder


def handed_in(folder: Path, **texts: str) -> Path:
    """Write a folder with a solution.py for each id."""
    for id, text in texts.items():
        (folder / id).mkdir(parents=True)
        (folder / id / "solution.py").write_text(text)
    return folder


class Teacher:
    """Runs commands on one OUT, and reads what they have written and said."""

    def __init__(self, tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.tmp, self.capsys = tmp, capsys
        self.lab, self.out = bundle(tmp / "bundle"), tmp / "out"
        self.said = ""

    def run(self, *words: object) -> int:
        """Run a command; its output is in ``said``."""
        self.capsys.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as left:
            status = int(str(left.code))
        heard = self.capsys.readouterr()
        self.said = heard.out + heard.err
        return status

    def grade(self, submissions: Path, *words: object) -> int:
        """Run `class`."""
        return self.run("class", submissions, "--lab", self.lab, "--out", self.out, *words)

    def table(self, name: str = "gradebook.csv") -> list[dict[str, str]]:
        """Return a table that was written."""
        return list(csv.DictReader(io.StringIO((self.out / name).read_text())))

    def column(self, column: str, name: str = "gradebook.csv") -> dict[str, str]:
        """Return one column of a table, by id."""
        return {row["id"]: row[column] for row in self.table(name)}

    def result(self, id: str) -> Any:
        """Return the result of a submission."""
        return json.loads((self.out / "submissions" / id / "result.json").read_text())


def contents(out: Path, but: tuple[str, ...] = ("run.json", ".lock")) -> dict[str, bytes]:
    """Return all files below a folder, without those that have times."""
    found = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if name not in but}
