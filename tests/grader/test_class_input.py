"""Bad input to `class`: each row of the table in the specification, with its words, status and exit code."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import zipfile
from pathlib import Path

import pytest
from classes import RIGHT, WRONG, Teacher, bundle, handed_in

from grader.classroom import work


@pytest.mark.parametrize("made", [True, False])
def test_no_or_empty_folder(teacher: Teacher, tmp_path: Path, made: bool) -> None:
    """64, and what a submission is."""
    if made:
        (tmp_path / "subs").mkdir()
    assert teacher.grade(tmp_path / "subs") == 64
    assert "SUBMISSIONS has no submission: one folder, .zip, .py or .ipynb each" in teacher.said


def test_names_match_no_rule(teacher: Teacher, tmp_path: Path) -> None:
    """64, five names, and the rules that were tried."""
    for number in range(7):
        handed_in(tmp_path / "subs", **{f"lab of student {number}": RIGHT})
    assert teacher.grade(tmp_path / "subs") == 64
    assert "names match no rule: " + ", ".join(f"'lab of student {n}'" for n in range(5)) + ";" in teacher.said
    assert "tried: moodle, canvas, brightspace, gradescope, nbgrader, folder" in teacher.said


@pytest.mark.parametrize("made", ["nothing", "a master", "a changed bundle"])
def test_lab_is_no_bundle(teacher: Teacher, tmp_path: Path, made: str) -> None:
    """64, and the command that builds it."""
    teacher.lab = tmp_path / "lab"
    if made == "a changed bundle":
        bundle(teacher.lab)
        (teacher.lab / "checks.py").write_text("")
    elif made == "a master":
        teacher.lab.mkdir()
        (teacher.lab / "lab.toml").write_text("number = 1")
    assert teacher.grade(handed_in(tmp_path / "subs", s0001=RIGHT)) == 64
    assert "build it" in teacher.said
    assert "python -m grader lab build" in teacher.said


def _zip(path: Path, **files: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name.replace("__", "/"), content)
    return path


def _special(path: Path, kind: int) -> None:
    member = zipfile.ZipInfo("solution.py")
    member.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(member, "/etc/passwd")


BAD = {
    "s01-missing": (
        "unreadable",
        "solution.py is missing; found: more.py, solutoin.py",
        "rename solutoin.py to solution.py",
    ),
    "s02-nothing": ("unreadable", "solution.py is missing; found: nothing", "hand in solution.py"),
    "s03-nested": ("graded", "", ""),
    "s04-two": ("ambiguous", "there are 2 different files solution.py: a/solution.py, b/solution.py", "hand in one"),
    "s05-corrupt": ("unreadable", "cannot be unpacked", "pack it again, as a .zip"),
    "s06-latin": ("graded", "", ""),
    "s07-bom": ("graded", "", ""),
    "s08-syntax": ("graded", "SyntaxError: invalid syntax", ""),
    "s09-bomb": ("unreadable", "more than 20,000,000 bytes or 500 files", "leave out data files"),
    "s10-out": ("unreadable", "'../solution.py' leads out of the archive", "pack the folder itself"),
    "s11-link": ("unreadable", "'solution.py' is neither a file nor a folder", "pack the file itself"),
    "s12-device": ("unreadable", "'solution.py' is neither a file nor a folder", "pack the file itself"),
    "s13-twice": ("unreadable", "'solution.py' is in the archive twice", "pack the folder again"),
    "s14-ipynb": ("unreadable", "lab.ipynb is not a notebook: Expecting value: line 1", "save it again"),
    "s15-v3": ("unreadable", "lab.ipynb has format 3", "format 4"),
    "s16-link": ("unreadable", "'solution.py' is neither a file nor a folder", "hand in the file itself"),
    "s17-many": ("unreadable", "more than 20,000,000 bytes or 500 files", "leave out data files"),
    "s18-notebooks": ("unreadable", "solution.py is missing; found: a.ipynb, b.ipynb", "hand in solution.py"),
    "s19-many": ("unreadable", "more than 20,000,000 bytes or 500 files", "leave out data files"),
    "s20-deep": ("unreadable", "has 101 parts", "hand in the file itself"),
    "s21-nested": ("unreadable", "has 1,501 parts", "pack the folder without it"),
}


def test_what_a_submission_can_be(teacher: Teacher, tmp_path: Path) -> None:
    """Each bad submission has a status, a reason and what mends it; the others go on. Some have no grade: 1."""
    subs = tmp_path / "subs"
    for name in ("s01-missing", "s02-nothing", "s06-latin", "s07-bom", "s08-syntax", "s14-ipynb", "s15-v3", "s16-link"):
        (subs / name).mkdir(parents=True)
    for name in ("solutoin.py", "more.py"):
        (subs / "s01-missing" / name).write_text(f"{RIGHT}# {name}\n")
    _zip(subs / "s03-nested.zip", lab1__lab1__solution_py=b"")
    with zipfile.ZipFile(subs / "s03-nested.zip", "w") as packed:
        packed.writestr("lab1/lab1/solution.py", RIGHT)
        packed.writestr("__MACOSX/lab1/lab1/solution.py", "\0")
        packed.writestr("__MACOSX/lab1/lab1/._solution.py", "\0")
        for number in range(497):  # 500 files, and no more, are allowed
            packed.writestr(f"lab1/{number}.txt", "")
    for name in ("a", "b"):
        (subs / "s04-two" / name).mkdir(parents=True)
        (subs / "s04-two" / name / "solution.py").write_text(f"{RIGHT}# {name}\n")
    (subs / "s05-corrupt.zip").write_bytes(b"PK\3\4 this is not a zip")
    (subs / "s06-latin" / "solution.py").write_bytes(b"# line\n'caf\xe9'\n")
    (subs / "s07-bom" / "solution.py").write_bytes(b"\xef\xbb\xbf" + RIGHT.encode())
    for number in range(499):
        (subs / "s07-bom" / f"{number}.txt").touch()
    (subs / "s08-syntax" / "solution.py").write_text("def double(x):\n    retrn x\n")
    _zip(subs / "s09-bomb.zip", **{"solution.py": b"0" * 30_000_000})
    _zip(subs / "s10-out.zip", **{"../solution.py": b"x"})
    _special(subs / "s11-link.zip", stat.S_IFLNK)
    _special(subs / "s12-device.zip", stat.S_IFCHR)
    with zipfile.ZipFile(subs / "s13-twice.zip", "w") as packed, pytest.warns(UserWarning, match="Duplicate name"):
        packed.writestr("solution.py", "1")
        packed.writestr("solution.py", "2")
    (subs / "s14-ipynb" / "lab.ipynb").write_text('{"cells": [')
    (subs / "s15-v3" / "lab.ipynb").write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "worksheets": []}))
    (subs / "s16-link" / "solution.py").symlink_to("/etc/passwd")
    (subs / "s17-many").mkdir()
    for number in range(501):
        (subs / "s17-many" / f"{number}.txt").touch()
    (subs / "s18-notebooks").mkdir()
    for name in ("a", "b"):
        (subs / "s18-notebooks" / f"{name}.ipynb").write_text(f'{{"nbformat": "{name}"}}')
    _zip(subs / "s19-many.zip", **{f"{number}.txt": b"" for number in range(501)})
    for place, name in ((subs / "s20-deep" / ("a/" * 100), "more.py"), (subs / "s20-deep", "solution.py")):
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(RIGHT)
    _zip(subs / "s21-nested.zip", **{"solution.py": RIGHT.encode(), "a/" * 1_500 + "solution.py": b""})

    assert teacher.grade(subs) == 1
    status, problems = teacher.column("status"), {row["id"]: row for row in teacher.table("problems.csv")}
    assert status == {id: expected[0] for id, expected in BAD.items()}
    for id, (state, why, mend) in BAD.items():
        if state == "graded":
            assert (id in problems) == bool(why) and why in teacher.result(id)["why"]
            assert not why or why in problems[id]["problem"]
        else:
            assert why in problems[id]["problem"]
            assert mend in problems[id]["what_to_do"]
            assert why.split("'")[0] in (teacher.out / "submissions" / id / "feedback.html").read_text()
    scores = teacher.column("score")
    assert scores["s03-nested"] == scores["s07-bom"] == "100"
    assert scores["s08-syntax"] == "0"
    (note,) = teacher.result("s06-latin")["notes"]
    assert note.startswith("solution.py is not UTF-8 (byte 12, in line 2), and was read as Windows-1252")
    assert "line 2" in teacher.result("s08-syntax")["why"]
    assert scores["s01-missing"] == ""


def test_two_submissions_of_one_id(teacher: Teacher, tmp_path: Path) -> None:
    """Ambiguous, and the others go on; --take newest takes the newer one if both times are known."""
    subs = handed_in(tmp_path / "subs", **{"s1 at 2027-02-01T10:00+01:00": "x", "s1 at 2027-02-02T10:00+01:00": RIGHT})
    handed_in(subs, **{"s2 at 2027-02-01T10:00+01:00": RIGHT, "s3 at noon": RIGHT, "s3 at 2027-02-01T10:00Z": RIGHT})
    rule = "(?P<id>s[0-9]+) at (?P<time>.*)"
    assert teacher.grade(subs, "--names", rule) == 1
    assert teacher.column("status") == {"s1": "ambiguous", "s2": "graded", "s3": "ambiguous"}
    assert "2 submissions of one id: s1 at 2027-02-01T10:00+01:00" in teacher.column("problem", "problems.csv")["s1"]
    assert teacher.grade(subs, "--names", rule, "--take", "newest") == 1
    assert teacher.column("score") == {"s1": "100", "s2": "100", "s3": ""}
    assert "not all names have times" in teacher.column("what_to_do", "problems.csv")["s3"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("s0001", "line 4: the id 's0001' stands in line 2, too; the line is left out"),
        ("S0001", "line 4: the id 'S0001' stands in line 2, too"),
        ("caf\u00e9\ncafe\u0301", "line 5: the id 'cafe\u0301' stands in line 4, too"),
        ("a/b", "line 4: the id 'a/b' contains"),
        ("=1+1", "starts with one of"),
        ('""', "is empty"),
        ("x" * 101, "has 101 characters; the limit is 100; the line is left out"),
        ("s0003,X,7\ns0004,X,7", "line 5: another student has the lms_id '7', too; it is not used"),
        ("s0003,X,s0002", "line 4: another student has the lms_id 's0002', too; it is not used"),
    ],
)
def test_a_wrong_line_of_the_roster(teacher: Teacher, tmp_path: Path, more: str, said: str) -> None:
    """It is named, with the exit status 1, and all other students are graded. A number of two students is not used."""
    lines = [line if "," in line else f"{line},Student 1," for line in ("s0001", "s0002", *more.split("\n"))]
    (tmp_path / "roster.csv").write_text("\n".join(["id,name,lms_id", *lines]))
    subs = handed_in(tmp_path / "subs", s0001=RIGHT, s0002=WRONG, **({"7": RIGHT} if ",7" in more else {}))
    assert teacher.grade(subs, "--roster", tmp_path / "roster.csv") == 1
    assert said in teacher.said
    scores = teacher.column("score")
    assert (scores["s0001"], scores["s0002"], scores.get("s0003", "")) == ("100", "0", "")


def test_a_roster_without_a_student(teacher: Teacher, tmp_path: Path) -> None:
    """64, with an example."""
    for text, said in (("id\na/b\n", "line 2: the id 'a/b' contains"), ("id\n", "roster.csv has no students")):
        (tmp_path / "roster.csv").write_text(text)
        assert teacher.grade(handed_in(tmp_path / said, s1=RIGHT), "--roster", tmp_path / "roster.csv") == 64
        assert said in teacher.said and "for example:" in teacher.said


def test_an_id_that_cannot_be_one(teacher: Teacher, tmp_path: Path) -> None:
    """64, with the name and what to do."""
    subs = handed_in(tmp_path / "subs", **{"=cmd": RIGHT})
    assert teacher.grade(subs, "--names", "folder") == 64
    assert "'=cmd': the id '=cmd' contains" in teacher.said
    assert "starts with one of . = + - @; rename it" in teacher.said


def test_names_in_any_script_and_the_roster(teacher: Teacher, tmp_path: Path) -> None:
    """Folders are by id. Who is not in the roster is graded and listed; who is in it alone is missing."""
    names = ["Студент 1_1000001", "学生 2_1000002", "طالب 3_1000003", "=Student \U0001f600_1000004"]
    subs = handed_in(tmp_path / "subs", **{f"{name}_assignsubmission_file_": RIGHT for name in names})
    roster = ["s0001,Студент 1,1000001", "s0002,学生 2,1000002", "s0003,طالب 3,1000003", "s0009,Student 9,1000009"]
    (tmp_path / "roster.csv").write_text("\n".join(["id,name,lms_id", *roster]))
    assert teacher.grade(subs) == 0
    times = [path.stat().st_mtime_ns for path in teacher.out.glob("submissions/*/result.json")]
    assert teacher.grade(subs, "--roster", tmp_path / "roster.csv") == 1
    assert sorted(times) == sorted(p.stat().st_mtime_ns for p in teacher.out.glob("submissions/*/result.json"))
    assert "names: moodle" in teacher.said
    assert sorted(os.listdir(teacher.out / "submissions")) == ["1000004", "s0001", "s0002", "s0003"]
    graded = dict.fromkeys(["1000004", "s0001", "s0002", "s0003"], "graded")
    assert teacher.column("status") == {**graded, "s0009": "missing"}
    problems = teacher.column("problem", "problems.csv")
    assert problems == {"1000004": "not in the roster", "s0009": "no submission"}
    assert teacher.grade(subs) == 1
    assert teacher.column("status") == {**graded, "s0009": "missing"}
    assert teacher.column("name")["s0001"] == "Студент 1" and teacher.column("name")["1000004"] == ""
    assert "Студент" not in (teacher.out / "class.html").read_text()


COURSE = "[due]\n1 = 2027-02-12T23:59:00\n"


def test_naive_date_and_unknown_check(teacher: Teacher, tmp_path: Path) -> None:
    """64, with the line and an example."""
    subs = handed_in(tmp_path / "subs", s0001=RIGHT)
    (tmp_path / "course.toml").write_text(COURSE)
    assert teacher.grade(subs, "--course", tmp_path / "course.toml") == 64
    assert "course.toml, line 2: 1 = 2027-02-12 23:59:00 is not a lab and a date with a time zone" in teacher.said
    assert "for example: 1 = 2027-02-12T23:59:00+01:00" in teacher.said
    (tmp_path / "rubric.toml").write_text('[points]\n"double" = 3\n"max.secnd" = 15\n')
    assert teacher.grade(subs, "--rubric", tmp_path / "rubric.toml") == 64
    assert "rubric.toml, line 3: there is no check 'max.secnd'; the checks are double, large, words" in teacher.said
    assert '"max.second" = 15' in teacher.said


def test_out_in_use(teacher: Teacher, tmp_path: Path) -> None:
    """64, with the pid of the other command."""
    teacher.out.mkdir()
    with open(teacher.out / ".lock", "w") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert teacher.grade(handed_in(tmp_path / "subs", s0001=RIGHT)) == 64
    assert "is in use by process 4711" in teacher.said


def test_out_of_another_lab(teacher: Teacher, tmp_path: Path) -> None:
    """64, with both hashes. Another bundle of the same lab needs --regrade."""
    subs = handed_in(tmp_path / "subs", s0001=RIGHT)
    assert teacher.grade(subs) == 0
    first = json.loads((teacher.out / "run.json").read_text())["bundle"][:12]
    teacher.lab = bundle(tmp_path / "two", number=2)
    assert teacher.grade(subs) == 64
    assert f"has results of lab 1 (bundle {first}), and --lab is lab 2 (bundle " in teacher.said
    teacher.lab = bundle(tmp_path / "again", checks=(tmp_path / "bundle" / "checks.py").read_text() + "# new\n")
    assert teacher.grade(subs) == 64
    assert f"has results of lab 1 (bundle {first}), and --lab is lab 1 (bundle " in teacher.said
    assert "--regrade changed" in teacher.said
    assert teacher.grade(subs, "--regrade", "changed") == 0


def test_a_sandbox_that_is_too_weak(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2, and what to install; --ungraded runs without a gradebook, and nothing is filled in."""
    monkeypatch.setattr(work, "no_grades", lambda tier, secret: "no tier 1; install bubblewrap")
    subs = handed_in(tmp_path / "subs", s0001=RIGHT)
    assert teacher.grade(subs) == 2
    assert "install bubblewrap" in teacher.said
    assert not (teacher.out / "submissions").exists()
    assert teacher.grade(subs, "--ungraded") == 0
    assert "no gradebook" in teacher.said
    assert not (teacher.out / "gradebook.csv").exists()
    page = (teacher.out / "submissions" / "s0001" / "feedback.html").read_text()
    assert "<b>100</b><span>of 100 points</span>" in page
    (tmp_path / "export.csv").write_text("ID,Grade\ns0001,\n")
    assert teacher.run("grades", teacher.out, "--fill", tmp_path / "export.csv") == 64
    assert "--ungraded" in teacher.said


