"""Clean up after an explorer that was killed with kill -9, which can do nothing itself.

    python -m grader.explore.janitor FOLDER

It waits until its standard input ends. If the folder still exists then, it kills the processes of the system, removes
the folder and those of a build, whose names begin like its own, and exits. The processes are those whose environment or
command line names such a folder, as all have that the sandbox starts, and those in their sessions.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ..folders import remove
from ..sandbox.tree import descendants, processes

_PACKAGE = Path(__file__).resolve().parent.parent.parent
_PATIENCE, _CALM, _GLANCE = 10.0, 0.3, 0.02
"""Seconds for which processes are killed, for which none must be found, as one may just be starting, and between two
looks. Those that end may have started others meanwhile."""


def of(folder: Path) -> set[int]:
    """Return the live processes that belong to a folder."""
    everyone, named = processes(), set[int]()
    names = [mark + os.fsencode(folder) + end for mark in (b"=", b'"', b"\0") for end in (b"/", b"-")]
    for pid in everyone.keys() - {os.getpid()}:
        with contextlib.suppress(OSError):  # it has ended, or has another user
            said = b"".join(Path("/proc", str(pid), name).read_bytes() for name in ("cmdline", "environ"))
            named |= {pid} if any(name in said for name in names) else set()
    sessions = {everyone[pid].session for pid in named}
    sessions = {first for first in sessions if first in named or first not in everyone or everyone[first].state in "ZX"}
    found = named | {pid for pid, process in everyone.items() if process.session in sessions}
    return {pid for pid in found | descendants(found, everyone) if everyone[pid].state not in "ZX"}


def clean(folder: Path) -> None:
    """Kill the processes of a folder, and remove it."""
    until, seen = time.monotonic() + _PATIENCE, time.monotonic()
    while (now := time.monotonic()) < min(until, seen + _CALM):
        for pid in of(folder):
            seen = now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_GLANCE)  # the condition is that no process is left, which only another look at /proc can see
    for each in (folder, *folder.parent.glob(f"{folder.name}-*")):
        remove(each)


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Let a process clean up if this one ends before the block does."""
    words = [sys.executable, "-P", "-m", "grader.explore.janitor", str(folder)]
    environment = {"PYTHONPATH": str(_PACKAGE)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment, start_new_session=True) as janitor:
        assert janitor.stdin is not None
        try:
            yield
        finally:
            janitor.stdin.write(b"done")


def main() -> None:
    """Wait, and clean up."""
    if not sys.stdin.buffer.read():
        clean(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
