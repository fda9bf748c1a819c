"""Temporary folders that are deleted even if their process is killed, and the lock on a checkpoint's folder.

A process locks a file in its temporary folder with flock. The operating system releases the lock when the process
exits, even after SIGKILL. So if the lock is free, the folder is left over from a process that has exited, and the
next process that creates a temporary folder with the same prefix deletes it. A process id in the folder's name would
not be enough, because ids are reused and differ between containers. Leftover folders are not deleted if flock is not
available, which is the case on some network file systems.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import secrets
import shutil
from pathlib import Path
from types import TracebackType

from ..errors import CheckpointError

_LOCK = ".held"
_GONE = "-gone"


class Scratch:
    """A temporary folder in ``parent``, named ``prefix`` plus a random suffix. ``path`` is its path.

    A Scratch is a context manager that deletes the folder on exit. If the owner renames the folder, it is not deleted.
    Creating a Scratch also deletes leftover folders with the same prefix. Raises OSError if the folder cannot be
    created.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        for leftover in parent.glob(f"{glob.escape(prefix)}*"):
            _delete_if_dead(leftover)
        locked = False
        while not locked:
            self.path = parent / f"{prefix}{secrets.token_hex(6)}"
            self.path.mkdir()
            with contextlib.suppress(FileNotFoundError):
                self._file = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
                try_lock(self._file, wait=True)
                locked = (self.path / _LOCK).exists()  # else another process found the folder unlocked and deleted it
                if not locked:
                    os.close(self._file)

    def close(self) -> None:
        """Delete the folder and release the lock. A second call does nothing."""
        if self._file >= 0:
            _delete(self.path)
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


def try_lock(file: int, wait: bool = False) -> bool:
    """Try to lock an open file. Return True on success.

    Return False if flock is not available, or, without ``wait``, if the file is already locked.
    """
    try:
        import fcntl  # POSIX only

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
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
        with open(folder / _LOCK, "r+b") as file:
            if try_lock(file.fileno()):
                _delete(folder)
    except OSError:
        # A process was killed while it deleted the folder, or before it created the lock file.
        if re.search(f"[0-9a-f]{{12}}{_GONE}$", folder.name):
            shutil.rmtree(folder, ignore_errors=True)
        elif re.search(r"[0-9a-f]{12}(\.new)?$", folder.name):
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()


def _delete(folder: Path) -> None:
    # Rename first: then a thread that still writes to the old path cannot add files during the deletion, and a deletion
    # that was interrupted is recognized.
    gone = folder.with_name(folder.name.removesuffix(_GONE) + _GONE)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
