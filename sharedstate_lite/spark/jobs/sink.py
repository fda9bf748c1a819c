"""The output of a stream: the changes of each micro-batch, written to a folder or passed to a function.

A folder receives one Parquet file per batch and view that changed. A file is renamed into place when it is complete,
and is written only once: if Spark repeats a batch, its files already exist. A folder therefore belongs to a single
stream, whose id is in the file ``.stream``. A function is called at least once per batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from ...changelog.changes import Changes
from ...errors import CheckpointError, ViewError
from ..session.paths import absolute, makeable

OWNER = ".stream"
Sink = str | os.PathLike[str] | Callable[[dict[str, Changes], int], None]


def check(sink: Sink) -> Sink:
    """Return a function unchanged, and a folder as an absolute path. Raises ViewError for any other sink."""
    if callable(sink):
        return sink
    if not isinstance(sink, str | os.PathLike):
        raise ViewError(f"sink={sink!r}: pass a folder, or a function of {{view: Changes}} and the number of the batch")
    return makeable(absolute(sink, "sink", ViewError), "sink", ViewError)


def check_not_read(sink: Sink, views: Iterable[str], folders: Mapping[str, str | None]) -> None:
    """Raise ViewError if a source would read the files of the sink, because each output would become new input."""
    if callable(sink):
        return
    for relation, folder in folders.items():
        for view in views:
            target = Path(sink) / _folder_name(view)
            if folder is not None and Path(os.path.realpath(target)).is_relative_to(os.path.realpath(folder)):
                raise ViewError(
                    f"sink={str(sink)!r}: the changes of {view} go to {target}, and {relation} is read from {folder}, "
                    "so the changes would be read as input; use a folder that is not inside a source"
                )


def claim(sink: Sink, owner: str, checkpoint: Path, new: bool = False) -> None:
    """Record in the sink's folder that it belongs to the stream with the id ``owner``.

    Raises CheckpointError if the folder contains batches of another stream. For a ``new`` stream, these include batches
    in a folder without an owner, because a new stream has not written any.
    """
    if callable(sink):
        return
    folder, current = Path(sink), _owner(Path(sink))
    if current == owner:
        return
    if (new or current is not None) and next(folder.glob("*/batch-*.parquet"), None):
        raise CheckpointError(
            f"{sink}: this folder contains the changes of a stream whose checkpoint is not {checkpoint}; use a new "
            "folder for the changes, or the checkpoint of that stream"
        )
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{OWNER}-{owner}"
    unfinished.write_text(owner)
    unfinished.replace(folder / OWNER)


def _owner(folder: Path) -> str | None:
    file = folder / OWNER
    return file.read_text() if file.exists() else None


def deliver(sink: Sink, owner: str, out: dict[str, Changes], number: int) -> None:
    """Pass the changes of a micro-batch to the sink. Raises CheckpointError if the folder belongs to another stream."""
    if callable(sink):
        sink(out, number)
        return
    if _owner(Path(sink)) not in (owner, None):
        raise CheckpointError(f"{sink}: another stream now writes its changes here; each stream needs its own folder")
    write(Path(sink), {name: each.to_arrow() for name, each in out.items() if len(each)}, number)


def write(folder: Path, tables: Mapping[str, pa.Table], number: int) -> None:
    """Write the output of a micro-batch to a folder: one file per table that has rows, unless it is there already."""
    for name, each in tables.items():
        target = folder / _folder_name(name) / f"batch-{number:08d}.parquet"
        if target.exists() or not len(each):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}")
        pyarrow.parquet.write_table(each, unfinished)
        unfinished.replace(target)


def _folder_name(view: str) -> str:
    """Return the name of the folder for a view, with slashes and a leading dot escaped."""
    plain = view.replace("%", "%25").replace("/", "%2F")
    return f"%2E{plain[1:]}" if plain.startswith(".") else plain
