"""Writing a folder atomically: it appears complete, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import CheckpointError


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside ``target``; rename it to ``target`` when the block ends, remove it if the block raises.

    ``target`` must be empty or not exist. The files are flushed to disk before the rename. Raises CheckpointError if
    ``target`` is not empty, and for an OSError in the block.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target} is not an empty folder: a checkpoint never overwrites; choose a new folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise CheckpointError(f"{target}: cannot write there ({error.strerror}); choose another folder") from error
    try:
        yield work
        for path in [*work.rglob("*"), work]:
            _flush(path)
        os.replace(work, target)
        _flush(target.parent)
    except OSError as error:
        raise CheckpointError(
            f"{target}: the checkpoint was not written ({error.strerror or error}); the partial files are removed"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
