"""Limits on the memory, disk space and files of all services together. A submission that exceeds a limit fails.

The limits are checked every second. Memory is measured as PSS from /proc, which counts shared pages only once, plus the
private /tmp and /dev/shm of tier 1, which are in memory. RLIMIT_AS is not suitable, because it would kill a JVM, which
reserves address space that it does not use.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import SubmissionError
from ..folders import measure
from ..sandbox.tree import read_proc, threads

EVERY = 1.0
"""Seconds between checks."""
_IN_MEMORY = ("/tmp", "/dev/shm")


def memory(pids: set[int]) -> int:
    """Return the memory of all processes in bytes. A process that has ended adds 0.

    This is the PSS. A process that hides it, which only a process that is not dumpable can, adds all of its RSS. What
    the private /tmp and /dev/shm of the processes contain is added.
    """
    total, mounts = 0, {_device(place) for place in _IN_MEMORY}
    for pid in pids:
        try:
            lines = read_proc(pid, "smaps_rollup").splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:")) * 1024
        except PermissionError:
            total += max(map(_resident, threads(pid)), default=0)
        except OSError:
            continue
        for place in _IN_MEMORY:
            if (device := _device(inside := f"/proc/{pid}/root{place}")) not in mounts:
                mounts.add(device)
                total += _used(inside)
    return total


def _resident(thread: Path) -> int:
    """Return the RSS of the process of a thread in bytes. Every user can read it."""
    try:
        return int((thread / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0  # the thread has ended


def _device(place: str) -> int:
    try:
        return os.stat(place).st_dev
    except OSError:
        return -1  # there is no such folder, or the process has ended


def _used(place: str) -> int:
    try:
        found = os.statvfs(place)
    except OSError:
        return 0  # the process has ended
    return (found.f_blocks - found.f_bfree) * found.f_frsize


class Bounds:
    """Checks the limits. `tick` raises SubmissionError if one is exceeded."""

    def __init__(
        self,
        pids: Callable[[], set[int]],
        data: Path,
        most_memory: int,
        most_disk: int,
        most_files: int,
        who: tuple[str, str] = ("the services use", "{data} contains"),
        more: tuple[Path, ...] = (),
    ) -> None:
        """``who``: how the messages about memory and about files begin; ``more``: additional folders to count.

        At most half of the disk that is free now can be used, so that the grader can always write its record.
        """
        self._pids, self._places = pids, (data, *more)
        self._most_memory, self._most_files = most_memory, most_files
        self._most_disk = min(most_disk, shutil.disk_usage(data).free // 2)
        self._due, self._who = 0.0, who

    def tick(self) -> None:
        """Check the limits if a second has passed since the last check."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        taken = memory(self._pids())
        if taken > self._most_memory:
            raise SubmissionError(
                f"{self._who[0]} {taken >> 20:,} MiB of memory; the limit is {self._most_memory >> 20:,} MiB"
            )
        size, files = (sum(found) for found in zip(*map(measure, self._places), strict=True))
        if size > self._most_disk:
            raise SubmissionError(f"{self._who[1]} {size >> 20:,} MiB; the limit is {self._most_disk >> 20:,} MiB")
        if files > self._most_files:
            raise SubmissionError(f"{self._who[1]} {files:,} files; the limit is {self._most_files:,}")
