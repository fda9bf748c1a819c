"""`replay --compare`: what a new grader changes in marks that were given."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from records import right, shots, value

from grader import cli
from grader.record import VERSION, Record, load, save
from grader.report import write
from grader.report.as_json import as_json
from grader.terms import Entity
from grader.verdict import judge

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {"kind": "void", "why": "the generator's process has exited with 1"}


def loses() -> Record:
    """A run in which the second user of duplicates was charged too much, and which the machine ended later."""
    record = right()
    user = int(np.flatnonzero(record.users["phase"] == "duplicates")[1])
    value(record, shots(record, "duplicates"), Entity.USER, user, lambda credit: credit - 10**6)
    record.about["failure"] = MACHINE
    return record


def test_a_report_of_the_same_grader_is_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All records below the folders are compared: exit 0, nothing is written. Those without a report are counted."""
    for name in ("team/a", "team/b"):
        save(right(), tmp_path / name)
        write(tmp_path / name, tmp_path / name)
    save(right(), tmp_path / "new")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert cli.main(["replay", "--compare", str(tmp_path / "team"), str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert said.endswith(f"{tmp_path / 'new'}: not graded before\n1 not graded before, 2 unchanged\n")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_changed_verdict_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict, the points, each phase and the violations, before and after: exit 1."""
    save(loses(), tmp_path)
    write(tmp_path, tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    gone = {"rule": "leaked", "label": None, "order_id": None, "candidates": [], "phase": "scarcity", "detail": "x"}
    report.update(verdict="void", at_most=None, violations=[gone])
    report["phases"]["duplicates"]["verdict"] = "void"
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert cli.main(["replay", "--compare", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [f"{tmp_path}: changed", "  verdict: void -> fail", "  at_most: none -> 40.0", lines[3]]
    assert "  phase duplicates: void -> fail" in lines and "  no longer: leaked of scarcity" in lines
    assert any(line.startswith("  new: charged_times of ") for line in lines) and lines[-1] == "1 changed"


def test_reports_that_are_kept_with_the_records_are_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """The records in labs/checkout keep the verdicts, points and violations that were given."""
    assert cli.main(["replay", "--compare", str(ROOT / "labs" / "checkout" / "records")]) == 0
    assert "2 unchanged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "report", "said"),
    [
        (["--compare", "."], None, ". contains no record; give the report folder of a run"),
        (["--compare", "run"], "{", "run/report.json is not JSON"),
        (["--compare", "run"], '{"verdict": "pass"}', "run: the record is inconsistent (KeyError: 'phases')"),
        (["run", "run"], None, "replay takes one folder, not 2; with --compare it takes several"),
    ],
)
def test_what_cannot_be_compared(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    report: str | None,
    said: str,
) -> None:
    """No record, a damaged report, and several folders without --compare: exit 64 with the reason."""
    monkeypatch.chdir(tmp_path)
    if "run" in words:
        save(right(), Path("run"))
    if report is not None:
        Path("run", "report.json").write_text(report)
    assert cli.main(["replay", *words]) == 64
    assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five records of version 1 and their reports: systems in memory on all phases, and one that loses rows."""
    folder = tmp_path_factory.mktemp("first")
    with tarfile.open(Path(__file__).with_name("version_1.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_records_of_version_1_keep_their_verdicts(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No verdict or violation changes. A system that does not answer has 0 points, which it did not have then."""
    assert cli.main(["replay", "--compare", str(first)]) == 1
    lines = [line.removeprefix(f"{first}/") for line in capsys.readouterr().out.splitlines()]
    names = ("lost", "oversells", "right", "sheds")
    changed = ["silent: changed", "  score: 5.0 -> 0.0"]
    assert lines == [*(f"{name}: unchanged" for name in names), *changed, "1 changed, 4 unchanged"]


@pytest.mark.parametrize("name", ["lost", "oversells", "right", "sheds", "silent"])
def test_a_record_of_version_1_becomes_one_of_now(first: Path, tmp_path: Path, name: str) -> None:
    """Phases have names, waves have flags, and the same report comes out of it after it was saved again."""
    record = load(first / name)
    save(record, tmp_path)
    again = load(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["record"] == VERSION
    assert as_json(again, judge(again)) == as_json(record, judge(record))
    assert (again.waves, again.phases, again.exchanges) == (record.waves, record.phases, record.exchanges)
    assert set(record.orders["phase"]) <= set(record.phases) | {"contract"}
    told = {wave.name: (wave.counts, wave.may_refuse, wave.again) for wave in record.waves if wave.phase == "load"}
    if name == "sheds":
        assert told["probe"] == (False, False, False) and told["load"] == (True, False, False)
        assert told["what was shed"] == (False, False, True)
    assert all(wave.may_refuse == wave.name.startswith("short") for wave in record.waves)


def test_a_record_is_written_and_read_without_pandas(tmp_path: Path) -> None:
    """Importing pandas takes a second of each run, and nothing here needs it."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from records import right\n"
        "from grader.record import load, save; from grader.report import write; from pathlib import Path\n"
        "place = Path(sys.argv[1]); save(right(), place); load(place); write(place, place)\n"
        "raise SystemExit('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
