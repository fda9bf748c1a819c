"""Processes that are killed, or that kill themselves: what tests of faults wait for afterwards."""

from __future__ import annotations

import contextlib
import signal
import subprocess

import psutil


def ended(process: subprocess.Popen[str], wait: float = 60) -> bool:
    """Wait until a process and all that it has started have ended, so that none of them writes any more. Return whether
    it was killed."""
    children: list[psutil.Process] = []
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True) or children
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
    assert psutil.wait_procs(children, timeout=wait)[1] == []
    return process.returncode == -signal.SIGKILL
