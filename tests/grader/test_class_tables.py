"""`grades`: points, late days, tables, the LMS's export and pages, as pure functions of stored results."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import subprocess
import sys
import zipfile
import zoneinfo
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from classes import POINTS, Teacher, contents
from hypothesis import given
from hypothesis import strategies as st

from grader.classroom.fill import fill
from grader.classroom.late import Course, read_course
from grader.classroom.points import cents
from grader.errors import UsageError
from grader.files import as_json

COURSE = """
[due]
1 = 2027-02-12T23:59:00+01:00
2 = 2027-03-12T23:59:00+01:00
[late]
per_day = 0.1
grace_minutes = 15
most_days = 3
[extensions]
s0005 = { 1 = "48h" }
"""
DUE = datetime.fromisoformat("2027-02-12T23:59:00+01:00")
TEXT = "<script>alert(1)</script> \u202e =cmd"


def check(id: str, outcome: str = "pass", **more: Any) -> dict[str, Any]:
    """A check in a result."""
    texts = {"number": None, "case": 0, "trace": "", "right": "", "got": "", "says": "", "flags": []}
    return {
        "check": id,
        "task": 1,
        "rule": f"rule of {id}",
        "hidden": id == "large",
        "outcome": outcome,
        **texts,
        **more,
    }


def out_of(folder: Path, lab: int = 1, roster: dict[str, str] | None = None, **submissions: Any) -> Path:
    """Write an OUT as `class` does. A submission is (late, *outcomes): hours after the due date, None if unknown."""
    times: dict[str, Any] = {}
    for id, (late, *outcomes) in submissions.items():
        due = DUE if lab == 1 else DUE + timedelta(days=28)
        times[id] = {"entry": id, "time": None if late is None else (due + timedelta(hours=late)).isoformat()}
        checks = [
            one if isinstance(one, dict) else check(name, one) for name, one in zip(POINTS, outcomes, strict=False)
        ]
        about = {"version": 1, "lab": lab, "submission": f"{id}-hash", "bundle": "b" * 64, "grader": "g", "tier": 1}
        state = {"status": "graded", "why": "", "notes": [], "checks": checks}
        if not outcomes:
            state |= {"status": "unreadable", "why": "solution.py is missing; found: nothing; hand in solution.py"}
        (folder / "submissions" / id).mkdir(parents=True)
        (folder / "submissions" / id / "result.json").write_text(as_json({**about, **state}))
    points = {id: str(number) for id, number in POINTS.items()}
    lab_json = {"number": lab, "title": f"Doubles {TEXT}", "hand_in": ["solution.py"], "tasks": {"1": "double"}}
    run = {
        "version": 1,
        "lab": lab_json,
        "bundle": "b" * 64,
        "points": points,
        "ungraded": False,
        "lowered": {},
        "seconds": {},
    }
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(as_json({**run, "submissions": times, "roster": roster or {}}))
    return folder


@pytest.fixture
def teacher(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Teacher:
    """A teacher whose commands cannot start a process."""

    def none(*args: Any, **more: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", none)
    (tmp_path / "course.toml").write_text(COURSE)
    return teacher


ALL = ("pass", "pass", "pass")


def test_points_and_late_days(teacher: Teacher, tmp_path: Path) -> None:
    """Started days after the grace period cost a share of the points earned, and all after most_days."""
    late = {"s0001": 0, "s0002": 0.25, "s0003": 0.27, "s0004": 24.25, "s0005": 24.3, "s0006": 24.3, "s0007": 73}
    some = {id: (hours, "pass", "wrong", "pass") for id, hours in late.items()}
    out_of(teacher.out, **some, s0008=(None, *ALL), s0009=(0,), roster={"s0010": ""})
    assert teacher.run("grades", teacher.out, "--course", tmp_path / "course.toml") == 1
    rows = {row["id"]: (row["points"], row["late_days"], row["penalty"], row["score"]) for row in teacher.table()}
    assert rows == {
        "s0001": ("80", "0", "0", "80"),
        "s0002": ("80", "0", "0", "80"),
        "s0003": ("80", "1", "8", "72"),
        "s0004": ("80", "1", "8", "72"),
        "s0005": ("80", "0", "0", "80"),
        "s0006": ("80", "2", "16", "64"),
        "s0007": ("80", "4", "80", "0"),
        "s0008": ("100", "", "", "100"),
        "s0009": ("", "", "", ""),
        "s0010": ("", "", "", ""),
    }
    assert teacher.said.count("note: the course has no time zone, so a late day has 24 hours") == 1
    problems = {(row["id"], row["problem"]) for row in teacher.table("problems.csv")}
    assert ("s0008", "the time is not known: not late") in problems
    assert ("s0009", "solution.py is missing; found: nothing") in problems
    assert ("s0010", "no submission") in problems


def test_later_than_most_days_is_said(teacher: Teacher, tmp_path: Path) -> None:
    """The page says why the penalty is all of the points, and shows what the teacher should look at."""
    out_of(teacher.out, s1=(24 * 4, *ALL), s2=(24, *ALL))
    stored = json.loads((path := teacher.out / "submissions" / "s2" / "result.json").read_text())
    path.write_text(as_json({**stored, "look": ["solution.py is RTF: a word processor has saved it"]}))
    teacher.run("grades", teacher.out, "--course", tmp_path / "course.toml")
    pages = [(teacher.out / "submissions" / id / "feedback.html").read_text() for id in ("s1", "s2")]
    assert "4 late days: a penalty of 100 points, because more than 3 late days leave no points." in pages[0]
    assert "a penalty of 10 points.</p>" in pages[1] and "<li>solution.py is RTF: a word processor" in pages[1]


def test_free_days_are_spent_in_the_order_of_the_due_dates(teacher: Teacher, tmp_path: Path) -> None:
    """Over all folders, in any order of the command line; a missing lab is refused; days that do not help are kept."""
    (tmp_path / "course.toml").write_text(COURSE.replace("most_days = 3", "most_days = 3\nfree_days = 4"))
    one = out_of(tmp_path / "one", 1, s0001=(70, *ALL), s0002=(200, *ALL), s0003=(0,))
    two = out_of(tmp_path / "two", 2, s0001=(70, *ALL), s0002=(30, *ALL), s0003=(100, *ALL))
    assert teacher.run("grades", two, "--course", tmp_path / "course.toml") == 64
    assert "penalties depend on lab 1, too" in teacher.said
    assert teacher.run("grades", two, one, "--course", tmp_path / "course.toml") == 1
    scores = []
    for teacher.out in (one, two):
        scores.append(teacher.column("score"))
    assert scores == [{"s0001": "100", "s0002": "0", "s0003": ""}, {"s0001": "80", "s0002": "100", "s0003": "0"}]
    assert (
        "3 late days, 1 of them free: a penalty of 20 points"
        in (two / "submissions" / "s0001" / "feedback.html").read_text()
    )


def test_free_days_do_not_widen_most_days(teacher: Teacher, tmp_path: Path) -> None:
    """Days after most_days count from the due date, extended or not; free days are not spent there, which is listed."""
    (tmp_path / "course.toml").write_text(COURSE.replace("most_days = 3", "most_days = 3\nfree_days = 2"))
    one = out_of(
        tmp_path / "one",
        1,
        s0001=(120, *ALL),
        s0002=(130, *ALL),
        s0003=(70, *ALL),
        s0005=(120, *ALL),
        s0006=(120, "wrong"),
    )
    two = out_of(tmp_path / "two", 2, s0001=(70, *ALL), s0003=(100, *ALL))
    assert teacher.run("grades", one, two, "--course", tmp_path / "course.toml") == 0
    found = []
    for teacher.out in (one, two):
        found.append((teacher.column("score"), {row["id"]: row["problem"] for row in teacher.table("problems.csv")}))
    text = "late days are more than most_days = 3, so free days do not help"
    assert found == [
        ({"s0001": "0", "s0002": "0", "s0003": "90", "s0005": "90", "s0006": "0"}, {"s0001": f"5 {text}"}),
        ({"s0001": "90", "s0003": "0"}, {}),
    ]


BERLIN = """zone = "Europe/Berlin"
[due]
1 = 2027-10-30T23:59:00
2 = 2027-10-31T02:15:00+01:00
3 = 2027-03-27T23:59:00+01:00
[late]
grace_minutes = 15
[extensions]
a = { 1 = "1d", 3 = "1d" }
b = { 1 = "24h", 3 = "24h" }
c = { 1 = "90m" }
"""
NEW_YORK = 'zone = "America/New_York"\n[due]\n1 = 2026-11-01T01:30:00-05:00\n'


@pytest.mark.parametrize(
    ("text", "id", "lab", "time", "days"),
    [
        (BERLIN, "s", 1, "2027-10-31T00:14:00+02:00", 0),
        (BERLIN, "s", 1, "2027-10-31T00:14:01+02:00", 1),
        (BERLIN, "s", 1, "2027-10-31T23:50:00+01:00", 1),  # 24 h and 51 min later, on the next day before 23:59
        (BERLIN, "s", 1, "2027-11-01T00:14:00+01:00", 1),
        (BERLIN, "s", 1, "2027-11-01T00:14:01+01:00", 2),
        (BERLIN, "a", 1, "2027-11-01T00:14:00+01:00", 0),  # a day of 25 hours
        (BERLIN, "b", 1, "2027-10-31T23:14:00+01:00", 0),
        (BERLIN, "b", 1, "2027-10-31T23:14:01+01:00", 1),  # 24 hours
        (BERLIN, "c", 1, "2027-10-31T01:44:00+02:00", 0),
        (BERLIN, "s", 2, "2027-10-31T02:29:59+02:00", 0),  # the first time at which clocks show 02:29
        (BERLIN, "s", 2, "2027-10-31T02:30:01+01:00", 1),
        (BERLIN, "s", 3, "2027-03-29T00:14:00+02:00", 1),  # 23 h 15 min later
        (BERLIN, "s", 3, "2027-03-29T00:14:01+02:00", 2),
        (BERLIN, "b", 3, "2027-03-29T01:14:00+02:00", 0),
        (BERLIN, "a", 3, "2027-03-29T00:14:01+02:00", 1),
        (BERLIN, "s", 1, "2027-10-31T23:50:00", 1),  # Brightspace's times have no zone
        (BERLIN.replace("zone", "# zone").replace(":00\n2", ":00+02:00\n2"), "s", 1, "2027-10-31T23:50:00+01:00", 2),
        (BERLIN.replace("zone", "# zone").replace(":00\n2", ":00+02:00\n2"), "s", 1, "2027-10-31T23:50:00", None),
        (NEW_YORK, "s", 1, "2026-11-02T01:29:00-05:00", 1),
        (NEW_YORK.replace("-05:00", "-04:00"), "s", 1, "2026-11-02T01:29:00-05:00", 1),
        (NEW_YORK, "s", 1, "2026-11-01T01:29:00-05:00", 0),
    ],
)
def test_days_of_a_time_zone(tmp_path: Path, text: str, id: str, lab: int, time: str, days: int | None) -> None:
    """A late day ends at the due date's time of day, also if clocks change; an extension of 1d, too, and 24h do not."""
    (tmp_path / "course.toml").write_text(text)
    assert read_course(tmp_path / "course.toml").days(id, lab, datetime.fromisoformat(time)) == days


