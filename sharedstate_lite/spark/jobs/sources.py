"""The input of a stream: folders of Parquet files and streaming DataFrames, turned into messages to the bins.

A folder is read one file per micro-batch, in the order of modification times. A folder with one
file per epoch therefore keeps its epochs. If several folders have one file per epoch, the files of the same epoch are
read in the same micro-batch. Spark decides which file comes next, and a Python task reads the file directly. This takes
a tenth of the time of reading it in the JVM and transferring the rows. With few bins, every task that has bins for the
rows reads the file. With many bins, one task before them does (:mod:`..bins.files`).

A DataFrame needs the relation's columns and ``diff``, and Spark decides its micro-batches. Columns and types are
checked before anything runs. Values are checked in Spark's tasks, where rows become messages.

`PendingBatch` finds the files of a micro-batch that has started but is not committed. The kit checks that they exist,
because Spark would read a lost file as an empty one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa

from ...changelog import read_tables
from ...errors import CheckpointError, Error, RelationError, RowError
from ...plan.nodes import Schema, Type
from ...storage.batch import concat
from ..bins.bin import ViewRecipe
from ..bins.channels import INIT_GLOBAL, ROWS, init_globals
from ..bins.files import DIRECT_BINS, FILE, local_path, read_file, receivers
from ..bins.route import Route
from ..rounds.errors import RowRefused
from ..rounds.inbox import to_table
from ..rounds.message import BinMessage
from ..rounds.operator import WIRE
from ..rounds.query import committed
from ..rounds.strings import worker_strings
from ..rounds.worker import collect_strings, lock
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
"""The Spark types that each column type accepts."""
MAX_AGE = "100000d"
"""How much older than the newest file a file can be before Spark ignores it. In effect, this sets no limit."""
REMEDY = "remove it, or put the correct file in its place, and start the stream again with the same checkpoint"
_REPORTED = "reported.json"
_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


def frame(session: SparkSession, relation: str, schema: Schema, source: Any) -> tuple[str | None, DataFrame]:
    """Return (absolute path, DataFrame of file paths) for a folder, or (None, its rows) for a streaming DataFrame.

    Raises RelationError and RowError for a source that does not fit the relation.
    """
    if isinstance(source, str | os.PathLike):
        folder = absolute(source, relation, RelationError)
        if not folder.is_dir():
            raise RelationError(f"{relation}: {folder} is not a folder; use a folder of Parquet files")
        reader = session.readStream.format("binaryFile").schema(_FILE).option("maxFilesPerTrigger", 1)
        # By default, Spark silently skips files that are a week older than the newest one that it has seen.
        reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", MAX_AGE)
        # Spark does not open the files, because only their paths are selected.
        return str(folder), reader.load(readable(folder)).select("path")
    streaming = getattr(source, "isStreaming", None)
    if not streaming:
        what = "a DataFrame that is not streaming" if streaming is False else f"of type {type(source).__name__}"
        raise RelationError(
            f"{relation}: the source is {what}; use a folder of Parquet files, or a DataFrame from session.readStream"
        )
    there: dict[str, str] = {}
    for name in source.columns:
        if name.lower() in there:
            raise RelationError(f"{relation}: the DataFrame has the column {name} twice; names are not case-sensitive")
        there[name.lower()] = name
    wanted = {c.name.lower(): (c.name, _TAKEN[c.type], c.type.value) for c in schema}
    wanted["diff"] = ("diff", _WHOLE, "integer")
    missing = [name for key, (name, _, _) in wanted.items() if key not in there]
    if missing:
        ways = {"diff": "diff (+1 inserts a row, -1 retracts it; withColumn('diff', lit(1)) inserts all rows)"}
        raise RelationError(f"{relation}: the DataFrame has no column {', '.join(ways.get(n, n) for n in missing)}")
    types = {f.name: f.dataType.simpleString().upper() for f in source.schema.fields}
    for key, (name, taken, declared) in wanted.items():
        given = re.sub(r"^(VAR)?CHAR\(.*", "STRING", types[there[key]])
        if given not in (*taken, "VOID"):
            zoned = "; CAST(... AS TIMESTAMP_NTZ) removes the zone" if given == "TIMESTAMP" else ""
            raise RowError(
                f"{relation}: column {name} is {types[there[key]]} in the DataFrame and {declared} in the catalog; "
                f"cast it to an accepted type ({', '.join(taken)}){zoned}"
            )
    columns_in_order = ["`" + there[key].replace("`", "``") + "`" for key in wanted]
    # Rename the columns, because Spark interprets backticks and dots in a name.
    return None, source.select(*columns_in_order).toDF(*(f"c{i}" for i in range(len(wanted))))


def check_same(before: Mapping[str, str | None], now: Mapping[str, str | None], where: Path) -> None:
    """Raise CheckpointError if the sources differ from the checkpoint's, because Spark would read some rows twice."""
    odd = []
    for relation in {**before, **now}:
        was, given = (
            "no source" if relation not in some else "a DataFrame" if some[relation] is None else str(some[relation])
            for some in (before, now)
        )
        if was != given:
            odd.append(f"{relation} came from {was}, and now comes from {given}")
    if odd:
        raise CheckpointError(
            f"{where}: a stream must continue with the sources of its checkpoint, but {'; '.join(odd)}. Use the same "
            "sources (if a folder was moved, create a link at its old path), or start with a new checkpoint"
        )


