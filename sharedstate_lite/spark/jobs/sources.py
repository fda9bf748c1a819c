"""The sources of a stream: a folder of files for each relation. A streaming DataFrame becomes such a folder.

A query writes each micro-batch of a DataFrame to a file in the checkpoint, which is named by the number of the
micro-batch. If Spark repeats a micro-batch, its file is there already.

    intake/N/rows/00000003.parquet    micro-batch 3 of the DataFrame of relation N of the catalog
    intake/N/spark/                   Spark's checkpoint of the query
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ...changelog.validate import relation as known
from ...errors import Error, RelationError, RowError, shorten
from ...plan.nodes import Schema, Type
from ...system.folders import flush
from ..rounds.errors import TRIES, reason
from ..rounds.query import committed
from ..session.paths import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

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


def checked(catalog: Any, inputs: Mapping[str, Any]) -> dict[str, Path | DataFrame]:
    """Return the source of each relation: the absolute path of a folder, or a DataFrame with the relation's columns.

    Raises RelationError and RowError for a source that does not fit its relation.
    """
    if not isinstance(inputs, Mapping) or not inputs:
        raise RelationError("sources: pass a mapping {relation: folder or streaming DataFrame} that is not empty")
    out: dict[str, Path | DataFrame] = {}
    for name, source in inputs.items():
        relation, schema = known(catalog, name)
        if relation in out:
            raise RelationError(f"sources: relation {relation} appears twice; names are not case-sensitive")
        if isinstance(source, str | os.PathLike):
            out[relation] = folder = absolute(source, relation, RelationError)
            if not folder.is_dir():
                raise RelationError(f"{relation}: {folder} is not a folder; use a folder of Parquet files")
        else:
            out[relation] = frame(relation, schema, source)
    return out


def frame(relation: str, schema: Schema, source: Any) -> DataFrame:
    """Return a streaming DataFrame with only the relation's columns and ``diff``, in this order.

    Raises RelationError and RowError for a DataFrame that does not fit the relation.
    """
    if not getattr(source, "isStreaming", False):
        raise RelationError(
            f"{relation}: the source {shorten(source)} is not a streaming DataFrame; use a folder of Parquet files, or "
            "a DataFrame from session.readStream"
        )
    there = {name.lower(): name for name in source.columns}
    wanted = {c.name.lower(): (c.name, _TAKEN[c.type], c.type.value) for c in schema}
    wanted["diff"] = ("diff", _WHOLE, "integer")
    missing = [name for key, (name, _, _) in wanted.items() if key not in there]
    if missing:
        ways = {"diff": "diff (+1 inserts a row, -1 retracts it; withColumn('diff', lit(1)) inserts all rows)"}
        raise RelationError(f"{relation}: the DataFrame has no column {', '.join(ways.get(n, n) for n in missing)}")
    types = {f.name: f.dataType.simpleString().upper() for f in source.schema.fields}
    for key, (name, taken, declared) in wanted.items():
        if (given := types[there[key]]) not in taken:
            zoned = "; CAST(... AS TIMESTAMP_NTZ) removes the zone" if given == "TIMESTAMP" else ""
            raise RowError(
                f"{relation}: column {name} is {given} in the DataFrame and {declared} in the catalog; "
                f"cast it to an accepted type ({', '.join(taken)}){zoned}"
            )
    quoted: DataFrame = source.select(*("`" + there[key].replace("`", "``") + "`" for key in wanted))
    return quoted


class Intake:
    """A query that writes the micro-batches of a DataFrame to ``folder``, one file each.

    It waits until a file is in ``done`` before it writes the next one. So if the stream is slower than the source,
    micro-batches become larger, and at most one file waits. Both sides notify ``changed``.
    """

    def __init__(
        self, frame: DataFrame, schema: Schema, folder: Path, done: Container[str], changed: threading.Condition
    ) -> None:
        self._frame, self._names = frame, [*(c.name for c in schema), "diff"]
        self.folder, self._done, self._changed = folder, done, changed
        self._spark, self._failed, self._stopped = folder.parent / "spark", Counter[int](), False
        self._query: StreamingQuery | None = None

    def start(self, trigger: dict[str, Any]) -> None:
        """Start the query. Raises Error if Spark rejects it."""
        self._stopped, self._trigger = False, trigger
        writer = self._frame.writeStream.option("checkpointLocation", str(self._spark)).trigger(**trigger)
        try:
            self._query = writer.foreachBatch(self._write).start()
        except PySparkException as error:
            text = str(error).partition("\n")[0].rstrip(";")
            raise Error(f"{self.folder}: Spark cannot stream this: {text}") from error

    def running(self) -> bool:
        """Return whether more files can come. Starts the query again if it has failed, up to ``TRIES`` times."""
        assert self._query is not None, "start() comes first"
        if self._query.isActive:
            return True
        error = self._query.exception()
        if error is None:
            return False
        self._failed[batch := committed(self._spark)] += 1
        if self._failed[batch] >= TRIES:
            raise Error(f"{self.folder}: the source failed {TRIES} times in micro-batch {batch}: {reason(str(error))}")
        self.start(self._trigger)
        return True

    def stop(self) -> None:
        """Stop the query. A file that waits is processed later."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._query is not None:
            with contextlib.suppress(Py4JError, OSError):  # the session has ended, and the query with it
                self._query.stop()

    def _write(self, frame: DataFrame, number: int) -> None:
        file = self.folder / f"{number:08d}.parquet"
        if not file.exists():
            unfinished = file.with_name(f".{file.name}")
            pyarrow.parquet.write_table(frame.toArrow().rename_columns(self._names), unfinished)
            flush(unfinished)
            unfinished.replace(file)
            flush(self.folder)
        # All micro-batches before this one are committed, so Spark does not repeat them.
        for old in self.folder.glob("[0-9]*.parquet"):
            if old != file and old.name in self._done:
                old.unlink()
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or file.name in self._done)
