"""What one student hands in changes nothing for another: no mark, row, page, source or cell of the export."""

from __future__ import annotations

import csv
import io
import shutil
import zipfile
from pathlib import Path

import pytest
from classes import RIGHT, SMALL, WRONG, Teacher
from uploads import Tree, packed

GOOD = {1_000_001 + number: (RIGHT, SMALL, WRONG)[number % 3] + f"# {number}\n" for number in range(30)}
"""Solutions by the numbers of Moodle."""
FIRST_BAD = 2_000_001
VICTIM = "1000002"
DOUBLE = "import os, sys, signal, time, ctypes\ndef double(x):\n    "
ZIP = packed("a.zip", {"solution.py": RIGHT})
BAD: dict[str, Tree] = {
    "endless": {"solution.py": f"{DOUBLE}while x: pass\n    return 0\n"},
    "waits": {"solution.py": "import time\ntime.sleep(10**6)\n"},
    "leaves": {"solution.py": f"{DOUBLE}os._exit(0)\n"},
    "is killed": {"solution.py": f"{DOUBLE}os.kill(os.getpid(), 9)\n"},
    "kills all": {"solution.py": f"{DOUBLE}os.kill(-1, 9)\n"},
    "stops all": {"solution.py": f"{DOUBLE}os.kill(-1, signal.SIGSTOP)\n    return 2 * x\n"},
    "forks": {"solution.py": f"{DOUBLE}[os.fork() for _ in range(4)]\n    return 2 * x\n"},
    "memory": {"solution.py": f"{DOUBLE}return bytearray(1 << 33)\n"},
    "a large answer": {"solution.py": f"{DOUBLE}return 'a' * 30_000_000\n"},
    "prints": {"solution.py": f"{DOUBLE}print('a' * 30_000_000)\n    return 2 * x\n"},
    "writes files": {"solution.py": f"{DOUBLE}[open(f'/tmp/{{n}}', 'w').write('a') for n in range(2000)]\n"},
    "folders": {"solution.py": f"{DOUBLE}while True: os.mkdir('a'); os.chdir('a')\n"},
    "removes": {"solution.py": f"import shutil\n{DOUBLE}shutil.rmtree('/tmp', True); shutil.rmtree('..', True)\n"},
    "forges": {
        "solution.py": f"{DOUBLE}for n in range(99):\n        try: os.write(n, b'\\0\\0\\0\\2[]')\n"
        "        except OSError: pass\n"
    },
    "segfault": {"solution.py": f"{DOUBLE}ctypes.string_at(0)\n"},
    "markup": {"solution.py": f"{DOUBLE}raise ValueError('</pre><script>\\ud800\\0\\x1b[2J')\n"},
    "nested source": {"solution.py": f"double = {'(' * 5000}1{')' * 5000}\n"},
    "null bytes": {"solution.py": b"\0" * 1000},
    "deep notebook": {"lab.ipynb": '{"cells": ' + "[" * 50_000},
    "RAR": {"solution.rar": b"Rar!\x1a\x07\x01\x00"},
    "damaged": {"a.zip": ZIP[:-40]},
    "too large": {"a.zip": packed("a.zip", {"solution.py": bytes(30_000_000)})},
    "many files": {"a.zip": packed("a.zip", {f"{number}.py": "" for number in range(600)})},
    "leads out": {"a.zip": packed("a.zip", {f"../../Student_{VICTIM}_assignsubmission_file_solution.py": WRONG})},
    "archives": {"a.zip": packed("a.zip", {"b.zip": {"c.zip": {"solution.py": RIGHT}}})},
    "two files": {"a.py": RIGHT, "b.ipynb": "{}"},
    "another's number": {f"x_{VICTIM}_assignsubmission_file_solution.py": WRONG},
    "another's name": {f"Student_{VICTIM}.py": WRONG},
    "odd name": {'<b>=1+1\n";.py': WRONG},
    "a formula": {"=HYPERLINK(1).py": WRONG},
}


