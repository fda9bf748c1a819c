"""A service is stopped before its nth write, and killed there; a machine that does not allow it is said so."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grader.explore import writes
from grader.explore.cases import MANY, SCENARIOS
from grader.explore.cases import writes as cases
from grader.explore.writes import TraceError, Writes

SERVICE = """
import os, sys, threading
folder = sys.argv[1]

def work():
    sys.stdin.readline()
    with open(folder + "-elsewhere", "w") as other:
        other.write("x")
    file = os.open(folder + "/a", os.O_CREAT | os.O_WRONLY)
    os.write(file, b"1")
    os.fsync(file)
    os.pwrite(file, b"2", 1)
    os.rename(folder + "/a", folder + "/b")
    if os.fork() == 0:
        os.pwritev(file, [b"3"], 2)
        os._exit(0)
    os.wait()

threading.Thread(target=work).start()
"""
"""Writes in a thread, and at last in a process that it starts."""


@contextmanager
def traced(folder: Path, nth: int) -> Iterator[tuple[subprocess.Popen[bytes], Writes]]:
    """The service, and what stops it. Skips the test where no process can be traced."""
    folder.mkdir()
    words = [sys.executable, "-I", "-S", "-c", SERVICE, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, bufsize=0) as service:
        while len(os.listdir(f"/proc/{service.pid}/task")) < 2:
            os.sched_yield()
        try:
            stopper = Writes([service.pid], str(folder), nth)
        except TraceError as error:
            service.kill()
            pytest.skip(str(error))
        with stopper:
            assert service.stdin is not None
            service.stdin.write(b"go\n")
            yield service, stopper


def files(folder: Path) -> dict[str, str]:
    """What is written."""
    return {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.read_text()}


@pytest.mark.parametrize(
    ("nth", "said", "written"),
    [
        (1, "write a", {}),
        (2, "sync a", {"a": "1"}),
        (3, "write a", {"a": "1"}),
        (4, "rename", {"a": "12"}),
        (5, "write b", {"b": "12"}),
        (6, "", {"b": "123"}),
    ],
)
def test_a_service_is_killed_before_its_nth_write(nth: int, said: str, written: dict[str, str], tmp_path: Path) -> None:
    """All that it did before is done, and nothing else; what it writes elsewhere does not count."""
    with traced(tmp_path / "data", nth) as (service, stopper):
        while not stopper.stopped() and service.poll() is None:
            os.sched_yield()
        assert stopper.stopped() == said
        assert files(tmp_path / "data") == written
        os.killpg(service.pid, signal.SIGKILL) if said else None
        assert service.wait() == (-signal.SIGKILL if said else 0)
    assert files(tmp_path / "data") == written


def test_a_service_that_is_no_longer_traced_goes_on(tmp_path: Path) -> None:
    """Also the thread that was stopped."""
    with traced(tmp_path / "data", 2) as (service, stopper):
        while not stopper.stopped():
            os.sched_yield()
        stopper.close()
        assert service.wait() == 0
    assert files(tmp_path / "data") == {"b": "123"}


def test_why_a_service_cannot_be_traced_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has ended, or the machine's system calls are not known."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    monkeypatch.setattr(writes, "_YAMA", tmp_path / "yama")
    with pytest.raises(TraceError, match=r"^this machine does not let a process be traced \(it has ended\); in a cont"):
        Writes([process.pid], str(tmp_path), 1)
    (tmp_path / "yama").write_text("1\n")
    with pytest.raises(TraceError, match=r"\(it has ended\); as root: sysctl -w kernel.yama.ptrace_scope=0$"):
        Writes([process.pid], str(tmp_path), 1)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(TraceError, match="^only system calls of x86_64 and aarch64 are known, not those of riscv64$"):
        Writes([process.pid], str(tmp_path), 1)


def test_the_first_writes_of_each_service_come_first() -> None:
    """A case has the same id whatever was run before it, and is found by its text."""
    found = list(cases(["stock", "order"]))
    assert len(found) == 2 * MANY * len(SCENARIOS)
    assert [f"{case.id}: {case}" for case in found[:3]] == [
        "W1: payable, kill stock before its 1st write",
        "W2: payable, kill order before its 1st write",
        "W3: payable, kill stock before its 2nd write",
    ]
    assert found[2].meant("payable, kill stock before its 2nd write") and found[2].meant("W3")
    assert (found[2].kind, found[2].place, found[2].allowed) == ("write", "write stock", ("can be killed",))