def test_a_machine_without_time_zones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence says what to install, or to leave the zone out."""
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.ZoneInfo.clear_cache()
    (tmp_path / "course.toml").write_text(BERLIN)
    zoneinfo.reset_tzpath(to=[])
    try:
        with pytest.raises(UsageError, match="line 1: this machine has no list of time zones; install it, or leave"):
            read_course(tmp_path / "course.toml")
    finally:
        zoneinfo.reset_tzpath()


def test_class_says_how_to_grade_with_free_days(teacher: Teacher, tmp_path: Path) -> None:
    """`class` sees one lab, so it refuses a course whose free days depend on another, before it runs anything."""
    (tmp_path / "course.toml").write_text(
        COURSE.replace("1 = 2027-02", "7 = 2026-02").replace(
            "[late]", "1 = 2027-02-12T23:59:00+01:00\n[late]\nfree_days = 1"
        )
    )
    assert teacher.grade(tmp_path, "--course", tmp_path / "course.toml") == 64
    assert "penalties depend on lab 7" in teacher.said
    assert "python -m grader grades OUT1 OUT2 --course" in teacher.said


@given(st.decimals(0, 100, places=2), st.integers(0, 9), st.decimals(0, 1, places=3))
def test_a_penalty_is_at_most_the_points(points: Decimal, days: int, per_day: Decimal) -> None:
    """It grows with the days, has two decimals, and never exceeds the points earned."""
    course = Course(per_day=per_day, most_days=3)
    penalties = [course.penalty(points, day) for day in range(days + 1)]
    assert penalties == sorted(penalties)
    assert penalties[0] == 0
    assert all(penalty <= points and penalty == cents(penalty) for penalty in penalties)
    assert days <= 3 or penalties[-1] == points


def test_halves_are_rounded_up() -> None:
    """0.125 is 0.13, as in a spreadsheet, not 0.12."""
    assert [str(cents(Decimal(text))) for text in ("0.125", "0.135", "2.675")] == ["0.13", "0.14", "2.68"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('zone = "Europe/Atlantis"\n', "line 1: zone = 'Europe/Atlantis' is not the name of a time zone"),
        ('zone = "../etc"\n', "line 1: zone = '../etc' is not the name"),
        ('zone = "Europe"\n', "line 1: zone = 'Europe' is not the name"),
        ("zone = 1\n", "line 1: zone = 1 is not the name"),
        (
            'zone = "Europe/Berlin"\n[due]\n1 = 2027-07-12T23:59:00+01:00\n',
            "line 3: 1 = 2027-07-12T23:59:00+01:00 has another offset than Europe/Berlin on that day (+0200)",
        ),
        (
            "[due]\n1 = 2027-02-12T23:59:00\n",
            "line 2: 1 = 2027-02-12 23:59:00 is not a lab and a date with a time zone",
        ),
        ("[due]\n1 = 2027-02-12\n", "line 2: 1 = 2027-02-12 is not a lab and a date with a time zone"),
        ('[due]\none = "x"\n', "line 2: one = x"),
        ("[late]\nper_week = 1\n", "line 2: per_week = 1"),
        ("[late]\nper_day = 1.5\n", "line 2: per_day = 1.5"),
        ("[late]\nper_day = 10\n", "line 2: per_day = 10; [late] has per_day from 0 to 1"),
        ("[late]\ngrace_minutes = 0.5\n", "line 2: grace_minutes = 0.5"),
        ('[extensions]\ns1 = { 1 = "two days" }\n', "line 2: s1: 1 = 'two days' is not a lab and a duration"),
        ("[extensions]\ns1 = 3\n", "line 2: s1"),
        ("[dew]\n", "line 1: 'dew' is not"),
        ("[due\n", "line 1"),
    ],
)
def test_a_wrong_course(tmp_path: Path, text: str, said: str) -> None:
    """The line and an example."""
    (tmp_path / "course.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_course(tmp_path / "course.toml")
    assert said in str(caught.value)


def test_a_new_rubric_and_adjustments(teacher: Teacher, tmp_path: Path) -> None:
    """New points, policies and manual points change scores, starting no process; twice gives the same bytes."""
    out_of(teacher.out, s0001=(0, "pass", "wrong", "pass"), s0002=(0,), s0003=(0, "wrong", "wrong", "pass"))
    (tmp_path / "rubric.toml").write_text('[points]\nwords = 0\n"large" = 0.125\n[policy]\nunreadable = 0\n')
    (tmp_path / "adjust.csv").write_text(
        "id,lab,points,reason\ns0001,1,-0.5,<b>oral</b>\ns0003,1,-3,=late\ns0001,2,9,x\ns0009,1,1,\n"
    )
    words = ["grades", teacher.out, "--rubric", tmp_path / "rubric.toml", "--adjust", tmp_path / "adjust.csv"]
    assert teacher.run(*words) == 1
    assert "adjust.csv, line 5: lab 1 has no student 's0009'" in teacher.said
    rows = {row["id"]: (row["points"], row["of"], row["score"]) for row in teacher.table()}
    assert rows == {"s0001": ("50.13", "50.13", "49.63"), "s0002": ("0", "50.13", "0"), "s0003": ("0.13", "50.13", "0")}
    assert "−0.5 points: &lt;b&gt;oral&lt;/b&gt;" in (teacher.out / "submissions/s0001/feedback.html").read_text()
    before = contents(teacher.out, ())
    assert teacher.run(*words) == 1
    assert contents(teacher.out, ()) == before
    (tmp_path / "unquoted.toml").write_text("[points]\ndouble = 1\nmax.second = 15\n")
    assert teacher.run("grades", teacher.out, "--rubric", tmp_path / "unquoted.toml") == 64
    assert "unquoted.toml, line 3: there is no check 'max'" in teacher.said
    assert teacher.run("grades", teacher.out, "--rubric", tmp_path / "rubric.toml") == 0
    assert "was computed with --adjust, and this one is not" in teacher.said


CANVAS = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Integration ID,Section,Lab 1 (123),Lab 2 (124),Final Score\r\n"
    ",,,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,,100.00,100.00,(read only)\r\n"
    '"Student, 1",21,,s0001@example.org,,"A ""x""",,7.00,7.00\r\n'
    "Student 2,22,s0002,x,,B,5.00,N/A,EX\r\n"
    "=Student 3,23,,y,,B,5.00,,\r\n"
    '"Student, Test",24,,,,B,,,\r\n'
)
SWEDISH = (
    'Student,ID,SIS Login ID,Section,Lab 1 (123)\n    Points Possible,,,,"100,00"\nStudent 1,21,s0001@example.org,B,\n'
)
MOODLE = (
    "Identifier,Full name,ID number,Email address,Status,Grade,Maximum grade,Grade can be changed,"
    "Last modified (submission),Last modified (grade),Feedback comments\n"
    'Participant 1000001,Student 1,,a@example.org,Submitted,,"100,00",Yes,"Friday, 12 February 2027, 10:59 PM",-,\n'
    'Participant 1000002,Student 2,S0002,b@example.org,Submitted,"50,00","100,00",Yes,-,-,\n'
)


