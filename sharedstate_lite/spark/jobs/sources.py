"""What comes into a stream: folders of Parquet and streaming DataFrames as messages to the bins.

A folder's files are read one a micro-batch, in the order of their times, so a folder that
holds a file for each epoch keeps its epochs, and several such folders keep them together.
Spark says which file is next; a task reads it by itself, which takes a tenth of the time that
it takes to have the rows read in the JVM and handed over: each task that has bins for its rows,
or, where these are many, one task before them (:mod:`..bins.files`).
A DataFrame needs the relation's columns and ``diff``; its micro-batches are what Spark
makes of it. What can be known beforehand, the columns and their types, is refused before
anything runs; values are judged in Spark's own tasks, where rows become messages.

:class:`Begun` knows the files of a micro-batch that was begun and is not done: Spark would
read one that is lost as an empty one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa

from ...changelog import read_tables
from ...errors import CheckpointError, Error, RelationError, RowError
from ...plan.nodes import Schema, Type
from ...storage.batch import concat
from ..bins.bin import Plan
from ..bins.files import DIRECT_BINS, FILE, local_path, read_file, receivers
from ..bins.messages import ROWS, TICK, BinMessage, ticks
from ..bins.route import Route
from ..bins.strings import worker_strings
from ..bins.worker_cache import collect_strings, lock
from ..query.inbox import table
from ..query.processor import WIRE, Refused
from ..query.query import committed
from ..session.paths import absolute, readable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TAKEN: dict[Type, tuple[str, ...]] = {
    Type.STRING: ("STRING",),
    Type.INT: _WHOLE,
    Type.BIGINT: _WHOLE,
    Type.DOUBLE: ("DOUBLE", "FLOAT", *_WHOLE),
    Type.BOOLEAN: ("BOOLEAN",),
    Type.DATE: ("DATE",),
    Type.TIMESTAMP: ("TIMESTAMP_NTZ",),
}
"""Which of Spark's types a column may come as."""
AGE = "100000d"
"""How much older than the newest file that was read another one may be: more than any is."""
MEND = "take it away (or put the right one in its place) and start the stream again with the same checkpoint"
_EXCUSED = "excused.json"
_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


def frame(session: SparkSession, relation: str, schema: Schema, source: Any) -> tuple[str | None, DataFrame]:
    """A source's rows as a streaming DataFrame of the relation's columns and ``diff``, or of a folder its files' paths.

    ``source`` is a folder, whose whole path comes first, or a streaming DataFrame. Raises RelationError, RowError.
    """
    if isinstance(source, str | os.PathLike):
        folder = absolute(source, relation, RelationError)
        if not folder.is_dir():
            raise RelationError(f"{relation}: {folder} is no folder; name one that Parquet files come into")
        reader = session.readStream.format("binaryFile").schema(_FILE).option("maxFilesPerTrigger", 1)
        # Spark leaves out, without a word, files that are a week older than the newest one it has seen.
        reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", AGE)
        # Of the four columns only this one is asked for, so Spark does not open the file.
        return str(folder), reader.load(readable(folder)).select("path")
    streaming = getattr(source, "isStreaming", None)
    if not streaming:
        what = "a DataFrame that does not stream" if streaming is False else f"of type {type(source).__name__}"
        raise RelationError(
            f"{relation}: the source is {what}; give a folder of Parquet files, or a DataFrame of session.readStream"
        )
    there: dict[str, str] = {}
    for name in source.columns:
        if name.lower() in there:
            raise RelationError(
                f"{relation}: the DataFrame has the column {name} twice; names are compared without case"
            )
        there[name.lower()] = name
    wanted = {c.name.lower(): (c.name, _TAKEN[c.type], c.type.value) for c in schema}
    wanted["diff"] = ("diff", _WHOLE, "whole number")
    missing = [name for key, (name, _, _) in wanted.items() if key not in there]
    if missing:
        ways = {"diff": "diff (+1 inserts a row, -1 retracts one: withColumn('diff', lit(1)) for inserts only)"}
        raise RelationError(f"{relation}: the DataFrame lacks {', '.join(ways.get(n, n) for n in missing)}")
    types = {f.name: f.dataType.simpleString().upper() for f in source.schema.fields}
    for key, (name, taken, declared) in wanted.items():
        given = re.sub(r"^(VAR)?CHAR\(.*", "STRING", types[there[key]])
        if given not in (*taken, "VOID"):
            zoned = "; CAST(... AS TIMESTAMP_NTZ) drops the zone" if given == "TIMESTAMP" else ""
            raise RowError(
                f"{relation}: column {name} is {types[there[key]]} in the DataFrame and {declared} in the catalog, "
                f"which takes {', '.join(taken)}{zoned}"
            )
    columns_in_order = ["`" + there[key].replace("`", "``") + "`" for key in wanted]
    # Names of its own: Spark would read a backtick or a dot in one as more than a name.
    return None, source.select(*columns_in_order).toDF(*(f"c{i}" for i in range(len(wanted))))


