"""Views over streams that Spark reads itself: folders of Parquet, or streaming DataFrames, to a sink.

The same stages, bins and blobs as an engine's, without a driver that steps: each
micro-batch is one epoch. A folder's files are read one a micro-batch, in the order of
their times, so a folder that holds a file for each epoch keeps its epochs, and several
such folders keep them together. A DataFrame needs the relation's columns and ``diff``; its
micro-batches are what Spark makes of it.

Rows become messages in Spark's own tasks, which check their types; a row that cannot be
ends the job with the in-process error, and so does a retraction of what is not there.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from pyspark.errors import StreamingQueryException

from .. import ingest
from ..batch import Delta, concat
from ..changes import Changes
from ..errors import CheckpointError, Error, RelationError
from ..intake import relation as known
from ..operators import apply
from ..plan import Schema, Type
from ..words import Strings
from . import blueprint, wire
from .bins import TICK, Message, Plan, names, ship
from .blueprint import Blueprint
from .inbox import table
from .live import BINS, labels
from .processor import WIRE, Refused, through
from .query import committed, reason, refused
from .route import Route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Sink = str | os.PathLike[str] | Callable[[dict[str, Changes], int], None]

_SPARK = {
    Type.STRING: "STRING",
    Type.INT: "INT",
    Type.BIGINT: "BIGINT",
    Type.DOUBLE: "DOUBLE",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP_NTZ",
}
_CORRUPT = "corrupt.json"


class Job:
    """A running stream; made by :func:`sharedstate_lite.spark.stream`. A context manager."""

    def __init__(
        self,
        plan: Blueprint,
        sources: Mapping[str, Any],
        sink: Sink,
        session: SparkSession,
        checkpoint: str | os.PathLike[str],
        bins: int | None,
    ) -> None:
        self._plan, self._route = plan, plan.checked()
        self.location = Path(checkpoint).expanduser().absolute()
        self.session, self._sink = session, sink
        self.bins, self._labels, self._name = self._settle(bins)
        self._lost()
        given: dict[str, Any] = {}
        for name, source in sources.items():
            relation, _ = known(self._blueprint.catalog, name)
            if relation in given:
                raise RelationError(f"relation {relation} is given twice; names are compared without case")
            given[relation] = source
        if not given:
            raise RelationError("stream takes {relation: folder or streaming DataFrame}, at least one of them")
        wires = [self._source(relation, source) for relation, source in given.items()]
        stream = wires[0]
        for other in wires[1:]:
            stream = stream.union(other)
        work = Plan(self._name, self.bins, plan.routed)
        numbers = {label: number for number, label in enumerate(self._labels)}
        out = through(stream, work, self._route.stages, numbers).where("stage = 0")
        writer = out.writeStream.outputMode("update").option("checkpointLocation", str(self._spark))
        self._query: StreamingQuery = writer.foreachBatch(self._take).start()

    # --- using it ---------------------------------------------------------------

    def finish(self, show: Callable[[str], None] | None = None) -> None:
        """Run until all input that is there has been taken; ``show`` gets a line for each micro-batch.

        Raises the kit's error for a row that is refused, and Error for a file that cannot be read, naming it.
        """
        try:
            self._query.processAllAvailable()
        except StreamingQueryException as error:
            raise self._told(str(error)) from None
        finally:
            for line in self.progress().itertuples(index=False) if show is not None else ():
                assert show is not None
                show(f"batch {line.batch}: {line.rows:,} rows in {line.seconds:.2f} s")

    def progress(self) -> pd.DataFrame:
        """The micro-batches that Spark still tells of: batch, rows of input, seconds, seconds by what they went on."""
        lines = []
        for p in self._query.recentProgress:
            told = p if isinstance(p, dict) else json.loads(p.json)
            spent = told["durationMs"]
            lines.append(
                (
                    told["batchId"],
                    sum(s["numInputRows"] for s in told["sources"]),
                    spent["triggerExecution"] / 1e3,
                    spent,
                )
            )
        return pd.DataFrame(lines, columns=["batch", "rows", "seconds", "spent"])

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle on it."""
        return self._query

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return bool(self._query.isActive)

    def stop(self) -> None:
        """Stop; another ``stream`` on the same checkpoint goes on. Harmless when repeated."""
        self._query.stop()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- what it is made from -----------------------------------------------------

    @property
    def _blueprint(self) -> Any:
        return self._route.engine

    @property
    def _spark(self) -> Path:
        return self.location / self._name / "spark"

    def _settle(self, bins: int | None) -> tuple[int, list[int], str]:
        where, plan = self.location, self._plan
        where.mkdir(parents=True, exist_ok=True)
        if (where / blueprint.FILE).exists():
            told = blueprint.read(where)
            wanted = {"join": plan.join, "stream": True} | ({} if bins is None else {"bins": bins})
            blueprint.same(told, self._blueprint, plan.kind, wanted, where)
            options = told["options"]
        elif any(not f.name.startswith(".") for f in where.iterdir()):
            raise CheckpointError(f"{where} is neither empty nor the checkpoint of a stream; choose a new folder")
        else:
            count = bins or BINS
            options = {
                "join": plan.join,
                "stream": True,
                "bins": count,
                "labels": labels(self.session, count),
                "generation": f"g-{secrets.token_hex(6)}",
                "began": 0,
            }
            blueprint.write(where, self._blueprint, plan.kind, options)
        return options["bins"], options["labels"], options["generation"]

    def _source(self, relation: str, source: Any) -> DataFrame:
        _, schema = known(self._blueprint.catalog, relation)
        names = [*(c.name for c in schema), "diff"]
        if isinstance(source, str | os.PathLike):
            folder = Path(source).expanduser().absolute()
            if not folder.is_dir():
                raise RelationError(f"{relation}: {folder} is no folder; name one that Parquet files come into")
            columns = ", ".join(f"`{c.name}` {_SPARK[c.type]}" for c in schema) + ", diff BIGINT"
            reader = self.session.readStream.schema(columns).option("maxFilesPerTrigger", 1)
            frame = reader.option("recursiveFileLookup", "true").parquet(str(folder))
        else:
            frame = source
            if not getattr(frame, "isStreaming", False):
                raise RelationError(
                    f"{relation}: {type(source).__name__} is neither a folder nor a streaming DataFrame"
                )
            there = {c.lower(): c for c in frame.columns}
            missing = [n for n in names if n.lower() not in there]
            if missing:
                raise RelationError(f"{relation}: the DataFrame lacks {', '.join(missing)}")
            frame = frame.select(*(f"`{there[n.lower()]}`" for n in names))
        routed, bins, label = self._plan.routed, self.bins, self._labels

        def messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from _messages(batches, relation, schema, routed(), bins, label)

        return frame.mapInArrow(messages, WIRE)

    # --- what comes out -------------------------------------------------------------

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = frame.toArrow()
        strings = Strings()
        out: dict[str, Changes] = {}
        whats: list[Any] = rows.column("what").to_pylist()
        blobs: list[Any] = rows.column("blob").to_pylist()
        for name, view in self._blueprint.views.items():
            parts = [wire.unpack(b, strings) for w, b in zip(whats, blobs, strict=True) if w == name]
            unique = view.key if view.unique else None
            delta = concat(parts, len(view.schema))
            out[name] = Changes.consolidated(view.schema, delta, number + 1, strings, unique)
        if callable(self._sink):
            self._sink(out, number)
        else:
            _write(Path(self._sink).expanduser(), out, number)

    # --- faults ---------------------------------------------------------------------

    def _told(self, text: str) -> Error:
        error = refused(text)
        if error is not None:
            return error
        file = _unreadable(text)
        if file is None:
            return Error(f"the stream failed: {reason(text)}")
        gone = self._corrupt() | {file}
        (self.location / _CORRUPT).write_text(json.dumps(sorted(gone)))
        return Error(
            f"{file}: Spark cannot read this file; take it away (or put the right one in its place) and start the "
            "stream again with the same checkpoint"
        )

    def _corrupt(self) -> set[str]:
        file = self.location / _CORRUPT
        return set(json.loads(file.read_text())) if file.exists() else set()

    def _lost(self) -> None:
        """Refuse to go on where a file of a batch that is not done is gone: Spark would take it for an empty one."""
        after = committed(self._spark)
        for log in (self._spark / "sources").glob(f"*/{after}"):
            for line in log.read_text().splitlines()[1:]:
                address = urlparse(json.loads(line)["path"])
                file = unquote(address.path)
                if address.scheme in ("", "file") and not Path(file).exists() and file not in self._corrupt():
                    raise CheckpointError(
                        f"{file}: batch {after} was begun with this file, and it is lost; put it back, or begin anew "
                        "with another checkpoint"
                    )