def test_filling_the_exports_of_canvas_and_moodle(teacher: Teacher, tmp_path: Path) -> None:
    """Only the cells of the column change: delimiter, quotes, line ends, byte order mark and other cells stay."""
    out_of(teacher.out, s0001=(0, "pass", "wrong", "pass"), s0002=(0, *ALL), s0004=(0, *ALL), s0005=(0,))
    (tmp_path / "roster.csv").write_text("id,lms_id\ns0001,S0001@example.org\ns0002,x\ns0004,\ns0005,y\n")
    (tmp_path / "canvas.csv").write_bytes(CANVAS.encode())
    words = ["grades", teacher.out, "--roster", tmp_path / "roster.csv", "--fill"]
    assert teacher.run(*words, tmp_path / "canvas.csv", "--column", "Lab 1 (123)") == 1
    assert "2 scores filled in" in teacher.said
    assert "without a row in it: s0004" in teacher.said
    filled = CANVAS.replace('x""",,7', 'x""",80,7').replace("s0002,x,,B,5.00", "s0002,x,,B,100")
    assert (tmp_path / "canvas-filled.csv").read_bytes() == filled.encode()
    assert (tmp_path / "canvas.csv").read_bytes() == CANVAS.encode()
    (tmp_path / "rubric.toml").write_text("[points]\ndouble = 49.5\nlarge = 30.5\n")
    (tmp_path / "roster.csv").write_text("id,lms_id\ns0001,1000001\ns0002,1000002\n")
    (tmp_path / "moodle.csv").write_bytes(MOODLE.encode())
    assert teacher.run(*words, tmp_path / "moodle.csv", "--rubric", tmp_path / "rubric.toml") == 1
    filled = MOODLE.replace("org,Submitted,,", "org,Submitted,80,").replace('"50,00"', "100")
    assert (tmp_path / "moodle-filled.csv").read_bytes() == filled.encode()
    (tmp_path / "rubric.toml").write_text("[points]\ndouble = 49.25\nlarge = 30.75\n[policy]\nunreadable = 0\n")
    (tmp_path / "adjust.csv").write_text("id,lab,points,reason\ns0001,1,-0.25,\n")
    more = ["--rubric", tmp_path / "rubric.toml", "--adjust", tmp_path / "adjust.csv"]
    assert teacher.run(*words, tmp_path / "moodle.csv", *more) == 0
    assert 'a@example.org,Submitted,"79,75",' in (tmp_path / "moodle-filled.csv").read_text()
    (tmp_path / "swedish.csv").write_text(SWEDISH)
    (tmp_path / "roster.csv").write_text("id,lms_id\ns0001,s0001@example.org\ns0002,\n")
    assert teacher.run(*words, tmp_path / "swedish.csv", "--column", "Lab 1 (123)", *more) == 0
    assert (tmp_path / "swedish-filled.csv").read_text() == SWEDISH.replace("org,B,", 'org,B,"79,75"')


