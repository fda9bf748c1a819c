"""A PostgreSQL server ends with its owner and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from servers import OURS, family, listens, port_of, traces

from sharedstate_lite import postgres
from sharedstate_lite.errors import Error
from sharedstate_lite.postgres import supervisor

ROOT = Path(__file__).resolve().parents[2]
pytestmark = OURS


OWNER = """
    import os, sys
    from sharedstate_lite import postgres
    from sharedstate_lite.postgres import supervisor
    {first}
    server = postgres.Server()
    print(server.pid, server._supervisor.pid, server.dsn, flush=True)
    {then}
"""


@pytest.fixture
def owner() -> Iterator[Callable[..., tuple[subprocess.Popen[str], list[psutil.Process], int]]]:
    """Start a process that starts a server and then runs ``then``; returns it, the server's processes and its port."""
    begun: list[subprocess.Popen[str]] = []
    running: list[psutil.Process] = []

    def start(then: str, first: str = "") -> tuple[subprocess.Popen[str], list[psutil.Process], int]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(OWNER).format(then=then, first=first)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        assert process.stdout is not None
        pid, kept, dsn = process.stdout.readline().split()
        there = [psutil.Process(int(kept)), psutil.Process(int(pid)), *psutil.Process(int(pid)).children()]
        running.extend(there)
        return process, there, port_of(dsn)

    yield start
    for process in begun:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    psutil.wait_procs(running, timeout=120)


@pytest.mark.parametrize(
    ("then", "number"),
    [
        ("sys.stdin.read()", signal.SIGKILL),
        ("sys.stdin.readline(); sys.exit(0)", None),
    ],
)
def test_it_ends_with_its_owner(owner: Any, then: str, number: signal.Signals | None) -> None:
    """After a kill of the owner, and after its normal exit, no process, port or folder is left."""
    process, there, port = owner(then)
    assert process.stdin is not None
    if number is not None:
        process.send_signal(number)
    else:
        process.stdin.close()
    process.wait(timeout=120)
    assert psutil.wait_procs(there, timeout=120)[1] == []
    assert not listens(port) and traces() == []


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="elsewhere a copy of the owner keeps the server")
def test_a_fork_neither_stops_nor_keeps_it(owner: Any) -> None:
    """close() in a forked copy of the owner has no effect; the server ends with the owner while the copy lives on."""
    then = (
        "ours, theirs = os.pipe(); child = os.fork(); "
        "os.read(ours, 1) if child else (server.close(), os.write(theirs, b'x'), sys.stdin.read()); "
        "print(child, server.connect().execute('SELECT 1').fetchone()[0], flush=True); sys.stdin.read()"
    )
    process, there, _ = owner(then)
    assert process.stdout is not None
    child, answer = process.stdout.readline().split()
    assert answer == "1"
    process.kill()
    assert psutil.wait_procs(there, timeout=120)[1] == []
    assert psutil.Process(int(child)).is_running()
    os.kill(int(child), signal.SIGKILL)


def test_the_pipe_alone_is_enough(owner: Any, place: Path) -> None:
    """Without pidfd and PR_SET_PDEATHSIG, as on macOS, a killed owner still leaves nothing."""
    plain = place / "supervisor.py"
    text = Path(supervisor.__file__).read_text()
    plain.write_text(text.replace('"pidfd_open"', '"no_such_call"').replace('startswith("linux")', 'startswith("no")'))
    process, there, port = owner("sys.stdin.read()", f"supervisor.__file__ = {str(plain)!r}")
    process.kill()
    assert psutil.wait_procs(there, timeout=120)[1] == []
    assert not listens(port) and traces() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a program with its parent")
def test_killed_supervisor_takes_the_server_along() -> None:
    """A killed supervisor leaves no server, and the next start deletes its folder."""
    server = postgres.Server()
    kept, *there = family(server)
    kept.kill()
    assert psutil.wait_procs(there, timeout=120)[1] == []
    assert not server.alive
    left = [path for path in traces() if path.is_dir()]
    with postgres.Server():
        assert len(left) == 1 and not left[0].exists()
    server.close()


def test_killed_server_is_noticed() -> None:
    """A killed server leaves nothing, and its owner reports that it has ended."""
    with postgres.Server() as server:
        kept, running, *others = family(server)
        running.kill()
        assert psutil.wait_procs([kept, running, *others], timeout=120)[1] == []
        assert not server.alive and [path.suffix for path in traces()] == [".log"]
        with pytest.raises(Error, match="has stopped unexpectedly .log: "):
            server.connect()
