"""A folder that belongs to one running process, and goes with it.

The process holds a lock on a file inside; the system lets go of it however the process
ends, killed included. So a folder whose lock can be had is a dead process's, and the
next one to make a folder beside it clears it away. A process id in a name would not
do: ids are used again, and mean nothing in another container or on another machine.
Where the system has no such locks (Windows, some network file systems), nothing is
cleared.
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
_UNBORN = ".new"


class Scratch:
    """A new folder ``parent/prefix + random``, removed by :meth:`close` or at the end of a ``with``.

    ``path`` may be renamed away by its owner: what :meth:`close` finds, it removes.
    Raises OSError where the folder cannot be made.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        for leftover in parent.glob(f"{glob.escape(prefix)}*"):
            if leftover.is_dir() and not leftover.name.endswith(_UNBORN):
                _clear(leftover)
        unborn = parent / f"{prefix}{secrets.token_hex(6)}{_UNBORN}"
        unborn.mkdir()
        self._held = os.open(unborn / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try_lock(self._held)
        # Only now does it get a name that others clear, so that none is cleared before it is held.
        self.path = unborn.rename(unborn.with_name(unborn.name.removesuffix(_UNBORN)))

    def close(self) -> None:
        """Remove the folder and let go of the lock. Harmless when repeated."""
        if self._held >= 0:
            doomed = self.path.with_name(f"{self.path.name}-gone")
            with contextlib.suppress(FileNotFoundError):
                # Whoever still writes to the old path finds nothing there, and cannot get in the way.
                self.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
            os.close(self._held)
            self._held = -1

    def release(self, target: Path) -> None:
        """Rename the folder to ``target``, which now belongs to nobody and stays."""
        (self.path / _LOCK).unlink()
        self.path.rename(target)
        self.close()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def try_lock(file: int) -> bool:
    """Take the lock of an open file without waiting; False where another has it or the system has none."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def lock_folder(where: Path) -> int:
    """Take the lock of a checkpoint's folder for as long as the file stays open that is returned.

    Raises CheckpointError where another process, or this one, has it.
    """
    file = os.open(where / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not try_lock(file):
        os.close(file)
        raise CheckpointError(f"{where}: another engine is running there; close it first, or choose another folder")
    return file


def _clear(folder: Path) -> None:
    try:
        file = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return
    try:
        if try_lock(file):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(file)
