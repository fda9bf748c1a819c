"""Points by hand and the LMS's export: a score reaches its student, and the command names what it leaves."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from classes import RIGHT, SMALL, WRONG, Teacher, bundle, handed_in
from test_class_tables import ALL, check, out_of

from grader.classroom.fill import fill
from grader.errors import UsageError
from grader.files import as_json

HALF = ("pass", "wrong", "wrong")
"""Outcomes that are worth 50 points."""


def adjusted(teacher: Teacher, text: str, *words: object) -> int:
    """Compute the grades with an adjust.csv."""
    (teacher.tmp / "adjust.csv").write_text(text)
    return teacher.run("grades", teacher.out, "--adjust", teacher.tmp / "adjust.csv", *words)


def stored(teacher: Teacher, id: str, name: str, **differs: Any) -> None:
    """Store a result that differs in some fields from the one that is there."""
    (teacher.out / "submissions" / id / name).write_text(as_json({**teacher.result(id), **differs}))


def test_points_by_hand_are_a_grade(teacher: Teacher, tmp_path: Path) -> None:
    """Without a grade they count from 0, without a late penalty, and are marked in each table and on the page."""
    out_of(teacher.out, s1=(100, *ALL), s2=(100,), s3=(0, *ALL), s4=(0, *ALL), s5=(0,), s7=(0,), roster={"s6": ""})
    stored(teacher, "s3", "result.json", status="ambiguous", checks=[], why="2 files; hand in one")
    unreached = [check("double", "fail"), check("words", "unreached"), check("large", "unreached")]
    stored(teacher, "s4", "result.json", status="unfinished", checks=unreached, why="busy; run again")
    (tmp_path / "course.toml").write_text("[due]\n1 = 2027-02-12T23:59:00+01:00\n[late]\nper_day = 0.1\n")
    (tmp_path / "export.csv").write_text("Identifier,Grade\ns2,\ns3,\ns4,\ns6,\ns5,1\n")
    text = "id,lab,points,reason\ns2,1,90,read by hand\ns2,1,5,oral\ns3,1,80,took a/solution.py\ns4,1,30,by hand\n"
    more = "s6,1,60,on paper\ns5,1,-5,oral\ns1,1,2.5,oral\n"
    words = ("--course", tmp_path / "course.toml", "--fill", tmp_path / "export.csv")
    assert adjusted(teacher, text + more, *words) == 2  # s4 is unfinished
    rows = {row["id"]: (row["status"], row["points"], row["score"], row["by_hand"]) for row in teacher.table()}
    assert rows == {
        "s1": ("graded", "100", "52.5", "2.5"),
        "s2": ("unreadable", "", "95", "95"),
        "s3": ("ambiguous", "", "80", "80"),
        "s4": ("unfinished", "", "30", "30"),
        "s5": ("unreadable", "", "", "-5"),
        "s6": ("missing", "", "60", "60"),
        "s7": ("unreadable", "", "", ""),
    }
    assert list(teacher.table()[0])[-1] == "by_hand"
    assert "1 graded, 1 ambiguous, 1 missing, 1 unfinished, 3 unreadable; 4 of them graded by hand." in teacher.said
    assert (tmp_path / "export-filled.csv").read_text() == "Identifier,Grade\ns2,95\ns3,80\ns4,30\ns6,60\ns5,1\n"
    problems = {(row["id"], row["problem"]) for row in teacher.table("problems.csv")}
    assert {("s2", "graded by hand: 95"), ("s6", "graded by hand: 60"), ("s6", "no submission")} <= problems
    assert ("s4", "graded by hand: 30") in problems
    assert ("s5", "points by hand without a grade: -5") in problems
    page = (teacher.out / "submissions" / "s2" / "feedback.html").read_text()
    assert "<b>95</b><span>of 100 points</span>" in page and "It was graded by hand." in page
    assert "+90 points: read by hand" in page and "no grade" not in page
    assert "4 of them graded by hand" in (teacher.out / "class.html").read_text()
    assert "by hand" not in (teacher.out / "submissions" / "s7" / "feedback.html").read_text()


def test_points_by_hand_above_the_maximum(teacher: Teacher, tmp_path: Path) -> None:
    """A line that takes the total above the maximum is not applied, unless `over` says yes; all others are."""
    out_of(teacher.out, s1=(0, *ALL), s2=(0, *HALF), s3=(0, *HALF), s4=(0, *ALL), s5=(0,), s6=(0, *ALL))
    text = (
        "id,lab,points,reason,over\n"
        "s1,1,500,bonus,\n"  # 600 of 100
        "s2,1,500,typing error,\ns2,1,5,oral,\n"  # the second is good
        "s3,1,60,oral,\ns3,1,-20,copied,no\n"  # the total is 90
        "s4,1,5,bonus,yes\n"
        "s5,1,101,by hand,\n"
        "s6,1,3,bonus,Yes\ns6,1,1,bonus,\n"
    )
    assert adjusted(teacher, text) == 1
    assert teacher.column("score") == {"s1": "100", "s2": "55", "s3": "90", "s4": "105", "s5": "", "s6": "103"}
    said = "adjust.csv, line 2: +500 points are not applied to 's1' in lab 1: the total would be 600 of 100"
    assert f"{said}; correct the line, or write yes into a column 'over'" in teacher.said
    assert "adjust.csv, line 3: +500" in teacher.said and "line 4:" not in teacher.said
    assert "adjust.csv, line 8: +101 points are not applied to 's5' in lab 1" in teacher.said
    assert "adjust.csv, line 10: +1 points are not applied to 's6' in lab 1: the total would be 104" in teacher.said
    problems = {(row["id"], row["problem"].partition(":")[0]) for row in teacher.table("problems.csv")}
    assert {("s1", "adjust.csv, line 2"), ("s2", "adjust.csv, line 3"), ("s5", "adjust.csv, line 8")} <= problems
    assert "bonus" not in (teacher.out / "submissions" / "s1" / "feedback.html").read_text()


def test_an_adjustment_counts_once_and_for_a_student(teacher: Teacher, tmp_path: Path) -> None:
    """The same line twice counts once; an unknown id or a cell that is wrong is named, and the rest is applied."""
    out_of(teacher.out, s1=(0, *HALF), s2=(0, *HALF))
    assert adjusted(teacher, "id,lab,points,reason\ns1,1,5,oral\ns1,1,5.0,oral\ns1,1,5,written\n") == 0
    assert "adjust.csv, line 3: the same as line 2, so it counts once" in teacher.said
    assert teacher.column("score") == {"s1": "60", "s2": "50"}
    assert adjusted(teacher, "id,lab,points,reason\ns9,1,5,oral\ns1,2,5,oral\ns2,1,5,oral\n") == 1
    assert "adjust.csv, line 2: lab 1 has no student 's9'" in teacher.said and "line 3" not in teacher.said
    assert teacher.column("score") == {"s1": "50", "s2": "55"}
    text = 'id,lab,points,reason,over\ns1,1,many,x,\ns1,one,1,x,\ns1,1,"1,000",x,\ns1,1,1,x,maybe\ns2,1,5,oral,\n'
    assert adjusted(teacher, text) == 1
    for line, column, cell in ((2, "points", "many"), (3, "lab", "one"), (4, "points", "1,000"), (5, "over", "maybe")):
        assert f"adjust.csv, line {line}, column '{column}': {cell!r} is not" in teacher.said
    assert teacher.column("score") == {"s1": "50", "s2": "55"}


def test_zero_points_again(teacher: Teacher) -> None:
    """0 points after 0 points is the newest result; no grade after 0 points leaves the earlier one."""
    nothing = ("wrong", "wrong", "wrong")
    out_of(teacher.out, s1=(0, *nothing), s2=(0, *nothing))
    for id in ("s1", "s2"):
        stored(teacher, id, "result-1.json", grader="older")
    stored(teacher, "s2", "result.json", status="void", why="the disk is full; run the same command again")
    assert teacher.run("grades", teacher.out) == 2
    assert teacher.column("status") == {"s1": "graded", "s2": "graded"}
    assert "graded again" not in (teacher.out / "submissions" / "s1" / "feedback.html").read_text()
    assert "graded again" in (teacher.out / "submissions" / "s2" / "feedback.html").read_text()


@pytest.mark.parametrize(("more", "teams"), [({}, False), ({"kind": "checkout"}, True), ({"seed": 7}, True)])
def test_an_own_lab_with_the_number_6(teacher: Teacher, tmp_path: Path, more: dict[str, Any], teams: bool) -> None:
    """Only the checkout is graded in teams: run.json says so, or, in an earlier version, has a seed."""
    out_of(teacher.out, 6, s1=(0, *ALL), s2=(0, "wrong", "wrong", "wrong"))
    run = json.loads((teacher.out / "run.json").read_text())
    run["lab"] |= more
    (teacher.out / "run.json").write_text(as_json(run))
    (tmp_path / "roster.csv").write_text("id,team\ns1,red\ns2,red\n")
    assert teacher.run("grades", teacher.out, "--roster", tmp_path / "roster.csv") == 0
    assert teacher.column("score") == {"s1": "100", "s2": "100" if teams else "0"}
    assert (teacher.out / "submissions" / "s1").is_dir() != teams
    teacher.lab = bundle(tmp_path / "six", 6)
    if teams:
        assert teacher.grade(handed_in(tmp_path / "subs", s1="x = 1\n"), "--regrade", "all") == 64
        assert "has results of lab 6" in teacher.said and "; give another --out" in teacher.said


CANVAS = "Student,ID,SIS User ID,SIS Login ID,Lab 1 (123)\n    Points Possible,,,,100.00\n"


@pytest.mark.parametrize("also", [{}, {"1001": "5", "2002": "6"}])
def test_a_score_reaches_one_row(also: dict[str, str]) -> None:
    """An id is looked for in one column, so a student whose ID is another's SIS User ID does not get that score."""
    export = CANVAS + "A,77,1001,a,\nB,1001,2002,b,\n"
    filled = fill(export.encode(), "Lab 1 (123)", {"1001": Decimal(95)}, Decimal(100), also)
    assert filled.content.decode() == export.replace("1001,a,", "1001,a,95")
    filled = fill(export.encode(), "Lab 1 (123)", {"1001": Decimal(95), "2002": Decimal(7)}, Decimal(100), also)
    assert filled.content.decode() == export.replace("1001,a,", "1001,a,95").replace("2002,b,", "2002,b,7")


