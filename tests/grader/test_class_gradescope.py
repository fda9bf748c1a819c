"""The autograder for Gradescope, in a likeness of its container: what `class` finds, and attacks that gain nothing."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from autograder import Container, container
from classes import CHECKS, RIGHT, SMALL, WRONG, Teacher, bundle

from grader.classroom.gradescope import results
from grader.files import as_json, encoded
from grader.lab.build import build
from grader.lab.gradescope import packed
from grader.sandbox import landlock

LABS = Path(__file__).resolve().parents[2] / "labs"
NOTEBOOK = json.dumps(
    {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [
            {"cell_type": "code", "source": text, "outputs": []} for text in ("%pip install x", RIGHT, "double(1)")
        ],
    }
)
MANY = {
    "s01": {"solution.py": RIGHT},
    "s02": {"solution.py": SMALL},
    "s03": {"solution.py": WRONG},
    "s04": {"solution.py": "def double(x):\n    raise ValueError(f'{object()} <script> \\ud800')\n"},
    "s05": {"solution.py": "import numpy\n"},
    "s06": {"mine.ipynb": NOTEBOOK},
    "s07": {"solutoin.py": RIGHT},
}
TIERS = {True: 2 if landlock() else 3, False: 3}
"""The tier in the container, with this machine's Landlock and without it."""


@pytest.fixture(scope="module")
def image() -> Iterator[Container]:
    """The image of the tiny lab."""
    with tempfile.TemporaryDirectory(prefix="gradescope-") as tmp:
        os.chmod(tmp, 0o755)
        top = Path(tmp) / "autograder"
        top.mkdir()
        with container(top) as made:
            made.built(bundle(Path(tmp) / "bundle"))
            yield made


def graded_by_class(teacher: Teacher, many: dict[str, dict[str, str]]) -> dict[str, Any]:
    """What `class` finds, by id."""
    for id, files in many.items():
        (teacher.tmp / "subs" / id).mkdir(parents=True)
        for name, text in files.items():
            (teacher.tmp / "subs" / id / name).write_text(text)
    assert teacher.grade(teacher.tmp / "subs") in (0, 1), teacher.said
    return {id: teacher.result(id) for id in many}


