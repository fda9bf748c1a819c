"""The command line on real processes: a right system passes, wrong ones fail with the order's name, nothing stays."""

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

ROOT = Path(__file__).resolve().parent.parent.parent
REPORTS = ("report.json", "report.html")


def start(*words: object, cwd: Path = ROOT, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "grader", *(str(word) for word in words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def grade(*words: object, cwd: Path = ROOT) -> tuple[int, str]:
    """Exit status and everything printed."""
    process = start(*words, cwd=cwd)
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


def phase(name: str, folder: Path, out: Path) -> tuple[int, dict[str, object], str]:
    """Some phases alone, as quick as they go: exit status, report.json, everything printed."""
    code, text = grade(
        "checkout", folder, "--quick", "--phases", name, "--seed", 1, "--convergence", 3, "--report", out
    )
    return code, json.loads((out / "report.json").read_text()), text


def of_this_run(mark: str) -> list[str]:
    """Command lines of processes that mention a folder."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace") if name.isdigit() else ""
        except OSError:
            continue
        if mark in words and name != str(os.getpid()):
            found.append(words)
    return found


def test_a_right_system_passes_and_its_record_gives_the_same_report(tmp_path: Path) -> None:
    """A pass is exit 0; judging the record again writes the same bytes, elsewhere and without the system."""
    code, report, text = phase("contract,scarcity", zoo.right("single", tmp_path / "single"), tmp_path / "live")
    assert code == 0 and report["verdict"] == "pass", text
    assert report["violations"] == [] and report["phases"]["scarcity"]["verdict"] == "pass"  # type: ignore[index]
    code, text = grade("replay", tmp_path / "live", "--report", tmp_path / "again")
    assert code == 0, text
    for name in REPORTS:
        assert (tmp_path / "live" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_wrong_system_fails_and_the_one_order_is_named(tmp_path: Path) -> None:
    """Some orders take stock a second time: only such orders are named, by our label and the system's id."""
    mutant = next(m for m in zoo.MUTANTS if m.name == "takes-stock-twice-now-and-then")
    code, report, text = phase("duplicates", zoo.plant(mutant, tmp_path / "wrong"), tmp_path / "out")
    assert code == 1 and report["verdict"] == "fail", text
    named = [v for v in report["violations"] if v["order_id"]]  # type: ignore[attr-defined]
    # Where there was hardly enough, that is below zero too.
    assert named and {"taken_times"} <= {v["rule"] for v in named} <= {"taken_times", "negative"}
    assert all(v["order_id"].endswith("7") for v in named)
    # An order that was refused for its credit has taken stock as well, as often as it was tried.
    told = {v["detail"] for v in named}
    assert any(re.fullmatch(r"taken \d+ times, should be (once|never)", each) for each in told), told
    page = (tmp_path / "out" / "report.html").read_text()
    assert min(v["label"] for v in named) in page and "Stock was taken: " in page


def test_interrupted_it_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C in the middle, and again and again: exit 130, no process lives, no scratch folder is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folder = zoo.right("single", tmp_path / "single")
    process = start("checkout", folder, "--quick", "--phases", "load", TMPDIR=str(scratch))
    until = time.monotonic() + 30
    # What is seen may be gone a moment later: the sandbox is tried out with a process that does nothing.
    while not (seen := of_this_run(str(scratch))) and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
            break  # it has ended, and there is nothing to wait for
    assert seen
    while process.poll() is None and time.monotonic() < until + 30:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)  # who is impatient presses it so often
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert of_this_run(str(scratch)) == [] and list(scratch.iterdir()) == []


TOML = """\
base_url = "http://127.0.0.1:{port:shop}"
[[process]]
name = "shop"
command = %s
"""
TCP = 'ready = { tcp = "{port}", timeout_s = 3 }\n'
HTTP = 'ready = { http = "http://127.0.0.1:{port}/no-such-page", timeout_s = 1 }\n'


@pytest.mark.parametrize(
    ("command", "ready", "said"),
    [
        ('["python3", "-c", "raise SystemExit(\'no database\')"]', TCP, "no database"),
        ('["no-such-program"]', TCP, "no-such-program"),
        ('["no-such-program"]', "", "shop exited, "),
        ('["sleep", "60"]', TCP, "is not ready after 3 s"),
        ('["python3", "-m", "http.server", "{port}"]', HTTP, "/no-such-page must be answered 2xx (answered 404)"),
        ('["python3", "{prot}"]', TCP, "{prot} is no placeholder"),
    ],
)
def test_a_submission_that_cannot_run_is_a_fail_that_says_so(
    tmp_path: Path, command: str, ready: str, said: str
) -> None:
    """Exit 1, with the process's own last words or the line of checkout.toml."""
    (tmp_path / "checkout.toml").write_text(TOML % command + ready)
    words = ("--quick", "--phases", "load", "--ready", "0.5", "--report", tmp_path / "out")
    code, text = grade("checkout", tmp_path, *words)
    assert code == 1 and said in text, text
    assert of_this_run(str(tmp_path)) == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["checkout"],
        ["checkout", "/nowhere"],
        ["checkout", ".", "--phases", "lod"],
        ["checkout", ".", "--quick", "--full"],
        ["checkout", "--url", "http://192.0.2.1:80", "--phases", "load"],
        ["checkout", ".", "--timeout", "0"],
        ["checkout", ".", "--seed", "-1"],
        ["checkout", "--url", "http://127.0.0.1:1", "--kill", "shop=true"],
        ["checkout", "--url", "http://127.0.0.1:1", "--kill", "shop", "--restart", "shop=true"],
        ["checkout", ".", "--kill", "shop=true", "--restart", "shop=true"],
        ["replay", "/nowhere"],
    ],
)
def test_wrong_usage_is_64(words: list[str]) -> None:
    """A command line that asks for what cannot be is 64, never a verdict, and says what is wrong."""
    code, text = grade(*words)
    assert code == 64 and "Traceback" not in text and len(text) > 20, text


def test_explain_says_what_each_phase_does() -> None:
    """--explain needs no submission."""
    code, text = grade("checkout", "--explain")
    assert code == 0 and all(phase in text for phase in ("contract", "duplicates", "scarcity", "faults", "speed"))