def test_one_id_of_a_student_is_used() -> None:
    """A student who is not in the export has an id that is another's ID in the LMS; that row gets no score."""
    export = CANVAS + "A,77,x,a,\nB,78,y,b,\nC,1001,z,c,\n"
    scores = {"1000": Decimal(90), "1002": Decimal(91), "1001": Decimal(95)}
    filled = fill(export.encode(), "Lab 1 (123)", scores, Decimal(100), {"1000": "77", "1002": "78", "1001": "79"})
    assert filled.content.decode() == export.replace("x,a,", "x,a,90").replace("y,b,", "y,b,91")
    assert (filled.no_row, filled.unknown) == (["1001"], ["'1001' (line 5)"])


def test_the_column_with_most_ids_is_used() -> None:
    """It is the one with most of the class's ids, whether they have a score or not; a tie goes by the fixed order."""
    export = CANVAS + "A,77,x,1001,\nB,1001,y,b,\nC,2002,z,c,\n"
    scores = {"1001": Decimal(95), "2002": None}
    filled = fill(export.encode(), "Lab 1 (123)", scores, Decimal(100), {})
    assert filled.content.decode() == export.replace("y,b,", "y,b,95")
    assert filled.unknown == ["'77' (line 3)"]


def test_an_id_in_two_rows(teacher: Teacher, tmp_path: Path) -> None:
    """Both rows stay as they are and are named with their lines; all others are filled; the exit status is 1."""
    out_of(teacher.out, s1=(0, *ALL), s2=(0, *HALF))
    export = 'Identifier,"Full\nname",Grade\ns1,a,\ns2,"x\ny",\nS1,b,7\n'
    (tmp_path / "export.csv").write_text(export)
    assert teacher.run("grades", teacher.out, "--fill", tmp_path / "export.csv") == 1
    assert (tmp_path / "export-filled.csv").read_text() == export.replace('y",', 'y",50')
    assert "in two rows or more, which stay as they are: s1 (lines 3 and 6)" in teacher.said
    assert "1 score filled in" in teacher.said and "without a row" not in teacher.said


