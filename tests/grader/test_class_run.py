"""`class` as a run: it resumes after any end, repeats little, and gives the same bytes for any number of jobs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from classes import CHECKS, HIDDEN, RIGHT, SMALL, WRONG, Teacher, bundle, contents, handed_in

from grader.classroom import breaking, pool, teams, work
from grader.classroom.results import _SOURCES
from grader.classroom.run import Progress

ROOT = Path(__file__).resolve().parents[2]
MANY = {
    "s01": RIGHT,
    "s02": SMALL,
    "s03": WRONG,
    "s04": "def double(x):\n    while True: pass\n",
    "s05": "import os\nos._exit(0)\n",
    "s06": "def double(x):\n    raise ValueError(f'{object()} <script> \\ud800')\n",
    "s07": "import time\ndef double(x):\n    if x == 0: time.sleep(600)\n    return x + x\n",
    "s08": RIGHT,
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, bytes]]:
    """Submissions, a bundle, and what a run with one job has written."""
    tmp = tmp_path_factory.mktemp("undisturbed")
    quick = CHECKS.replace("cpu=1", "cpu=0.4"), HIDDEN.replace("cpu=1", "cpu=0.4")  # two of them hang
    lab, subs = bundle(tmp / "bundle", 1, *quick), handed_in(tmp / "subs", **MANY)
    process = started(subs, lab, tmp / "out", jobs=1)
    process.communicate(timeout=300)
    assert process.returncode == 0
    return subs, lab, contents(tmp / "out")


def started(subs: Path, lab: Path, out: Path, jobs: int = 2) -> subprocess.Popen[str]:
    """Start `class` as a process."""
    words = [sys.executable, "-m", "grader", "class", subs, "--lab", lab, "--out", out, "--jobs", jobs]
    return subprocess.Popen(
        list(map(str, words)), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def children(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes that judge submissions for this one."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path("/proc", name, "cmdline").read_text() if name.isdigit() else ""
        except OSError:
            continue
        if "grader.classroom.pool" in words and words.endswith(f"\0{process.pid}\0"):
            found.append(int(name))
    return found


def results(out: Path) -> set[str]:
    """Return the ids that have a result."""
    return {path.parent.name for path in out.glob("submissions/*/result.json")}


def test_what_is_found(undisturbed: tuple[Path, Path, dict[str, bytes]]) -> None:
    """Right, wrong, endless, leaving, raising and sleeping code: each has a result and a grade."""
    files = undisturbed[2]
    found = {id: json.loads(files[f"submissions/{id}/result.json"]) for id in MANY}
    outcomes = {id: [check["outcome"] for check in one["checks"]] for id, one in found.items()}
    assert outcomes == {
        "s01": ["pass", "pass", "pass"],
        "s02": ["pass", "pass", "wrong"],
        "s03": ["wrong", "error", "wrong"],
        "s04": ["timeout", "timeout", "not run"],
        "s05": ["crash", "crash", "crash"],
        "s06": ["error", "error", "error"],
        "s07": ["timeout", "pass", "pass"],
        "s08": ["pass", "pass", "pass"],
    }
    lines = files["gradebook.csv"].decode().splitlines()
    assert [line.split(",")[7] for line in lines[1:]] == ["100", "70", "0", "0", "0", "0", "50", "100"]
    assert re.search("0x[0-9a-f]{6}", json.dumps(found["s06"])) is None
    assert found["s04"]["checks"][2]["got"] == "two checks of task 1 have timed out"
    assert "s04,1,graded,not run: two checks of task 1 have timed out," in files["problems.csv"].decode()
    assert files["sources/s02/solution.py"].decode() == SMALL
    assert not [name for name in files if "first" in name or name.endswith(".new")]


def test_same_bytes_with_two_jobs_and_twice(
    undisturbed: tuple[Path, Path, dict[str, bytes]], tmp_path: Path, teacher: Teacher
) -> None:
    """Two jobs give the same files as one. The same command again judges nothing and changes nothing."""
    subs, teacher.lab, files = undisturbed
    assert teacher.grade(subs, "--jobs", 2) == 0
    assert contents(teacher.out) == files
    times = {path: path.stat().st_mtime_ns for path in teacher.out.glob("submissions/*/*")}
    assert teacher.grade(subs, "--jobs", 2) == 0
    assert contents(teacher.out) == files
    assert {path: path.stat().st_mtime_ns for path in teacher.out.glob("submissions/*/*")} == times


def test_kill_9_loses_what_was_running(undisturbed: tuple[Path, Path, dict[str, bytes]], tmp_path: Path) -> None:
    """Killed when 1, 3 and 5 results are there: no process is left, no result is repeated, the files are equal."""
    subs, lab, files = undisturbed
    out = tmp_path / "out"
    for at in (1, 3, 5):
        process = started(subs, lab, out)
        until = time.monotonic() + 300
        while len(results(out)) < at and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        those = children(process)
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        kept = {id: (out / "submissions" / id / "result.json").stat().st_mtime_ns for id in results(out)}
        assert at <= len(kept) < len(MANY)
        while (any(_runs(pid) for pid in those) or children(process)) and time.monotonic() < until:
            time.sleep(0.05)  # a process can have been started just before the kill
        assert not any(_runs(pid) for pid in those)
        assert not children(process)
        scratch = json.loads((out / "run.json").read_text())["scratch"]
        while any(scratch in _words(pid) for pid in os.listdir("/proc")) and time.monotonic() < until:
            time.sleep(0.05)
        assert not [pid for pid in os.listdir("/proc") if scratch in _words(pid)]
    process = started(subs, lab, out)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert {id: (out / "submissions" / id / "result.json").stat().st_mtime_ns for id in kept} == kept
    assert contents(out) == files
    assert not Path(scratch).exists()


def _runs(pid: int) -> bool:
    """Whether a process has not ended. A zombie has ended: this process may have adopted it."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def _words(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text() if pid.isdigit() else ""
    except OSError:
        return ""


