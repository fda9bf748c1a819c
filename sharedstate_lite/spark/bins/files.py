"""Reading a relation's file in the tasks whose bins need its rows.

Each bin receives the file's path. Its task reads the file and keeps the rows that belong to its bins. Reading the
columns once per task costs less than a separate stage, which has to wake a process and to pack, transfer and unpack the
rows. The last file of each relation stays in memory until the task ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ...changelog import read_tables
from ...errors import RowError
from ...plan.nodes import Schema
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from ...storage.wire import bin_of, unpack
from ..rounds.message import BinMessage
from .channels import ROWS
from .route import Route

REPEATED_BYTES = 8
"""A text column is assumed to be dictionary-encoded in a file that stores fewer bytes per value than this."""

FILE = "file"
"""The field ``what`` of a message whose blob is the path of a file with rows, instead of the rows."""


class _ReadFile(NamedTuple):
    """The rows of a file, whose strings are codes in ``strings``. ``identity`` changes when the file changes.

    ``sent`` has, for each channel of the relation, the rows that travel on it and the bin of each.
    """

    identity: tuple[Any, ...]
    strings: Dictionary
    delta: Delta
    sent: dict[int, tuple[Delta, Words]]


_last: dict[str, _ReadFile] = {}


def file_messages(route: Route, relation: str, bins: int, file: Path) -> list[BinMessage]:
    """Return the messages that send a relation's file to the bins that need its rows."""
    channels = [(n, c) for n, c in enumerate(route.channels, 1) if route.relation(c) == relation]
    return [BinMessage(c.stage, number, n, FILE, str(file).encode()) for n, c in channels for number in range(bins)]


def rows_for_bin(message: BinMessage, route: Route, bins: int, strings: Dictionary) -> tuple[Delta, list[BinMessage]]:
    """Return the rows that a message carries to its bin, and messages that report the number of rows to the driver.

    The blob contains the rows, or the path of a file from which the bin reads its own rows. Raises RowError if a row
    does not fit the relation, or if the file cannot be read.
    """
    if message.what != FILE:
        return unpack(message.blob, strings), []
    channel = route.channels[message.channel - 1]
    relation = route.relation(channel)
    assert relation is not None, f"{channel} does not carry a relation, so it cannot receive a file"
    read = _rows(Path(message.blob.decode()), relation, route.engine.catalog.schema(relation), strings)
    if message.channel not in read.sent:
        delta = route.apply(channel.early, read.delta, strings)
        read.sent[message.channel] = delta, bin_of(delta.rows, channel.columns, channel.types, bins, strings)
    delta, where = read.sent[message.channel]
    delta = delta.take(np.flatnonzero(where == message.bin))
    # Exactly one channel of a relation fills its base table, so each row is counted once.
    count = len(delta.diffs) if channel.base else 0
    return delta, [BinMessage(0, message.bin, ROWS, relation, str(count).encode())] if count else []


def clear() -> None:
    """Drop the files that are in memory. Called when a task ends."""
    _last.clear()


def _rows(file: Path, relation: str, schema: Schema, strings: Dictionary) -> _ReadFile:
    try:
        about = file.stat()
        identity = (file, about.st_ino, about.st_size, about.st_mtime_ns)
        last = _last.get(relation)
        if last is None or last.identity != identity or last.strings is not strings:
            delta = read_tables.table(read_file(file, schema), schema, relation, strings)[0]
            last = _last[relation] = _ReadFile(identity, strings, delta, {})
        return last
    except OSError as error:
        raise RowError(f"{relation}: {file} cannot be read ({error})") from error


def read_file(file: Path, schema: Schema) -> pa.Table:
    """Read the columns of a relation, and ``diff``, from a Parquet file. Raises OSError if it cannot be read."""
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
    except pa.ArrowException as error:
        raise OSError(str(error)) from error


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
