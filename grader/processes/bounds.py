"""How much memory and disk the services take together, looked at every second; too much ends the run as a fail.

Memory is PSS, so that what processes share counts once; Linux, from /proc. A limit on the size of one process
(RLIMIT_AS) would end a JVM that only reserves addresses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import SubmissionError
from ..sandbox.tree import told

EVERY = 1.0
"""Seconds between two looks."""


def memory(pids: set[int]) -> int:
    """Bytes of PSS, all together; a process that ends meanwhile, or may not be read, counts as nothing."""
    total = 0
    for pid in pids:
        try:
            lines = told(pid, "smaps_rollup").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:")) * 1024
    return total


def disk(folder: Path) -> tuple[int, int]:
    """Bytes on disk below a folder, and files; links are not followed."""
    total = files = 0
    for root, folders, names in os.walk(folder):
        files += len(names) + len(folders)
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
            except OSError:
                continue  # it is gone
    return total, files


class Bounds:
    """Raises SubmissionError from ``tick`` when the services take too much."""

    def __init__(
        self,
        pids: Callable[[], set[int]],
        data: Path,
        most_memory: int,
        most_disk: int,
        most_files: int,
        who: tuple[str, str] = ("the services take", "{data} holds"),
        more: tuple[Path, ...] = (),
    ) -> None:
        """Bytes, bytes and a number; ``who`` takes memory, and where files are, as a message begins.

        ``more``: folders that count too.
        """
        self._pids, self._places = pids, (data, *more)
        self._most_memory, self._most_disk, self._most_files = most_memory, most_disk, most_files
        self._due, self._who = 0.0, who

    def tick(self) -> None:
        """Look, if a second has passed."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        taken = memory(self._pids())
        if taken > self._most_memory:
            raise SubmissionError(
                f"{self._who[0]} {taken >> 20:,} MiB of memory; {self._most_memory >> 20:,} are the most"
            )
        size, files = (sum(found) for found in zip(*map(disk, self._places), strict=True))
        if size > self._most_disk:
            raise SubmissionError(f"{self._who[1]} {size >> 20:,} MiB; {self._most_disk >> 20:,} are the most")
        if files > self._most_files:
            raise SubmissionError(f"{self._who[1]} {files:,} files; {self._most_files:,} are the most")