def messages(source: DataFrame, relation: str, schema: Schema, recipe: ViewRecipe) -> DataFrame:
    """Turn a DataFrame from `frame` into a DataFrame of messages to the bins."""
    make_route, bins = recipe.make, recipe.bins
    files = len(source.columns) == 1
    if files and bins <= DIRECT_BINS:
        return _paths(source, relation, make_route(), bins)

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark pickles this function by value, with the globals that it uses. Those that _encode uses are left out.
        yield from to_table(_encode(list(batches), files, relation, schema, make_route(), bins)).to_batches()

    return source.mapInArrow(made, WIRE)


def _paths(source: DataFrame, relation: str, route: Route, bins: int) -> DataFrame:
    """Turn each file's path into messages to the bins that need the file.

    This is an expression in Spark's SQL, so no Python process runs before the bins.
    """
    from pyspark.sql import functions as f

    def message(bin: int, stage: int, channel: int, what: str, blob: Column) -> Column:
        numbers = {"bin": bin, "stage": stage, "channel": channel}
        whole = [f.lit(number).cast("int").alias(name) for name, number in numbers.items()]
        return f.struct(*whole, f.lit(what).alias("what"), blob.cast("binary").alias("blob"))

    first = [message(0, stage, INIT_GLOBAL, "", f.lit("")) for stage in route.global_stages()]
    files = [message(*to, FILE, f.col("path")) for to in receivers(route, relation, bins)]
    return source.select(f.inline(f.array(*first, *files)))


def _encode(
    parts: list[pa.RecordBatch], files: bool, relation: str, schema: Schema, route: Route, bins: int
) -> list[BinMessage]:
    paths = [str(path) for part in parts for path in part.column(0).to_pylist()] if files else []
    tables = [read_file(local_path(path), schema) for path in paths] if files else _joined(parts, schema)
    with lock:
        out = _messages(tables, relation, schema, route, bins)
    return out + [BinMessage(0, 0, ROWS, path, b"0") for path in paths]


def _joined(parts: list[pa.RecordBatch], schema: Schema) -> list[pa.Table]:
    # Spark sends 10,000 rows at a time, but it is faster to look up the strings of all rows together.
    return [pa.Table.from_batches(parts).rename_columns([*(c.name for c in schema), "diff"])] if parts else []


def _messages(tables: list[pa.Table], relation: str, schema: Schema, route: Route, bins: int) -> list[BinMessage]:
    """Turn the rows of one task into messages. This runs in a Python worker."""
    collect_strings()
    strings = worker_strings.strings
    try:
        delta = concat([read_tables.table(rows, schema, relation, strings)[0] for rows in tables], len(schema))
        out = init_globals(route.global_stages())
        if len(delta.diffs):
            out.append(BinMessage(0, 0, ROWS, "", str(len(delta.diffs)).encode()))
            out += route.relation_messages(relation, delta, bins, strings)
    except Error as error:
        raise RowRefused(error) from error
    return out