def test_what_filling_leaves_and_overwrites(teacher: Teacher, tmp_path: Path) -> None:
    """One line each: old values without a grade, values that differ and are overwritten, rows of unknown students."""
    out_of(teacher.out, s1=(0, *ALL), s2=(0, *HALF), s3=(0, *HALF), s4=(0,), s5=(0,))
    export = "Identifier,Grade\ns1,100.00\ns2,55.00\ns3,-\ns4,7.50\ns5,\nParticipant 9,\n,3\n"
    (tmp_path / "export.csv").write_text(export)
    assert teacher.run("grades", teacher.out, "--fill", tmp_path / "export.csv") == 1
    filled = "Identifier,Grade\ns1,100\ns2,50\ns3,50\ns4,7.50\ns5,\nParticipant 9,\n,3\n"
    assert (tmp_path / "export-filled.csv").read_text() == filled
    assert [line for line in teacher.said.splitlines() if line.startswith("  ") and "/" not in line] == [
        "  overwritten values: s2 (55.00)",
        "  no grade, so the old value stays: s4 (7.50)",
        "  rows of unknown students: 'Participant 9' (line 7)",
    ]
    (tmp_path / "rubric.toml").write_text("[policy]\nunreadable = 0\n")
    words = ("grades", teacher.out, "--rubric", tmp_path / "rubric.toml", "--fill", tmp_path / "export.csv")
    assert teacher.run(*words) == 1
    (tmp_path / "export.csv").write_text(export.replace("Participant 9,\n", ""))
    assert teacher.run(*words) == 0


