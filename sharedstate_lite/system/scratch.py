"""Temporary folders that are deleted even if their process is killed, and the lock on a checkpoint's folder.

A process locks a file in its temporary folder with flock. The operating system releases the lock when the process
exits, even after SIGKILL. So if the lock is free, the folder is left over from a process that has exited, and the
next process that creates a temporary folder with the same prefix deletes it. A process id in the folder's name would
not be enough, because ids are reused and differ between containers. Leftover folders are not deleted if flock is not
available, which is the case on Windows and on some network file systems.
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
    """A temporary folder in ``parent``, named ``prefix`` plus a random suffix. ``path`` is its path.

    A Scratch is a context manager that deletes the folder on exit. If the owner renames the folder, it is not deleted.
    Creating a Scratch also deletes leftover folders with the same prefix. Raises OSError if the folder cannot be
    created.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        for leftover in parent.glob(f"{glob.escape(prefix)}*"):
            if leftover.is_dir() and not leftover.name.endswith(_UNLOCKED):
                _delete_if_dead(leftover)
        unlocked = parent / f"{prefix}{secrets.token_hex(6)}{_UNLOCKED}"
        unlocked.mkdir()
        self._file = os.open(unlocked / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try_lock(self._file)
        # Rename the folder only after locking it: other processes delete unlocked folders that have the final name.
        self.path = unlocked.rename(unlocked.with_name(unlocked.name.removesuffix(_UNLOCKED)))

    def close(self) -> None:
        """Delete the folder and release the lock. A second call does nothing."""
        if self._file >= 0:
            doomed = self.path.with_name(f"{self.path.name}-gone")
            with contextlib.suppress(FileNotFoundError):
                # Rename first, so that a thread that still writes to the old path cannot add files during the deletion.
                self.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
            os.close(self._file)
            self._file = -1

    def release(self, target: Path) -> None:
        """Rename the folder to ``target`` and release the lock. The folder is not deleted."""
        (self.path / _LOCK).unlink()
        self.path.rename(target)
        self.close()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def try_lock(file: int) -> bool:
    """Try to lock an open file without waiting. Return True on success.

    Return False if the file is already locked, or if flock is not available.
    """
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
    """Lock a checkpoint's folder, and return the descriptor of the lock file. Close it to release the lock.

    Raises CheckpointError if another engine, in this or another process, has locked the folder, or if flock is not
    available.
    """
    file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not try_lock(file):
        os.close(file)
        raise CheckpointError(f"{folder}: another engine is using this folder; close it, or choose another folder")
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