@pytest.mark.parametrize(
    ("content", "column", "said"),
    [
        ("Name,Grade\nx,\n", "Grade", "has none of the columns"),
        ("ID,Mark\n1,\n", "Grade", "has no column 'Grade'; its columns are 'ID', 'Mark'"),
        ("ID,Grade,Grade\n1,,\n", "Grade", "has 2 column 'Grade'"),
        ("Student,ID,Lab\n    Points Possible,,10\nx,1,\n", "Lab", "'Lab' has a maximum of 10, and the lab has 100"),
        ("Identifier,Grade,Maximum Grade\nParticipant 1,,10.00\n", "Grade", "'Grade' has a maximum of 10"),
        ("", "Grade", "has none of the columns"),
        ("ID,Grade\n'\xff'", "Mark", "has no column 'Mark'"),
    ],
)
def test_an_export_that_cannot_be_filled(content: str, column: str, said: str) -> None:
    """Refused, with what is there."""
    with pytest.raises(UsageError) as caught:
        fill(content.encode(), column, {"1": Decimal(1)}, Decimal(100), {})
    assert said in str(caught.value)


def test_moodle_in_another_language() -> None:
    """The number is found behind any word, but an id is never found inside another one."""
    content = b"ID,Bewertung\nTeilnehmer/in1000001,\nTeilnehmer/in 1000002,\ns0001,\n"
    scores = {"a": Decimal(1), "b": Decimal(2), "0001": Decimal(3)}
    filled = fill(content, "Bewertung", {**scores, "s0001": Decimal(4)}, Decimal(9), {"a": "1000001", "b": "1000002"})
    assert (
        filled.content.decode().split() == "ID,Bewertung Teilnehmer/in1000001,1 Teilnehmer/in 1000002,2 s0001,4".split()
    )
    assert filled.no_row == ["0001"]


