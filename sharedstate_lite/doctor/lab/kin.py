"""Which processes belong to a lab, wherever they hang in the process tree.

Every process inherits its parent's variables, so one variable with a value of the
lab's own marks JupyterLab, its kernels, their JVMs and workers, and programs that
outlived the process that started them (build servers find theirs in the same way).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import psutil

VARIABLE = "SHAREDSTATE_LITE_LAB"


def marked(mark: str) -> list[psutil.Process]:
    """The running processes, other than this one, that carry the mark."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.pid != os.getpid() and each.environ().get(VARIABLE) == mark and runs(each):
                found.append(each)
        except psutil.Error:  # it has just ended, or is another person's
            continue
    return found


def runs(process: psutil.Process) -> bool:
    """Whether it still runs; one that has ended and was not collected by its parent does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(mark: str, pause: Callable[[float], None], patience: float = 3.0) -> None:
    """Give the marked processes ``patience`` seconds to end by themselves, then kill those that have not."""
    limit = time.monotonic() + patience
    while (left := marked(mark)) and time.monotonic() < limit:
        pause(0.1)
    while left:
        for each in left:
            try:
                each.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(left, timeout=1)
        left = marked(mark) if time.monotonic() < limit + 5 else []
