"""Clean up after an explorer that was killed with kill -9, which can do nothing itself.

    python -m grader.explore.janitor FOLDER

It waits until its standard input ends. If the folder still exists then, it kills the processes of the system, removes
the folder, and exits. The processes are those whose environment names a folder in it, as all have that the sandbox has
started, and those in their sessions.
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
_PATIENCE, _GLANCE = 10.0, 0.02
"""Seconds for which processes are killed, and between two looks. Those that end may have started others meanwhile."""


def of(folder: Path) -> set[int]:
    """Return the live processes that belong to a folder: those whose environment names it, and what belongs to them."""
    everyone, name = processes(), b"=" + os.fsencode(folder) + b"/"
    named = set[int]()
    for pid in everyone:
        with contextlib.suppress(OSError):  # it has ended, or has another user
            named |= {pid} if name in Path("/proc", str(pid), "environ").read_bytes() else set()
    found = {pid for pid, process in everyone.items() if pid in named or process.session in named}
    return {pid for pid in found | descendants(found, everyone) if everyone[pid].state not in "ZX"}


def clean(folder: Path) -> None:
    """Kill the processes of a folder, and remove it."""
    until = time.monotonic() + _PATIENCE
    while (left := of(folder)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_GLANCE)
    remove(folder)


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
