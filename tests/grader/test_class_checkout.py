"""Lab 6: `class --lab 6` turns report.json into results, grades teams one at a time, and continues after kill -9."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import zoo
from classes import Teacher, contents, handed_in
from records import charged, right

from grader.__main__ import main
from grader.classroom import checkout, explored, exploring, results, run, teams, work
from grader.classroom.checkout import result, system
from grader.classroom.points import Rubric, earned
from grader.classroom.results import hash_of, reason
from grader.errors import SubmissionError
from grader.record import Exchange, Notes, Record
from grader.report.as_json import content
from grader.report.explored import write_explored
from grader.sandbox import Tier
from grader.submission import read_submission
from grader.table import ASKED, JUDGED
from grader.terms import SAFETY
from grader.verdict import judge

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "grader" / "explore" / "stored"
KEY = {"submission": "s" * 64, "bundle": "b" * 64, "grader": "g" * 64}
ROSTER = """id,name,team,lms_id
s0001,Student 1,red,1000001
s0002,Student 2,red,1000002
s0003,Student 3,blue,1000003
s0004,Student 4,,1000004
s0005,Student 5,green,1000005
"""
ALL = {name: Decimal(points) for name, points in teams.Checkout(1).points.items()} | {"speed": Decimal(15)}
Report = dict[str, Any]


def reported(record: Record) -> Report:
    """The report.json of a record, read back."""
    found: Report = json.loads(json.dumps(content(record, judge(record))))
    return found


def wrong(phase: str, failure: dict[str, str] | None = None) -> Report:
    """The report of a run in which the second order of a phase was charged twice. ``failure``: what ended it then."""
    record = right()
    if failure:
        record.about["failure"] = failure
        for later in JUDGED[JUDGED.index(phase) + 1 :]:
            del record.phases[later]
    charged(record, phase, 1)
    return reported(record)


def outcomes(found: Report) -> dict[str, str]:
    """The outcome of each check."""
    return {check["check"]: check["outcome"] for check in found["checks"]}


def points(found: Report) -> Decimal:
    """The points of a result if speed counts as in the report, with the cap for broken safety rules."""
    got = earned(found, ALL, Rubric({}))
    assert got is not None
    return min(got, Decimal(40)) if found["unsafe"] else got


def test_a_right_run() -> None:
    """All phases pass. The points, with those for speed, are the report's score, and 85 without them."""
    report = reported(right())
    found = result(report, 6, KEY)
    assert (report["verdict"], found["status"], found["why"], found["unsafe"]) == ("pass", "graded", "", False)
    assert outcomes(found) == {name: "measured" if ASKED[name].measured else "pass" for name in ASKED}
    assert points(found) == Decimal(str(report["score"]))
    assert earned(found, ALL | {"speed": Decimal(0)}, Rubric({})) == Decimal(85)
    assert [check["got"] for check in found["checks"] if check["check"] == "speed"] == ["0 per second"]


@pytest.mark.parametrize("phase", ["duplicates", "load", "scarcity", "faults"])
def test_a_wrong_balance(phase: str) -> None:
    """The phase's check is wrong and names the order; the cap holds; the points are the report's score."""
    report = wrong(phase)
    found = result(report, 6, KEY)
    assert report["verdict"] == "fail" and report["score"] == 40
    assert [name for name, outcome in outcomes(found).items() if outcome == "fail"] == [phase]
    (check,) = [check for check in found["checks"] if check["check"] == phase]
    assert check["got"].startswith(f"charged_times: order {phase}-000001 ({phase}-o1) charged 2 times, should be once")
    assert "The same checkout ran twice" in check["says"]
    assert found["unsafe"] and points(found) == Decimal(40)


def test_the_cap_counts_only_broken_safety_rules() -> None:
    """A wrong answer of a route costs its phase; without lost money or stock, nothing else."""
    record = right()
    record.exchanges.append(Exchange("find an item", "stock", "GET /stock/find/x", "404", "500"))
    report = reported(record)
    found = result(report, 6, KEY)
    assert (found["unsafe"], outcomes(found)["contract"], report["score"]) == (False, "fail", 75)
    assert points(found) == 75 and "GET /stock/find/x: expected 404, got 500" in found["checks"][0]["got"]
    broken: Report = {"label": "", "order_id": None, "candidates": [], "phase": "load", "detail": "refused"}
    for rule in ("false_refusal", "unavailable", *SAFETY):
        report["phases"]["load"]["verdict"] = "fail"
        report["violations"] = [{**broken, "rule": rule}]
        found = result(report, 6, KEY)
        assert found["unsafe"] == (rule in SAFETY)
        assert (outcomes(found)["false_refusals"] == "fail") == (rule == "false_refusal")
        assert outcomes(found)["load"] == "fail"


