"""The output of a stream: each micro-batch's changes, to a folder or a function.

A folder gets one Parquet file per view and batch. A file appears complete or not at all, and is written once: if Spark
repeats a batch, its file is already there. So a folder belongs to one stream, whose id is in the file ``.stream``. A
function is called at least once per batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from ...changelog.changes import Changes
from ...errors import CheckpointError, ViewError
from ...plan.view import View
from ...storage import wire
from ...storage.batch import concat
from ...storage.encoding import Dictionary
from ..bins.messages import OUT
from ..session.paths import absolute, makeable

OWNER = ".stream"


@dataclass
class BatchOutput:
    """What a micro-batch sent to the driver: the files that were read, the number of input rows, the views' changes."""

    files: set[Path]
    rows: int
    changes: Callable[[], dict[str, Changes]]


Sink = str | os.PathLike[str] | Callable[[dict[str, Changes], int], None]


def check(sink: Sink) -> Sink:
    """A function, or a folder as an absolute path. Raises ViewError for anything else."""
    if callable(sink):
        return sink
    if not isinstance(sink, str | os.PathLike):
        raise ViewError(f"sink={sink!r}: a folder is needed, or a function of {{view: Changes}} and a batch's number")
    return makeable(absolute(sink, "sink", ViewError), "sink", ViewError)


def check_not_read(sink: Sink, views: Iterable[str], folders: Mapping[str, str | None]) -> None:
    """Raise ViewError for a sink whose files a source would read: its changes would become input without end."""
    if callable(sink):
        return
    for relation, folder in folders.items():
        for view in views:
            target = Path(sink) / _folder_name(view)
            if folder is not None and Path(os.path.realpath(target)).is_relative_to(os.path.realpath(folder)):
                raise ViewError(
                    f"sink={str(sink)!r}: the changes of {view} go to {target}, and {relation} is read from {folder}, "
                    "so they would be read as input; use a folder that no relation is read from"
                )


def claim(sink: Sink, owner: str, checkpoint: Path, new: bool = False) -> None:
    """Make a folder belong to one stream. Raises CheckpointError if it contains batches of another one.

    A ``new`` stream has written no batches, so batches without an owner are not its own either.
    """
    if callable(sink):
        return
    folder, current = Path(sink), _owner(Path(sink))
    if current == owner:
        return
    if (new or current is not None) and next(folder.glob("*/batch-*.parquet"), None):
        raise CheckpointError(
            f"{sink}: it contains the changes of a stream with another checkpoint than {checkpoint}; use a new folder "
            "for the changes, or the checkpoint that belongs to it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{OWNER}-{owner}"
    unfinished.write_text(owner)
    unfinished.replace(folder / OWNER)


def _owner(folder: Path) -> str | None:
    try:
        return (folder / OWNER).read_text()
    except FileNotFoundError:
        return None


def changes(rows: pa.Table, views: Mapping[str, View], number: int) -> dict[str, Changes]:
    """The messages that a micro-batch sent to the driver, as the changes of each view."""
    strings = Dictionary()
    out: dict[str, Changes] = {}
    lines: list[Any] = [rows.column(name).to_pylist() for name in ("channel", "what", "blob")]
    for name, view in views.items():
        parts = [wire.unpack(b, strings) for c, w, b in zip(*lines, strict=True) if c == OUT and w == name]
        unique = view.key if view.unique else None
        delta = concat(parts, len(view.schema))
        out[name] = Changes.consolidated(view.schema, delta, number + 1, strings, unique)
    return out


def deliver(sink: Sink, owner: str, out: dict[str, Changes], number: int) -> None:
    """Give a micro-batch's changes to the sink. Raises CheckpointError if another stream has claimed the folder."""
    if callable(sink):
        sink(out, number)
        return
    if _owner(Path(sink)) not in (owner, None):
        raise CheckpointError(f"{sink}: another stream now writes its changes here; each stream needs its own folder")
    _write(Path(sink), out, number)


def _write(folder: Path, changes: Mapping[str, Changes], number: int) -> None:
    for name, each in changes.items():
        target = folder / _folder_name(name) / f"batch-{number:08d}.parquet"
        if target.exists() or not len(each):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}")
        pyarrow.parquet.write_table(each.to_arrow(), unfinished)
        unfinished.replace(target)


def _folder_name(view: str) -> str:
    """A view's name as the name of one visible folder: slashes and a leading dot are escaped."""
    plain = view.replace("%", "%25").replace("/", "%2F")
    return f"%2E{plain[1:]}" if plain.startswith(".") else plain
