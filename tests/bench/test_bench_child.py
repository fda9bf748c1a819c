"""bench/child.py and the command: a side is heard, its failure is told, and none outlives the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench import child

ROOT = Path(__file__).resolve().parents[2]


def test_a_side_is_heard(tmp_path: Path) -> None:
    """Every line that it prints arrives, in order; its standard error goes to the log."""
    heard: list[str] = []
    code = "import sys; print(0.5); print(1.0); print('words', file=sys.stderr)"
    child.run([sys.executable, "-c", code], tmp_path / "log", heard.append)
    assert heard == ["0.5", "1.0"]
    assert (tmp_path / "log").read_text() == "words\n"


def test_a_failure_is_told(tmp_path: Path) -> None:
    """A side that ends with an error raises Failed with its status and the end of its log."""
    with pytest.raises(child.Failed, match="(?s)ended with status 1: .*ValueError: no such thing"):
        child.run([sys.executable, "-c", "raise ValueError('no such thing')"], tmp_path / "log", print)


def test_what_a_side_started_ends_with_it(tmp_path: Path) -> None:
    """A process that a side leaves behind in its group is killed when the side is over."""
    heard: list[str] = []
    code = "import subprocess as s, sys; print(s.Popen([sys.executable, '-c', 'input()'], stdout=s.DEVNULL).pid)"
    child.run([sys.executable, "-c", code], tmp_path / "log", heard.append)
    assert gone([int(heard[0])])


def test_a_side_can_be_started_by_hand() -> None:
    """Without a parent to watch, a side prints its numbers also if its standard input is at its end."""
    command = [sys.executable, "-m", "bench.shopping.heap", "full", "1000"]
    ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ended.returncode == 0 and json.loads(ended.stdout.splitlines()[-1])["working state"] > 0


def gone(pids: list[int]) -> bool:
    """Whether the processes end within ten seconds; one that is only waiting to be reaped has ended."""
    left = []
    for pid in pids:
        try:
            left.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs([p for p in left if p.status() != psutil.STATUS_ZOMBIE], timeout=120)
    return all(p.status() == psutil.STATUS_ZOMBIE for p in alive if p.is_running())


def started_by(pid: int) -> list[int]:
    """The processes that a process has started, as soon as there are any; fails the test after 20 seconds without."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found = [process.pid for process in psutil.Process(pid).children(recursive=True)]
        if found:
            return found
    raise AssertionError(f"{pid} has started nothing")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_nothing_outlives_the_command(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C, a kill and a kill that cannot be caught, in the middle of a side, leave no process and no file."""
    path = tmp_path / "rows.json"
    command = [sys.executable, ROOT / "bench" / "views.py", "--only", "rate-10000", "--quick", "--json", path]
    settings = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings)
    assert process.stdout is not None and process.stderr is not None
    with process, process.stdout, process.stderr:
        told = iter(process.stderr.readline, "")
        assert "visits, full" in next(line for line in told if line.startswith("[1/"))
        sides = started_by(process.pid)
        process.send_signal(number)
        status = process.wait(timeout=120)
        assert gone(sides)
    if number != signal.SIGKILL:
        assert status == 130
        assert list(tmp_path.iterdir()) == []
    assert not path.exists()
