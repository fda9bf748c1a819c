"""Writes a folder atomically, so that it appears either complete or not at all; gives a file a second name."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import CheckpointError


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder next to ``target``, and rename it to ``target`` at the end of the block.

    If the block raises, the temporary folder is deleted. ``target`` must not exist, or must be an empty folder. All
    files are flushed to disk before the rename. Raises CheckpointError if ``target`` is not an empty folder, if the
    folder cannot be written, or if the block raises an OSError.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target} is not an empty folder; a checkpoint never overwrites files; choose a new one")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise CheckpointError(f"{target}: cannot create this folder ({error.strerror}); choose another one") from error
    try:
        yield work
        for path in [*work.rglob("*"), work]:
            flush(path)
        os.replace(work, target)
        flush(target.parent)
    except OSError as error:
        raise CheckpointError(
            f"{target}: the checkpoint was not written ({error.strerror or error}); the incomplete files were deleted"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def link(source: str | Path, target: str | Path) -> None:
    """Give a file that never changes a second name, or copy it if the file system cannot do that."""
    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    shutil.copyfile(source, target)


def flush(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
