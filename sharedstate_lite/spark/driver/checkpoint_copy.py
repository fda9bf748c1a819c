"""Copies of a checkpoint, which ``engine.checkpoint(path)`` writes and ``restore`` reads.

    snapshot.json    the path and SHA-256 of every other file
    run.json         the engine's description
    g-.../           the generation that was current

A copy is written to a folder next to the target, which is renamed when it is complete. It is verified before each use
and never changed: a restored engine works on its own copy of the files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CheckpointError
from ...system.folders import atomic_folder
from ..rounds import home
from ..rounds.written_paths import rewrite_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "snapshot.json"


def write(location: Path, generation: str, target: Path) -> None:
    """Copy the files of a stopped engine atomically to ``target``, a new or empty folder. Raises CheckpointError."""
    with atomic_folder(target) as work:
        shutil.copytree(location / generation, work / generation)
        shutil.copy2(location / home.FILE, work / home.FILE)
        files = {str(f.relative_to(work)): _digest(f) for f in sorted(work.rglob("*")) if f.is_file()}
        (work / FILE).write_text(json.dumps({"files": files}, indent=1))


def is_copy(folder: Path) -> bool:
    """Return whether ``folder`` is a copy that `write` made."""
    return (folder / FILE).is_file()


def restore(source: Path, location: Path, session: SparkSession) -> None:
    """Verify the copy in ``source``, then copy it to ``location``, a new or empty folder in which an engine can start.

    Raises CheckpointError if a file of the copy is missing or was changed, or if ``location`` is not empty.
    """
    try:
        files = json.loads((source / FILE).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{source / FILE} cannot be read ({error}); use another checkpoint") from error
    for name, digest in files.items():
        try:
            found = _digest(source / name)
        except OSError as error:
            raise CheckpointError(
                f"{source / name} cannot be read ({error.strerror}), so the checkpoint is incomplete; use another one"
            ) from error
        if found != digest:
            raise CheckpointError(f"{source / name} was changed (its SHA-256 differs); use another checkpoint")
    if location.exists() and any(not f.name.startswith(".") for f in location.iterdir()):
        raise CheckpointError(f"{location} is not empty; restore the checkpoint to a new folder")
    location.mkdir(parents=True, exist_ok=True)
    described = home.read(source, "views")
    generation = described["options"]["generation"]
    shutil.copytree(source / generation, location / generation)
    rewrite_paths(location / generation, Path(described["home"]) / generation, session)
    home.write(location, "views", described)


def remove_generations(where: Path, keep: str) -> None:
    """Remove all generations except ``keep``. The others are left over from an install or rescaling that was killed."""
    for other in where.glob("g-*"):
        if other.name != keep:
            shutil.rmtree(other, ignore_errors=True)


def discard(where: Path) -> None:
    """Remove the files of an engine that failed when it was first started in ``where``."""
    (where / home.FILE).unlink(missing_ok=True)
    remove_generations(where, "")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