SCHOOLS = {
    "English": (
        'Student,ID,Section,Lab 1 (123)\r\n    Points Possible,,,100\r\n{},21,"1,234",{}\r\n',
        "cp1252",
        "87.5",
    ),
    "German": ("Student;ID;Section;Lab 1 (123)\r\n    Points Possible;;;100\r\n{};21;1.234;{}\r\n", "cp1252", "87,5"),
    "Dutch": ("Student;ID;Section;Lab 1 (123)\r\n    Points Possible;;;100,0\r\n{};21;A;{}\r\n", "utf-8-sig", "87,5"),
    "French": (
        "Student\tID\tSection\tLab 1 (123)\r\n    Points Possible\t\t\t100,00\r\n{}\t21\t\t{}\r\n",
        "utf-16",
        "87,5",
    ),
}


@pytest.mark.parametrize("school", SCHOOLS)
def test_an_export_that_a_spreadsheet_has_saved(teacher: Teacher, tmp_path: Path, school: str) -> None:
    """Delimiter, encoding, line ends and decimal mark stay as they are in English, German, Dutch, French."""
    text, encoding, score = SCHOOLS[school]
    out_of(teacher.out, s1=(0, *ALL), roster={"s1": "21"})
    (tmp_path / "export.csv").write_bytes(text.format("Zoë Müller", "").encode(encoding))
    words = ("--fill", tmp_path / "export.csv", "--column", "Lab 1 (123)")
    assert adjusted(teacher, "id,lab,points,reason\ns1,1,-12.5,oral\n", *words) == 0
    assert (tmp_path / "export-filled.csv").read_bytes() == text.format("Zoë Müller", score).encode(encoding)


@pytest.mark.parametrize(
    ("possible", "others", "of", "cell"),
    [
        ("1,000", '"1,234",80', 1000, "87.5"),
        ('"1,000.00"', "x,", 1000, "87.5"),
        ("100.00", '"Sec 1,2","1,000"', 100, "87.5"),
        ('"100,00"', "x,", 100, '"87,5"'),
        ("100", 'x,"88,5"', 100, '"87,5"'),
        ("100", "x,88.5", 100, "87.5"),
        ('"1.000,00"', "x,", 1000, '"87,5"'),
        ("1\u00a0000.00", "x,", 1000, "87.5"),
        ("1’000.00", "x,", 1000, "87.5"),
        ("100", "x,EX", 100, "87.5"),
    ],
)
def test_the_decimal_mark(possible: str, others: str, of: int, cell: str) -> None:
    """It is that of the column: of the students' values, then of the maximum. In 1,000, the comma may be thousands'."""
    possible = f'"{possible}"' if possible == "1,000" else possible
    export = f"Student,ID,Section,Lab\n    Points Possible,,,{possible}\nA,1,{others}\nB,2,y,\n"
    filled = fill(export.encode(), "Lab", {"2": Decimal("87.5")}, Decimal(of), {})
    assert filled.content.decode() == export.replace("B,2,y,", f"B,2,y,{cell}")
    with pytest.raises(UsageError, match=f"'Lab' has a maximum of {of}, and the lab has 99 points"):
        fill(export.encode(), "Lab", {"2": Decimal("87.5")}, Decimal(99), {})


