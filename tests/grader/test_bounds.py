"""All services together have limits on memory, disk and files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.errors import SubmissionError
from grader.processes.bounds import Bounds

MIB = 1 << 20


def test_memory_of_all_processes_together_is_bounded(tmp_path: Path) -> None:
    """Two processes of 60 MiB exceed 100 MiB together, although neither does alone."""
    code = "import sys; held = bytearray(b'x') * (60 << 20); print(len(held), flush=True); sys.stdin.read()"
    running = [
        subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for process in running:
            assert process.stdout is not None and process.stdout.readline().strip() == str(60 * MIB).encode()
        for pids in ({running[0].pid}, {running[1].pid}):
            Bounds(lambda pids=pids: pids, tmp_path, 100 * MIB, MIB, 9).tick()  # type: ignore[misc]
        with pytest.raises(SubmissionError, match="MiB of memory; the limit is 100 MiB"):
            Bounds(lambda: {process.pid for process in running}, tmp_path, 100 * MIB, MIB, 9).tick()
    finally:
        for process in running:
            process.communicate()


def test_disk_and_files_are_bounded(tmp_path: Path) -> None:
    """Written bytes count, a link to a large file does not, and the number of files has a limit too."""
    large = tmp_path / "large"
    large.write_bytes(os.urandom(3 * MIB))
    data = tmp_path / "data"
    data.mkdir()
    (data / "link").symlink_to(large)
    Bounds(set, data, MIB, 2 * MIB, 9).tick()
    (data / "log").write_bytes(os.urandom(3 * MIB))
    with pytest.raises(SubmissionError, match=r"\{data\} contains 3 MiB; the limit is 2 MiB"):
        Bounds(set, data, MIB, 2 * MIB, 9).tick()
    with pytest.raises(SubmissionError, match=r"\{data\} contains 2 files; the limit is 1"):
        Bounds(set, data, MIB, 9 * MIB, 1).tick()
