"""The layouts of LMS downloads: the id of each folder and file, names that fit no rule, and rows that are removed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from classes import RIGHT, SMALL, WRONG, Teacher, handed_in

from grader.classroom import run
from grader.classroom.collect import Collection, collect
from grader.classroom.roster import Student, known_ids
from grader.errors import UsageError
from grader.submission import archive


def packed(path: Path, names: Sequence[str], texts: dict[str, str] | None = None) -> Path:
    """A zip in which each file has a content of its own, unless ``texts`` has one for its last part."""
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(zipfile.ZipInfo(name), (texts or {}).get(name.rpartition("/")[2], f"{RIGHT}# {name}\n"))
    return path


def found(place: Path, scratch: Path, take: str = "", rule: str = "", **roster: str) -> Collection:
    """What `collect` finds. ``roster``: the LMS's id by id."""
    students = {id: Student(id, lms_id=lms_id) for id, lms_id in roster.items()}
    scratch.mkdir()
    return collect(place, rule, take, known_ids(students), ["solution.py"], scratch)


def states(collection: Collection) -> dict[str, str]:
    """The status of each submission that cannot be graded, and "" for the others, by id."""
    return {one.id: one.status if one.why else "" for one in collection.submissions}


def left(collection: Collection) -> list[str]:
    """The names that fit no student, but could be submissions."""
    return sorted(one.name for one in collection.left_out if not one.harmless)