def _messages(
    batches: Iterator[pa.RecordBatch], relation: str, schema: Schema, route: Route, bins: int, label: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Rows of one task to messages, in a worker."""
    names.tidy()
    strings = names.strings
    try:
        parts = list(batches)
        delta = Delta.empty(len(schema))
        if parts:
            # Spark hands over 10,000 rows at a time; strings are looked up better together.
            rows = pa.Table.from_batches(parts).rename_columns([*(c.name for c in schema), "diff"])
            delta = ingest.table(rows, schema, relation, strings)[0]
        out = [Message(stage, 0, TICK, "", b"") for stage in sorted({route.stage_of[n] for n in route.globals()})]
        for number, channel in enumerate(route.channels, 1):
            if route.relation(channel) == relation and len(delta.diffs):
                moved: Delta = delta
                for at in channel.early:
                    moved = apply(route.operators[at].node, moved, strings)
                out += ship(number, channel, moved, bins, strings)
    except Error as error:
        raise Refused(error) from error
    yield from table(m._replace(bin=label[m.bin]) for m in out).to_batches()


def _write(folder: Path, changes: Mapping[str, Changes], number: int) -> None:
    """A batch's changes into a changelog folder: a file a view, there whole or not at all, and once."""
    for name, each in changes.items():
        target = folder / name / f"batch-{number:08d}.parquet"
        if target.exists() or not len(each):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}")
        pyarrow.parquet.write_table(each.to_arrow(), unfinished)
        unfinished.replace(target)


def _unreadable(text: str) -> str | None:
    found = re.search(r"file://(/[^\s'\"\]]+?\.parquet)", text) or re.search(r"file:(/[^\s'\"\]]+?\.parquet)", text)
    return None if found is None else unquote(found[1])
