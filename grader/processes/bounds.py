"""Limits on the memory, disk space and files of all services together. A submission that exceeds a limit fails.

The limits are checked every second. Memory is measured as PSS from /proc, which counts shared pages only once.
RLIMIT_AS is not suitable, because it would kill a JVM, which reserves address space that it does not use.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ..errors import SubmissionError
from ..folders import measure
from ..sandbox.tree import read_proc

EVERY = 1.0
"""Seconds between checks."""


def memory(pids: set[int]) -> int:
    """Return the PSS of all processes in bytes. A process that has ended or cannot be read adds 0."""
    total = 0
    for pid in pids:
        try:
            lines = read_proc(pid, "smaps_rollup").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:")) * 1024
    return total


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
        """``who``: how the messages about memory and about files begin; ``more``: additional folders to count."""
        self._pids, self._places = pids, (data, *more)
        self._most_memory, self._most_disk, self._most_files = most_memory, most_disk, most_files
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