METADATA = """
submission_11:
  :submitters:
  - :name: Student 1
    :sid: 's0001'
    :email: student1@example.org
  :created_at: 2027-02-12 22:59:00.123456000 Z
submission_12:
  :submitters:
  - :name: Student 2
    :sid: '0000026'
    :email: student2@example.org
  - :name: Student 3
    :sid:
    :email: s+3@example.org
  :created_at: 2027-02-13 08:00:00.000000000 Z
submission_13:
  :submitters:
  - :name: Student 1
    :sid: 's0001'
    :email: student1@example.org
  - :sid: 88
  :created_at: 2027-02-14 08:00:00.000000000 Z
"""
TEXTS = {"submission_metadata.yml": METADATA, "timestamp.txt": "2027-02-12 20:05:11.123456 UTC\n"}
MOODLE, CANVAS, BRIGHT = "_assignsubmission_file", "_solution.py", " - Nov 3, 2026 1159 PM"
LAYOUTS: dict[str, dict[str, tuple[list[str], dict[str, str], list[str]]]] = {
    "moodle": {
        "plain": (
            [f"Student {n}_100000{n}{MOODLE}/solution.py" for n in (1, 2)],
            {"1000001": "", "1000002": ""},
            [],
        ),
        "stray": (
            [*(f"Student {n}_100000{n}{MOODLE}/solution.py" for n in (1, 2)), "by mail/solution.py", "Thumbs.db"],
            {"1000001": "", "1000002": ""},
            ["by mail"],
        ),
        "twice": (
            [f"{name}{MOODLE}/solution.py" for name in ("Student 1_1000001", "Student 2_1000002", "Again_1000001")],
            {"1000001": "ambiguous", "1000002": ""},
            [],
        ),
        "odd": (
            [
                f"{name}{MOODLE}_/my work (1)/solution.py"
                for name in ("A_B_12345_C_1000001", "\u05d0\u05d1 \U0001f600 'x'_1000002", "=1_1000003", "_1000004")
            ],
            {"1000001": "", "1000002": "", "1000003": "", "1000004": ""},
            [],
        ),
    },
    "canvas": {
        "plain": (["student1_21_901_solution.py", "student2_LATE_22_902_lab.zip"], {"21": "", "22": ""}, []),
        "stray": (
            ["student1_21_901_solution.py", "student2_22_902_solution-2.py", "group_photo.py", "desktop.ini"],
            {"21": "", "22": ""},
            ["group_photo.py"],
        ),
        "twice": (
            ["student1_21_901_solution.py", "student2_22_902_solution.py", "student1_21_903_solution-1.py"],
            {"21": "ambiguous", "22": ""},
            [],
        ),
        "odd": (
            [
                *("\u5b66\u751f_21_901_solution.py", "a1b2_22_902_x_999_888_solution.py", "_23_903_solution.py"),
                *("s4_LATE_24_904_SOLUTION.PY", "s5_25_905_lab.rar", "s5_25_906_notes.txt", "s6_26_907_report.pdf"),
            ],
            {str(n): "" for n in range(21, 27)},
            [],
        ),
    },
    "brightspace": {
        "plain": (
            [f"3000{n}-9001 - Student {n}{BRIGHT}/solution.py" for n in (1, 2)] + ["index.html"],
            {"30001": "", "30002": ""},
            [],
        ),
        "stray": (
            [f"3000{n}-9001 - Student {n}{BRIGHT}/solution.py" for n in (1, 2)] + ["usb/solution.py", "index.html"],
            {"30001": "", "30002": ""},
            ["usb"],
        ),
        "twice": (
            [f"{name}/solution.py" for name in (f"30001-9001 - A{BRIGHT}", f"30002-9001 - B{BRIGHT}")]
            + ["30001-9001 - A - Nov 4, 2026 1205 AM/solution.py"],
            {"30001": "ambiguous", "30002": ""},
            [],
        ),
        "odd": (
            [
                f"{name}/solution.py"
                for name in (
                    f"30001-9001 - A - B, C{BRIGHT}",
                    "30002-9001 - D - Nov 3, 2026 11:59 PM",
                    "30003-9001 - E - 3 nov. 2026 23:59",
                    "30004-9001 - 10-20 - Feb 31, 2026 905 AM",
                )
            ],
            {f"3000{n}": "" for n in (1, 2, 3, 4)},
            [],
        ),
    },
    "nbgrader": {
        "plain": (
            [f"submitted/s{n}/lab1/{name}" for n in (1, 2) for name in ("solution.py", "timestamp.txt")],
            {"s1": "", "s2": ""},
            [],
        ),
        "stray": (
            [f"course/submitted/s{n}/lab1/{name}" for n in (1, 2) for name in ("solution.py", "timestamp.txt")]
            + ["course/submitted/old/solution.py", "course/source/lab1/solution.py", "course/gradebook.db"],
            {"s1": "", "s2": ""},
            ["old"],
        ),
        "twice": (
            [f"submitted/{id}/lab1/{name}" for id in ("s1", "s2", "S2") for name in ("solution.py", "timestamp.txt")],
            {"s1": "", "S2": "ambiguous"},
            [],
        ),
        "odd": (
            [
                f"submitted/{id}/lab1/{name}"
                for id in ("x@example.org", "0000026", "caf\u00e9", "a b")
                for name in ("solution.py", "timestamp.txt")
            ]
            + ["submitted/no stamp/lab1/solution.py"],
            {"x@example.org": "", "0000026": "", "caf\u00e9": "", "a b": "", "no stamp": ""},
            [],
        ),
    },
    "gradescope": {
        "plain": (
            [f"assignment_9_export/{name}" for name in ("submission_11/solution.py", "submission_metadata.yml")],
            {"s0001": ""},
            [],
        ),
        "stray": (
            [
                f"assignment_9_export/{name}"
                for name in ("submission_11/solution.py", "submission_12/a.py", "more/a.py", "submission_metadata.yml")
            ],
            {"s0001": "", "0000026": "", "s+3@example.org": ""},
            ["more"],
        ),
        "twice": (
            [
                f"assignment_9_export/{name}"
                for name in ("submission_11/solution.py", "submission_13/solution.py", "submission_metadata.yml")
            ],
            {"s0001": "ambiguous", "88": ""},
            [],
        ),
        "odd": (
            [
                f"export/{name}"
                for name in ("submission_12/lab\\a.py", "submission_11/\u00e9/s.ipynb", "submission_metadata.yml")
            ],
            {"0000026": "", "s+3@example.org": "", "s0001": ""},
            [],
        ),
    },
}  # fmt: skip
ROWS = [(lms, kind, zipped) for lms, kinds in LAYOUTS.items() for kind in kinds for zipped in (True, False)]


