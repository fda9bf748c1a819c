"""Makes the paths that callers pass absolute, creates the folders, and rejects paths that Spark would misread."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...errors import CheckpointError, Error

PATTERN = frozenset("{}[]*?\\")
"""Spark treats a path with one of these characters as a pattern. It then silently reads other folders, or none."""


def absolute(path: Any, what: str = "checkpoint", refuse: type[Error] = CheckpointError) -> Path:
    """Return ``path`` as an absolute path. Raises ``refuse``, with ``what`` in the message, if it is not a path."""
    if path == "":
        raise refuse(f"{what}='': pass the path of a folder, such as '.' for the current one")
    try:
        whole = Path(path).expanduser().absolute()
        # Spark removes ".." from the text of a path, which gives a wrong path after a symbolic link.
        return whole.resolve() if ".." in whole.parts else whole
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        raise refuse(f"{what}={path!r}: pass the path of a folder ({error})") from None


def made(folder: Path, what: str = "checkpoint", refuse: type[Error] = CheckpointError) -> Path:
    """Create ``folder`` if necessary, and return it. Raises ``refuse`` if it cannot be created or written to."""
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
    """Return ``folder``, which need not exist yet. Raises ``refuse`` if it could not be created or written to."""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        reason = f"{there} is not writable" if there.is_dir() else f"{there} is a file"
        raise refuse(f"{what} {folder}: the folder cannot be created ({reason}); use another one")
    return folder


def readable(path: str | os.PathLike[str]) -> str:
    """Return ``path`` as a string for Spark to read from. Raises Error if Spark would treat it as a pattern."""
    if odd := sorted(PATTERN & set(str(path))):
        raise Error(
            f"{path}: Spark treats {' '.join(odd)} in a path as a pattern; rename the folder, or use another one"
        )
    return str(path)
