"""The table of phases: everything that lists phases follows it, and a phase can be added in a few lines."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from records import SECOND, right

from grader import explain, phases, table
from grader.classroom import teams
from grader.record import load, save
from grader.record.notes import SentWave
from grader.report import model, write
from grader.shop.counter import Wave
from grader.table import ASKED, JUDGED, PHASES, TABLE
from grader.verdict import special

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "grader.md").read_text()
(ADDED,) = re.findall(r"^```python\n(from grader.*?)```", PAGE, re.M | re.S)
"""The example of docs/grader.md: a phase that no session runs, and that gives no points."""


@pytest.fixture
def reordered() -> Iterator[None]:
    """The table with the phase of the page."""
    before = dict(TABLE), dict(special.RULES)
    try:
        exec(compile(ADDED, "docs/grader.md", "exec"), {})
        yield
    finally:
        for named, rows in zip((TABLE, special.RULES), before, strict=True):
            named.clear()
            named.update(rows)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_phase_of_ten_lines_is_judged_and_reported(tmp_path: Path, reordered: None, wrong: bool) -> None:
    """Its notes and its orders are stored, it has a verdict, violations and a row in each report, and no points."""
    assert len(ADDED.strip().splitlines()) <= 10
    record = right((*JUDGED, "reorder"))
    record.phases["reorder"].stopped = ""
    if wrong:
        record.events.append(at=150 * SECOND, process="order", what="order paid twice", detail="7 messages")
    save(record, tmp_path / "run")
    judgement, text = write(tmp_path / "run", tmp_path / "out")
    assert load(tmp_path / "run").phases == record.phases
    verdict, score = ("fail", 85.0) if wrong else ("pass", 85.0)
    assert judgement.verdict == verdict and judgement.score is not None and judgement.score.points == score
    assert judgement.phases["reorder"].verdict == ("fail" if wrong else "measured")
    assert [(v.rule, v.phase) for v in judgement.violations] == [("contract", "reorder")] * wrong
    assert "reorder     FAIL" in text if wrong else "reorder     measured" in text
    assert TABLE["reorder"].does in (tmp_path / "out" / "report.html").read_text()
    assert TABLE["reorder"].explains in " ".join(explain.explanation().split())
    first, again = ((tmp_path / "out" / name).read_bytes() for name in ("report.json", "report.json"))
    write(tmp_path / "run", tmp_path / "out")
    assert first == again == (tmp_path / "out" / "report.json").read_bytes()


def test_a_record_without_the_phase_is_reported_without_it(tmp_path: Path, reordered: None) -> None:
    """A phase that no session runs is in the reports of the records that have it, and in no other."""
    save(right(), tmp_path / "run")
    judgement, text = write(tmp_path / "run", tmp_path / "out")
    assert judgement.verdict == "pass" and list(judgement.phases) == list(PHASES) and "reorder" not in text


def test_the_lists_follow_the_table() -> None:
    """Each name in a row exists: its module, rule, result and points. The shares are those of one run."""
    rubric = tomllib.loads((ROOT / "grader" / "rubric.toml").read_text())
    assert set(ASKED) | {"safety_cap"} == set(rubric) and set(JUDGED) <= set(ASKED)
    assert sum(row.share for row in TABLE.values()) == pytest.approx(1.0)
    assert list(phases.RUN) == list(PHASES) == [name for name, row in TABLE.items() if row.share]
    assert {row.rule for row in TABLE.values()} == {"", *special.RULES}
    assert {row.result for row in TABLE.values()} == set(model.RESULTS)
    assert {name for name, points in teams.Checkout(1).points.items() if not points} == {"speed"}
    assert all(row.name == name for name, row in table.TABLE.items())


def listed(tree: ast.AST) -> list[int]:
    """The lines of the tuples, lists, sets and dicts that name three phases or more."""
    found = []
    for node in ast.walk(tree):
        values = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        names = {value.value for value in values if isinstance(value, ast.Constant)}
        if len(names & set(PHASES)) >= 3:
            found.append(node.lineno)
    return found


def test_only_the_table_lists_the_phases() -> None:
    """A phase is a row and a module: no other place has to be changed for it."""
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "grader").rglob("*.py")}
    copies = {name for name, path in files.items() if listed(ast.parse(path.read_text()))}
    assert copies == {"grader/record/version_1.py"}, "what records of version 1 meant by a number"
    assert listed(ast.parse("A = {'load': 1, 'speed': 2, 'faults': 3}")) == [1]


def test_each_flag_of_a_wave_is_in_its_record() -> None:
    """What a wave says about itself, besides what it sends, is stored under the same name with the same default."""
    flags = {each.name: each.default for each in fields(Wave) if each.type == "bool" and each.name != "bodies"}
    stored = {each.name: each.default for each in fields(SentWave) if each.type == "bool"}
    assert flags == stored and len(flags) == 3


def test_no_verdict_depends_on_a_text() -> None:
    """What judges, and what words its findings, takes no text apart: what it must know is a field."""
    apart = re.compile(r"\.(?:(?:starts|ends)with|r?partition|r?split|splitlines|r?find)\(|\bre\.|contain this text")
    grader = ROOT / "grader"
    files = [*grader.glob("audit/*.py"), *grader.glob("verdict/*.py"), grader / "record" / "notes.py"]
    files += [grader / "report" / f"{name}.py" for name in ("causes", "groups", "model", "terminal", "as_json")]
    taken = {f"{path.name}: {match}" for path in files for match in apart.findall(path.read_text())}
    assert taken == {"terminal.py: .partition(", "terminal.py: .split("}, "its lines are made of what processes print"
    assert apart.search("if detail.startswith(LOST)") and apart.search("# Records contain this text")
