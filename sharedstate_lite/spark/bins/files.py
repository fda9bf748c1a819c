"""Reading a relation's file in the tasks whose bins need its rows.

Spark decides which file of a folder comes next. With up to ``DIRECT_BINS`` bins, each bin receives the file's path. Its
task reads the file and keeps the rows that belong to its bins. Reading the columns once per task costs less than a
separate stage, which has to wake a process and to pack, transfer and unpack the rows. With more bins, a task in an
additional stage reads the file and sends the rows to the bins (:mod:`..jobs.sources`).

The last file of each relation stays in memory until the task ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ...changelog import read_tables
from ...plan.nodes import Schema
from ...storage.batch import Delta
from ...storage.encoding import Dictionary
from ...storage.wire import bin_of, unpack
from ..rounds.message import BinMessage
from .channels import ROWS
from .route import Route

DIRECT_BINS = 8
"""With up to this number of bins, each task reads the file itself."""

REPEATED_BYTES = 8
"""A text column is assumed to be dictionary-encoded in a file that stores fewer bytes per value than this."""

FILE = "file"
"""The field ``what`` of a message whose blob is the path of a file with rows, instead of the rows."""


class _ReadFile(NamedTuple):
    """The rows of a file, whose strings are codes in ``strings``. ``identity`` changes when the file changes."""

    identity: tuple[Any, ...]
    strings: Dictionary
    delta: Delta


_last: dict[str, _ReadFile] = {}


def receivers(route: Route, relation: str, bins: int) -> list[tuple[int, int, int]]:
    """Return the bins that need a relation's file, as tuples (bin, stage, channel)."""
    channels = [(n, c) for n, c in enumerate(route.channels, 1) if route.relation(c) == relation]
    return [(number, channel.stage, n) for n, channel in channels for number in range(bins)]


def rows_for_bin(message: BinMessage, route: Route, bins: int, strings: Dictionary) -> tuple[Delta, list[BinMessage]]:
    """Return the rows that a message carries to its bin, and messages that report the number of rows to the driver.

    The blob contains the rows, or the path of a file from which the bin reads its own rows. Raises RowError if a row
    does not fit the relation, and OSError, with the file's name, if the file cannot be read.
    """
    if message.what != FILE:
        return unpack(message.blob, strings), []
    channel = route.channels[message.channel - 1]
    relation = route.relation(channel)
    assert relation is not None, f"{channel} does not carry a relation, so it cannot receive a file"
    delta = _rows(message.blob.decode(), relation, route.engine.catalog.schema(relation), strings)
    delta = route.apply(channel.early, delta, strings)
    if len(delta.diffs):
        where = bin_of(delta.rows, channel.columns, channel.types, bins, strings)
        delta = delta.take(np.flatnonzero(where == message.bin))
    if not channel.base:
        return delta, []
    # Exactly one channel of a relation fills its base table, so each row is counted once. The path in the message tells
    # the driver which files were actually read.
    return delta, [BinMessage(0, message.bin, ROWS, message.blob.decode(), str(len(delta.diffs)).encode())]


def clear() -> None:
    """Drop the files that are in memory. Called when a task ends."""
    _last.clear()


def _rows(path: str, relation: str, schema: Schema, strings: Dictionary) -> Delta:
    file = local_path(path)
    about = file.stat() if file.exists() else None
    identity = (path, about and (about.st_ino, about.st_size, about.st_mtime_ns))
    last = _last.get(relation)
    if last is None or last.identity != identity or last.strings is not strings:
        delta = read_tables.table(read_file(file, schema), schema, relation, strings)[0]
        last = _last[relation] = _ReadFile(identity, strings, delta)
    return last.delta


def local_path(path: str) -> Path:
    """Return the path for a file URI from Spark, such as ``file:///shop/1.parquet``."""
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def read_file(file: Path, schema: Schema) -> pa.Table:
    """Read the columns of a relation, and ``diff``, from a Parquet file. Raises OSError with the file's name.

    Returns an empty table if the file does not exist. The driver detects this, because it compares the files that were
    read with the files of the batch.
    """
    return read_columns(file, [c.name for c in schema])


def read_columns(file: Path, names: Sequence[str]) -> pa.Table:
    """Read the columns with these names, as `read_file` does."""
    wanted = {name.lower() for name in names} | {"diff"}
    try:
        with pa.OSFile(str(file), "rb") as content:
            about = pyarrow.parquet.read_metadata(content)
            found = [name for name in about.schema.to_arrow_schema().names if name.lower() in wanted]
            coded = _repeated(about, found)
            with pyarrow.parquet.ParquetFile(
                content, metadata=about, read_dictionary=coded, coerce_int96_timestamp_unit="us"
            ) as source:
                return source.read(columns=found, use_threads=False)
    except FileNotFoundError:
        fields: Any = {**dict.fromkeys(names, pa.null()), "diff": pa.int64()}
        return pa.schema(fields).empty_table()
    except (OSError, pa.ArrowException) as error:
        raise OSError(f"while reading file {file.as_uri()} : {error}") from error


def _repeated(about: Any, names: Sequence[str]) -> list[str]:
    """Return the text columns that are probably dictionary-encoded in the file.

    If these columns are read as dictionaries, each distinct text is looked up only once. The file's metadata does not
    contain the encoding of each page. A text in plain encoding takes its own bytes and four more, so a small average
    size indicates dictionary encoding.
    """
    size, values = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for group in range(about.num_row_groups):
        for at in range(about.num_columns):
            chunk = about.row_group(group).column(at)
            if chunk.path_in_schema in size and about.schema.column(at).logical_type.type == "STRING":
                size[chunk.path_in_schema] += chunk.total_uncompressed_size
                values[chunk.path_in_schema] += chunk.num_values
    return [name for name in names if size[name] < REPEATED_BYTES * values[name]]