def test_ctrl_c_and_a_killed_child(undisturbed: tuple[Path, Path, dict[str, bytes]], tmp_path: Path) -> None:
    """Ctrl-C: 130, and the same command continues. A child that was killed is void at first, then tried again."""
    subs, lab, files = undisturbed
    out = tmp_path / "out"
    process = started(subs, lab, out)
    until = time.monotonic() + 300
    while not results(out) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "the same command continues where this one has stopped" in said
    assert "Traceback" not in said
    while children(process) and time.monotonic() < until:
        time.sleep(0.01)  # one that was being started ends itself
    assert not children(process)
    assert 0 < len(results(out)) < len(MANY)
    process = started(subs, lab, out)
    while not children(process) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    for pid in children(process)[:1]:
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert contents(out) == files


def test_new_submissions_and_only(teacher: Teacher, tmp_path: Path) -> None:
    """A changed submission is judged again, and its earlier result is kept. --only leaves the others alone."""
    subs = handed_in(tmp_path / "subs", s0001=WRONG, s0002=WRONG)
    assert teacher.grade(subs, "--only", "s0001") == 0
    assert teacher.column("score") == {"s0001": "0"}
    (subs / "s0001" / "solution.py").write_text(RIGHT)
    assert teacher.grade(subs) == 0
    assert teacher.column("score") == {"s0001": "100", "s0002": "0"}
    before = json.loads((teacher.out / "submissions" / "s0001" / "result-1.json").read_text())
    assert before["checks"][0]["outcome"] == "wrong"
    (change,) = teacher.table("changes.csv")
    assert (change["why"], change["points_before"], change["points_now"]) == ("another submission", "0", "100")
    assert change["checks"] == "double: wrong -> pass, words: error -> pass, large: wrong -> pass"


