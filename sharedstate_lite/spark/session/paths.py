"""Paths that callers pass: made absolute, created, and checked before Spark reads from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...errors import CheckpointError, Error

PATTERN = frozenset("{}[]*?\\")
"""Spark reads a path with one of these characters as a pattern: it reads other folders, or none, without an error."""


def absolute(path: Any, what: str = "checkpoint", refuse: type[Error] = CheckpointError) -> Path:
    """The absolute path. Raises ``refuse``, naming the argument ``what``, for a value that is not a path."""
    if path == "":
        raise refuse(f"{what}='': the path of a folder is needed; '.' is the current folder")
    try:
        whole = Path(path).expanduser().absolute()
        # Spark drops ".." from a path as text, which is wrong after a symbolic link.
        return whole.resolve() if ".." in whole.parts else whole
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        raise refuse(f"{what}={path!r}: the path of a folder is needed ({error})") from None


def made(folder: Path, what: str = "checkpoint", refuse: type[Error] = CheckpointError) -> Path:
    """The folder, created if needed. Raises ``refuse`` if it cannot be created or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise refuse(f"{what} {folder}: the folder cannot be created ({reason}); use another one") from None
    if not writable:
        raise refuse(f"{what} {folder}: the folder is not writable; use another one, or change its permissions")
    return folder


def makeable(folder: Path, what: str, refuse: type[Error]) -> Path:
    """The folder, which need not exist yet. Raises ``refuse`` if a file or permissions prevent its creation."""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        reason = f"{there} is not writable" if there.is_dir() else f"{there} is a file"
        raise refuse(f"{what} {folder}: the folder cannot be created ({reason}); use another one")
    return folder


def readable(path: str | os.PathLike[str]) -> str:
    """A path for Spark to read from. Raises Error if Spark would read it as a pattern."""
    if odd := sorted(PATTERN & set(str(path))):
        raise Error(
            f"{path}: Spark reads {' '.join(odd)} in a path as a pattern; rename the folder, or use another one"
        )
    return str(path)