def test_what_is_void_has_no_points() -> None:
    """A void run is void, with the reason and what to do. A proven fail beside a void phase is unfinished."""
    report = reported(right()) | {"verdict": "void", "why": "the machine was too busy", "score": None}
    found = result(report, 6, KEY)
    assert (found["status"], found["checks"], earned(found, ALL, Rubric({}))) == ("void", [], None)
    assert reason(found) == ("the machine was too busy", "run the same command again, on an idle machine")
    report = wrong("duplicates")
    report["phases"]["load"]["verdict"] = "void"
    found = result(report | {"why": "the machine was too busy to judge load", "at_most": 40.0}, 6, KEY)
    why = ("the machine was too busy to judge load", "run the same command again for the rest")
    assert (found["status"], reason(found)) == ("unfinished", why)
    assert (outcomes(found)["load"], outcomes(found)["duplicates"]) == ("unreached", "fail")
    assert earned(found, ALL, Rubric({})) is None


def test_a_system_that_does_not_run_has_0_points() -> None:
    """It is graded, with the reason, and no check is reached. So is a phase after a contract phase without answers."""
    record = right(())
    record.about["failure"] = {"kind": "submission", "why": "order exited: no database"}
    report = reported(record)
    found = result(report, 6, KEY)
    assert (found["status"], points(found), report["score"]) == ("graded", Decimal(0), 0)
    assert found["why"] == "The system did not run to the end: order exited: no database"
    assert {*outcomes(found).values()} == {"unreached"}
    record = right(("contract",))
    record.about["asked"] = list(ASKED)
    record.phases["duplicates"] = Notes(skipped="the system did not answer")
    found = result(reported(record), 6, KEY)
    assert outcomes(found)["contract"] == "pass"
    assert {outcome for name, outcome in outcomes(found).items() if name != "contract"} == {"unreached"}
    assert points(found) == 10