def test_what_newest_leaves_out(teacher: Teacher, tmp_path: Path) -> None:
    """Of several hand-ins in one download, problems.csv names those that were not judged, with their times."""
    (tmp_path / "course.toml").write_text("[due]\n1 = 2027-02-12T23:59:00+01:00\n[late]\nmost_days = 2\n")
    late = {"s1_2027-02-09T10:00:00Z": RIGHT, "s1_2027-02-20T10:05:00Z": RIGHT, "s2_2027-02-09T10:00:00Z": RIGHT}
    subs = handed_in(tmp_path / "subs", **late)
    words = ("--names", r"(?P<id>s\d)_(?P<time>.*)", "--take", "newest", "--course", tmp_path / "course.toml")
    assert teacher.grade(subs, *words) == 0
    assert teacher.column("score") == {"s1": "0", "s2": "100"}
    (row,) = teacher.table("problems.csv")
    assert row["problem"] == "2 hand-ins, took the one of 20 Feb 10:05; the one of 9 Feb 10:00 was not judged"
    assert row["what_to_do"] == "judge 's1_2027-02-09T10:00:00Z' with python -m grader one PATH"


def test_an_earlier_submission_that_had_more(teacher: Teacher, tmp_path: Path) -> None:
    """A newer one that is worse, late or damaged is graded, and problems.csv has the points of the earlier one.

    changes.csv has both scores, by the present rules and the time of each.
    """
    (tmp_path / "course.toml").write_text("[due]\n1 = 2027-02-12T23:59:00+01:00\n[late]\nper_day = 0.1\n")
    words = ("--names", r"(?P<id>s\d)_(?P<time>.*)", "--course", tmp_path / "course.toml")
    ids = ("s1", "s2", "s3", "s4")
    assert (
        teacher.grade(handed_in(tmp_path / "old", **{f"{id}_2027-02-13T10:00:00Z": SMALL for id in ids}), *words) == 0
    )
    new = {"s1": WRONG, "s2": SMALL + "# again\n", "s3": RIGHT, "s4": SMALL}
    subs = handed_in(tmp_path / "new", **{f"{id}_2027-02-14T10:00:00Z": text for id, text in new.items()})
    (subs / "s1_2027-02-14T10:00:00Z" / "solution.py").unlink()
    assert teacher.grade(subs, *words) == 1
    assert teacher.column("score") == {"s1": "", "s2": "56", "s3": "80", "s4": "56"}
    problems = [(row["id"], row["problem"]) for row in teacher.table("problems.csv")]
    assert [said for said in problems if "earlier" in said[1]] == [
        ("s1", "an earlier submission had 63 points"),
        ("s2", "an earlier submission had 63 points"),
        ("s4", "an earlier submission had 63 points"),
    ]
    changed = teacher.table("changes.csv")
    keys = ("points_before", "points_now", "score_before", "score_now")
    assert {row["id"]: tuple(row[key] for key in keys) for row in changed} == {
        "s1": ("70", "", "63", ""),
        "s2": ("70", "70", "63", "56"),
        "s3": ("70", "100", "63", "80"),
        "s4": ("70", "70", "63", "56"),
    }
    run = json.loads((teacher.out / "run.json").read_text())
    del run["handed"]  # as an earlier version has left it
    (teacher.out / "run.json").write_text(as_json(run))
    assert teacher.run("grades", teacher.out, "--course", tmp_path / "course.toml") == 1
    assert [row["score_before"] for row in teacher.table("changes.csv")] == ["", "", "", ""]


SHEETS = {
    "English": ('id,lab,points,reason\r\ns1,1,-2.5,"Zoë, oral"\r\ns2,1,+5,\r\n', "cp1252"),
    "German": ('ID;Lab;Points;Reason;Over\r\ns1;1;-2,5;"Zoë; oral";\r\ns2;1;5;;\r\n', "cp1252"),
    "Dutch": ("Id;Lab;Points;Reason\r\ns1;1;-2,50;Zoë\r\ns2;1;5,0;\r\n;;;\r\n", "utf-8-sig"),
    "French": ("id\tlab\tpoints\treason\r\ns1\t1\t-2,5\tZoë\r\ns2\t1\t5\t\r\n", "utf-16"),
}


@pytest.mark.parametrize("school", SHEETS)
def test_an_adjustment_that_a_spreadsheet_has_saved(teacher: Teacher, school: str) -> None:
    """Delimiter, encoding and decimal mark are those of Excel in English, German, Dutch and French."""
    text, encoding = SHEETS[school]
    out_of(teacher.out, s1=(0, *ALL), s2=(0, *HALF))
    (teacher.tmp / "adjust.csv").write_bytes(text.encode(encoding))
    assert teacher.run("grades", teacher.out, "--adjust", teacher.tmp / "adjust.csv") == 0
    assert teacher.column("score") == {"s1": "97.5", "s2": "55"}
    assert "−2.5 points: Zoë" in (teacher.out / "submissions" / "s1" / "feedback.html").read_text()


