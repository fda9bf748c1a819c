"""Copies of a checkpoint: what ``engine.checkpoint(path)`` writes and ``restore`` reads.

    snapshot.json    every file with its SHA-256
    engine.json, g-.../

A copy is written beside the target and renamed when it is complete. It is verified before each use and never
changed: an engine that is restored works on a copy of it.

Spark writes absolute paths into its logs and state metadata. A generation that is copied to another folder needs
`rewrite_paths`, or Spark reads and writes in the old one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointError
from ...system.folders import atomic_folder
from ..bins import engine_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "snapshot.json"


def write(location: Path, generation: str, target: Path) -> None:
    """Copy a stopped engine to a new or empty folder, atomically. Raises CheckpointError."""
    with atomic_folder(target) as work:
        shutil.copytree(location / generation, work / generation)
        shutil.copy2(location / engine_spec.FILE, work / engine_spec.FILE)
        files = {str(f.relative_to(work)): _digest(f) for f in sorted(work.rglob("*")) if f.is_file()}
        (work / FILE).write_text(json.dumps({"format": engine_spec.FORMAT, "files": files}, indent=1))


def is_copy(folder: Path) -> bool:
    """Whether `write` made this folder."""
    return (folder / FILE).is_file()


def restore(source: Path, location: Path, session: SparkSession) -> None:
    """Verify a copy, then copy it to a new or empty folder, where an engine can start. Raises CheckpointError."""
    try:
        files = json.loads((source / FILE).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{source / FILE} cannot be read ({error}); use another checkpoint") from error
    for name, digest in files.items():
        try:
            found = _digest(source / name)
        except OSError as error:
            raise CheckpointError(
                f"{source / name} cannot be read ({error.strerror}): the checkpoint is not complete; use another one"
            ) from error
        if found != digest:
            raise CheckpointError(f"{source / name} was changed (its SHA-256 differs); use another checkpoint")
    if location.exists() and any(not f.name.startswith(".") for f in location.iterdir()):
        raise CheckpointError(f"{location} is not empty; restore a checkpoint to a new folder")
    location.mkdir(parents=True, exist_ok=True)
    described = engine_spec.read(source)
    options = described["options"]
    before, after = Path(options["home"]) / options["generation"], location / options["generation"]
    shutil.copytree(source / options["generation"], after)
    rewrite_paths(after, before, session)
    options["home"] = str(location)
    engine_spec.replace(location, described)


def rewrite_paths(folder: Path, before: Path, session: SparkSession) -> None:
    """Replace the path ``before`` by ``folder``, a copy of it, in all files in which Spark keeps absolute paths."""
    spark = folder / "spark"
    # Source logs hold URIs, state metadata holds plain paths.
    for as_uri, files in ((True, spark.glob("sources/**/*")), (False, spark.glob("state/*/_metadata/**/*"))):
        old, new = (_written(path, as_uri, session) + b"/" for path in (before, folder))
        for file in files:
            if file.is_file() and not file.name.startswith("."):
                data = file.read_bytes()
                if old in data:
                    file.write_bytes(data.replace(old, new))
                    # The checksum beside it is that of the old text.
                    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def check_home(where: Path, options: dict[str, Any]) -> None:
    """Refuse a location that was moved by hand: Spark's files in it name the old place. Raises CheckpointError."""
    if options["home"] != str(where):
        raise CheckpointError(
            f"{where}: this checkpoint was moved here from {options['home']}, and Spark's files in it name that "
            "folder; move it back, or write a copy with engine.checkpoint(path) and restore that"
        )


def remove_generations(where: Path, keep: str) -> None:
    """Remove the generations beside ``keep``: leftovers of an install or a rescaling that was cut off."""
    for other in where.glob("g-*"):
        if other.name != keep:
            shutil.rmtree(other, ignore_errors=True)


def discard(where: Path) -> None:
    """Remove a location whose first start failed."""
    (where / engine_spec.FILE).unlink(missing_ok=True)
    remove_generations(where, "")


def _written(path: Path, as_uri: bool, session: SparkSession) -> bytes:
    """A path as Spark writes it into a JSON text."""
    jvm: Any = session._jvm
    text = jvm.org.apache.hadoop.fs.Path(str(path)).toUri().toString() if as_uri else str(path)
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
