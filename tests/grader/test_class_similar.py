"""`similar`: copies are found in disguise, independent solutions are not, and no score changes."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from classes import Teacher, bundle, contents, handed_in
from hypothesis import given
from hypothesis import strategies as st

from grader.classroom.winnow import Source, code_of, links, pairs, source, usual
from grader.lab.regions import regions, stub
from grader.lab.strip import solved

ROOT = Path(__file__).resolve().parents[2]
RIGHT = ROOT / "tests" / "labs" / "right"
MASTERS = {folder.name: (ROOT / "labs" / folder.name / "solution.py").read_text() for folder in sorted(RIGHT.iterdir())}
HALF = 0.5


class Renames(ast.NodeTransformer):
    """Renames arguments, local variables and attributes of self, and drops docstrings and annotations."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        names = {node.arg for node in nodes if isinstance(node, ast.arg)}
        names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
        self.names = {name: f"q{at}" for at, name in enumerate(sorted(names))}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rename a variable."""
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Rename an argument."""
        return ast.copy_location(ast.arg(self.names[node.arg]), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Rename an attribute."""
        self.generic_visit(node)
        node.attr = self.names.get(node.attr, node.attr)
        return node


def disguised(text: str) -> str:
    """A copy of a solution: renamed, with its methods in another order, laid out anew, and with other comments."""
    tree = ast.parse(text)
    Renames(tree).visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            random.Random(1).shuffle(node.body)
    tree.body.insert(0, ast.parse("'''My own work.'''").body[0])
    lines = ast.unparse(tree).splitlines()
    return "\n".join(f"{line}  # {at}" if at % 3 else f"{line}\n\n" for at, line in enumerate(lines)) + "\n"


def solutions(lab: str) -> Iterator[Source]:
    """The published solution of a lab, and the independent ones."""
    master = MASTERS[lab]
    yield source("solution", solved(master), stub(master), published=True)
    for path in sorted((RIGHT / lab).glob("*.py")):
        yield source(path.stem, path.read_text(), stub(master))


@pytest.mark.parametrize("lab", MASTERS)
def test_independent_solutions_and_their_copies(lab: str) -> None:
    """No two independent right solutions are equal or share half. Of each, a disguised copy is found, and it alone."""
    right = list(solutions(lab))
    assert pairs(right, HALF) == []
    for one in right:
        copy = source("copy", disguised(one.text), stub(MASTERS[lab]))
        (pair,) = pairs([*right, copy], HALF)
        assert {pair.one.id, pair.other.id} == {"copy", one.id}
        assert pair.equal and pair.share > HALF
    changed = source("changed", f"{copy.text}\ndef more():\n    return 1\n", stub(MASTERS[lab]))
    (pair,) = pairs([right[-1], changed], HALF)
    assert not pair.equal


def test_the_stub_counts_nothing() -> None:
    """Two students who hand in the stub, or each another task, share nothing."""
    master = MASTERS["3-upqueries"]
    given = stub(master)
    assert source("s0001", given, given).prints == {} and not source("s0001", disguised(given), given).parts
    assert pairs([source("s0001", given, given), source("s0002", given, given)]) == []
    tasks = sorted({region.task for region in regions(master)})
    assert len(tasks) > 2
    lines = master.splitlines()

    def only(task: int) -> Source:
        other = [region for region in regions(master) if region.task != task]
        marks = {line for region in regions(master) if region.task == task for line in (region.first, region.last)}
        kept = [line for number, line in enumerate(lines, 1) if number not in marks]
        assert len(kept) == len(lines) - len(marks)
        text = "\n".join(kept) + "\n"
        return source(f"s{task:04}", stub(text) if other else text, given)

    first, last = only(tasks[0]), only(tasks[-1])
    assert first.prints and last.prints
    found = pairs([first, last])
    assert not any(pair.equal or pair.share > 0.1 for pair in found)
    whole = source("solution", solved(master), given, published=True)
    assert min(pair.share for pair in pairs([first, last, whole], HALF)) > 0.7


@given(st.integers(0, 40), st.integers(0, 30), st.integers(0, 30), st.randoms(use_true_random=False))
def test_runs_of_19_tokens_are_found(common: int, before: int, after: int, chance: random.Random) -> None:
    """A run of 19 tokens that two texts share is found, one of fewer than 16 is not, and no other line is matched."""

    def numbers(first: int, many: int) -> list[str]:
        return [str(first + chance.randrange(900)) for _ in range(many)]

    run = numbers(3000, common)
    one = "\n".join([*numbers(1000, before), *run, *numbers(1000, after)])
    other = "\n".join([*numbers(2000, after), *run, *numbers(2000, before)])
    found = pairs([source("s0001", one), source("s0002", other)])
    assert found or common < 19
    for pair in found:
        assert common >= 16 and 0 < pair.share <= 1
        assert set(pair.lines[0]) <= set(range(before + 1, before + common + 1))
        assert set(pair.lines[1]) <= set(range(after + 1, after + common + 1))


def test_what_a_pair_usually_shares() -> None:
    """The median of all pairs of students' solutions: here of 1, 0 and 0, then of 1, 1, 1, 0, 0 and 0."""
    one, other = (source(name, LONG) for name in ("s0001", "s0002"))
    third, fourth = source("s0003", OTHER), source("s0004", LONG)
    assert usual([one, other, third, source("solution", LONG, published=True)]) == 0
    assert usual([one, other, third, fourth]) == 0.5
    assert usual([one]) == 0


def test_code_that_cannot_be_parsed() -> None:
    """A syntax error, or nesting that ends the parser, leaves the tokens up to it."""
    good = solved(MASTERS["2-arrangement"])
    for bad in ("x = " + "-" * 200_000 + "1", "def broken(:\n    '''", "x = \\\n\x00"):
        one = source("s0001", f"{good}\n{bad}\n")
        (pair,) = pairs([one, source("s0002", good)], 0.9)
        assert not pair.equal
    assert source("s0003", "\x00").prints == {}


LONG = """
def double(x):
    total, text = 0, "<script>alert(1)</script>"
    if isinstance(x, str):
        parts = [x for _ in range(2)]
        return "".join(parts)
    for step in range(2):
        total = total + x
    return total
"""
OTHER = """
from functools import reduce
from operator import add


def double(x):
    return reduce(add, [x, x]) if {"a": 1, "b": [2, 3, 4]} and not (x is None or x is ...) else x.y.z[1:2][3](4)
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It lists the pairs, marks their lines on an escaped page, changes nothing else, and exports a folder."""
    teacher = Teacher(tmp_path, capsys)
    built = tmp_path / "lab"
    built.mkdir()
    teacher.lab = bundle(built / "bundle")
    for name, text in (("student", "def double(x):\n    raise NotImplementedError\n"), ("solution", OTHER)):
        (built / name).mkdir()
        (built / name / "solution.py").write_text(text)
    subs = handed_in(tmp_path / "subs", s0001=LONG, s0002=disguised(LONG), s0004="def double(x):\n    return x + x\n")
    cell = {"cell_type": "code", "source": OTHER.splitlines(True), "metadata": {}, "outputs": []}
    (subs / "s0003").mkdir()
    (subs / "s0003" / "mine.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    (subs / "s0005").mkdir()
    odd = [{"metadata": {}}, {"cell_type": "code"}, {**cell, "source": [1, None]}, 7, {**cell, "source": 3}]
    (subs / "s0005" / "mine.ipynb").write_text(json.dumps({"nbformat": 4, "cells": odd}))
    assert teacher.grade(subs) == 0, teacher.said
    before = contents(teacher.out)
    assert teacher.run("similar", teacher.out, "--export", tmp_path / "new") == 0, teacher.said
    lines = teacher.said.splitlines()
    assert lines[0] == "100 %  s0003 and solution (published), equal after renaming: lines 2-7 and 2-7"
    assert lines[1].partition("%  ")[2].startswith("s0001 and s0002, equal after renaming: lines ")
    assert lines[2] == "5 submissions; 2 pairs with 30 % or more"
    assert lines[3] == "  half of all pairs of submissions share 0 % or more"
    after = contents(teacher.out)
    page = after.pop("similar.html").decode()
    assert after == before
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<mark>=    8         total = total + x</mark>" in page and "s0004" not in page
    exported = {name: text.decode() for name, text in contents(tmp_path / "new").items()}
    assert exported == {
        **{
            f"submissions/{id}/solution.py": (subs / id / "solution.py").read_text()
            for id in ("s0001", "s0002", "s0004")
        },
        "submissions/s0003/solution.py": OTHER,
        "submissions/s0005/solution.py": "\n\n",
        "submissions/published-solution/solution.py": OTHER,
        "base/solution.py": (built / "student" / "solution.py").read_text(),
    }
    (tmp_path / "also").mkdir()
    (tmp_path / "also" / "last-year.py").write_text("def double(x):\n    return x + x\n" + LONG)
    assert teacher.run("similar", teacher.out, "--also", tmp_path / "also", "--least", "95") == 0
    assert "s0001 (of 2 alike) and last-year (published): lines" in teacher.said
    for words, said in {
        (tmp_path / "subs",): "has no run.json; give the folder that `python -m grader class ... --out` has written",
        (teacher.out, "--export", tmp_path / "new"): "is there already; give a new folder",
        (teacher.out, "--also", tmp_path / "subs"): "has no *.py; give a folder with a file for each solution",
        (teacher.out, "--least", "half"): "'half' is not a percentage from 0 to 100",
        (teacher.out, "--lab", tmp_path / "subs"): "give what `lab build` has written, such as --lab build/labs/1-",
    }.items():
        assert teacher.run("similar", *words) == 64
        assert said in teacher.said
    bundle(tmp_path / "two", number=2).rename(built / "other")
    (built / "bundle").rename(tmp_path / "away")
    (built / "other").rename(built / "bundle")
    assert teacher.run("similar", teacher.out) == 64
    assert "is lab 2, and the results are of lab 1" in teacher.said


def test_copies_are_a_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fifteen copies of one file, one of which has a line more, are one group; other pairs are listed beside it."""
    teacher = Teacher(tmp_path, capsys)
    built = tmp_path / "lab"
    built.mkdir()
    teacher.lab = bundle(built / "bundle")
    given, master = stub(MASTERS["3-upqueries"]), MASTERS["3-upqueries"]
    for name, text in (("student", given), ("solution", solved(MASTERS["2-arrangement"]))):
        (built / name).mkdir()
        (built / name / "solution.py").write_text(text)
    texts = {f"s{at:02}": solved(master) for at in range(1, 15)} | {"s15": f"{solved(master)}\nMORE = 1\n"}
    for number, path in enumerate(sorted((RIGHT / "3-upqueries").glob("*.py")), 21):
        texts |= {f"s{number}": path.read_text()}
    texts |= {"s31": LONG, "s32": disguised(LONG)}
    (teacher.out / "sources").mkdir(parents=True)
    handed_in(teacher.out / "sources", **texts)
    lab = {"number": 1, "title": "Doubles"}
    (teacher.out / "run.json").write_text(json.dumps({"lab": lab, "lab_folder": str(built / "bundle")}))
    assert teacher.run("similar", teacher.out, "--least", 5) == 0, teacher.said
    copies = ", ".join(f"s{at:02}" for at in range(1, 16))
    lines = teacher.said.splitlines()
    assert lines[0] == f"100 %  15 alike: {copies}"
    assert lines[1].partition("%  ")[2].startswith("s31 and s32, equal after renaming: lines ")
    assert sum("s01" in line for line in lines) == 1 + sum("s01 (of 15 alike) and s2" in line for line in lines)
    assert 2 < len(lines) - 3 < 10 and "s02 and" not in teacher.said
    page = (teacher.out / "similar.html").read_text()
    assert f'<td class="">{copies.partition(", ")[2]}</td>' in page and page.count("<details>") == len(lines) - 3


def test_a_short_solution_is_no_copy_of_long_ones() -> None:
    """What contains all of a short solution, and much more, is listed as a pair and joins no group."""
    text = solved(MASTERS["3-upqueries"])
    short = source("short", LONG)
    long = [source(f"s{at}", f"{LONG}\n{other}") for at, other in enumerate((text, OTHER * 9))]
    found = pairs([short, *long], HALF)
    assert len(found) == 2 and not any(pair.copy for pair in found)
    assert [[one.id for one in side] for link in links(found) for side in link.sides] == [
        ["s0"],
        ["short"],
        ["s1"],
        ["short"],
    ]


def test_code_of_a_notebook() -> None:
    """The code cells in order, without magics and shell lines. What is no cell, or has no text, is left out."""
    cells = [("code", "%time\nx = 1"), ("markdown", "y = 2"), ("code", ["  !ls\n", "z = 3"])]
    odd: list[object] = [{"source": "a = 4"}, {"cell_type": "code"}, 7]
    told = [*odd, *({"cell_type": kind, "source": source} for kind, source in cells)]
    text = json.dumps({"cells": told})
    assert code_of(text) == "\n\nx = 1\n\nz = 3\n"