def test_relative_paths(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to the folder in which the teacher types the command."""
    monkeypatch.chdir(tmp_path)
    handed_in(Path("subs"), s01=RIGHT)
    assert teacher.run("class", "subs", "--lab", "bundle", "--out", "out", "--names", "folder") == 0, teacher.said


def test_regrade_never_lowers(teacher: Teacher, tmp_path: Path) -> None:
    """A regrade with a stricter check keeps the earlier points. With --allow-lower, the newest counts for good."""
    subs = handed_in(tmp_path / "subs", s0001=SMALL, s0002=RIGHT)
    assert teacher.grade(subs) == 0
    teacher.lab = bundle(tmp_path / "strict", checks=CHECKS.replace("range(3)", "(0, 2000)"))
    assert teacher.grade(subs, "--regrade", "changed") == 0
    assert teacher.column("score") == {"s0001": "70", "s0002": "100"}
    assert teacher.column("counts", "changes.csv") == {"s0001": "earlier"}
    assert "the earlier result counts" in (teacher.out / "submissions" / "s0001" / "feedback.html").read_text()
    assert teacher.run("grades", teacher.out, "--allow-lower") == 0
    assert teacher.column("score") == {"s0001": "20", "s0002": "100"}
    assert teacher.run("grades", teacher.out) == 0
    assert teacher.column("score") == {"s0001": "20", "s0002": "100"}


def test_results_of_an_older_grader_are_told(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept, and the last line says how many there are; --regrade changed runs them again, and only them."""
    subs = handed_in(tmp_path / "subs", s0001=RIGHT, s0002=SMALL)
    assert teacher.grade(subs) == 0
    assert "earlier version" not in teacher.said
    monkeypatch.setattr(work, "grader_hash", lambda: "newer")
    handed_in(subs, s0003=RIGHT)
    assert teacher.grade(subs) == 0
    told = "results from an earlier version of the grader or the lab: 2; --regrade changed runs them again\n"
    assert told in teacher.said
    assert teacher.result("s0001")["grader"] != "newer"
    assert teacher.grade(subs, "--regrade", "changed") == 0
    assert "earlier version" not in teacher.said
    assert sorted(path.parent.name for path in teacher.out.rglob("result-1.json")) == ["s0001", "s0002"]


STORES = {"classroom/results.py", "files.py"}


@pytest.mark.parametrize(
    ("judges", "sources", "without"),
    [
        # How results are stored; what reads a checkout.toml; what the commands of students print.
        ("one", _SOURCES, {*STORES, "toml.py", *(f"submission/{x}.py" for x in ("model", "places", "reading"))}),
        ("checkout", teams.SOURCES, STORES),
        (
            "breaking, grader.explore.breaking",
            (*breaking.SOURCES, *teams.SOURCES, "explore"),
            {*STORES, "classroom/work.py", "statuses.py", *(f"student/{x}.py" for x in ("command", "files", "folder"))},
        ),
    ],
)  # fmt: skip
def test_the_hash_covers_what_judges(judges: str, sources: tuple[str, ...], without: set[str]) -> None:
    """Every module that the judging one imports is in the hash of its results, or cannot change a result."""
    found = "(module.__file__ for name, module in sys.modules.items() if name.partition('.')[0] == 'grader')"
    code = f"import sys, grader.classroom.{judges}; print(*{found})"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    loaded = {Path(path).relative_to(ROOT / "grader").as_posix() for path in said.split()}
    assert f"classroom/{judges.partition(',')[0]}.py" in loaded
    known = ("__init__.py", *sources, *without)
    assert not [path for path in loaded if not path.startswith(known) and not path.endswith("/__init__.py")]


def test_one(teacher: Teacher, tmp_path: Path) -> None:
    """`one` judges one submission as `class` does: 0 graded, 1 unreadable, 64 for wrong usage."""
    subs = handed_in(tmp_path / "subs", s0001=SMALL, s0002=RIGHT)
    (subs / "s0002" / "solution.py").rename(subs / "s0002" / "solution.txt")
    assert teacher.grade(subs) == 1
    for id, status in (("s0001", 0), ("s0002", 1)):
        told = tmp_path / f"{id}.json"
        assert teacher.run("one", subs / id, "--lab", teacher.lab, "--results", told) == status
        same = json.loads(teacher.said[teacher.said.index("{") : teacher.said.rindex("}") + 1])
        assert sum(test["score"] for test in json.loads(told.read_text())["tests"]) == 70 - 70 * status
        assert {**same, "submission": ""} == {**teacher.result(id), "submission": ""}
    assert teacher.run("one", subs / "s0003", "--lab", teacher.lab) == 64
    assert teacher.run("one", subs / "s0001", "--lab", subs) == 64


SHARES = "def double(x, known={}):\n    return known.setdefault(type(x), x + x)\n"
DIFFERS = "import os\ndef double(x):\n    return x + x if x != 2 or 'again' in os.getcwd() else 5\n"
CHANCE = "import os\ndef double(x):\n    return x + x if os.urandom(1)[0] & 1 else None\n"
INCOMPLETE = "def triple(x):\n    return 3 * x\n"


def test_answers_that_differ_and_state_that_is_shared(teacher: Teacher, tmp_path: Path) -> None:
    """Points are lost in both cases. What differs is listed with both answers; what passes alone has no command.

    DIFFERS is wrong in the first process only. CHANCE is wrong half of the time, so each outcome is possible.
    """
    subs = handed_in(tmp_path / "subs", s01=SHARES, s02=DIFFERS, s03=CHANCE, s04=INCOMPLETE, s05=WRONG)
    assert teacher.grade(subs) == 0, teacher.said
    assert {id: score for id, score in teacher.column("score").items() if id != "s03"} == {
        "s01": "20",
        "s02": "50",
        "s04": "0",
        "s05": "0",
    }
    checks = {id: {one["check"]: one for one in teacher.result(id)["checks"]} for id in teacher.column("score")}
    pages = {id: (teacher.out / "submissions" / id / "feedback.html").read_text() for id in checks}
    assert {id: (one["outcome"], one["alone"], one["got"]) for id, one in checks["s01"].items()} == {
        "double": ("wrong", True, "0"),
        "words": ("pass", False, ""),
        "large": ("wrong", True, "0"),
    }
    assert "passes alone: do your objects share state?" in pages["s01"] and "--case" not in pages["s01"]
    differs = checks["s02"]["double"]
    assert (differs["outcome"], differs["got"], differs["other"]) == ("answers differ", "5", "4")
    assert "answers differ" in pages["s02"] and "--case" not in pages["s02"]
    assert checks["s04"]["words"]["got"] == "NameError: 'double' is not defined in solution"
    assert "python -m grader check --case double:2" in pages["s05"] and "alone" not in pages["s05"]
    listed = [row for row in teacher.table("problems.csv") if "answers differ" in row["problem"]]
    by_chance = [one for one in checks["s03"].values() if one["outcome"] == "answers differ"]
    assert [row["id"] for row in listed] == ["s02", *["s03"] * len(by_chance)]
    assert listed[0]["problem"] == "double:3: answers differ: 5, then 4"
    for one in checks["s03"].values():
        assert one["outcome"] in ("pass", "wrong", "answers differ")
        assert one["outcome"] == "pass" or one["got"] != one["other"]


def test_a_case_of_any_check_for_the_teacher(teacher: Teacher, tmp_path: Path) -> None:
    """`one --case` shows trace, right answer and answer of a case, and whether it passes alone; nothing is written."""
    subs = handed_in(tmp_path / "subs", small=SMALL, shares=SHARES)
    (subs / "none").mkdir()

    def case(id: str, case: str, *words: object) -> tuple[int, list[str]]:
        before = contents(tmp_path, ())
        status = teacher.run("one", subs / id, "--lab", teacher.lab, "--case", case, *words)
        assert contents(tmp_path, ()) == before
        return status, [" ".join(line.split()) for line in teacher.said.splitlines()]

    rule = "rule Large numbers are doubled, too."
    lines = [rule, "trace double(7654321)", "right 15308642", "got 0", "alone fails alone"]
    assert case("small", "large:1") == (1, ["wrong large:1", *lines, teacher.said.splitlines()[-1]])
    rule = "rule A text is repeated. (rule 7)"
    lines = ["pass words:1", rule, "trace double('ab')", "right 'abab'", "got 'abab'", "alone passes alone"]
    assert case("small", "words:1") == (0, [*lines, teacher.said.splitlines()[-1]])
    lines = [
        "wrong double:2",
        "rule double(x) returns 2 * x.",
        "trace double(1)",
        "right 2",
        "got 0",
        "alone passes alone: do your objects share state?",
    ]
    assert case("shares", "double:2") == (1, [*lines, teacher.said.splitlines()[-1]])
    assert case("shares", "double:3")[0] == 0  # the check has failed before it
    status, said = case("small", "unknown:1")
    assert status == 64 and "there is no check 'unknown'; the checks are double, words, large" in said[-1]
    status, said = case("small", "double:4")
    assert status == 64 and "double has no case 4; it has 3" in said[-1]
    for words in ("double", "double:0", ":1", "double:x"):
        assert case("small", words)[0] == 64
    assert case("small", "double:1", "--results", tmp_path / "results.json")[0] == 64
    status, said = case("none", "double:1")
    assert status == 1 and "solution.py is missing" in said[-1]
    teacher.lab = bundle(tmp_path / "visible", checks=CHECKS + HIDDEN.partition("\n\n")[2], hidden="")
    status, said = case("small", "unknown:1")
    assert status == 64 and said[-1].endswith("the checks are double, words, large; none of them is hidden")


def test_a_notebook_is_read_and_not_run(teacher: Teacher, tmp_path: Path) -> None:
    """Definitions of a notebook are judged; calls and magics are dropped and named in the feedback."""
    sources = ["%matplotlib inline\n", "def double(x):\n    return 0\n", f"{RIGHT}\nprint(double(2))\n", "%%bash\nls\n"]
    cells = [{"cell_type": "code", "source": source, "outputs": [{"text": "100"}]} for source in sources]
    place = tmp_path / "subs" / "s0001" / "mine.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    assert teacher.grade(tmp_path / "subs") == 0
    assert teacher.column("score") == {"s0001": "100"}
    page = (teacher.out / "submissions" / "s0001" / "feedback.html").read_text()
    (tmp_path / "subs" / "s0001" / "solution.py").write_text(SMALL)
    for stored, score in (("solution.py", "70"), ("solution.ipynb", "100")):
        assert teacher.grade(tmp_path / "subs") == 0
        assert [path.name for path in (teacher.out / "sources" / "s0001").iterdir()] == [stored]
        assert teacher.column("score") == {"s0001": score}
        (tmp_path / "subs" / "s0001" / "solution.py").unlink(missing_ok=True)
    for said in ("%matplotlib inline", "double is defined 2 times; cell 3 counts", "print(double(2))", "%%bash"):
        assert said in page


def test_a_check_that_fails_is_void(teacher: Teacher, tmp_path: Path) -> None:
    """A mistake in checks.py gives no grade and stops nobody: status void, exit 2. It is tried again next time."""
    teacher.lab = bundle(tmp_path / "broken", checks=CHECKS.replace("for x in range(3):", "for x in range(3 // 0):"))
    assert teacher.grade(handed_in(tmp_path / "subs", s0001=RIGHT, s0002=WRONG)) == 2
    assert teacher.column("status") == {"s0001": "void", "s0002": "void"}
    assert "ZeroDivisionError" in teacher.column("problem", "problems.csv")["s0001"]
    assert not list(teacher.out.rglob("result-1.json"))


def test_forgetting_a_student(teacher: Teacher, tmp_path: Path) -> None:
    """Deleting submissions/ID and running `grades` removes all that is known of a student."""
    roster = tmp_path / "roster.csv"
    roster.write_text("id,name\ns0001,Student 1\ns0002,Student 2\n")
    assert teacher.grade(handed_in(tmp_path / "subs", s0001=RIGHT, s0002=RIGHT), "--roster", roster) == 0
    for path in (teacher.out / "submissions" / "s0001").iterdir():
        path.unlink()
    (teacher.out / "submissions" / "s0001").rmdir()
    roster.write_text("id,name\ns0002,Student 2\n")
    assert teacher.run("grades", teacher.out, "--roster", roster) == 0
    assert not list(teacher.out.rglob("*s0001*"))
    assert not [
        path for path in teacher.out.rglob("*") if path.is_file() and re.search(b"s0001|Student 1", path.read_bytes())
    ]


def test_the_pool_reports_a_process_that_dies(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A task whose process is killed has no result; the next task gets a new process.

    A process that starts after Ctrl-C has removed the scratch folder ends without a word.
    """
    task: dict[str, Any] = {
        "kind": "lab",
        "id": "s1",
        "files": [],
        "bundle": str(tmp_path),
        "key": {},
        "tier": {},
        "scratch": str(tmp_path),
    }
    assert [(one["id"], found) for one, found, _ in pool.run([task, {**task, "id": "s2"}], 1)] == [
        ("s1", None),
        ("s2", None),
    ]
    assert "Traceback" in capfd.readouterr().err
    assert [found for _, found, _ in pool.run([{**task, "scratch": str(tmp_path / "removed")}], 1)] == [None]
    assert capfd.readouterr().err == ""


def test_progress_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """The count, those without a grade, and the time left; a line every few seconds."""
    now = 0.0
    shown = Progress(200, 160, 3, [], 1, lambda: now)
    for now in range(1, 98):
        shown.done({"status": "void" if now == 1 else "graded"}, 1.0)
    assert shown.text() == "137 of 200 graded, 4 without a grade, about 63 s left"
    assert len(capsys.readouterr().err.splitlines()) == 16


def test_the_first_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    """It counts what results have taken in this run and in earlier ones, and all processes. It needs five results."""
    slow, quick = {"status": "graded"}, [2.0] * 38 + [20.0] * 2
    after_a_kill = Progress(200, 160, 0, quick, 2, lambda: 0.0)
    after_a_kill.done(slow, 20.0)
    assert after_a_kill.text() == "41 of 200 graded, 0 without a grade, about 4 min left"
    new = Progress(60, 60, 0, [], 2, lambda: 0.0)
    for at in range(4):
        new.done(slow, 20.0)
        assert new.text() == f"{at + 1} of 60 graded, 0 without a grade"
    new.done(slow, 5.0)
    assert new.text() == "5 of 60 graded, 0 without a grade, about 8 min left"


def test_seconds_are_kept_by_a_kill(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result stores how long it took in run.json, so that the next run can estimate."""
    seen = list[list[str]]()

    def watched(progress: Progress, found: object, seconds: float) -> None:
        seen.append(sorted(json.loads((teacher.out / "run.json").read_text())["seconds"]))

    monkeypatch.setattr(Progress, "done", watched)
    assert teacher.grade(handed_in(tmp_path / "subs", s1=RIGHT, s2=RIGHT), "--jobs", 1) == 0
    assert seen == [["s1"], ["s1", "s2"]]
