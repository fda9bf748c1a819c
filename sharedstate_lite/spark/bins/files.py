"""A file of a relation, read by whoever works on the bins that its rows belong to.

Spark says which file of a folder is next. With up to ``EACH`` bins, what a bin is sent is that
file's path, and its task takes the bin's rows out of the file: columns are read so fast
that reading them once a task costs less than a stage of Spark's that reads them once and has a
process to wake, rows to pack, to hand over and to unpack. With more bins a task before them
does it (:mod:`..jobs.sources`).

The last file of each relation is kept while a task has bins left that want it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ...changelog import read_tables
from ...dataflow.operators import apply
from ...plan.nodes import Schema
from ...storage.batch import Delta
from ...storage.encoding import Strings
from ...storage.wire import bin_of, unpack
from .messages import ROWS, Message
from .route import Route

EACH = 8
"""Bins up to which each task reads a file by itself."""

REPEATED = 8
"""Bytes a text, on average, below which a column of a file is taken to hold numbers of texts that it has once."""

FILE = "file"
"""What a message says whose blob is not rows, but the path of a file that holds them."""


class _Read(NamedTuple):
    """A file's rows in the words of a dictionary, and by what that file and that dictionary are known again."""

    file: tuple[Any, ...]
    strings: Strings
    delta: Delta


_LAST: dict[str, _Read] = {}


def told(route: Route, relation: str, bins: int) -> list[tuple[int, int, int]]:
    """Whom a relation's file concerns: (bin, stage, channel)."""
    channels = [(n, c) for n, c in enumerate(route.channels, 1) if route.relation(c) == relation]
    return [(number, channel.stage, n) for n, channel in channels for number in range(bins)]


def brought(message: Message, route: Route, bins: int, strings: Strings) -> tuple[Delta, list[Message]]:
    """What a message brings to its bin: rows, or the bin's own rows in a file; and how many the driver is to count.

    Raises RowError; OSError, which names the file.
    """
    if message.what != FILE:
        return unpack(message.blob, strings), []
    channel = route.channels[message.channel - 1]
    relation = route.relation(channel)
    assert relation is not None, f"{channel} brings no relation, so no file of one"
    delta = _rows(message.blob.decode(), relation, route.engine.catalog.schema(relation), strings)
    for at in channel.early:
        delta = apply(route.operators[at].node, delta, strings)
    if len(delta.diffs):
        where = bin_of(delta.rows, channel.columns, channel.types, bins, strings)
        delta = delta.take(np.flatnonzero(where == message.bin))
    # Of the channels of a relation one fills its base table, which is the one that gets each row once.
    # It says the path too: so the driver sees which files were read.
    told = [Message(0, message.bin, ROWS, message.blob.decode(), str(len(delta.diffs)).encode())]
    told = told if channel.base else []
    return delta, told


def forget() -> None:
    """A task is done: its files are not wanted any more."""
    _LAST.clear()


def _rows(path: str, relation: str, schema: Schema, strings: Strings) -> Delta:
    file = local(path)
    about = file.stat() if file.exists() else None
    known = (path, about and (about.st_ino, about.st_size, about.st_mtime_ns))
    last = _LAST.get(relation)
    if last is None or last.file != known or last.strings is not strings:
        last = _LAST[relation] = _Read(
            known, strings, read_tables.table(read(file, schema), schema, relation, strings)[0]
        )
    return last.delta


def local(path: str) -> Path:
    """A path as Spark tells it."""
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def read(file: Path, schema: Schema) -> pa.Table:
    """The columns of a relation out of a Parquet file; a file that has gone has no rows, which the driver notices."""
    wanted = {c.name.lower() for c in schema} | {"diff"}
    try:
        with pa.OSFile(str(file), "rb") as whole:
            about = pyarrow.parquet.read_metadata(whole)
            found = [name for name in about.schema.to_arrow_schema().names if name.lower() in wanted]
            coded = _repeated(about, found)
            with pyarrow.parquet.ParquetFile(
                whole, metadata=about, read_dictionary=coded, coerce_int96_timestamp_unit="us"
            ) as source:
                return source.read(columns=found, use_threads=False)
    except FileNotFoundError:
        fields: Any = {**dict.fromkeys((c.name for c in schema), pa.null()), "diff": pa.int64()}
        return pa.schema(fields).empty_table()
    except (OSError, pa.ArrowException) as error:
        raise OSError(f"while reading file {file.as_uri()} : {error}") from error


def _repeated(about: Any, names: Sequence[str]) -> list[str]:
    """Columns whose texts mostly stand in the file once: as they are there, each is looked up once.

    A file does not say how its pages are written, but a text by itself takes four bytes and its own.
    """
    size, values = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for group in range(about.num_row_groups):
        for at in range(about.num_columns):
            chunk = about.row_group(group).column(at)
            if chunk.path_in_schema in size and about.schema.column(at).logical_type.type == "STRING":
                size[chunk.path_in_schema] += chunk.total_uncompressed_size
                values[chunk.path_in_schema] += chunk.num_values
    return [name for name in names if size[name] < REPEATED * values[name]]
