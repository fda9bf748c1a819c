"""The command line on real processes: a right system passes, a wrong one fails by order, and no process is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import zoo

from grader import cli
from grader.explain import explanation
from grader.report import write
from grader.table import PHASES

ROOT = Path(__file__).resolve().parent.parent.parent
REPORTS = ("report.json", "report.html")


def start(*words: object, cwd: Path = ROOT, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "grader", *(str(word) for word in words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def grade(*words: object, cwd: Path = ROOT, seconds: float = 120) -> tuple[int, str]:
    """Run the grader; its exit status and everything it printed."""
    process = start(*words, cwd=cwd)
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out + err


def phase(name: str, folder: Path, out: Path) -> tuple[int, dict[str, object], str]:
    """Run some phases as fast as possible; exit status, report.json, and everything printed."""
    code, text = grade(
        "checkout", folder, "--quick", "--phases", name, "--seed", 1, "--convergence", 3, "--report", out
    )
    return code, json.loads((out / "report.json").read_text()), text


def processes_that_name(folder: str) -> list[str]:
    """The command lines of all processes that contain a path."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace") if name.isdigit() else ""
        except OSError:
            continue
        if folder in words and name != str(os.getpid()):
            found.append(words)
    return found


def test_a_right_system_passes_and_its_record_gives_the_same_report(tmp_path: Path) -> None:
    """A pass is exit 0. A replay of the record writes the same bytes, in another folder and without the system."""
    code, report, text = phase("contract,scarcity", zoo.right("single", tmp_path / "single"), tmp_path / "live")
    assert code == 0 and report["verdict"] == "pass", text
    assert report["violations"] == [] and report["phases"]["scarcity"]["verdict"] == "pass"  # type: ignore[index]
    write(tmp_path / "live", tmp_path / "again")
    for name in REPORTS:
        assert (tmp_path / "live" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_wrong_system_fails_and_the_one_order_is_named(tmp_path: Path) -> None:
    """Some orders take stock twice. The report names only those, by label and by the system's id."""
    mutant = next(m for m in zoo.MUTANTS if m.name == "takes-stock-twice-now-and-then")
    code, report, text = phase("duplicates", zoo.plant(mutant, tmp_path / "wrong"), tmp_path / "out")
    assert code == 1 and report["verdict"] == "fail", text
    named = [v for v in report["violations"] if v["order_id"]]  # type: ignore[attr-defined]
    # If stock was just enough, it also falls below zero.
    assert named and {"taken_times"} <= {v["rule"] for v in named} <= {"taken_times", "negative"}
    assert all(v["order_id"].endswith("7") for v in named)
    # An order that was refused for lack of credit took stock too, at each attempt.
    details = {v["detail"] for v in named}
    assert any(re.fullmatch(r"taken \d+ times, should be (once|never)", each) for each in details), details
    page = (tmp_path / "out" / "report.html").read_text()
    assert min(v["label"] for v in named) in page and "Stock was taken: " in page


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C during a run, repeated: exit 130, and no process and no scratch folder is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folder = zoo.right("single", tmp_path / "single")
    process = start("checkout", folder, "--quick", "--phases", "load", TMPDIR=str(scratch))
    until = time.monotonic() + 30
    # A process that is seen may end a moment later: the first one only probes the sandbox.
    while not (seen := processes_that_name(str(scratch))) and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
            break  # it has ended: nothing will start
    assert seen
    while process.poll() is None and time.monotonic() < until + 30:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)  # an impatient user
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert processes_that_name(str(scratch)) == [] and list(scratch.iterdir()) == []


def test_wrong_usage_is_64_and_explain_needs_no_submission() -> None:
    """The command ends with the status that `main` returns, and prints errors without a traceback."""
    code, text = grade("checkout", "/nowhere")
    assert code == 64 and "Traceback" not in text and "/nowhere" in text, text
    text = explanation()
    assert cli.main(["checkout", "--explain"]) == 0 and all(phase in text for phase in PHASES), text


TOML = """\
base_url = "http://127.0.0.1:{port:shop}"
[[process]]
name = "shop"
command = %s
"""
TCP = 'ready = { tcp = "{port}", timeout_s = 3 }\n'
COMMAND = 'ready = { command = ["sh", "-c", "echo no quorum; exit 3"], timeout_s = 8 }\n'
HTTP = 'ready = { http = "http://127.0.0.1:{port}/no-such-page", timeout_s = 1 }\n'


@pytest.mark.parametrize(
    ("command", "ready", "said"),
    [
        ('["python3", "-c", "raise SystemExit(\'no database\')"]', TCP, "no database"),
        ('["no-such-program"]', TCP, "no-such-program"),
        ('["no-such-program"]', "", "shop exited (exits: "),
        ('["sleep", "60"]', TCP, "set timeout_s (at most 600) in its ready in checkout.toml"),
        ('["sleep", "60"]', COMMAND, "sh -c 'echo no quorum; exit 3' exited with 3, and printed no quorum"),
        ('["python3", "-m", "http.server", "{port}"]', HTTP, "/no-such-page must answer 2xx (answered 404)"),
    ],
)
def test_a_submission_that_cannot_run_fails_with_the_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    ready: str,
    said: str,
) -> None:
    """Exit 1, with the last lines that the process printed. Gradescope gets 0 points and the reason."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkout.toml").write_text(TOML % command + ready)
    words = ["checkout", str(tmp_path), "--quick", "--phases", "load", "--ready", "0.5"]
    code = cli.main([*words, "--report", str(tmp_path / "out")])
    text = capsys.readouterr().out
    assert code == 1 and said in text, text
    graded = json.loads((tmp_path / "out" / "results.json").read_text())
    assert graded["score"] == 0 and said in graded["output"]
    assert sum(part["max_score"] for part in graded["tests"]) == 100
    assert processes_that_name(str(tmp_path)) == []


@pytest.mark.slow
def test_quick_waits_a_minute_for_a_recovery_on_a_timer(tmp_path: Path) -> None:
    """A right saga whose recovery runs every 35 seconds passes --quick, and fails a shorter --convergence."""
    system = zoo.right("timer", tmp_path / "timer")
    for options, expected in (((), 0), (("--convergence", 10), 1)):
        words = ("--quick", "--phases", "duplicates,faults", "--seed", 1, "--report", tmp_path / "out", *options)
        code, text = grade("checkout", system, *words, seconds=600)
        assert code == expected, text


TWO = """\
base_url = "http://127.0.0.2:5000"
[[process]]
name = "one"
address = "127.0.0.2"
port = 5000
command = ["python3", "-m", "http.server", "--bind", "%s", "5000"]
ready = { tcp = 5000 }
[[process]]
name = "two"
address = "127.0.0.3"
port = 5000
command = ["python3", "-m", "http.server", "--bind", "{address}", "5000"]
ready = { command = ["python3", "-c", "import socket; socket.create_connection(('{address:one}', 5000))"] }
"""


def test_two_processes_share_a_port_at_two_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both start if each listens on its own address. If the first listens on all, the error names 0.0.0.0."""
    monkeypatch.chdir(tmp_path)
    words = ["checkout", str(tmp_path), "--quick", "--phases", "contract", "--report", str(tmp_path / "out")]
    (tmp_path / "checkout.toml").write_text(TWO % "{address}")
    assert cli.main(words) == 1
    assert "answers as specified" in capsys.readouterr().out  # it started, and every answer is wrong
    (tmp_path / "checkout.toml").write_text(TWO % "0.0.0.0")
    assert cli.main(words) == 1
    assert "two: an earlier process listens on 127.0.0.3:5000; let each process" in capsys.readouterr().out
