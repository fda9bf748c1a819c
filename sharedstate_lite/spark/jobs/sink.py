"""What comes out of a stream: each micro-batch's changes to a folder or a function.

A folder gets a Parquet file a view and batch, each there whole or not at all, and written once: a
batch that Spark repeats finds its file. So a folder is one stream's, and says whose in ``.stream``.
A function is called at least once a batch.
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
from ...storage.encoding import Strings
from ..bins.messages import OUT
from ..session.paths import absolute, makeable

OWNER = ".stream"


@dataclass
class Came:
    """What a micro-batch brought to the driver: files that were read, rows of input, the views' changes."""

    opened: set[Path]
    rows: int
    changes: Callable[[], dict[str, Changes]]


Sink = str | os.PathLike[str] | Callable[[dict[str, Changes], int], None]


def checked(sink: Sink) -> Sink:
    """A function, or the whole path of a folder. Raises ViewError for what is neither, and cannot come to be."""
    if callable(sink):
        return sink
    if not isinstance(sink, str | os.PathLike):
        raise ViewError(f"sink={sink!r}: it is a folder, or a function of {{view: Changes}} and a batch's number")
    return makeable(absolute(sink, "sink", ViewError), "sink", ViewError)


def apart(sink: Sink, views: Iterable[str], folders: Mapping[str, str | None]) -> None:
    """Raise ViewError for a sink whose files a source would read: its changes would come in again, for ever."""
    if callable(sink):
        return
    for relation, folder in folders.items():
        for view in views:
            target = Path(sink) / _named(view)
            if folder is not None and Path(os.path.realpath(target)).is_relative_to(os.path.realpath(folder)):
                raise ViewError(
                    f"sink={str(sink)!r}: the changes of {view} go to {target}, and {relation} is read from {folder}, "
                    "so they would come in again; choose a folder that no relation is read from"
                )


def taken(sink: Sink, owner: str, checkpoint: Path, new: bool = False) -> None:
    """Take a folder for one stream. Raises CheckpointError where it holds batches of another one.

    ``new``: the stream has none yet, so batches without a name on them are not its own either.
    """
    if callable(sink):
        return
    folder, whose = Path(sink), _owner(Path(sink))
    if whose == owner:
        return
    if (new or whose is not None) and next(folder.glob("*/batch-*.parquet"), None):
        raise CheckpointError(
            f"{sink}: it holds the changes of a stream with another checkpoint than {checkpoint}; choose a new "
            "folder for the changes, or the checkpoint that goes with it"
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
    """The messages that a micro-batch sent to the driver, as changes of each view."""
    strings = Strings()
    out: dict[str, Changes] = {}
    lines: list[Any] = [rows.column(name).to_pylist() for name in ("channel", "what", "blob")]
    for name, view in views.items():
        parts = [wire.unpack(b, strings) for c, w, b in zip(*lines, strict=True) if c == OUT and w == name]
        unique = view.key if view.unique else None
        delta = concat(parts, len(view.schema))
        out[name] = Changes.consolidated(view.schema, delta, number + 1, strings, unique)
    return out


def give(sink: Sink, owner: str, out: dict[str, Changes], number: int) -> None:
    """A micro-batch's changes to the sink. Raises CheckpointError for a folder that another stream has taken since."""
    if callable(sink):
        sink(out, number)
        return
    if _owner(Path(sink)) not in (owner, None):
        raise CheckpointError(f"{sink}: another stream has taken this folder for its changes; each needs its own")
    _write(Path(sink), out, number)


def _write(folder: Path, changes: Mapping[str, Changes], number: int) -> None:
    for name, each in changes.items():
        target = folder / _named(name) / f"batch-{number:08d}.parquet"
        if target.exists() or not len(each):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}")
        pyarrow.parquet.write_table(each.to_arrow(), unfinished)
        unfinished.replace(target)


def _named(view: str) -> str:
    """The folder of a view: its name, but for what would lead to another folder."""
    plain = view.replace("%", "%25").replace("/", "%2F")
    return f"%2E{plain[1:]}" if plain.startswith(".") else plain