def input_rows(rows: pa.Table) -> int:
    """Return the number of input rows of a micro-batch, from its messages to the driver."""
    pairs: Any = zip(rows.column("channel").to_pylist(), rows.column("blob").to_pylist(), strict=True)
    return sum(int(blob) for channel, blob in pairs if channel == ROWS)


def files_read(rows: pa.Table) -> set[Path]:
    """Return the files that a micro-batch has read, from its messages to the driver."""
    pairs: Any = zip(rows.column("channel").to_pylist(), rows.column("what").to_pylist(), strict=True)
    return {local_path(path) for channel, path in pairs if channel == ROWS and path}


class UnreadFile(Exception):
    """Raised when Spark skipped a file. Spark skips every file that is empty when it lists the folder."""

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} was listed but not read")
        self.file = file


def reported_files(location: Path) -> set[str]:
    """Return the files that an error has named. The user may have removed them since then."""
    file = location / _REPORTED
    return set(json.loads(file.read_text())) if file.exists() else set()


def report_files(location: Path, files: Iterable[str]) -> None:
    """Record that an error names these files."""
    (location / _REPORTED).write_text(json.dumps(sorted(reported_files(location).union(files))))


class PendingBatch:
    """The micro-batch that has started but is not committed, if any. ``spark`` is Spark's checkpoint folder."""

    def __init__(self, spark: Path) -> None:
        self.batch = committed(spark)
        self._spark = spark

    def files(self) -> Iterator[str]:
        """Yield the paths of the input files of the micro-batch; none if no micro-batch has started."""
        now, before = self._offsets(self.batch), self._offsets(self.batch - 1)
        for source, last in now.items():
            for number in range(before.get(source, -1) + 1, last + 1):
                yield from self._log(source, number)

    def check(self, reported: set[str], folders: Iterable[str] = (), read: Container[Path] = ()) -> None:
        """Raise CheckpointError if a file is missing and was not ``reported`` to the user by an earlier error.

        Raises UnreadFile if a file in one of the ``folders`` exists but is not in ``read``.
        """
        for file in self.files():
            there = Path(file).exists()
            if there and Path(file) not in read and any(Path(file).is_relative_to(each) for each in folders):
                raise UnreadFile(file)
            if not there and file not in reported:
                raise CheckpointError(
                    f"{file}: batch {self.batch} started with this file, which is now lost; put it back, or start with "
                    "a new checkpoint"
                )

    def _offsets(self, batch: int) -> dict[int, int]:
        """Return the number of the last log entry that a micro-batch includes, for each source that is a folder.

        The keys of the result are the numbers of the sources.
        """
        file = self._spark / "offsets" / str(batch)
        lines = file.read_text().splitlines()[2:] if file.exists() else []
        offsets = {n: json.loads(line) for n, line in enumerate(lines) if line.startswith("{")}
        return {n: int(each["logOffset"]) for n, each in offsets.items() if "logOffset" in each}

    def _log(self, source: int, number: int) -> Iterator[str]:
        log = self._spark / "sources" / str(source)
        # Spark writes every tenth entry, and all entries before it, to one compact file.
        for file in (log / str(number), log / f"{number}.compact"):
            for line in file.read_text().splitlines()[1:] if file.exists() else []:
                entry = json.loads(line)
                address = urlparse(entry["path"])
                if int(entry["batchId"]) == number and address.scheme in ("", "file"):
                    yield unquote(address.path)


def unreadable_file(text: str) -> str | None:
    """Return the file that Spark could not read, from the text of its exception, or None for another failure."""
    found = re.search(r"(?:while reading file|read footer for file:?) +(file:/[^\s'\"]+)", text)
    return None if found is None else unquote(urlparse(found[1].rstrip(".,;")).path)