def test_it_finds_what_class_finds(image: Container, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checks, notes, status and versions are equal, byte for byte, and the scores are the points of the gradebook."""
    teacher = Teacher(tmp_path, capsys)
    found = graded_by_class(teacher, MANY)
    points = teacher.column("points")
    for (id, files), kernel in itertools.product(MANY.items(), TIERS):
        here, told = image.graded(files, kernel)
        differs = ("tier", "submission")  # the folder's name is part of the submission's hash
        assert {**here, **dict.fromkeys(differs)} == {**found[id], **dict.fromkeys(differs)}, id
        assert encoded(as_json(here["checks"])) == encoded(as_json(found[id]["checks"]))
        assert f"{sum(test['score'] for test in told['tests'])}" == points[id] or (points[id], told["score"]) == ("", 0)
        assert here["tier"] == TIERS[kernel]


def test_results_json() -> None:
    """Students see visible checks at once; after publication, the rules of hidden ones. Late days are not counted."""
    points = {"a": 4.5, "b": 10, "c": 0, "d": 85.5}
    hidden = {"hidden": True, "trace": "SECRET", "right": "SECRET", "got": "SECRET", "says": "SECRET"}
    common = {"number": None, "hidden": False, "case": 0, "trace": "", "right": "", "got": "", "says": ""}
    common |= {"other": "", "alone": False}
    checks = [
        {**common, "check": "a", "rule": "Rows are kept.", "outcome": "pass"},
        {**common, "check": "b", "rule": "Rows go.", "outcome": "wrong", "number": 8, "case": 3, "trace": "+1 | -1",
         "right": "[]", "got": "[1]\x00\ud800", "says": "Deleted rows stay."},
        {**common, "check": "c", "rule": "Advice.", "outcome": "pass", **hidden},
        {**common, "check": "d", "rule": "Much.", "outcome": "error", **hidden},
    ]  # fmt: skip
    found = {"status": "graded", "why": "", "notes": ["cell 1: left out: %time"], "checks": checks}
    text = results(found, points)
    told = json.loads(text)
    assert "SECRET" not in text and "late" not in text
    assert "score" not in told  # so that Gradescope adds up those of the tests
    assert [(test["name"], test["score"], test["max_score"], test["status"]) for test in told["tests"]] == [
        ("a: Rows are kept.", 4.5, 4.5, "passed"),
        ("b: Rows go.", 0, 10, "failed"),
        ("hidden 1: Advice.", 0, 0, "passed"),
        ("hidden 2: Much.", 0, 85.5, "failed"),
    ]
    assert [test["visibility"] for test in told["tests"]] == [
        "visible",
        "visible",
        "after_published",
        "after_published",
    ]
    assert told["tests"][1]["output"].splitlines() == [
        "wrong",
        "rule    Rows go. (rule 8)",
        "trace   +1 | -1",
        "right   []",
        "got     [1]??",
        "says    Deleted rows stay.",
        "again   python -m grader check --case b:3",
    ]
    assert told["stdout_visibility"] == "hidden" and told["test_output_format"] == "text"
    assert told["output"] == (
        "visible: 1 of 2 pass. 2 hidden checks decide 85.5 of 100 points, shown when grades are published.\n"
        "cell 1: left out: %time"
    )
    for more, last in (
        ({"alone": True}, "alone   passes alone: do your objects share state?"),
        ({"outcome": "answers differ", "other": "[2]", "says": ""}, "other   [2]"),
    ):
        (test,) = json.loads(results({**found, "checks": [{**checks[1], **more}]}, points))["tests"]
        assert (test["score"], test["output"].splitlines()[-1]) == (0, last)
    lost = json.loads(results({"status": "unreadable", "why": "nothing", "notes": [], "checks": []}, points))
    assert (lost["score"], lost["tests"]) == (0, []) and "cannot be graded: nothing" in lost["output"]


def test_a_failure_of_the_machine_has_no_score(image: Container, tmp_path: Path) -> None:
    """If a check itself fails, there is no results.json, so Gradescope reports a failure and keeps no score."""
    image.built(bundle(tmp_path / "broken", checks=CHECKS.replace("for x in range(3):", "for x in range(3 // 0):")))
    result, told = image.graded({"solution.py": RIGHT})
    assert (result["status"], told) == ("void", None)
    image.built(bundle(tmp_path / "whole"))
    assert image.graded({"solution.py": RIGHT})[0]["status"] == "graded"


FORGED = json.dumps({"tests": [{"name": "all", "score": 100, "max_score": 100}]})
FORGES = f"""
import os
try:
    os.mkdir("/autograder/results/.results.json.new")
    with open("/autograder/results/results.json", "w") as file:
        file.write({FORGED!r})
except OSError as error:
    print(error)
"""
ATTACKS = {
    "writes results.json": SMALL + FORGES,
    "reads the checks": """
def double(x):
    if type(x) is str or x < 1000:
        return x + x
    with open("/autograder/source/bundle/hidden.py") as file:
        return int(file.read().split(f"double({x})")[1].split(",")[1])
""",
    "kills the grader": SMALL
    + FORGES.replace('os.mkdir("/autograder/results/.results.json.new")', "pass")
    + """
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) not in (1, os.getpid()):
        try:
            os.kill(int(name), 9)
        except OSError as error:
            print(error)