def _pack(path: Path, **texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in texts.items():
            packed.writestr(name.replace("__", "/").replace("_toml", ".toml"), text)
    return path


def test_the_system_is_found(tmp_path: Path) -> None:
    """In a folder, an archive, an archive in a folder, or below other folders; the outermost checkout.toml counts."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for given in (
        _pack(tmp_path / "a.zip", checkout_toml=""),
        _pack(tmp_path / "b.zip", ours__shop__checkout_toml="", ours__shop__old__checkout_toml="", ours__notes=""),
        _pack(tmp_path / "Student 1_1_assignsubmission_file_" / "c.zip", c__checkout_toml="").parent,
    ):
        assert (system([("", given)], scratch) / "checkout.toml").is_file()
    two = _pack(tmp_path / "d.zip", a__checkout_toml="", b__checkout_toml="")
    with pytest.raises(SubmissionError, match="there are 2 systems with a checkout.toml: a, b; hand in one"):
        system([("", two)], scratch)
    for given, said in ((_pack(tmp_path / "e.zip", readme_toml=""), "readme.toml"), (tmp_path / "f.py", "a .py file")):
        given.touch()
        with pytest.raises(SubmissionError, match=f"checkout.toml is missing; found: {said}; hand in the folder"):
            system([("", given)], scratch)


def test_a_broken_checkout_toml_is_graded_and_nothing_is_unreadable(tmp_path: Path) -> None:
    """0 points with the line, as `checkout` does; a damaged archive and a folder without the file are unreadable."""
    (tmp_path / "scratch").mkdir()
    handed_in(tmp_path / "subs", empty="")
    (tmp_path / "subs" / "wrong").mkdir()
    (tmp_path / "subs" / "wrong" / "checkout.toml").write_text('name = "x"\nbase_url = 3\n')
    (tmp_path / "subs" / "damaged.zip").write_bytes(b"PK\3\4")
    found = {}
    for name in ("wrong", "empty", "damaged.zip"):
        task = {"id": name, "files": [("", str(tmp_path / "subs" / name))], "key": KEY, "lab": 6, "mode": "quick"}
        asked = {**task, "seed": 1, "limits": {}, "out": str(tmp_path / "out" / name)}
        found[name] = checkout.judge(asked, tmp_path / "scratch")
    assert {name: one["status"] for name, one in found.items()} == {
        "wrong": "graded",
        "empty": "unreadable",
        "damaged.zip": "unreadable",
    }
    assert (
        "checkout.toml, process: at least one [[process]] table" in found["wrong"]["why"]
        and points(found["wrong"]) == 0
    )
    assert (tmp_path / "out" / found["wrong"]["report"]).is_file()
    assert "cannot be unpacked" in found["damaged.zip"]["why"]


class Runs:
    """In place of the pool: answers tasks from reports, and remembers who was asked in which mode."""

    def __init__(self, **reports: Report) -> None:
        self.reports, self.asked = reports, list[tuple[str, str]]()

    def __call__(self, tasks: list[dict[str, Any]], jobs: int) -> Iterator[tuple[Any, Any, float]]:
        assert jobs == 1
        for task in tasks:
            self.asked.append((task["id"], task["mode"]))
            out = Path(task["out"])
            out.mkdir(parents=True, exist_ok=True)
            (out / "report.html").write_text(f"report of {task['id']}")
            found = result(self.reports[task["id"]], task["lab"], task["key"])
            named = {**found, "mode": task["mode"], "report": f"{out.name}/report.html"}
            yield task, {"found": named, "sources": {}}, 1.0

    def taken(self) -> list[tuple[str, str]]:
        """Return who was asked since the last call."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Team red is right, team blue charges twice."""
    found = Runs(red=reported(right()), blue=wrong("duplicates"))
    monkeypatch.setattr(run, "run", found)
    monkeypatch.setattr(teams, "best_tier", lambda *how: (Tier(1, "bubblewrap", ""), False))
    return found


@pytest.fixture
def teacher(teacher: Teacher, tmp_path: Path) -> Teacher:
    """A teacher with a roster and the systems of two teams."""
    (tmp_path / "roster.csv").write_text(ROSTER)
    for team in ("red", "blue"):
        (tmp_path / "subs" / team).mkdir(parents=True)
        (tmp_path / "subs" / team / "checkout.toml").write_text(f'name = "{team}"\n')
    teacher.lab = Path(teams.LAB)
    return teacher


def test_each_member_gets_the_points_of_the_team(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """A student without a team is a team of one. Late days, adjustments and pages are those of the member."""
    (tmp_path / "adjust.csv").write_text("id,lab,points,reason\ns0002,6,-5,oral examination\n")
    words = ("--roster", tmp_path / "roster.csv", "--adjust", tmp_path / "adjust.csv")
    assert teacher.grade(tmp_path / "subs", *words) == 1
    assert "2 teams to grade, one at a time (--quick, up to 3 minutes each): up to 6 minutes" in teacher.said
    rows = {row["id"]: (row["status"], row["points"], row["of"], row["score"]) for row in teacher.table()}
    assert rows == {
        "s0001": ("graded", "85", "85", "85"),
        "s0002": ("graded", "85", "85", "80"),
        "s0003": ("graded", "40", "85", "40"),
        "s0004": ("missing", "", "85", ""),
        "s0005": ("missing", "", "85", ""),
    }
    pages = {path.name: path.read_text() for path in teacher.out.rglob("feedback*.html")}
    assert sorted(pages) == ["feedback-s0001.html", "feedback-s0002.html", "feedback-s0003.html"]
    assert "oral examination" in pages["feedback-s0002.html"] and "s0001" not in pages["feedback-s0002.html"]
    assert "Money or stock was wrong, which limits the points to 40." in pages["feedback-s0003.html"]
    assert "charged 2 times, should be once" in pages["feedback-s0003.html"]
    shares = "<caption>A phase that passes has all of its points. What is measured has a share.</caption>"
    assert all(shares in page and "A check that passes has all" not in page for page in pages.values())
    (link,) = re.findall('href="(.+?)"', pages["feedback-s0003.html"])
    assert (teacher.out / "submissions" / "blue" / link).read_text() == "report of blue"
    assert "1 of 2 (50%)" in (teacher.out / "class.html").read_text()
    (tmp_path / "rubric.toml").write_text('[points]\n"speed" = 15\n"duplicates" = 30\n')
    assert teacher.run("grades", teacher.out, "--rubric", tmp_path / "rubric.toml") == 1
    assert teacher.column("of")["s0001"] == "115" and teacher.column("points")["s0001"] == "100"
    assert runs.taken() == [("blue", "quick"), ("red", "quick")]


def test_a_graded_team_is_not_run_again(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """Only what is new, has changed, or is asked for in full runs; a full result also counts for --quick."""
    subs, red = tmp_path / "subs", teacher.out / "submissions" / "red"
    assert teacher.grade(subs, "--roster", tmp_path / "roster.csv") == 1
    seed = json.loads((teacher.out / "run.json").read_text())["lab"]["seed"]
    assert runs.taken() == [("blue", "quick"), ("red", "quick")]
    before = contents(teacher.out)
    assert teacher.grade(subs) == 1
    assert runs.taken() == [] and contents(teacher.out) == before
    assert "0 teams to grade" not in teacher.said
    assert teacher.grade(subs, "--full", "--only", "red") == 1
    assert "1 team to grade, one at a time (--full, up to 13 minutes each): up to 13 minutes" in teacher.said
    assert runs.taken() == [("red", "full")]
    assert (json.loads((red / "result-1.json").read_text())["mode"], teacher.result("red")["mode"]) == ("quick", "full")
    assert len(list(red.glob("report-*/report.html"))) == 2
    assert teacher.grade(subs) == 1 and teacher.grade(subs, "--full", "--only", "red") == 1
    assert runs.taken() == []
    (subs / "blue" / "checkout.toml").write_text('name = "mended"\n')
    runs.reports["blue"] = reported(right())
    assert teacher.grade(subs) == 1
    assert runs.taken() == [("blue", "quick")] and teacher.column("score")["s0003"] == "85"
    assert json.loads((teacher.out / "run.json").read_text())["lab"]["seed"] == seed


def test_a_full_run_does_not_lower_without_being_told(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """A full run that fails after a quick one that passed: the quick one counts, unless --allow-lower is given."""
    subs = tmp_path / "subs"
    assert teacher.grade(subs) == 0
    runs.reports["red"] = wrong("faults")
    assert teacher.grade(subs, "--full", "--only", "red") == 0
    assert teacher.column("score") == {"blue": "40", "red": "85"}
    assert teacher.column("counts", "changes.csv") == {"red": "earlier"}
    assert teacher.run("grades", teacher.out, "--allow-lower") == 0
    assert teacher.column("score") == {"blue": "40", "red": "40"}


def test_a_full_run_that_is_void_is_told(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """The quick result counts, the output and problems.csv say so, and the exit is 2 until a full run can be judged."""
    subs, words = tmp_path / "subs", ("--full", "--only", "red")
    assert teacher.grade(subs, "--roster", tmp_path / "roster.csv") == 1
    runs.reports["red"] = reported(right()) | {"verdict": "void", "why": "the machine was too busy"}
    assert teacher.grade(subs, *words) == 2
    assert "void, so an earlier result counts: red (see problems.csv)" in teacher.said
    row = teacher.table()[0]
    assert (row["id"], row["status"], row["score"]) == ("s0001", "graded", "85")
    problems = {row["id"]: (row["status"], row["problem"], row["what_to_do"]) for row in teacher.table("problems.csv")}
    mend = "run the same command again, on an idle machine"
    assert problems["s0002"] == ("void", "red: the machine was too busy. The quick run counts", mend)
    assert "s0003" not in problems
    page = (teacher.out / "submissions" / "red" / "feedback-s0001.html").read_text()
    assert "graded again without a grade; the earlier result counts" in page
    runs.reports["red"] = reported(right())
    assert teacher.grade(subs, *words) == 1
    assert "result counts" not in teacher.said and "s0001" not in teacher.column("problem", "problems.csv")


def test_a_void_team_is_named_and_tried_again(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """Once more at the end of the same run, and in the next one; until then it has no grade, and the exit is 2."""
    runs.reports["blue"] = reported(right()) | {"verdict": "void", "why": "the machine was too busy"}
    assert teacher.grade(tmp_path / "subs", "--roster", tmp_path / "roster.csv") == 2
    assert runs.taken() == [("blue", "quick"), ("red", "quick"), ("blue", "quick")]
    assert teacher.column("score")["s0003"] == ""
    problems = {row["id"]: (row["status"], row["problem"], row["what_to_do"]) for row in teacher.table("problems.csv")}
    mend = "run the same command again, on an idle machine"
    assert problems["s0003"] == ("void", "blue: the machine was too busy", mend)
    runs.reports["blue"] = wrong("load")
    assert teacher.grade(tmp_path / "subs") == 1
    assert runs.taken() == [("blue", "quick")] and teacher.column("score")["s0003"] == "40"


def test_a_proven_fail_stays_until_the_rest_is_judged(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """A fail that the machine cut short: no points, at most N, run again. What it proved limits later results."""
    subs, words = tmp_path / "subs", ("--roster", tmp_path / "roster.csv")
    machine = {"kind": "void", "why": "the generator's process has exited with 1"}
    runs.reports["blue"] = wrong("duplicates", machine)
    assert teacher.grade(subs, *words) == 2
    assert runs.taken() == [("blue", "quick"), ("red", "quick"), ("blue", "quick")]
    row = next(row for row in teacher.table() if row["id"] == "s0003")
    assert (row["status"], row["points"], row["score"]) == ("unfinished", "", "")
    problems = {row["id"]: (row["status"], row["problem"], row["what_to_do"]) for row in teacher.table("problems.csv")}
    said = f"fail, at most 40 points: blue: {machine['why']}"
    assert problems["s0003"] == ("unfinished", said, "run the same command again for the rest")
    page = (teacher.out / "submissions" / "blue" / "feedback-s0003.html").read_text()
    assert "at most 40 of 85 points" in page and "charged 2 times, should be once" in page and "not reached" in page
    runs.reports["blue"] = reported(right()) | {"verdict": "void", "why": "the machine was too busy"}
    assert teacher.grade(subs) == 2 and teacher.column("status")["s0003"] == "unfinished"
    runs.reports["blue"] = reported(right())
    assert teacher.grade(subs) == 1 and teacher.column("score")["s0003"] == "40"
    page = (teacher.out / "submissions" / "blue" / "feedback-s0003.html").read_text()
    assert "An earlier run broke a rule before it could be finished, which limits the points to 40." in page


def test_members_hand_in_and_get_their_page_back(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """A member's folder is the team's. Equal copies of two members count once, and different ones are ambiguous."""
    subs = tmp_path / "moodle"
    for number in (1, 2, 3):
        toml = subs / f"Student {number}_100000{number}_assignsubmission_file" / "checkout.toml"
        toml.parent.mkdir(parents=True)
        toml.write_text(f"name = '{'blue' if number == 3 else 'red'}'\n")
    assert teacher.grade(subs, "--roster", tmp_path / "roster.csv") == 1
    assert runs.taken() == [("blue", "quick"), ("red", "quick")]
    assert teacher.run("grades", teacher.out, "--feedback-zip", tmp_path / "back.zip") == 1
    with zipfile.ZipFile(tmp_path / "back.zip") as packed:
        names = [name for name in packed.namelist() if name.endswith("feedback.html")]
        tops = [re.sub(r"^Student \d", "Student", name) for name in names]
        assert tops == [f"Student_100000{number}_assignsubmission_file_/feedback.html" for number in (1, 2, 3)]
        assert len([name for name in packed.namelist() if name.endswith("/report.html")]) == 3
    toml = subs / "Student 2_1000002_assignsubmission_file" / "checkout.toml"
    toml.write_text("name = 'other'\n")
    assert teacher.grade(subs) == 1
    assert teacher.column("status") == {
        **dict.fromkeys(("s0001", "s0002"), "ambiguous"),
        "s0003": "graded",
        **dict.fromkeys(("s0004", "s0005"), "missing"),
    }


def test_a_roster_that_comes_later(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """What was graded under the id of a member becomes the team's, without another run."""
    (tmp_path / "subs" / "red").rename(tmp_path / "subs" / "s0001")
    runs.reports["s0001"] = runs.reports["red"]
    assert teacher.grade(tmp_path / "subs") == 0
    assert teacher.column("score") == {"blue": "40", "s0001": "85"}
    assert teacher.run("grades", teacher.out, "--roster", tmp_path / "roster.csv") == 1
    assert teacher.column("score") == {"s0001": "85", "s0002": "85", "s0003": "40", "s0004": "", "s0005": ""}
    assert not list(teacher.out.rglob("feedback.html"))
    runs.taken()
    assert teacher.grade(tmp_path / "subs") == 1 and runs.taken() == []


class Explorations:
    """In place of the pool: a system's report has the cases that are given for its team."""

    def __init__(self, **cases: list[str]) -> None:
        self.cases, self.asked, self.status = cases, list[tuple[str, float]](), "graded"

    def __call__(self, tasks: Iterable[dict[str, Any]], jobs: int) -> Iterator[tuple[Any, Any, float]]:
        assert jobs == 1
        for task in tasks:
            self.asked.append((task["id"], task["minutes"]))
            if self.status == "stopped":
                raise KeyboardInterrupt
            told = json.loads((STORED / "late.json").read_text("utf-8"))
            told["cases"] = [{**told["cases"][0], "place": place} for place in self.cases[task["id"]]]
            if self.status == "graded":
                write_explored(told, Path(task["out"]))
            yield task, {"found": explored.fresh(task, self.status, "too busy" * (self.status == "void"))}, 1.0

    def taken(self) -> list[tuple[str, float]]:
        """Return who was asked since the last call."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def explorations(monkeypatch: pytest.MonkeyPatch) -> Explorations:
    """Teams red and blue have a mistake in common, and blue one more."""
    found = Explorations(red=["late order->stock"], blue=["late order->stock", "kill order order->stock"])
    monkeypatch.setattr(explored, "run", found)
    return found


def test_the_class_is_explored_after_it_was_graded(
    teacher: Teacher, tmp_path: Path, runs: Runs, explorations: Explorations
) -> None:
    """The page says which case breaks how many teams, and links their reports. The grades stay as they are."""
    subs, words = tmp_path / "subs", ("--roster", tmp_path / "roster.csv")
    assert teacher.grade(subs, *words) == 1
    before = contents(teacher.out)
    assert teacher.grade(subs, "--explore", "2") == 1
    assert "2 systems to explore, one at a time, up to 2 minutes each" in teacher.said
    assert "explored 2 of 2: red: 1 wrong case" in teacher.said
    assert explorations.taken() == [("blue", 2.0), ("red", 2.0)] and runs.taken()[2:] == []
    after = contents(teacher.out)
    assert {name: after[name] for name in before if name != "run.json"} == {
        name: text for name, text in before.items() if name != "run.json"
    }
    page = (teacher.out / "explore.html").read_text("utf-8")
    cells = re.findall(r'<th scope="row">(.*?)</th>.*?<td class="num">(\d of \d)</td>', page)
    assert cells[:2] == [("late order → stock", "2 of 2"), ("kill order order → stock", "1 of 2")]
    links = {link.partition("#")[0] for link in re.findall('href="(.+?)"', page)}
    assert len(links) == 2 and all((teacher.out / link).is_file() for link in links)
    assert "points" in page and "85" not in re.sub("<style>.*?</style>", "", page, flags=re.S)


def test_an_exploration_is_not_run_again(
    teacher: Teacher, tmp_path: Path, runs: Runs, explorations: Explorations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a later explorer, and not for fewer minutes; but if the system has changed, or the machine was busy."""
    subs = tmp_path / "subs"
    explorations.status = "stopped"
    assert teacher.grade(subs, "--explore", "2") == 130
    explorations.taken()
    explorations.status = "void"
    assert teacher.grade(subs, "--explore", "2") == 0
    assert "explored 1 of 2: blue: void: too busy" in teacher.said and len(explorations.taken()) == 2
    assert "void: too busy" in (teacher.out / "explore.html").read_text("utf-8")
    explorations.status = "graded"
    assert teacher.grade(subs, "--explore", "2", "--only", "red") == 0
    assert explorations.taken() == [("red", 2.0)]
    monkeypatch.setattr(explored, "grader_hash", lambda sources: "another explorer")
    assert teacher.grade(subs, "--explore", "1") == 0
    assert explorations.taken() == [("blue", 1.0)]
    assert teacher.grade(subs, "--explore", "1") == 0 and explorations.taken() == []
    (subs / "red" / "checkout.toml").write_text('name = "mended"\n')
    assert teacher.grade(subs, "--explore", "1") == 0
    assert explorations.taken() == [("red", 1.0)]
    assert len([*(teacher.out / "explore").iterdir()]) == 2  # that of the earlier system is gone
    assert teacher.grade(subs, "--explore", "3") == 0
    assert explorations.taken() == [("blue", 3.0), ("red", 3.0)]
    graded = runs.taken()
    assert sorted(graded) == [("blue", "quick"), ("red", "quick"), ("red", "quick")]


def test_a_change_of_the_explorer_grades_no_class_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does a change of its report. The hash of what grades a system knows the files of other reports."""
    shutil.copytree(ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(results, "_GRADER", tmp_path / "grader")
    before = teams.Checkout(1).grader()
    for name in ("explore/cases.py", "report/explored/page.py", "classroom/explored.py", "classroom/exploring.py"):
        (tmp_path / "grader" / name).write_text("")
        assert teams.Checkout(1).grader() == before
    (tmp_path / "grader" / "report" / "as_json.py").write_text("")
    assert teams.Checkout(1).grader() != before


def test_a_system_that_cannot_be_explored_is_named(tmp_path: Path) -> None:
    """With the reason; the next one is explored."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "checkout.toml").write_text('name = "x"\nbase_url = 3\n')
    about = {"submission": "s" * 64, "explorer": "e", "minutes": 1.0, "files": [("", str(tmp_path / "wrong"))]}
    found = exploring.judge({**about, "out": str(tmp_path / "out")}, tmp_path / "scratch")
    assert found["status"] == "impossible" and "at least one [[process]] table" in found["why"]
    assert explored.words(tmp_path, found).startswith("impossible: checkout.toml")


def test_explore_is_for_the_checkout(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """Other labs have no processes, and histories are no systems."""
    assert teacher.grade(tmp_path / "subs", "--explore", "2", "--break") == 64
    teacher.lab = tmp_path / "bundle"
    assert teacher.grade(tmp_path / "subs", "--explore", "2") == 64
    assert "--explore is for the checkout: --lab 6, without --break" in teacher.said


def test_forgetting_a_member(teacher: Teacher, tmp_path: Path, runs: Runs) -> None:
    """Who is no longer in the roster is in no file; the team keeps its result."""
    roster = tmp_path / "roster.csv"
    assert teacher.grade(tmp_path / "subs", "--roster", roster) == 1
    roster.write_text("".join(line for line in ROSTER.splitlines(True) if "s0002" not in line))
    assert teacher.run("grades", teacher.out, "--roster", roster) == 1
    assert not [
        path for path in teacher.out.rglob("*") if path.is_file() and re.search(b"s0002|Student 2", path.read_bytes())
    ]
    assert not list(teacher.out.rglob("*s0002*")) and teacher.column("score")["s0001"] == "85"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--jobs", 2), "--jobs 2: systems are graded one at a time"),
        (("--quick", "--full"), "not allowed with argument"),
        (("--lab", "bundle", "--quick"), "--quick and --full are for the checkout: --lab 6"),
        (("--roster", "twice.csv"), "the roster has 's0001' for 'red' and for 's0001'; a team needs a name"),
        (("--roster", "sign.csv"), "sign.csv, line 2: the team '=1' contains"),
        (("--only", "green"), "--only: there is no submission of 'green'"),
    ],
)
def test_usage(
    teacher: Teacher, tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch, words: Any, said: str
) -> None:
    """64, with the rule and what to do; nothing runs."""
    monkeypatch.chdir(tmp_path)
    Path("twice.csv").write_text("id,team\ns0001,red\ns0002,s0001\n")
    Path("sign.csv").write_text("id,team\ns0001,=1\n")
    assert teacher.grade(tmp_path / "subs", *words) == 64
    assert said in teacher.said
    assert runs.taken() == []


def test_a_weak_sandbox_gives_no_grades(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is 2, and the message says what to install, and mentions --ungraded."""

    class Closed:
        def close(self) -> None:
            pass

    weak = Tier(3, "resource limits only", "tier 1: bwrap is not installed")
    monkeypatch.setattr(work, "choose", lambda *args: (weak, Closed()))
    assert teacher.grade(tmp_path / "subs") == 2
    assert "bwrap is not installed; install bubblewrap. With `class --ungraded`" in teacher.said
    assert not (teacher.out / "gradebook.csv").exists()


def test_the_key_covers_the_grader() -> None:
    """All rooms of the grader that `checkout` runs are in the hash of its results, and no others."""
    rooms = {path.parent.name for path in (ROOT / "grader").glob("*/__init__.py")}
    without = {"classroom", "draft", "explore", "lab", "student", "worker"}
    assert {name for name in teams.SOURCES if not name.endswith(".py")} == rooms - without
    assert all((ROOT / "grader" / name).exists() for name in teams.SOURCES)


SHORT = """
import sys
from grader.classroom import command, teams
from grader.terms import Limits
teams.limits = lambda mode: Limits(budget=14.0, convergence=3.0, still=3.0, stable=0.5)
sys.exit(command.main(sys.argv[1:]))
"""


def _words(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text(errors="replace") if pid.isdigit() else ""
    except OSError:
        return ""


def _judges(words: str, pid: int) -> bool:
    """Whether a process judges submissions for the process ``pid``."""
    return "grader.classroom.pool" in words and words.endswith(f"\0{pid}\0")


def test_two_teams_with_a_kill_9_between_them(tmp_path: Path) -> None:
    """Real runs with small budgets: a right system and a wrong one. The graded team is not run again after the kill."""
    subs, out = tmp_path / "subs", tmp_path / "out"
    mutant = next(mutant for mutant in zoo.MUTANTS if mutant.name == "charges-on-every-checkout")
    zoo.plant(mutant, subs / "blue")
    zoo.right("single", subs / "red")
    words = [sys.executable, "-c", SHORT, "class", str(subs), "--lab", "6", "--out", str(out)]
    first, until = out / "submissions" / "blue" / "result.json", time.monotonic() + 500
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}
    killed = subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not first.exists() and killed.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        killed.kill()
        killed.wait()
    made = first.stat().st_mtime_ns
    assert not (out / "submissions" / "red" / "result.json").exists()
    while left := [
        *(one for one in map(_words, os.listdir("/proc")) if str(scratch) in one or _judges(one, killed.pid)),
        *scratch.glob("checkout-grader-*"),  # of the run that the kill has interrupted
    ]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500)
    assert not list(scratch.iterdir())
    if done.returncode == 2:
        pytest.skip(f"void twice: {(out / 'problems.csv').read_text()}")  # a busy machine says nothing about the grader
    assert done.returncode == 0, done.stderr
    assert "1 team to grade" in done.stderr and first.stat().st_mtime_ns == made
    found = {team: json.loads((out / "submissions" / team / "result.json").read_text()) for team in ("blue", "red")}
    assert [found[team]["unsafe"] for team in found] == [True, False]
    assert outcomes(found["blue"])["duplicates"] == "fail"
    judged = {outcomes(found["red"])[name] for name in ASKED if not ASKED[name].measured}
    assert judged == {"pass"}
    for team, one in found.items():
        report = json.loads((out / "submissions" / team / one["report"]).with_name("report.json").read_text())
        assert abs(points(one) - Decimal(str(report["score"]))) < Decimal("0.001")
        assert one["submission"] == hash_of([(team, subs / team)])


@pytest.mark.slow
def test_start_and_saga_by_the_command(tmp_path: Path) -> None:
    """`start` loses money and keeps at most 40 points; `saga` has every phase. About 6 minutes.

    python -m pytest -n 0 -m slow tests/grader/test_class_checkout.py
    """
    subs, out = tmp_path / "subs", tmp_path / "out"
    for name in ("start", "saga"):
        shutil.copytree(ROOT / "labs" / "checkout" / name, subs / name)
    words = [sys.executable, "-m", "grader", "class", str(subs), "--lab", "6", "--out", str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    found = {team: json.loads((out / "submissions" / team / "result.json").read_text()) for team in ("start", "saga")}
    assert {outcome for name, outcome in outcomes(found["saga"]).items() if not ASKED[name].measured} == {"pass"}
    assert found["start"]["unsafe"] and outcomes(found["start"])["duplicates"] == "fail"


def test_the_copy_for_students(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only `start`, the tasks and the assignment; no other system, no note for teachers, no link that leads nowhere."""
    out = tmp_path / "out"
    words = ["lab", "build", str(ROOT / "labs" / "checkout"), "--out", str(out)]
    assert main(words) == 0
    files = {name: text.decode() for name, text in contents(out).items()}
    start = {path.name for path in (ROOT / "labs" / "checkout" / "start").iterdir()} - {"__pycache__"}
    assert {name.split("/")[0] for name in files} == {"student", "break"}
    mine = {name.split("/")[1] for name in files if name.startswith("student/")}
    assert mine == {"README.md", "assignment.md", "start"}
    assert {name.split("/")[2] for name in files if name.startswith("student/start/")} == start
    assert read_submission(out / "student" / "start").name == "the first system"
    for name in ("README.md", "assignment.md"):
        for target in re.findall(r"\]\(([^)]+)\)", files[f"student/{name}"]):
            assert (out / "student" / target).exists(), target
    assert "For teachers" not in files["student/assignment.md"]
    assert main(words) == 0
    assert {name: text.decode() for name, text in contents(out).items()} == files
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    assert main([*words[:3], "--out", str(tmp_path / "other")]) == 64
    assert main([*words, "--secret", "secret.txt"]) == 64
    said = capsys.readouterr().err
    assert "is not an earlier build, and is not overwritten" in said and "no hidden checks; leave it out" in said


def test_the_tasks_have_the_points_of_the_rubric() -> None:
    """The headings of lab.md sum the checks of each task in result.json, and speed has none."""
    page = (ROOT / "labs" / "checkout" / "lab.md").read_text()
    told = {int(task): int(number) for task, number in re.findall(r"^## Task (\d): .*\((\d+) points\)$", page, re.M)}
    given = teams.Checkout(1).points
    assert told == {task: sum(given[name] for name, asked in ASKED.items() if asked.task == task) for task in (1, 2, 3)}
    assert sum(told.values()) == 85 and f"The lab has {sum(told.values())} points." in page
    assert {*given} == {*ASKED} and given["speed"] == 0


def test_the_common_mistakes_are_proven_by_the_matrix() -> None:
    """Each row of the table in docs/teaching.md is a mutant of the zoo that must break, and breaks, this rule."""
    page = (
        (ROOT / "docs" / "teaching.md").read_text().partition("| wrong system | phase: rule |")[2].partition("\n\n")[0]
    )
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", page, re.M))
    assert len(rows) == 8
    matrix = (ROOT / "docs" / "zoo.md").read_text().partition("| mutant | base | must break |")[2]
    proven = {cells[1]: cells for line in matrix.splitlines() if len(cells := re.split(r" ?\| ?", line)) == 8}
    must = {mutant.name: f"{mutant.phase}: {mutant.rule}" for mutant in zoo.MUTANTS}
    for name, rule in rows.items():
        _, _, _, asked, verdict, broken, mended, _ = proven[name]
        assert must[name] == asked == rule, name
        assert rule in broken.split(", ") and verdict.startswith("fail") and mended.startswith("pass"), name
