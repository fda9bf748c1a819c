"""Paths: as callers name them, and as Spark is told them.

Spark takes a path to read from for a pattern: where it has one of ``{}[]*?\\`` in it, the folder of that name is not
found, or others are, and nothing says so. :func:`literal` marks what stands for itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ...errors import CheckpointError, Error


def absolute(path: Any, what: str = "checkpoint", refuse: type[Error] = CheckpointError) -> Path:
    """The whole path, whatever folder the process goes to later. Raises ``refuse`` for what is no path."""
    if path == "":
        raise refuse(f"{what}='': it is the path of a folder; '.' is the one that this process is in")
    try:
        whole = Path(path).expanduser().absolute()
        # Spark would take a step back out of a link for one back to where the link is.
        return whole.resolve() if ".." in whole.parts else whole
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        raise refuse(f"{what}={path!r}: it is the path of a folder ({error})") from None


def made(folder: Path, what: str = "checkpoint", refuse: type[Error] = CheckpointError) -> Path:
    """The folder, made if it is not there. Raises ``refuse`` where it cannot be made or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise refuse(f"{what} {folder}: no folder can be made there ({reason}); name another") from None
    if not writable:
        raise refuse(f"{what} {folder}: nothing may be written there; name another folder, or change its permissions")
    return folder


def makeable(folder: Path, what: str, refuse: type[Error]) -> Path:
    """The folder, which need not be there. Raises ``refuse`` where a file or permissions are in its way."""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        reason = "nothing may be written to" if there.is_dir() else "there is a file at"
        raise refuse(f"{what} {folder}: no folder can be made there ({reason} {there}); name another")
    return folder


def literal(path: str | os.PathLike[str]) -> str:
    """A path for Spark to read from, in which no character stands for others. Raises Error where it can read none."""
    if ":" in str(path) and re.search(r"[{}\[\]*?\\]", str(path)):
        raise Error(
            f"{path}: Spark reads from no folder whose path has a colon and one of {{}}[]*?\\ too; "
            "take a path without the one or the other, or put a link to it elsewhere"
        )
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", str(path))
