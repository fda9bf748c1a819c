"""What comes out of a stream: each micro-batch's changes to a folder or a function.

A folder gets a Parquet file a view and batch, each there whole or not at all, and written once: a
batch that Spark repeats finds its file. A function is called at least once a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from ..batch import concat
from ..changes import Changes
from ..errors import CheckpointError, ViewError
from ..plan import View
from ..words import Strings
from . import wire
from .messages import OUT
from .paths import absolute, makeable


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


def unused(sink: Sink, checkpoint: Path) -> None:
    """Raise CheckpointError where a folder holds batches, which a new stream would take for its own."""
    if not callable(sink) and next(Path(sink).glob("*/batch-*.parquet"), None):
        raise CheckpointError(
            f"{sink}: it holds the changes of a stream with another checkpoint, and {checkpoint} is new; choose a new "
            "folder for the changes, or the checkpoint that goes with it"
        )


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


def give(sink: Sink, out: dict[str, Changes], number: int) -> None:
    """A micro-batch's changes to the sink."""
    if callable(sink):
        sink(out, number)
    else:
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
