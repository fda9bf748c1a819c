"""A system at --url is killed and restarted by commands, and the report lists what that leaves out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zoo

from grader.errors import SubmissionError
from grader.processes.elsewhere import Elsewhere
from grader.terms import Limits
from grader.wire.client import Generator

ROOT = Path(__file__).resolve().parents[2]
START = """
setsid {python} {folder}/shop.py {port} {folder} &
echo $! > {folder}/pid
"""


def test_faults_by_commands_and_what_they_leave_out(tmp_path: Path) -> None:
    """A right system at --url is killed, restarted, and passes. Pauses, sandbox and limits are not tested."""
    folder = zoo.right("single", tmp_path / "system")
    generator = Generator()
    (port,) = generator.ports(1)
    generator.close()
    # What it starts keeps the command's own output open, as a shell's & does.
    (folder / "start.sh").write_text(START.format(python=sys.executable, folder=folder, port=port))
    (folder / "kill.sh").write_text(f"kill -9 $(cat {folder}/pid)\n")
    start = ["sh", str(folder / "start.sh")]
    subprocess.run(start, check=True, stdin=subprocess.DEVNULL)
    words = ["--url", f"http://127.0.0.1:{port}", "--quick", "--seed", "3", "--convergence", "3"]
    words += ["--phases", "contract,faults", "--report", str(tmp_path / "out")]
    words += ["--kill", f"shop=sh {folder}/kill.sh", "--restart", f"shop=sh {folder}/start.sh"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "grader", "checkout", *words],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        # Nobody ended it with the run: it is not the grader's.
        os.kill(int((folder / "pid").read_text()), 0)
    finally:
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert done.returncode == 0 and report["verdict"] == "pass", done.stdout + done.stderr
    left = {entry["what"]: entry["why"] for entry in report["not_tested"]}
    assert "pauses (SIGSTOP) of shop" in left and "no sandbox" in left["its access to files and to the network"]
    assert {"limits on its memory, disk and files", "its use of the CPU"} <= set(left)
    faults = report["phases"]["faults"]["figures"]["faults"]
    assert faults and not any("pause" in str(fault) for fault in faults)


@pytest.mark.parametrize(
    ("command", "said"),
    [(["sh", "-c", "echo not there; exit 4"], "exited with 4: not there"), (["no-such-program"], "No such")],
)
def test_a_command_that_fails_says_why(command: list[str], said: str) -> None:
    """The error shows the name, the command and its output."""
    elsewhere = Elsewhere({"shop": (command, command)}, [], None, Limits(), lambda *event: None)  # type: ignore[arg-type]
    with pytest.raises(SubmissionError, match=said):
        elsewhere.kill("shop")