@pytest.mark.parametrize(("lms", "kind", "zipped"), ROWS)
def test_each_layout(tmp_path: Path, lms: str, kind: str, zipped: bool) -> None:
    """The rule of the LMS, an id for each student, and what does not fit; also unpacked, and whatever the names."""
    names, expected, stray = LAYOUTS[lms][kind]
    place = packed(tmp_path / "Export.ZIP", names, TEXTS)
    if not zipped:
        with zipfile.ZipFile(place) as made:
            made.extractall(tmp_path / "unpacked")
        place = tmp_path / "unpacked"
        tops = list(place.iterdir())
        if len(tops) == 1 and lms in ("nbgrader", "gradescope"):
            place = tops[0]
    got = found(place, tmp_path / "scratch")
    assert (got.rule, states(got), left(got)) == (lms, expected, stray)
    assert all(one.files for one in got.submissions if not one.why)


EXPORTS: dict[str, tuple[list[str], str, list[tuple[str, str, list[str]]]]] = {
    "moodle, folders": (
        [
            "Student 7_1000007_assignsubmission_file_/solution.py",  # up to Moodle 4.0
            "Student 8_1000008_assignsubmission_file/lab1/solution.py",  # later
            "Student 8_1000008_assignsubmission_onlinetext/onlinetext.html",
        ],
        "moodle",
        [
            ("1000008", "None", ["Student 8_1000008_assignsubmission_file"]),
            ("s0007", "None", ["Student 7_1000007_assignsubmission_file_"]),
        ],
    ),
    "moodle, no folders": (
        [
            "Student 8_1000008_assignsubmission_file_solution.py",
            "Student 8_1000008_assignsubmission_file_my_notes.py",
            "Student 8_1000008_assignsubmission_onlinetext_onlinetext.html",
            "Participant_1000009_assignsubmission_file_lab1.zip",  # anonymous
        ],
        "moodle",
        [("1000008", "None", ["my_notes.py", "solution.py"]), ("1000009", "None", ["lab1.zip"])],
    ),
    "canvas": (
        [
            "student1_21_901_solution-1.py",  # handed in again
            "student1_21_902_my_notes.py",
            "student_2_LATE_22_903_lab.zip",
            "anon_x7Gh2_904_solution.py",
            "LATE_anon_x7Gh3_905_solution.py",
            "student4_24_text.html",
        ],
        "canvas",
        [
            ("21", "None", ["solution.py", "my_notes.py"]),
            ("22", "None", ["lab.zip"]),
            ("anon_x7Gh2", "None", ["solution.py"]),
            ("anon_x7Gh3", "None", ["solution.py"]),
        ],
    ),
    "gradescope": (
        [
            "assignment_9_export/submission_11/solution.py",
            "assignment_9_export/submission_12/lab1/solution.py",
            "assignment_9_export/submission_metadata.yml",
        ],
        "gradescope",
        [
            ("0000026", "2027-02-13 08:00:00+00:00", ["submission_12"]),
            ("s+3@example.org", "2027-02-13 08:00:00+00:00", ["submission_12"]),
            ("s0001", "2027-02-12 22:59:00.123456+00:00", ["submission_11"]),
        ],
    ),
    "nbgrader": (
        [
            "submitted/s0001/lab1/solution.py",
            "submitted/s0001/lab1/timestamp.txt",
            "submitted/s0002/lab1/lab.ipynb",
            "submitted/s0002/lab1/timestamp.txt",
        ],
        "nbgrader",
        [(id, "2027-02-12 20:05:11.123456+00:00", [id]) for id in ("s0001", "s0002")],
    ),
    "folders": (
        [
            "lab1/s0001/solution.py",
            "lab1/s0001/timestamp.txt",  # not the LMS's
            "lab1/s0002.py",
            "lab1/s0003.tar.gz",
            "lab1/read me.txt",
        ],
        "folder",
        [("s0001", "None", ["s0001"]), ("s0002", "None", ["solution.py"]), ("s0003", "None", ["s0003.tar.gz"])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("export", EXPORTS)
def test_times_and_files_of_each_export(tmp_path: Path, export: str) -> None:
    """The id, the time and the files of each submission, by the names that the LMS gives."""
    names, rule, expected = EXPORTS[export]
    got = found(packed(tmp_path / "export.zip", names, TEXTS), tmp_path / "scratch", s0007="1000007")
    assert (got.rule, [(one.id, str(one.time), [name for name, _ in one.files]) for one in got.submissions]) == (
        *(rule, expected),
    )


def test_forty_layouts() -> None:
    """Five LMSs, each zipped and unpacked: plain, with a stray name, with an id twice, with odd names."""
    assert len(ROWS) == 40


def test_the_rule_that_finds_most_students(tmp_path: Path) -> None:
    """More than half of the students; those of the roster count first. A tie is refused, and so is no majority."""
    rows: list[tuple[list[str], dict[str, str], str]] = [
        ([f"s{n}_2{n}_90{n}_{name}.py" for n in range(4) for name in ("solution", "notes", "more")], {}, "canvas"),
        ([f"lab_1_100000{n}_solution.py" for n in range(6)], {}, "folder"),  # one id for all is none
        ([f"lab_{n}_100000{n}_s.py" for n in range(4)], {f"s{n}": f"lab_{n}_100000{n}_s" for n in range(4)}, "folder"),
        ([f"s{n}_2{n}_90{n}_s.py" for n in range(4)], {f"s{n}": "" for n in range(4)}, "canvas"),  # without lms_id
        ([f"s000{n}.py" for n in range(3)] + ["New Folder/solution.py"], {}, "folder"),
        ([*LAYOUTS["moodle"]["plain"][0], "submitted/solution.py"], {}, "moodle"),
    ]
    for number, (names, roster, rule) in enumerate(rows):
        place = packed(tmp_path / f"{number}.zip", names)
        assert found(place, tmp_path / f"scratch-{number}", **roster).rule == rule, names
    tie = [f"S {n}_100000{n}{MOODLE}/lab1/{name}" for n in (1, 2) for name in ("solution.py", "timestamp.txt")]
    with pytest.raises(UsageError, match="the names fit moodle and nbgrader, .* choose one with --names"):
        found(packed(tmp_path / "tie.zip", tie), tmp_path / "scratch-tie")
    names = [f"Student 1_1000001{MOODLE}/solution.py", "by mail/a.py", "on paper/a.py"]
    with pytest.raises(UsageError, match="moodle fits 1 of 3; not: 'by mail', 'on paper'; tried: moodle, canvas"):
        found(packed(tmp_path / "none.zip", names), tmp_path / "scratch-none")
    assert states(found(tmp_path / "none.zip", tmp_path / "scratch-named", rule="moodle")) == {"1000001": ""}


def test_times_of_brightspace_and_nbgrader(tmp_path: Path) -> None:
    """Brightspace's times have no zone, and order attempts. A missing timestamp.txt is named, and the time unknown."""
    names = [*LAYOUTS["brightspace"]["twice"][0], "30003-9001 - C - 3 nov. 2026 23:59/solution.py"]
    got = found(packed(tmp_path / "b.zip", names), tmp_path / "scratch", take="newest")
    times = {one.id: str(one.time) for one in got.submissions}
    assert times == {"30001": "2026-11-04 00:05:00", "30002": "2026-11-03 23:59:00", "30003": "None"}
    got = found(packed(tmp_path / "n.zip", LAYOUTS["nbgrader"]["odd"][0], TEXTS), tmp_path / "again")
    assert got.notes == ["'no stamp' has no timestamp.txt, so its time is not known"]
    assert [one.id for one in got.submissions if one.time is None] == ["no stamp"]


def test_a_name_with_two_ids_is_nobodys(teacher: Teacher, tmp_path: Path) -> None:
    """Neither of the two students gets it, both are named in problems.csv, and the exit is 1."""
    whose = f"Student 1_1000001{MOODLE}_x_1000002{MOODLE}_solution.py"
    place = packed(tmp_path / "subs.zip", [f"Student {n}_100000{n}{MOODLE}_solution.py" for n in (2, 3)] + [whose])
    (tmp_path / "roster.csv").write_text("id,lms_id\ns1,1000001\ns2,1000002\ns3,1000003\n")
    assert teacher.grade(place, "--roster", tmp_path / "roster.csv") == 1
    assert teacher.column("status") == {"s1": "missing", "s2": "graded", "s3": "graded"}
    assert (
        (teacher.out / "sources" / "s2" / "solution.py")
        .read_text()
        .endswith("# Student 2_1000002_assignsubmission_file_solution.py\n")
    )
    rows = {row["id"]: row["problem"] for row in teacher.table("problems.csv") if row["status"] == "left out"}
    assert rows == dict.fromkeys(("s1", "s2"), f"{whose}: has the ids 1000001 and 1000002, so it is no student's")


def test_one_bad_entry_concerns_one_student(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated name, a long name or too many bytes make one student unreadable. Paths that lead out are left out."""
    monkeypatch.setattr(archive, "MOST_BYTES", 10_000)

    def entry(n: int, name: str) -> str:
        return f"Student {n}_100000{n}{MOODLE}/{name}"

    place = tmp_path / "subs.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as made, pytest.warns(UserWarning, match="Duplicate name"):
        for name in (entry(1, "lab\\solution.py"), entry(2, "solution.py"), entry(2, "solution.py")):
            made.writestr(name, RIGHT)
        for name in (
            entry(3, "x" * 256),
            entry(3, "solution.py"),
            "../solution.py",
            "C:\\solution.py",
            entry(5, "a: b.py"),
        ):
            made.writestr(name, RIGHT)
        made.writestr(entry(4, "solution.py"), bytes(10_001))
        made.writestr(f"{'y' * 256}_1000006{MOODLE}_/solution.py", RIGHT)
        made.writestr(f"Student 7_1000007{MOODLE}_{'z' * 256}.py", RIGHT)
        made.writestr(entry(8, "solution.py"), RIGHT)
        made.writestr(entry(8, "solution.py/more.py"), RIGHT)
    assert teacher.grade(place) == 1
    assert teacher.column("status") == {
        **dict.fromkeys(("1000001", "1000005"), "graded"),
        **dict.fromkeys(("1000002", "1000003", "1000004", "1000007", "1000008"), "unreadable"),
    }
    problems = teacher.column("problem", "problems.csv")
    assert "is in the archive twice" in problems["1000002"] and "is in the archive twice" in problems["1000008"]
    assert "has 256 bytes in one name" in problems["1000003"] and "in one name" in problems["1000007"]
    assert "more than 10,000 bytes" in problems["1000004"]
    named = [row["problem"] for row in teacher.table("problems.csv") if row["status"] == "left out"]
    assert [one for one in named if "leads out" not in one] == [f"{'y' * 200}: does not fit the names of moodle"]
    assert {one.partition(":")[0] for one in named if "leads out" in one} == {"../solution.py", "C"}


def test_an_id_that_cannot_be_a_folder(teacher: Teacher, tmp_path: Path) -> None:
    """It is left out and named, with exit 1, and the others are graded."""
    assert teacher.grade(handed_in(tmp_path / "subs", **{"=cmd": RIGHT, "s1": RIGHT}), "--names", "folder") == 1
    assert teacher.column("status") == {"s1": "graded"}
    assert "left out: '=cmd' (the id '=cmd' contains" in teacher.said
    assert "=cmd" in teacher.column("problem", "problems.csv")[""]


def test_rows_of_nobody_go(teacher: Teacher, tmp_path: Path) -> None:
    """Ids that another rule has found, or that the roster lacks, go to gone/, told, and come back with their results.

    Other rows stay when a later download lacks them.
    """
    subs = packed(tmp_path / "subs.zip", ["student1_21_901_solution.py", "student2_22_902_solution.py"])
    assert teacher.grade(subs, "--names", "folder") == 0
    ghosts = ["student1_21_901_solution", "student2_22_902_solution"]
    made = (teacher.out / "submissions" / ghosts[0] / "result.json").stat().st_mtime_ns
    assert teacher.grade(subs) == 0
    assert f"found by another rule for names, so moved to {teacher.out / 'gone'}: {', '.join(ghosts)}" in teacher.said
    assert sorted(teacher.column("status")) == ["21", "22"]
    assert sorted(path.name for path in (teacher.out / "gone").iterdir()) == ghosts
    assert sorted(path.name for path in (teacher.out / "sources").iterdir()) == ["21", "22"]
    late = packed(tmp_path / "late.zip", ["student3_LATE_23_903_solution.py"])
    assert teacher.grade(late) == 0 and sorted(teacher.column("status")) == ["21", "22", "23"]
    assert teacher.grade(subs, "--names", "folder") == 0 and sorted(teacher.column("status")) == ghosts
    assert (teacher.out / "submissions" / ghosts[0] / "result.json").stat().st_mtime_ns == made
    assert (teacher.out / "sources" / ghosts[0] / "solution.py").exists()
    (tmp_path / "roster.csv").write_text("id\n21\n24\n")
    assert teacher.grade(late, "--names", "canvas", "--roster", tmp_path / "roster.csv") == 1
    assert teacher.column("status") == {"21": "missing", "23": "graded", "24": "missing"}
    assert "not handed in, and not in the roster" in teacher.said


def test_a_stray_file_is_told_and_removed(teacher: Teacher, tmp_path: Path) -> None:
    """It is listed with exit 1, also by `grades`. Without it, the same command has exit 0."""
    names = ["student1_21_901_solution.py", "student2_22_902_solution.py"]
    assert teacher.grade(packed(tmp_path / "subs.zip", [*names, "group_photo.py"])) == 1
    assert "left out: 'group_photo.py' (does not fit the names of canvas)" in teacher.said
    assert teacher.table("problems.csv")[0]["problem"] == "group_photo.py: does not fit the names of canvas"
    assert teacher.run("grades", teacher.out) == 1
    assert teacher.grade(packed(tmp_path / "subs.zip", names)) == 0 and teacher.table("problems.csv") == []


def test_a_group_is_judged_once(teacher: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each submitter of a Gradescope group has the result, the page and the source, from one run of the checks."""
    asked: list[Any] = []

    def noted(tasks: list[Any], jobs: int) -> Any:
        asked.extend(tasks)
        return original(tasks, jobs)

    original = run.run
    monkeypatch.setattr(run, "run", noted)
    names = ["e/submission_11/solution.py", "e/submission_12/solution.py", "e/submission_metadata.yml"]
    place = packed(tmp_path / "subs.zip", names, {**TEXTS, "solution.py": SMALL})
    assert teacher.grade(place) == 0, teacher.said
    assert teacher.column("score") == {"0000026": "70", "s+3@example.org": "70", "s0001": "70"}
    assert sorted(one["ids"] for one in asked) == [["0000026", "s+3@example.org"], ["s0001"]]
    for name in ("submissions/{}/result.json", "sources/{}/solution.py"):
        first, second = (teacher.out / name.format(id) for id in ("0000026", "s+3@example.org"))
        assert first.read_bytes() == second.read_bytes()
    assert (teacher.out / "submissions" / "s+3@example.org" / "feedback.html").exists()
    assert len(json.loads((teacher.out / "run.json").read_text())["seconds"]) == 3


def test_a_module_beside_the_solution(teacher: Teacher, tmp_path: Path) -> None:
    """If the solution imports it, the page and problems.csv say that it was left out."""
    subs = handed_in(tmp_path / "subs", s1=f"from helpers import x\n{RIGHT}", s2=RIGHT, s3=WRONG)
    for id in ("s1", "s2"):
        (subs / id / "helpers.py").write_text("x = 1\n")
    assert teacher.grade(subs) == 0
    said = "helpers.py was left out: only solution.py is used."
    assert teacher.column("problem", "problems.csv") == {"s1": said}
    pages = {id: (teacher.out / "submissions" / id / "feedback.html").read_text() for id in ("s1", "s2")}
    assert said in pages["s1"] and "helpers" not in pages["s2"]
