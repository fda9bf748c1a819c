"""Temporary folders that are deleted even if their process was killed, and the lock of a checkpoint's folder.

A process holds a lock (flock) on a file in its folder. The operating system releases the lock when the process ends,
even by SIGKILL, so a folder whose lock is free is a leftover. The next process that makes a folder there deletes it.
A process id in the folder's name would not be enough: ids are reused, and differ between containers. Without flock
(Windows, some network file systems) leftovers stay.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
from pathlib import Path
from types import TracebackType

from ..errors import CheckpointError

_LOCK = ".held"
_UNLOCKED = ".new"


class Scratch:
    """A new folder ``parent/PREFIX + random``. A context manager that deletes it at the end.

    The owner may rename ``path``. Making a folder also deletes the leftovers of dead processes with the same prefix.
    Raises OSError if the folder cannot be made.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        for leftover in parent.glob(f"{glob.escape(prefix)}*"):
            if leftover.is_dir() and not leftover.name.endswith(_UNLOCKED):
                _delete_if_dead(leftover)
        unlocked = parent / f"{prefix}{secrets.token_hex(6)}{_UNLOCKED}"
        unlocked.mkdir()
        self._file = os.open(unlocked / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try_lock(self._file)
        # Renamed only now: other processes delete a folder that has the final name and no lock.
        self.path = unlocked.rename(unlocked.with_name(unlocked.name.removesuffix(_UNLOCKED)))

    def close(self) -> None:
        """Delete the folder and release the lock. A second call does nothing."""
        if self._file >= 0:
            doomed = self.path.with_name(f"{self.path.name}-gone")
            with contextlib.suppress(FileNotFoundError):
                # A thread that still writes to the old path cannot add files while the folder is deleted.
                self.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
            os.close(self._file)
            self._file = -1

    def release(self, target: Path) -> None:
        """Rename the folder to ``target``, where it stays."""
        (self.path / _LOCK).unlink()
        self.path.rename(target)
        self.close()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def try_lock(file: int) -> bool:
    """Lock an open file without waiting. Returns False if another process has the lock, or without flock."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def lock_folder(folder: Path) -> int:
    """Lock a checkpoint's folder and return the open file. Closing the file releases the lock.

    Raises CheckpointError if an engine of this or another process has the lock.
    """
    file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not try_lock(file):
        os.close(file)
        raise CheckpointError(f"{folder}: another engine is running there; close it first, or choose another folder")
    return file


def _delete_if_dead(folder: Path) -> None:
    try:
        file = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return
    try:
        if try_lock(file):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(file)
