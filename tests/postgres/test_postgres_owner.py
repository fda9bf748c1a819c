"""A PostgreSQL server is gone without a trace however its owner ends."""

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
from sharedstate_lite.postgres import keeper

ROOT = Path(__file__).resolve().parents[2]
pytestmark = OURS


OWNER = """
    import os, sys
    from sharedstate_lite import postgres
    from sharedstate_lite.postgres import keeper
    {first}
    server = postgres.Server()
    print(server.pid, server._keeper.pid, server.dsn, flush=True)
    {then}
"""


@pytest.fixture
def owner() -> Iterator[Callable[..., tuple[subprocess.Popen[str], list[psutil.Process], int]]]:
    """Start a process that starts a server and then does something; returns it, the server's processes and its port."""
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
    psutil.wait_procs(running, timeout=15)


@pytest.mark.parametrize(
    ("then", "number"),
    [
        ("sys.stdin.read()", signal.SIGKILL),
        ("sys.stdin.read()", signal.SIGTERM),
        ("sys.stdin.readline(); sys.exit(0)", None),
        ("sys.stdin.readline(); os._exit(3)", None),
        ("sys.stdin.readline(); raise SystemExit(1)", None),
    ],
)
def test_it_ends_with_its_owner(owner: Any, then: str, number: signal.Signals | None) -> None:
    """However the owner ends, killed included, no process, port or folder is left."""
    process, there, port = owner(then)
    assert process.stdin is not None
    if number is not None:
        process.send_signal(number)
    else:
        process.stdin.close()
    process.wait(timeout=30)
    assert psutil.wait_procs(there, timeout=15)[1] == []
    assert not listens(port) and traces() == []


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="elsewhere a copy of the owner keeps the server")
def test_a_copy_of_the_owner_does_not_keep_it(owner: Any) -> None:
    """A process that the owner forked holds its pipe too; the server ends with the owner all the same."""
    then = "child = os.fork(); print(child, flush=True) if child else None; sys.stdin.read()"
    process, there, _ = owner(then)
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    process.kill()
    assert psutil.wait_procs(there, timeout=15)[1] == []
    assert child.is_running()
    child.kill()


def test_a_forked_copy_may_not_end_it(owner: Any) -> None:
    """What a forked copy of the owner closes is not the owner's server."""
    then = (
        "child = os.fork(); os.waitpid(child, 0) if child else (server.close(), os._exit(0)); "
        "print(server.connect().execute('SELECT 1').fetchone(), flush=True); sys.stdin.read()"
    )
    process, _, _ = owner(then)
    assert process.stdout is not None and process.stdout.readline() == "(1,)\n"


def test_the_pipe_alone_will_do(owner: Any, place: Path) -> None:
    """Where the system can neither watch a process nor tie one to another, as macOS, a killed owner leaves nothing."""
    plain = place / "keeper.py"
    text = Path(keeper.__file__).read_text()
    plain.write_text(text.replace('"pidfd_open"', '"no_such_call"').replace('startswith("linux")', 'startswith("no")'))
    process, there, port = owner("sys.stdin.read()", f"keeper.__file__ = {str(plain)!r}")
    process.kill()
    assert psutil.wait_procs(there, timeout=15)[1] == []
    assert not listens(port) and traces() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a program with its parent")
def test_killed_keeper_takes_the_server_along() -> None:
    """A keeper that is killed leaves no server; the folder that it leaves goes with the next start."""
    server = postgres.Server()
    kept, *there = family(server)
    kept.kill()
    assert psutil.wait_procs(there, timeout=15)[1] == []
    assert not server.alive
    left = [path for path in traces() if path.is_dir()]
    with postgres.Server():
        assert len(left) == 1 and not left[0].exists()
    server.close()


def test_killed_server_is_noticed() -> None:
    """A server that is killed leaves nothing, and its owner says that it has ended."""
    with postgres.Server() as server:
        kept, running, *others = family(server)
        running.kill()
        assert psutil.wait_procs([kept, running, *others], timeout=15)[1] == []
        assert not server.alive and [path.suffix for path in traces()] == [".log"]
        with pytest.raises(Error, match="has ended by itself .log: "):
            server.connect()
