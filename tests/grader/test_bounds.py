"""All services together have limits on memory, disk and files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from boxes import sandbox, started

from grader import folders
from grader.errors import SubmissionError
from grader.processes.bounds import Bounds, memory
from grader.terms import Limits

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


def test_half_of_the_free_disk_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the limit is, the grader keeps room for its record."""
    (tmp_path / "file").write_bytes(os.urandom(5 * MIB))
    Bounds(set, tmp_path, MIB, 6 * MIB, 25).tick()
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=8 * MIB))
    with pytest.raises(SubmissionError, match=r"\{data\} contains 5 MiB; the limit is 4 MiB"):
        Bounds(set, tmp_path, MIB, 6 * MIB, 25).tick()


def test_long_paths_are_within_the_bounds(tmp_path: Path) -> None:
    """Files below 20 folders with names of 250 characters count, although the kernel does not accept their paths."""
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("n" * 250, dir_fd=at)
        inner = os.open("n" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    for number in range(5):
        file = os.open(f"{number}", os.O_CREAT | os.O_WRONLY, dir_fd=at)
        os.write(file, os.urandom(MIB))
        os.close(file)
    os.close(at)
    Bounds(set, tmp_path, MIB, 6 * MIB, 25).tick()
    with pytest.raises(SubmissionError, match=r"\{data\} contains 5 MiB; the limit is 4 MiB"):
        Bounds(set, tmp_path, MIB, 4 * MIB, 25).tick()
    with pytest.raises(SubmissionError, match=r"\{data\} contains 25 files; the limit is 24"):
        Bounds(set, tmp_path, MIB, 6 * MIB, 24).tick()


@pytest.mark.slow
def test_a_million_files_are_counted(tmp_path: Path) -> None:
    """200,000 files and folders are allowed, and not one more. A million are counted, and none stays behind."""
    data = tmp_path / "data"
    data.mkdir()
    made = 0
    for folder in range(1_000):
        (data / f"{folder}").mkdir()
        for number in range(999):
            (data / f"{folder}" / f"{number}").touch()
        made += 1_000
        if made == Limits.files:
            Bounds(set, data, MIB, Limits.disk, Limits.files).tick()
            (data / "more").touch()
            with pytest.raises(SubmissionError, match="contains 200,001 files; the limit is 200,000"):
                Bounds(set, data, MIB, Limits.disk, Limits.files).tick()
            (data / "more").unlink()
    with pytest.raises(SubmissionError, match="contains 1,000,000 files; the limit is 200,000"):
        Bounds(set, data, MIB, Limits.disk, Limits.files).tick()
    folders.remove(data)
    assert os.listdir(tmp_path) == []


FILLS = """
import signal
for place in ("/tmp", "/dev/shm"):
    with open(place + "/large", "wb") as file:
        file.write(bytes(40 << 20))
print("there", flush=True)
signal.pause()
"""


def test_private_folders_in_memory_count(tmp_path: Path) -> None:
    """What a service of tier 1 writes to /tmp and /dev/shm is memory, and is counted once for all its processes."""
    box = sandbox(1, tmp_path)
    words = ("sh", "-c", "sleep 60 & exec python3 -I -S -c '" + FILLS + "'")
    process, tree, line = started(box, words, tmp_path / "data")
    try:
        assert line == "there\n"
        assert len(tree.pids()) > 3 and 80 * MIB <= memory(tree.pids()) < 120 * MIB
    finally:
        tree.kill()
        process.wait()
        box.close()


HIDES_ITS_MEMORY = """
import ctypes, signal
held = bytearray(b"x") * (60 << 20)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
print("there", flush=True)
signal.pause()
"""


def test_memory_that_a_process_hides_counts() -> None:
    """The memory of a process that is not dumpable counts, although only root can read its PSS."""
    root = os.geteuid() == 0
    # The tests' Python can be in a folder that only root can enter.
    python = "/usr/bin/python3" if root and os.path.exists("/usr/bin/python3") else sys.executable
    words, user = [python, "-I", "-S", "-c", HIDES_ITS_MEMORY], 65_534 if root else None
    with subprocess.Popen(words, stdout=subprocess.PIPE, user=user) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"there\n"
            os.seteuid(user or os.geteuid())
            with pytest.raises(PermissionError):
                Path(f"/proc/{process.pid}/smaps_rollup").read_bytes()
            assert 60 * MIB <= memory({process.pid}) < 120 * MIB
        finally:
            os.seteuid(os.getuid())
            process.kill()
