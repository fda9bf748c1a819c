"""A class of 200 submissions to lab 1, made by code: right, wrong, endless, crashing, unreadable and hostile ones.

    python -m pytest -n 0 -s -m slow tests/grader/test_class_of_200.py

prints the seconds, and the memory of the grader's own processes; then the seconds for 10 histories of each student. 2
cores without other load should take at most 5 minutes. The tests assert grades only, so that they pass on a busy
machine, too.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.lab.build import build

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "labs" / "1-max-and-join"
SOLUTION = (LAB / "solution.py").read_text()
STUB = """
class Join:
    pass
class Max:
    pass
"""

BEGIN = "import os, sys, time, signal, threading\n"
JOIN = f"{BEGIN}{SOLUTION}\nclass Join(Join):\n    def step(self, info, visit):\n"
STEP = f"{BEGIN}{SOLUTION}\nclass Max(Max):\n    def step(self, changes):\n"
HANG = [
    f"{STEP}        while True: pass\n",
    f"{SOLUTION}\ndef net(changes):\n    while True: pass\n",
    f"{BEGIN}{SOLUTION}\ndef net(changes):\n    time.sleep(10**6)\n",
    f"{JOIN}        threading.Event().wait()\n",
    f"{BEGIN}while True: pass\n",
    f"{BEGIN}time.sleep(10**6)\n",
    f"{BEGIN}{SOLUTION}\nclass Max(Max):\n    def save(self):\n        threading.Barrier(2).wait()\n",
    f"{BEGIN}{SOLUTION}\nclass Max(Max):\n    def load(self, saved):\n        os.kill(os.getpid(), signal.SIGSTOP)\n",
    f"{JOIN}        return sum(iter(int, 1))\n",
    f"{BEGIN}{SOLUTION}\ndef net(changes):\n    os.read(0, 1); os.fork() or time.sleep(10**6); time.sleep(10**6)\n",
]
CRASH = [
    f"{BEGIN}os._exit(0)\n",
    f"{BEGIN}{SOLUTION}\ndef net(changes):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
    f"{BEGIN}{SOLUTION}\nclass Max(Max):\n    def __init__(self):\n        os.abort()\n",
    f"{STEP}        os.kill(os.getpid(), signal.SIGSEGV)\n",
    "import ctypes\nctypes.string_at(0)\n",
]
EXPLOITS = [
    # writes forged answers to every descriptor, from an import and from a thread
    f'{BEGIN}{STUB}\ndef forge():\n    raw = b\'{{"number": "0", "value": [[]]}}\'\n    for number in range(256):\n'
    "        try: os.write(number, len(raw).to_bytes(4, 'big') + raw)\n        except OSError: pass\n"
    "forge()\nthreading.Timer(0.2, forge).start()\ndef net(changes):\n    forge()\n    return []\n",
    # searches the frames and the heap for the right answer
    f"import sys, gc\n{STUB}\ndef net(changes):\n    for o in gc.get_objects():\n"
    "        if type(o) is dict and 'right' in o: return o['right']\n"
    "    return sys._getframe(1).f_locals['right']\n",
    # looks for the checks and for other results
    f"{BEGIN}{STUB}\ndef net(changes):\n    for place in ('/', '/proc/1/cwd', '/proc/1/root', '..', '../..'):\n"
    "        for top, _, names in os.walk(place):\n            if 'checks.py' in names or 'result.json' in names:\n"
    "                return eval(open(os.path.join(top, 'checks.py')).read())\n    return []\n",
    # is equal to everything, and patches what compares and what encodes
    f"import json, sys\n{STUB}\nclass All(list):\n    __eq__ = lambda self, other: True\n    __hash__ = None\n"
    "json.dumps = lambda *all, **more: '{{}}'\nsys.modules['grader'] = sys\ndef net(changes):\n    return All()\n",
    # kills and stops whatever it can see
    f"{BEGIN}{STUB}\nfor pid in map(int, filter(str.isdigit, os.listdir('/proc'))):\n"
    "    if pid not in (1, os.getpid()):\n        for number in (signal.SIGSTOP, signal.SIGKILL):\n"
    "            try: os.kill(pid, number)\n            except OSError: pass\ndef net(changes):\n    os.killpg(0, 9)\n",
]


def shapes(tmp: Path, id: str) -> list[Callable[[str], None]]:
    """Ten ways to hand in a text."""

    def folder(text: str, name: str = "solution.py") -> None:
        (tmp / id / name).parent.mkdir(parents=True)
        (tmp / id / name).write_text(text, newline="")

    def zipped(text: str, *names: str) -> None:
        with zipfile.ZipFile(tmp / f"{id}.zip", "w") as packed:
            for name in names:
                packed.writestr(name, text if "__MACOSX" not in name else "")

    def tarred(text: str) -> None:
        with tarfile.open(tmp / f"{id}.tar.gz", "w:gz") as packed:
            member = tarfile.TarInfo("lab1/solution.py")
            member.size = len(text.encode())
            packed.addfile(member, io.BytesIO(text.encode()))

    def notebook(text: str) -> None:
        parts = [ast.get_source_segment(text, node) for node in ast.parse(text).body]
        cells = [{"cell_type": "code", "source": part, "metadata": {}, "outputs": []} for part in parts]
        (tmp / id).mkdir()
        book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
        (tmp / id / "lab.ipynb").write_text(json.dumps(book))

    return [
        folder,
        lambda text: zipped(text, "solution.py"),
        lambda text: zipped(text, "lab1/lab1/solution.py", "__MACOSX/lab1/lab1/._solution.py"),
        lambda text: (tmp / f"{id}.py").write_text(text) and None,
        tarred,
        lambda text: folder("\ufeff" + text.replace("\n", "\r\n")),
        notebook,
        lambda text: folder(ast.unparse(ast.parse(text)), "lab/solution.py"),
        lambda text: folder(text.replace("class Max:", "print('x' * 1000)\n\n\nclass Max:")),
        lambda text: folder("import os\nfrom os import *\n" + text.replace("total", "sums")),
    ]


def write_class(tmp: Path) -> dict[str, str]:
    """Write the submissions, and return the kind of each: right, the check that a wrong one fails first, and so on."""
    kinds: dict[str, str] = {}
    mutants = list(tomllib.loads((LAB / "mutants.toml").read_text()).values())

    def next_id(kind: str) -> str:
        id = f"s{len(kinds) + 1:04}"
        kinds[id] = kind
        return id

    for number in range(150):
        shapes(tmp, next_id("right"))[number % 10](f"{SOLUTION}\n# {number}\n")
    for number in range(25):
        mutant, text = mutants[number % len(mutants)], SOLUTION
        for old, new in mutant["replace"]:
            text = text.replace(old, new)
        shapes(tmp, next_id(mutant["check"]))[number % 3](text)
    for kind, texts in (("hang", HANG), ("crash", CRASH), ("exploit", EXPLOITS)):
        for text in texts:
            shapes(tmp, next_id(kind))[0](text)
    unreadable = [b"PK\3\4", b"", b"\x1f\x8b no tar"]
    for suffix, content in zip((".zip", ".zip", ".tar.gz"), unreadable, strict=True):
        (tmp / f"{next_id('unreadable')}{suffix}").write_bytes(content)
    (tmp / next_id("unreadable")).mkdir()
    (tmp / f"{next_id('unreadable')}.ipynb").write_text("{")
    return kinds


def used(pid: int) -> int:
    """Return the resident memory in bytes of a `class` command and the processes of its pool."""
    total = 0
    for name in os.listdir("/proc"):
        try:
            words = Path("/proc", name, "cmdline").read_text() if name.isdigit() else ""
            if name == str(pid) or "grader.classroom.pool" in words and words.endswith(f"\0{pid}\0"):
                total += int(Path("/proc", name, "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        except OSError:
            continue  # it has ended
    return total


@pytest.mark.slow
def test_a_class_of_200(tmp_path: Path) -> None:
    """Right solutions have 100 points, wrong ones fail first at their check, hostile ones gain nothing; all go on."""
    kinds = write_class_in(tmp_path / "subs")
    build(LAB, tmp_path / "lab")
    words = [sys.executable, "-m", "grader", "class", tmp_path / "subs", "--lab", tmp_path / "lab", "--jobs", 2]
    began, most = time.monotonic(), 0
    process = subprocess.Popen([*map(str, words), "--out", str(tmp_path / "out")], cwd=ROOT)
    while process.poll() is None:
        most = max(most, used(process.pid))
        time.sleep(0.5)
    print(f"\n200 submissions: {time.monotonic() - began:.0f} s, {most >> 20} MiB in the grader's own processes")
    assert process.returncode == 1
    with open(tmp_path / "out" / "gradebook.csv", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert rows.keys() == kinds.keys()
    wrong = {}
    for id, kind in kinds.items():
        found = json.loads((tmp_path / "out" / "submissions" / id / "result.json").read_text())
        outcomes = {check["check"]: check["outcome"] for check in found["checks"] if check["outcome"] != "pass"}
        score, first = rows[id]["score"], next(iter(outcomes), "")
        good = {
            "right": score == "100",
            "unreadable": (rows[id]["status"], score) == ("unreadable", ""),
            "exploit": score == "0",
            "crash": "crash" in outcomes.values(),
            "hang": "timeout" in outcomes.values(),
        }.get(kind, first == kind and outcomes.get(first) in ("wrong", "error") and found["checks"] != [])
        if not good:
            wrong[id] = (kind, rows[id]["status"], score, outcomes, found["why"])
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_histories_of_200(number: int, tmp_path: Path) -> None:
    """Each student has the points of what the 10 histories expose together, as the build has found it out."""
    (lab,) = (ROOT / "labs").glob(f"{number}-*")
    build(lab, tmp_path / "lab")
    proof = json.loads((tmp_path / "lab" / "proof.json").read_text())["mutants"]
    traces = [one["trace"] for one in proof]
    draw, expected = random.Random(number), {}
    (tmp_path / "subs").mkdir()
    for student in range(200):
        chosen = [draw.randrange(len(traces)) for _ in range(10)]
        (tmp_path / "subs" / f"s{student:03}.txt").write_text("\n".join(traces[one] for one in chosen))
        expected[f"s{student:03}"] = {one + 1 for one in chosen}
    words = [sys.executable, "-m", "grader", "class", tmp_path / "subs", "--lab", tmp_path / "lab", "--break"]
    began, before = time.monotonic(), os.times()
    subprocess.run([*map(str, words), "--jobs", "2", "--out", str(tmp_path / "out")], cwd=ROOT, check=True)
    cpu = sum(os.times()[2:4]) - sum(before[2:4])
    print(f"\nlab {number}: 10 histories of each of 200: {time.monotonic() - began:.0f} s, {cpu:.0f} s of CPU time")
    for id, least in expected.items():
        found = json.loads((tmp_path / "out" / "submissions" / id / "result.json").read_text())
        exposed = {int(one["check"].split()[0]) for one in found["checks"] if one["outcome"] == "exposed"}
        assert exposed >= least and all(not one["word"] for one in found["histories"])


def write_class_in(folder: Path) -> dict[str, str]:
    """Write the submissions into a new folder."""
    folder.mkdir()
    return write_class(folder)