def same(before: Mapping[str, str | None], now: Mapping[str, str | None], where: Path) -> None:
    """Refuse other sources than a checkpoint's: what was read already would be read again. Raises CheckpointError."""
    odd = []
    for relation in {**before, **now}:
        was, given = (
            "no source" if relation not in some else "a DataFrame" if some[relation] is None else str(some[relation])
            for some in (before, now)
        )
        if was != given:
            odd.append(f"{relation} came from {was}, and now from {given}")
    if odd:
        raise CheckpointError(
            f"{where}: a stream of this checkpoint goes on with its own sources, and {'; '.join(odd)}; give the same "
            "(where a folder was moved, put a link in its old place), or begin anew with another checkpoint"
        )


def messages(source: DataFrame, relation: str, schema: Schema, plan: Plan, labels: Sequence[int]) -> DataFrame:
    """What :func:`frame` gave, as messages to the bins of the first stages."""
    routed, bins = plan.make, plan.bins
    files = len(source.columns) == 1
    if files and bins <= DIRECT_BINS:
        return _paths(source, relation, routed(), bins, labels)

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # This function travels as it is, so what it names that cannot travel is named in another.
        out = _made(list(batches), files, relation, schema, routed(), bins)
        yield from table(m._replace(bin=labels[m.bin]) for m in out).to_batches()

    return source.mapInArrow(made, WIRE)


def _paths(source: DataFrame, relation: str, route: Route, bins: int, labels: Sequence[int]) -> DataFrame:
    """A file's path to each bin that it concerns: no rows, so no Python before the bins."""
    from pyspark.sql import functions as f

    def message(bin: int, stage: int, channel: int, what: str, blob: Column) -> Column:
        numbers = {"bin": bin, "stage": stage, "channel": channel}
        whole = [f.lit(number).cast("int").alias(name) for name, number in numbers.items()]
        return f.struct(*whole, f.lit(what).alias("what"), blob.cast("binary").alias("blob"))

    first = [message(labels[0], stage, TICK, "", f.lit("")) for stage in route.ticked()]
    files = [
        message(labels[number], stage, channel, FILE, f.col("path"))
        for number, stage, channel in receivers(route, relation, bins)
    ]
    return source.select(f.inline(f.array(*first, *files)))


def _made(
    parts: list[pa.RecordBatch], files: bool, relation: str, schema: Schema, route: Route, bins: int
) -> list[BinMessage]:
    paths = [str(path) for part in parts for path in part.column(0).to_pylist()] if files else []
    tables = [read_file(local_path(path), schema) for path in paths] if files else _whole(parts, schema)
    with lock:
        out = _messages(tables, relation, schema, route, bins)
    return out + [BinMessage(0, 0, ROWS, path, b"0") for path in paths]


def _whole(parts: list[pa.RecordBatch], schema: Schema) -> list[pa.Table]:
    # Spark hands over 10,000 rows at a time; strings are looked up better together.
    return [pa.Table.from_batches(parts).rename_columns([*(c.name for c in schema), "diff"])] if parts else []