def test_a_full_disk(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2, and nothing is half written; the same command continues when there is room."""
    subs = handed_in(tmp_path / "subs", s0001=RIGHT, s0002=RIGHT)
    real, left = os.fsync, [4]

    def full(number: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(number)

    monkeypatch.setattr(os, "fsync", full)
    assert teacher.grade(subs) == 2
    assert "No space left on device" in teacher.said
    assert "nothing is half written" in teacher.said
    assert not list(teacher.out.rglob("*.new"))
    monkeypatch.setattr(os, "fsync", real)
    assert teacher.grade(subs) == 0
    assert set(teacher.column("score").values()) == {"100"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--names", "("], "nor a regular expression"),
        (["--names", "x.*"], "has no group (?P<id>...)"),
        (["--jobs", "0"], "is not a number of processes from 1 to 256"),
        (["--only", "s0002"], "--only: there is no submission of 's0002'"),
        (["--regrade", "s0002"], "--regrade: there is no submission of 's0002'"),
        (["--take", "oldest"], "invalid choice"),
    ],
)
def test_wrong_usage(teacher: Teacher, tmp_path: Path, words: list[str], said: str) -> None:
    """64, and what is allowed."""
    assert teacher.grade(handed_in(tmp_path / "subs", s0001=RIGHT), *words) == 64
    assert said in teacher.said


def test_out_inside_submissions(teacher: Teacher, tmp_path: Path) -> None:
    """64: the results would be a submission of the next run."""
    teacher.out = handed_in(tmp_path / "subs", s0001=RIGHT) / "out"
    assert teacher.grade(tmp_path / "subs") == 64
    assert "is inside" in teacher.said
    assert not teacher.out.exists()


def test_the_zip_of_an_lms(teacher: Teacher, tmp_path: Path) -> None:
    """A zip is unpacked first; one folder around all submissions does not matter."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.writestr("Student 1_1000001_assignsubmission_file_/solution.py", RIGHT)
    assert teacher.grade(tmp_path / "all.zip") == 0
    assert teacher.column("score") == {"1000001": "100"}
    with zipfile.ZipFile(tmp_path / "lab1.zip", "w") as packed:
        packed.writestr("lab1/s0001/solution.py", RIGHT)
        packed.writestr("lab1/s0002.py", RIGHT)
    teacher.out = tmp_path / "out2"
    assert teacher.grade(tmp_path / "lab1.zip") == 0
    assert teacher.column("score") == {"s0001": "100", "s0002": "100"}