""",
}
"""Each has 70 points without its attack."""
UID = "    return Uid() if os.geteuid() == 0 else None\n"


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(attack: str, image: Container) -> None:
    """As root, each attack has 100 points. Under Landlock, and with another uid, it has the 70 of its other code."""
    honest = image.graded({"solution.py": SMALL})
    guard = image.top / "source" / "grader" / "sandbox" / "uids.py"
    text = guard.read_text()
    assert text.count(UID) == 1
    guard.write_text(text.replace(UID, "    return None\n"))
    scores = {"root": score(image.graded({"solution.py": ATTACKS[attack]}, landlock=False)[1])}
    guard.write_text(text)
    for kernel, name in ((True, "Landlock"), (False, "another uid")):
        result, told = image.graded({"solution.py": ATTACKS[attack]}, kernel)
        assert result is not None, image.said  # the grader is alive
        scores[name] = score(told)
    assert scores == {"root": 100, "Landlock": 70, "another uid": 70}
    assert image.graded({"solution.py": SMALL}) == honest


def score(told: Any) -> float:
    """The score that Gradescope computes."""
    return sum(float(test["score"]) for test in told["tests"])


def test_the_zip(tmp_path: Path) -> None:
    """The same files give the same bytes. Both scripts can be executed, and no other file."""
    files = {path.name: path.read_text() for path in bundle(tmp_path / "bundle").iterdir()}
    data = packed(files)
    assert data == packed(dict(reversed(files.items())))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    assert {"bundle/checks.py", "bundle/hash", "grader/classroom/one.py"} <= {entry.filename for entry in entries}
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    executable = {entry.filename for entry in entries if entry.external_attr >> 16 & 0o111}
    assert executable == {"setup.sh", "run_autograder"}


def test_setup_finds_or_installs_python_or_refuses(tmp_path: Path) -> None:
    """A Python of 3.11 or later is found under a name with a version, or installed; otherwise the image is refused."""
    source, programs = tmp_path / "source", tmp_path / "programs"
    source.mkdir()
    programs.mkdir()
    with zipfile.ZipFile(io.BytesIO(packed({}))) as archive:
        archive.extract("setup.sh", source)

    def program(name: str, text: str) -> None:
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)

    def setup() -> tuple[int, str]:
        env = {"PATH": f"{programs}:/usr/bin:/bin"}
        done = subprocess.run(["bash", source / "setup.sh"], env=env, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    for name in ("python3", *(f"python3.{minor}" for minor in range(11, 15))):
        program(name, "exit 1")
    program("apt-get", "exit 100")
    status, said = setup()
    assert status == 1 and "no Python of 3.11 or later" in said and "Ubuntu 22.04 or later" in said
    assert not (source / "python").exists()
    new = programs / "python3.11"
    program(
        "apt-get", f'case "$*" in *python3.11) printf "#!/bin/sh\\nexit 0\\n" > {new};; *python3.12) exit 100;; esac'
    )
    assert setup()[0] == 0
    assert (source / "python").read_text() == f"{new}\n"
    assert source.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "head"),
    [
        ("1-max-and-join", "def net(changes):"),
        ("4-sharing-on-spark", "async def in_order(call, rows, in_flight):"),
    ],
)
def test_a_real_lab(lab: str, head: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labs 1 and 4: the solution, the stub, and code that blocks, is endless, or exits."""
    os.chmod(tmp_path, 0o755)
    build(LABS / lab, tmp_path / "lab")
    right, stub = ((tmp_path / "lab" / name / "solution.py").read_text() for name in ("solution", "student"))
    many = {
        "s01": {"solution.py": right},
        "s02": {"solution.py": stub},
        "s03": {"solution.py": f"{right}\n{head}\n    while True:\n        pass\n"},
        "s04": {"solution.py": f"import time\n{right}\n{head}\n    time.sleep(600)\n"},
        "s05": {"solution.py": f"import os\n{right}\n{head}\n    os._exit(1)\n"},
    }
    teacher = Teacher(tmp_path, capsys)
    teacher.lab = tmp_path / "lab"
    (tmp_path / "autograder").mkdir()
    with container(tmp_path / "autograder") as image:
        image.built(tmp_path / "lab" / "bundle")
        found = graded_by_class(teacher, many)
        for (id, files), kernel in itertools.product(many.items(), TIERS):
            assert as_json(image.graded(files, kernel)[0]["checks"]) == as_json(found[id]["checks"]), id
