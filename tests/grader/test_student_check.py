"""`python -m grader check`, as a student and as an author run it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from without_linux import ENV, checked

from grader.lab.judge import fingerprint
from grader.student import FILES, check
from grader.student.command import main
from grader.student.cpu import clock
from grader.student.local import Local

ROOT = Path(__file__).resolve().parents[2]
CHECKS = '''
from grader.lab import EXACT, Case, check
from functools import partial

@check("double.small", task=1)
def small(student):
    """double doubles a number."""
    for n in range(4):
        yield Case(str(n), 2 * n, partial(student.call, "double", n))

@check("double.large", task=1, needs=("double.small",))
def large(student):
    """double doubles large numbers, too."""
    yield Case("1000", 2000, partial(student.call, "double", 1000))

@check("keeps", task=2, rule=8)
def keeps(student):
    """What was saved is there after a restart."""
    def ask():
        saved = student.call("save", 7)
        student.restart()
        return student.call("load", saved)
    yield Case("save 7, restart, load", 7, ask)
'''
SOLUTION = "def double(x):\n    return 2 * x\ndef save(x):\n    return [x]\ndef load(saved):\n    return saved[0]\n"
SAYS = {
    "title": "Doubling", "hand_in": ["solution.py"], "tasks": {"1": "double", "2": "state"},
    "points": {"double.small": 40, "double.large": 30, "keeps": 20}, "hidden": {"checks": 1, "points": 10},
}  # fmt: skip
LAST = "visible: 3 of 3 pass. 1 hidden check decides 10 of 100 points."
Lab = Callable[..., Path]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A student's copy of a lab of two tasks, in a path with blanks and umlauts; texts of its solution replaced."""

    def made(*replaced: tuple[str, str], **more: object) -> Path:
        folder = tmp_path / "Übung 1, zweiter Versuch"
        folder.mkdir(exist_ok=True)
        text = SOLUTION
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        (folder / "solution.py").write_text(text, encoding="utf-8")
        (folder / "checks.py").write_text(CHECKS)
        (folder / "lab.json").write_text(json.dumps({**SAYS, **more}))
        return folder

    return made