def _messages(tables: list[pa.Table], relation: str, schema: Schema, route: Route, bins: int) -> list[BinMessage]:
    """Rows of one task to messages, in a worker."""
    collect_strings()
    strings = worker_strings.strings
    try:
        delta = concat([read_tables.table(rows, schema, relation, strings)[0] for rows in tables], len(schema))
        out = ticks(route.ticked())
        if len(delta.diffs):
            out.append(BinMessage(0, 0, ROWS, "", str(len(delta.diffs)).encode()))
            out += route.relation_messages(relation, delta, bins, strings)
    except Error as error:
        raise Refused(error) from error
    return out


def counted(rows: pa.Table) -> int:
    """How many rows of input a micro-batch had, out of what it sent to the driver."""
    told: Any = zip(rows.column("channel").to_pylist(), rows.column("blob").to_pylist(), strict=True)
    return sum(int(blob) for channel, blob in told if channel == ROWS)


def opened(rows: pa.Table) -> set[Path]:
    """The files that a micro-batch has read, out of what it sent to the driver."""
    told: Any = zip(rows.column("channel").to_pylist(), rows.column("what").to_pylist(), strict=True)
    return {local_path(path) for channel, path in told if channel == ROWS and path}


class Unopened(Exception):
    """Spark left a file out, as it does with one that is empty when it is listed: nothing is written into it yet."""

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} was listed and not read")
        self.file = file


def excused(location: Path) -> set[str]:
    """The files that an error has named: one that is gone then was taken away for that."""
    file = location / _EXCUSED
    return set(json.loads(file.read_text())) if file.exists() else set()


def excuse(location: Path, files: Iterable[str]) -> None:
    """Note that an error names these files."""
    (location / _EXCUSED).write_text(json.dumps(sorted(excused(location).union(files))))


class Begun:
    """The files of the micro-batch that Spark would run again. ``spark`` is its checkpoint folder."""

    def __init__(self, spark: Path) -> None:
        self.batch = committed(spark)
        self._spark = spark

    def files(self) -> Iterator[str]:
        """Their paths; none where no micro-batch is under way."""
        now, before = self._offsets(self.batch), self._offsets(self.batch - 1)
        for source, last in now.items():
            for number in range(before.get(source, -1) + 1, last + 1):
                yield from self._log(source, number)

    def check(self, excused: set[str], folders: Iterable[str] = (), opened: Container[Path] = ()) -> None:
        """Raise CheckpointError for a file that is gone and not among those whose loss the caller was told to expect.

        Raises Unopened for one that is there, in one of the ``folders``, and not among the ``opened``.
        """
        for file in self.files():
            there = Path(file).exists()
            if there and Path(file) not in opened and any(Path(file).is_relative_to(each) for each in folders):
                raise Unopened(file)
            if not there and file not in excused:
                raise CheckpointError(
                    f"{file}: batch {self.batch} was begun with this file, and it is lost; put it back, or begin anew "
                    "with another checkpoint"
                )

    def _offsets(self, batch: int) -> dict[int, int]:
        """For each source that is a folder, the last entry of its log that a micro-batch has taken."""
        file = self._spark / "offsets" / str(batch)
        lines = file.read_text().splitlines()[2:] if file.exists() else []
        told = {n: json.loads(line) for n, line in enumerate(lines) if line.startswith("{")}
        return {n: int(each["logOffset"]) for n, each in told.items() if "logOffset" in each}

    def _log(self, source: int, number: int) -> Iterator[str]:
        log = self._spark / "sources" / str(source)
        # Every tenth entry is written together with all before it.
        for file in (log / str(number), log / f"{number}.compact"):
            for line in file.read_text().splitlines()[1:] if file.exists() else []:
                told = json.loads(line)
                address = urlparse(told["path"])
                if int(told["batchId"]) == number and address.scheme in ("", "file"):
                    yield unquote(address.path)


def unreadable(text: str) -> str | None:
    """The file that Spark could not read, out of what it says; None where that is not the fault."""
    found = re.search(r"(?:while reading file|read footer for file:?) +(file:/[^\s'\"]+)", text)
    return None if found is None else unquote(urlparse(found[1].rstrip(".,;")).path)