@pytest.fixture
def teacher(teacher: Teacher, tmp_path: Path) -> Teacher:
    """A teacher with a roster of all, and the grading worksheet of Moodle."""
    numbers = [*GOOD, *range(FIRST_BAD, FIRST_BAD + len(BAD))]
    lines = [f"s{number % 1_000_000:03}-{number // 1_000_000},Student {number},{number}\n" for number in numbers]
    (tmp_path / "roster.csv").write_text("".join(["id,name,lms_id\n", *lines]))
    rows = [f"Participant {number},Student {number},,100.00\n" for number in numbers]
    (tmp_path / "sheet.csv").write_text("".join(["Identifier,Full name,Grade,Maximum grade\n", *rows]))
    return teacher


def entries(number: int, tree: Tree) -> dict[str, str | bytes]:
    """Return the names and contents of what Moodle writes for a student."""
    top = f"Student {number}_{number}_assignsubmission_file_"
    return {top + name: content for name, content in tree.items() if not isinstance(content, dict)}


def handed_in(folder: Path, *more: dict[str, str | bytes]) -> Path:
    """Write the files of the good ones, and more, as Moodle does without folders."""
    folder.mkdir()
    good = [entries(number, {"solution.py": text}) for number, text in GOOD.items()]
    for name, content in {name: content for one in [*good, *more] for name, content in one.items()}.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def of_the_good(teacher: Teacher, submissions: Path) -> dict[str, bytes | dict[str, str]]:
    """Grade and fill the export. Return all that the good ones have of it: files, and rows by the table and the id.

    problems.csv is left out: it may say that another's file has the number of a good one.
    """
    roster = ("--roster", teacher.tmp / "roster.csv")
    assert teacher.grade(submissions, *roster) in (0, 1), teacher.said
    teacher.run("grades", teacher.out, *roster, "--fill", teacher.tmp / "sheet.csv")
    found: dict[str, bytes | dict[str, str]] = {}
    for path in (teacher.out / "gradebook.csv", teacher.tmp / "sheet-filled.csv"):
        for row in csv.DictReader(io.StringIO(path.read_text())):
            if row.get("id", "").endswith("-1") or row.get("Identifier", "")[12:] in map(str, GOOD):
                found[f"{path.name} {row.get('id', row.get('Identifier'))}"] = row
    for place in ("submissions", "sources"):
        for path in teacher.out.glob(f"{place}/*-1/**/*"):
            if path.is_file():
                found[path.relative_to(teacher.out).as_posix()] = path.read_bytes()
    return found


def test_each_and_all_change_nothing_for_others(teacher: Teacher, tmp_path: Path) -> None:
    """30 are graded; then 30 hostile or broken ones are added, each alone to a copy, and all at once from a zip."""
    right = of_the_good(teacher, handed_in(tmp_path / "good"))
    assert len(right) == 30 * 5  # a row in two tables, two files, a source
    assert {row["Grade"] for name, row in right.items() if "Participant" in name} == {"0", "70", "100"}
    assert len(GOOD) == len(BAD) == 30
    judged = teacher.out.rename(tmp_path / "judged")
    bad = [entries(FIRST_BAD + at, tree) for at, tree in enumerate(BAD.values())]
    for kind, files in zip(BAD, bad, strict=True):
        shutil.copytree(judged, teacher.out)
        got = of_the_good(teacher, handed_in(tmp_path / "one", files))
        assert got == right, kind
        shutil.rmtree(teacher.out)
        shutil.rmtree(tmp_path / "one")
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in handed_in(tmp_path / "all", *bad).iterdir():
            zipped.write(path, path.name)
        zipped.writestr(f"../Student_{VICTIM}_assignsubmission_file_solution.py", WRONG)
        zipped.writestr("/etc/solution.py", WRONG)
    assert of_the_good(teacher, tmp_path / "all.zip") == right
    bad_rows = {row["id"]: row["status"] for row in teacher.table() if row["id"].endswith("-2")}
    assert len(bad_rows) == 30 and set(bad_rows.values()) == {"graded", "unreadable", "ambiguous", "missing"}
