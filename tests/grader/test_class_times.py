"""Times by a table: times.csv as spreadsheets save it, and the grading worksheet of Moodle."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from classes import RIGHT, WRONG, Teacher, handed_in
from test_class_tables import ALL, out_of

from grader.classroom.times import parsed

COURSE = 'zone = "Europe/Berlin"\n[due]\n1 = 2027-02-12T23:59:00\n[late]\nper_day = 0.1\n'
WORKSHEET = (
    "Identifier,Full name,Status,Grade,Maximum grade,Last modified (submission),Last modified (grade)\n"
    'Participant 1001,Student 1,Submitted,,100.00,"Friday, 12 February 2027, 10:59 PM",-\n'
    'Participant 1002,Student 2,Submitted,,100.00,"Sunday, 14 February 2027, 12:05 AM",-\n'
    "Participant 1003,Student 3,No submission,,100.00,-,-\n"
)


@pytest.fixture
def teacher(teacher: Teacher, tmp_path: Path) -> Teacher:
    """A teacher with due dates, and students who have handed in at times that are not known."""
    (tmp_path / "course.toml").write_text(COURSE)
    return teacher


def graded(teacher: Teacher, content: bytes, *words: object) -> int:
    """Compute the grades with a table of times."""
    (teacher.tmp / "times.csv").write_bytes(content)
    more = ("--course", teacher.tmp / "course.toml", "--times", teacher.tmp / "times.csv")
    return teacher.run("grades", teacher.out, *more, *words)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2027-02-12 23:10", "2027-02-12T23:10"),
        ("2027-02-12T22:10:30Z", "2027-02-12T22:10:30+00:00"),
        ("2027-02-12 22:10:30 UTC", "2027-02-12T22:10:30+00:00"),
        ("2027-02-12T23:10:00.123456+01:00", "2027-02-12T23:10:00.123456+01:00"),
        ("12.02.2027 23:10", "2027-02-12T23:10"),
        ("12-2-2027 9:05", "2027-02-12T09:05"),
        ("Friday, 12 February 2027, 12:00 AM", "2027-02-12T00:00"),
        ("12 February 2027, 12:30 PM", "2027-02-12T12:30"),
        ("Nov 3, 2026 1159 PM", "2026-11-03T23:59"),
        *((text, "") for text in ("", "-", "2/12/2027 23:10", "12/2/2027 11:10 PM", "2027-02-12", "23:10")),
        *((text, "") for text in ("30.02.2027 10:00", "12.02.2027 24:01", "12 F\u00e9vrier 2027, 10:59 PM", "late")),
    ],
)
def test_forms_of_a_time(text: str, time: str) -> None:
    """A time that has several meanings, or no date or time of day, is none."""
    assert parsed(text) == (datetime.fromisoformat(time) if time else None)


def test_many_times_that_are_not_known_are_one_line(teacher: Teacher) -> None:
    """More than ten are counted in problems.csv. Fewer are named."""
    for many, lines in ((10, 10), (11, 1)):
        out = out_of(teacher.tmp / str(many), **{f"s{number:02}": (None, *ALL) for number in range(many)})
        assert teacher.run("grades", out, "--course", teacher.tmp / "course.toml") == 0
        problems = (out / "problems.csv").read_text().splitlines()[1:]
        assert len(problems) == lines
    assert problems == [',1,,11 submissions: the time is not known: not late,"look at the LMS, or give --times"']


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_times_of_a_table(teacher: Teacher, encoding: str) -> None:
    """They are in the zone of the course, count before those of names, and are found by the id or that of the LMS."""
    out_of(teacher.out, s1=(None, *ALL), s2=(None, *ALL), s3=(50, *ALL), s4=(None, *ALL), roster={"s2": "1002"})
    text = "ID;Lab;Time;Note\r\nS1;1;13.02.2027 00:00;\u00e9\r\n1002;1;2027-02-15T00:00+01:00;\r\n"
    text += "s3;1;2027-02-12 23:59;\r\ns1;2;01.01.2020 00:00;\r\n"
    assert graded(teacher, text.encode(encoding)) == 0, teacher.said
    assert teacher.column("late_days") == {"s1": "1", "s2": "3", "s3": "0", "s4": ""}
    assert teacher.column("score") == {"s1": "90", "s2": "70", "s3": "100", "s4": "100"}
    assert [row["id"] for row in teacher.table("problems.csv") if "time is not known" in row["problem"]] == ["s4"]
    teacher.run("grades", teacher.out, "--course", teacher.tmp / "course.toml")
    assert "was computed with --times, and this one is not" in teacher.said


def test_wrong_lines_are_named_and_the_others_count(teacher: Teacher) -> None:
    """A wrong time, lab or id, and a second line of a student, are named with their lines; the exit status is 1."""
    out_of(teacher.out, s1=(None, *ALL), s2=(None, *ALL))
    text = (
        "id,lab,time\ns1,1,2027-02-13 10:00\ns2,1,2/13/2027 10:00\ns1,1,2027-02-12 10:00\ns2,first,2027-02-13 10:00\n"
    )
    assert graded(teacher, f"{text}s9,1,2027-02-13 10:00\ns2,1,\n".encode()) == 1
    assert teacher.column("late_days") == {"s1": "1", "s2": ""}
    for said in (
        "times.csv, line 3, column 'time': '2/13/2027 10:00' is not a time, such as 2027-02-12 23:10; the line is",
        "times.csv, line 4: times.csv, line 2 has a time of 's1', too; the line is left out",
        "times.csv, line 5, column 'lab': 'first' is not the number of a lab; the line is left out",
        "times.csv, line 6: lab 1 has no student 's9'; correct the id",
    ):
        assert said in teacher.said
    assert graded(teacher, b"id,time\ns1,2027-02-13 10:00\n") == 64
    assert "has no column 'lab', but id, time; for example:" in teacher.said


def test_the_worksheet_of_moodle(teacher: Teacher, tmp_path: Path) -> None:
    """`class` and `grades` take the worksheet that is also filled: a row without a submission has no time."""
    (tmp_path / "roster.csv").write_text("id,lms_id\ns1,1001\ns2,1002\ns3,1003\n")
    subs = handed_in(tmp_path / "subs", **{f"Student_{number}_assignsubmission_file": RIGHT for number in (1001, 1002)})
    (tmp_path / "sheet.csv").write_text(WORKSHEET)
    words = ("--course", tmp_path / "course.toml", "--times", tmp_path / "sheet.csv")
    assert teacher.grade(subs, "--roster", tmp_path / "roster.csv", *words) == 1  # s3 is missing
    assert teacher.column("late_days") == {"s1": "0", "s2": "2", "s3": ""}
    assert teacher.run("grades", teacher.out, *words, "--fill", tmp_path / "sheet.csv") == 1
    filled = (tmp_path / "sheet-filled.csv").read_text()
    assert filled == WORKSHEET.replace("1,Submitted,,", "1,Submitted,100,").replace("2,Submitted,,", "2,Submitted,80,")
    assert "lab 1 has no student" not in teacher.said
    (subs / "Student_1002_assignsubmission_file" / "solution.py").write_text(WRONG)
    (tmp_path / "sheet.csv").write_text(WORKSHEET.replace("14 February", "15 February"))
    teacher.grade(subs, *words)
    changed = teacher.table("changes.csv")[0]
    assert (changed["score_before"], changed["score_now"]) == ("", "0")  # the time of the earlier one is not known