def ran(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """Exit status and lines of `check FOLDER WORDS`."""
    status = main([str(folder), *words])
    said = capsys.readouterr()
    return status, (said.out + said.err).splitlines()


def test_all_pass(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Each task and check has a line. The last line names the hidden checks."""
    status, lines = ran(lab(), capsys)
    assert (status, lines) == (0, [
        "task 1: double", "  pass    double.small", "  pass    double.large", "task 2: state", "  pass    keeps", LAST,
    ])  # fmt: skip


def test_a_check_without_points_advises(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Its message is shown, and the next task runs."""
    folder = lab(("2 * x", "2 * min(x, 100)"), points={"double.small": 70, "double.large": 0, "keeps": 20})
    status, lines = ran(folder, capsys)
    assert status == 0 and "  wrong   double.large  (advice, no points)" in lines and "  pass    keeps" in lines
    assert lines[-1] == "visible: 2 of 3 pass. 1 hidden check decides 10 of 100 points."


def test_a_failure_is_a_message(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Rule, trace, both answers, and what the case printed. Other failures of the task have one line each."""
    folder = lab(("return 2 * x", "print('got', x, 'ß')\n    return 2 * min(x, 2)"))
    status, lines = ran(folder, capsys)
    assert status == 1 and lines == [
        "task 1: double",
        "  wrong   double.small",
        "    rule    double doubles a number.",
        "    trace   3",
        "    right   6",
        "    got     4",
        "    printed got 3 ß",
        "    again   python -m grader check --case double.small:4",
        "  wrong   double.large  (--case double.large:1)",
        "visible: 0 of 3 pass, 1 not run. 1 hidden check decides 10 of 100 points.",
    ]
    status, lines = ran(folder, capsys, "--all")
    assert status == 1 and "  pass    keeps" in lines and lines[-1].startswith("visible: 1 of 3 pass. 1 hidden")
    folder = lab(("2 * x", "2 * min(x, 2)"), ("saved[0]", "None"))
    status, lines = ran(folder, capsys, "--all")
    assert status == 1 and "    got     4" in lines and "    got     None" in lines
    (folder / "checks.py").write_text(CHECKS.replace("rule=8", 'needs=("double.small",)'))
    status, lines = ran(folder, capsys, "--all")
    assert status == 1 and "    got     4" in lines and "  wrong   keeps  (--case keeps:1)" in lines
    assert "    got     None" not in lines
    folder = lab(("return 2 * x", "print('got', x, 'ß')\n    return 2 * min(x, 2)"))
    status, lines = ran(folder, capsys, "--task", "2")
    assert status == 0 and lines[-1].startswith("visible: 1 of 3 pass, 2 not run.")
    status, lines = ran(folder, capsys, "--case", "double.small:4")
    assert status == 1 and "    got     4" in lines and "    printed got 3 ß" in lines
    status, lines = ran(folder, capsys, "--case", "double.small:3")
    assert status == 0 and lines == [
        "  pass    double.small", "    trace   2", "    got     4",
        "Only case 3 of double.small has run. To run all checks: python -m grader check",
    ]  # fmt: skip


def test_two_timeouts_end_the_checks_of_a_task(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """The others of the task are not run, and the last line counts them as such. Another task is checked."""
    folder = lab(("return 2 * x", "while True: pass"))
    more = CHECKS[CHECKS.index('@check("double.large"') : CHECKS.index('@check("keeps"')].replace("large", "huge")
    (folder / "checks.py").write_text((CHECKS + more).replace("task=1", "task=1, cpu=0.1"))
    (folder / "lab.json").write_text(
        json.dumps({**SAYS, "points": {**SAYS["points"], "double.large": 20, "double.huge": 10}})
    )
    status, lines = ran(folder, capsys, "--all")
    assert status == 1 and "  not run double.huge" in lines and "  pass    keeps" in lines
    assert lines[-1] == "visible: 1 of 4 pass, 1 not run. 1 hidden check decides 10 of 100 points."


def test_json_has_the_same_results(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, standard output is one JSON object."""
    assert main([str(lab(("2 * x", "3 * x"))), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert [(one["check"], one["outcome"], one["got"]) for one in said["checks"]] == [
        ("double.small", "wrong", "3"),
        ("double.large", "wrong", "3000"),
    ]
    assert said["last"].startswith("visible: 0 of 3")


def test_a_known_mistake_is_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """If all answers of a check are those of a known wrong solution, the message says what is wrong."""
    mark = fingerprint([["value", 3 * n] for n in range(4)])
    hints = {"double.small": {mark: "That is »tripling«."}}
    _, lines = ran(lab(("2 * x", "3 * x"), hints=hints), capsys)
    assert "    says    That is »tripling«." in lines
    _, lines = ran(lab(("2 * x", "4 * x"), hints=hints), capsys)
    assert lines[1] == "  wrong   double.small" and not [line for line in lines if "says" in line]


def test_what_is_not_written_yet(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """A task whose code is still the stub has one line for each check."""
    status, lines = ran(lab(("return 2 * x", "raise NotImplementedError('task 1: twice the number')")), capsys)
    assert status == 1 and lines[:2] == ["task 1: double", "  to do   double.small: task 1: twice the number (line 2)"]


@pytest.mark.parametrize(
    ("replaced", "outcome", "got"),
    [
        (("return 2 * x", "return"), "wrong", "None"),
        (("return 2 * x", "import os; os._exit(3)"), "crash", "the process exited"),
    ],
)
def test_other_outcomes(
    replaced: tuple[str, str], outcome: str, got: str, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """None is a wrong answer, and a process that ends is a crash."""
    status, lines = ran(lab(replaced), capsys, "--case", "double.small:2")
    assert status == 1 and lines[0].split() == [outcome, "double.small"]
    assert got in " ".join(" ".join(lines).partition("    got ")[2].split())


@pytest.mark.parametrize(
    ("replaced", "outcome", "got"),
    [
        (("def double(x)", "def double(x"), "error", "SyntaxError: '(' was never closed (solution.py, line 1)"),
        (("def double", "import numpy\ndef double"), "error", "only Python's standard library (line 1)"),
        (("def double", "import helper\ndef double"), "error", "'helper' cannot be imported"),
        (("def double", "print('here', 1 / 0)\ndef double"), "error", "ZeroDivisionError: division by zero (line 1)"),
        (("def double", "import os; os._exit(3)\ndef double"), "crash", "the process exited"),
    ],
)
def test_a_module_that_cannot_be_imported(
    replaced: tuple[str, str], outcome: str, got: str, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """The only message is about the file, and gives the line once. No check runs."""
    folder = lab(replaced)
    (folder / "helper.py").write_text("")
    status, lines = ran(folder, capsys)
    assert status == 1 and lines[0].split() == [outcome, "solution.py"] and lines[1].startswith("    got ")
    said = " ".join(" ".join(lines[1:-1]).split())
    assert said.count(got) == 1 and said.count("line 1") == got.count("line 1") + ("helper" in got)
    assert not {"rule", "trace"} & set(said.split())
    assert lines[-1] == "visible: 0 of 3 pass, 3 not run. 1 hidden check decides 10 of 100 points."
    for words in (("--case", "double.small:2"), ("--task", "2")):
        assert ran(folder, capsys, *words) == (1, lines)
    assert main([str(folder), "--json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["checks"]
    assert (entry["check"], entry["outcome"]) == ("solution.py", outcome) and got in entry["got"]


def test_time_runs_out(lab: Lab) -> None:
    """An endless loop ends by its CPU time, a process that waits by its idle time. The next question is answered."""
    folder = lab(
        ("return 2 * x", "while x == 1: pass\n    import time\n    time.sleep(600 * (x == 2))\n    return 2 * x")
    )
    with Local(folder, "solution") as local:
        answers = []
        for n in (1, 2, 3):
            local.limit(0.5, idle=0.5 if n == 2 else 60)
            answers.append(local.run([["call", "", "double", [n]]]))
    assert [answer.kind for answer in answers] == ["timeout", "timeout", "value"]
    assert "0.5 s of CPU time" in answers[0].why and "no use of the CPU" in answers[1].why
    assert local.cpu() > 0.5


def test_what_a_student_can_type_wrong(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a lab, a missing file, and unknown tasks and cases are status 64, with a way out."""
    (tmp_path / "empty").mkdir()
    for words, said in {
        (str(tmp_path / "empty"),): "contains no lab",
        (str(lab()), "--task", "9"): "there is no task 9; the tasks are 1, 2",
        (str(lab()), "--case", "secret:1"): "secret is hidden, or no check of this lab",
        (str(lab()), "--case", "keeps"): "such as max.second:12",
        (str(lab()), "--case", "keeps:2"): "keeps has no case 2; it has 1",
    }.items():
        assert main(list(words)) == 64
        assert said in capsys.readouterr().err
    (lab() / "solution.py").rename(lab() / "solution (1).py")
    (lab() / "solution.py").unlink()
    assert main([str(tmp_path / "Übung 1, zweiter Versuch")]) == 64
    assert "has no solution.py (its .py files: checks.py, solution (1).py)" in capsys.readouterr().err
    assert main(["--nonsense"]) == 64


def test_in_a_notebook(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`check(2)` runs the checks of a task beside the notebook, and prints."""
    import grader

    monkeypatch.chdir(lab())
    assert grader.check is check
    check(2)
    assert capsys.readouterr().out.splitlines() == [
        "task 2: state", "  pass    keeps", "visible: 1 of 3 pass, 2 not run." + LAST.partition("pass.")[2],
    ]  # fmt: skip
    check(7)
    assert capsys.readouterr().out == "there is no task 7; the tasks are 1, 2\n"
    lab(("2 * x", "2 * min(x, 2)"))
    check(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [
        '    again   check(case="double.small:4")', '  wrong   double.large  (case="double.large:1")',
        "visible: 0 of 3 pass, 1 not run. 1 hidden check decides 10 of 100 points.",
    ]  # fmt: skip
    check(case="double.small:4")
    assert "    got     4" in capsys.readouterr().out.splitlines()


def test_long_lines_are_wrapped(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """At 78 characters, between words; what the code prints stays as it is."""
    printed = "print " * 20
    _, lines = ran(
        lab(("return 2 * x", f"print('{printed}')\n    return 'word ' * 20")), capsys, "--case", "double.small:1"
    )
    assert f"    printed {printed}" in lines
    at = lines.index("    right   0") + 1
    assert lines[at].startswith("    got     ") and len(lines[at]) <= 78 and lines[at + 1].startswith(" " * 12 + "word")


def test_a_reader_that_ends(lab: Lab) -> None:
    """In `check | head`, the output is closed before its end. This is no failure of the grader."""
    asked = f"{sys.executable} -m grader check {shlex.quote(str(lab()))} | true"
    ran = subprocess.run(["bash", "-c", asked], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert not ran.stderr


def test_it_needs_python_alone(lab: Lab) -> None:
    """The files of a student's copy pass with no package, and without what Windows lacks."""
    folder = lab()
    for name in FILES:
        place = folder / "grader" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "grader" / name, place)
    done = checked(folder)
    assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (0, "", LAST)
    words = [sys.executable, "-S", "-s", "-m", "grader", "class"]
    done = subprocess.run(words, cwd=folder, env=ENV, capture_output=True, text=True, timeout=120)
    assert done.returncode == 64 and "has two commands: check and break" in done.stderr


def test_times_of_ps() -> None:
    """macOS prints minutes with hundredths, Linux hours, and both print days."""
    texts = ("0:00.25\n", " 2:05.50", "00:01:02", "1-00:00:01")
    assert [clock(text) for text in texts] == [0.25, 125.5, 62.0, 86_401.0]
