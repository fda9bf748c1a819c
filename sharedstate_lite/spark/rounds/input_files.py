"""Files of rows as the input of rounds: a file of a folder is one round.

A file gets a second name in the checkpoint before its round is logged. It may then be removed from its folder, and the
round can still be run again. The log has the names of the files, so a restart continues with those that are not in it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container
from pathlib import Path

from ...system.folders import link


def waiting(folder: Path, done: Container[str]) -> list[Path]:
    """Return the files of a folder and of the folders in it, except those in ``done``, by their modification times.

    ``done`` has paths relative to the folder. Names that begin with a dot or an underscore are left out, as in Spark.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for number, file in enumerate(["b", "_SUCCESS", "a", "day=1/c", "done"]):
    ...         path = Path(name, file)
    ...         path.parent.mkdir(exist_ok=True)
    ...         path.touch()
    ...         os.utime(path, (number, number))
    ...     [str(file.relative_to(name)) for file in waiting(Path(name), {"done"})]
    ['b', 'a', 'day=1/c']
    """
    found: list[tuple[int, Path]] = []
    for at, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for file in (Path(at, name) for name in names if not name.startswith((".", "_"))):
            if str(file.relative_to(folder)) not in done:
                with contextlib.suppress(FileNotFoundError):  # it was removed after it was listed
                    found.append((file.stat().st_mtime_ns, file))
    return [file for _, file in sorted(found)]


def kept(file: Path, folder: Path, name: str) -> Path:
    """Give a file a second name in ``folder``, in place of what has it, and return its path there."""
    here = folder / name
    here.unlink(missing_ok=True)
    link(file.resolve(), here)  # a link to a symbolic link would depend on what that points to
    return here


def clean(folder: Path, first: int) -> None:
    """Delete the files whose names begin with a number, of eight digits, that is less than ``first``."""
    for old in folder.glob("[0-9]*"):
        if int(old.name[:8]) < first:
            old.unlink()