_TEXT = st.text(st.characters(exclude_characters="\r\0", codec="utf-8"), max_size=5) | st.just('a "b", c;\n\t')


@given(
    st.lists(st.tuples(_TEXT, _TEXT), max_size=4),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_filling_changes_one_cell(texts: list[tuple[str, str]], delimiter: str, end: str, quoting: Any) -> None:
    """For any cells, quotes, delimiter and line ends: the table is the same, but for the score."""
    rows = [["ID", "Grade", "x"], ["\ufeff0", "", ""], *([f"{at} {a}", "", b] for at, (a, b) in enumerate(texts))]
    rows.append(["s0001", "", "end"])
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    filled = fill(file.getvalue().encode(), "Grade", {"s0001": Decimal("7.5")}, Decimal(100), {})
    rows[-1][1] = "7,5" if delimiter == ";" else "7.5"
    told = filled.content.decode()
    assert list(csv.reader(io.StringIO(told, newline=""), delimiter=delimiter)) == rows
    assert told.endswith(end) and (filled.filled, filled.no_row) == (1, [])


def test_the_feedback_zip_keeps_the_names_of_moodle(teacher: Teacher, tmp_path: Path) -> None:
    """One folder for each student, as in Moodle's own zip; equal bytes each time."""
    out_of(teacher.out, s0001=(0, *ALL), s0002=(0, *ALL), s0003=(0, *ALL))
    run = json.loads((teacher.out / "run.json").read_text())
    run["submissions"]["s0001"]["entry"] = "Student 1_1000001_assignsubmission_file_solution.py"
    run["submissions"]["s0003"]["entry"] = "Student 3_1000003_assignsubmission_file"  # Moodle 4.1 and later
    (teacher.out / "run.json").write_text(json.dumps(run))
    packed = [tmp_path / "a.zip", tmp_path / "b.zip"]
    for path in packed:
        assert teacher.run("grades", teacher.out, "--feedback-zip", path) == 0
    with zipfile.ZipFile(packed[0]) as one:
        assert one.namelist() == [
            "Student 1_1000001_assignsubmission_file_/feedback.html",
            "s0002/feedback.html",
            "Student 3_1000003_assignsubmission_file_/feedback.html",
        ]
    assert packed[0].read_bytes() == packed[1].read_bytes()


class _Page(html.parser.HTMLParser):
    """Counts tags, and checks what a screen reader needs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.levels: list[int] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in ("h1", "h2", "h3"):
            self.levels.append(int(tag[1]))
        if tag == "th":
            assert dict(attrs).get("scope") in ("col", "row")


def test_names_in_the_gradebook(teacher: Teacher, tmp_path: Path) -> None:
    """If the roster has names, gradebook.csv has them, now and without the roster; no page has one."""
    out_of(teacher.out, s0001=(0, *ALL), s0002=(0, *ALL))
    assert teacher.run("grades", teacher.out) == 0
    assert list(teacher.table()[0])[:3] == ["id", "lab", "status"]
    (tmp_path / "roster.csv").write_text("id,name\ns0001,=Student 1\ns0002,\n")
    assert teacher.run("grades", teacher.out, "--roster", tmp_path / "roster.csv") == 0
    assert teacher.run("grades", teacher.out) == 0
    assert list(teacher.table()[0])[:3] == ["id", "name", "lab"]
    assert teacher.column("name") == {"s0001": "'=Student 1", "s0002": ""}
    assert not [path for path in teacher.out.rglob("*.html") if "Student 1" in path.read_text()]
    (tmp_path / "roster.csv").write_text("id\ns0001\ns0002\n")
    assert teacher.run("grades", teacher.out, "--roster", tmp_path / "roster.csv") == 0
    assert list(teacher.table()[0])[:3] == ["id", "lab", "status"]


def test_pages(teacher: Teacher) -> None:
    """One file each, without script or links out; headings in order; every text from outside is escaped."""
    failed = check("double", "wrong", trace=TEXT, right=TEXT, got=TEXT, says=TEXT, case=2, flags=[TEXT])
    secret = check("large", "wrong", trace="SECRET", right="SECRET", got="SECRET", says="SECRET", case=1)
    out_of(teacher.out, s0001=(0, failed, "pass", secret), s0002=(0, "pass", "pass", secret), s0003=(0,))
    assert teacher.run("grades", teacher.out) == 1
    pages = {path.parent.name: path.read_text() for path in teacher.out.rglob("*.html")}
    assert sorted(pages) == ["out", "s0001", "s0002", "s0003"]
    for text in pages.values():
        page = _Page(text)
        assert page.levels[0] == 1
        assert all(b - a <= 1 for a, b in zip(page.levels, page.levels[1:], strict=False))
        assert not {"script", "link", "img", "iframe", "a"} & set(page.tags)
        assert not {name for name in page.attributes if name.startswith("on") or name in ("src", "href")}
        assert "\u202e" not in text
        assert "&lt;script&gt;" in text
    student = pages["s0001"]
    assert "Visible: 1 of 2 checks pass; hidden: 0 of 1 checks pass" in student
    assert "python -m grader check --case double:2" in student
    assert "rule of large" in student
    assert "large</code>" not in student
    assert not [id for id in ("s0001", "s0002", "s0003") if "SECRET" in pages[id]]
    assert "s0002" not in student
    assert "Visible: 2 of 2 checks pass; hidden: 0 of 1 checks pass" in pages["s0002"]
    assert "pass</b>" not in pages["s0002"]
    assert "solution.py is missing; found: nothing; hand in solution.py" in pages["s0003"]
    assert "1 of 2 (50%)" in pages["out"]


def test_answers_that_differ_are_listed(teacher: Teacher) -> None:
    """problems.csv has both answers, the page, too; a result of an earlier version lacks the new fields."""
    differs = check("double", "answers differ", got="=4", other="5", case=2, trace="t", alone=False)
    alone = check("words", "wrong", got="0", other="", case=1, trace="t", alone=True)
    late = check("large", "not run", got="two checks of task 1 have timed out")
    out_of(teacher.out, s0001=(0, differs, alone, late))
    assert teacher.run("grades", teacher.out) == 0
    assert teacher.column("score") == {"s0001": "0"}
    row, late = teacher.table("problems.csv")
    assert late["problem"] == "not run: two checks of task 1 have timed out"
    assert row["problem"] == "double:2: answers differ: =4, then 5"
    page = (teacher.out / "submissions" / "s0001" / "feedback.html").read_text()
    assert "<dt>your answer</dt><dd><code>=4</code></dd><dt>asked again</dt><dd><code>5</code></dd>" in page
    assert "passes alone: do your objects share state?" in page and "--case" not in page and "not run<" in page


def test_two_gradings_that_differ_are_named(teacher: Teacher) -> None:
    """The same submission, graded again by the same grader with other points, is in problems.csv; by another, not."""
    same = (0, "pass", "pass", "wrong")
    out_of(teacher.out, s0001=same, s0002=same, s0003=same, s0004=same)
    others = {"s0001": {}, "s0002": {"grader": "older"}, "s0003": {"submission": "another"}, "s0004": {}}
    for id, differs in others.items():
        before = {**teacher.result(id), **differs}
        before["checks"] = (
            [{**one, "outcome": "pass"} for one in before["checks"]] if id != "s0004" else before["checks"]
        )
        (teacher.out / "submissions" / id / "result-1.json").write_text(as_json(before))
    assert teacher.run("grades", teacher.out) == 0
    said = {"s0001": "graded twice by the same grader: 100 and 70", "s0003": "an earlier submission had 100 points"}
    assert teacher.column("problem", "problems.csv") == said


@pytest.mark.parametrize(
    ("policy", "rule", "trace"), [("nothing", False, False), ("rule", True, False), ("trace", True, True)]
)
def test_what_feedback_shows_of_hidden_checks(
    teacher: Teacher, tmp_path: Path, policy: str, rule: bool, trace: bool
) -> None:
    """Nothing but a count, the rule, or the rule and the trace."""
    out_of(teacher.out, s0001=(0, "pass", "pass", check("large", "wrong", trace="SECRET", case=1)))
    (tmp_path / "rubric.toml").write_text(f'[policy]\nhidden = "{policy}"\n')
    assert teacher.run("grades", teacher.out, "--rubric", tmp_path / "rubric.toml") == 0
    page = (teacher.out / "submissions" / "s0001" / "feedback.html").read_text()
    assert ("rule of large" in page, "SECRET" in page) == (rule, trace)
    assert "hidden: 0 of 1 checks pass" in page