def test_the_export_of_brightspace(teacher: Teacher, tmp_path: Path) -> None:
    """The row is found by Username or OrgDefinedId, with or without #; the column's name has the maximum."""
    out_of(teacher.out, s1=(0, *ALL), u2=(0, *HALF), roster={"s1": "u1", "u2": ""})
    name = "Lab 2 Points Grade <Numeric MaxPoints:100>"
    export = f"OrgDefinedId,Username,Last Name,{name},End-of-Line Indicator\n#1,#u1,A,,#\n#2,#u2,B,,#\n"
    (tmp_path / "export.csv").write_text(export)
    words = ("grades", teacher.out, "--fill", tmp_path / "export.csv", "--column")
    assert teacher.run(*words, name) == 0
    assert (tmp_path / "export-filled.csv").read_text() == export.replace("A,,", "A,100,").replace("B,,", "B,50,")
    (tmp_path / "export.csv").write_text(export.replace(":100>", ":10>"))
    assert teacher.run(*words, name.replace(":100>", ":10>")) == 64
    assert "has a maximum of 10, and the lab has 100 points" in teacher.said


def test_the_test_student_of_canvas_is_not_named() -> None:
    """Canvas adds it for a teacher who has looked at the course as a student; a real row without a student is named."""
    export = CANVAS + '"Student, Test",9,,,\nA,1,,,\n'
    assert fill(export.encode(), "Lab 1 (123)", {"1": Decimal(5)}, Decimal(100), {}).unknown == []
    assert fill(export.encode(), "Lab 1 (123)", {"9": Decimal(5)}, Decimal(100), {}).unknown == ["'1' (line 4)"]


def test_points_by_hand_after_an_unfinished_run(teacher: Teacher) -> None:
    """What an unfinished run has proven limits the points of later runs, and not those by hand."""
    out_of(teacher.out, s1=(0, *ALL))
    checks = [check("double", "fail"), check("words", "unreached"), check("large", "unreached")]
    stored(teacher, "s1", "result-1.json", status="unfinished", checks=checks)
    assert adjusted(teacher, "id,lab,points,reason\ns1,1,30,oral\n") == 0
    (row,) = teacher.table()
    assert (row["points"], row["score"], row["by_hand"]) == ("50", "80", "30")


def test_a_score_above_the_maximum_is_told(teacher: Teacher, tmp_path: Path) -> None:
    """An LMS may refuse it: Moodle does so for a grade above the maximum."""
    out_of(teacher.out, s1=(0, *ALL), s2=(0, *ALL))
    (tmp_path / "export.csv").write_text("Identifier,Grade\ns1,\ns2,\n")
    text = "id,lab,points,reason,over\ns1,1,5,idea,yes\n"
    assert adjusted(teacher, text, "--fill", tmp_path / "export.csv") == 0
    assert "  above the maximum, which the LMS may refuse: s1 (105)\n" in teacher.said


def test_scores_that_differ_from_an_earlier_version(teacher: Teacher) -> None:
    """A gradebook of a version without the column by_hand: scores that differ now are named, once."""
    out_of(teacher.out, s1=(0, *ALL), s2=(0,), s3=(0, *ALL), s4=(0, *HALF))
    old = "id,lab,status,points,of,late_days,penalty,score,tier,submission,bundle\n"
    scores = (("s1", "105"), ("s2", ""), ("s3", "100"), ("s4", "50"), ("gone", "1"))
    (teacher.out / "gradebook.csv").write_text(old + "".join(f"{id},1,graded,,,,,{now},,,\n" for id, now in scores))
    assert adjusted(teacher, "id,lab,points,reason\ns1,1,5,oral\ns2,1,90,by hand\n") == 1
    assert f"scores differ ({teacher.out}/gradebook.csv): s1 105 -> 100, s2 none -> 90\n" in teacher.said
    adjusted(teacher, "id,lab,points,reason\n")
    assert "scores differ" not in teacher.said
    (teacher.out / "gradebook.csv").write_text("\0")
    adjusted(teacher, "id,lab,points,reason\n")
    assert teacher.column("score")["s1"] == "100"
