"""A stream with partial state: it applies epochs from its sources, answers lookups, and sends changes to its sink.

    run.json, g-.../       the files of the engine (`engine`)
    intake/spark/          the checkpoint of the query that reads the sources

There are two queries. A query without state reads the sources, and its foreachBatch function calls ``step`` of the
engine, which runs the other query. A lookup therefore does not wait for a source, and an epoch from a source waits for
lookups only as any other epoch does (`scheduler`). For a folder, the first query passes on only the names of files, and
the driver reads the files. For a DataFrame, it passes on the rows.

Micro-batch n of the sources is epoch n + 1. If Spark repeats a micro-batch, its epoch may already be complete, possibly
in a process that was killed. The changes of that epoch are then read from the engine's outboxes, which are retained
until Spark has committed the micro-batch. Each epoch is therefore applied only once, and the changes of an epoch are
written to a folder only once.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from ...changelog.changes import Changes
from ...changelog.validate import relation as known
from ...errors import CheckpointError, Error
from ...plan.view import View
from ..bins.engine_spec import EngineSpec
from ..bins.files import local_path, read_file
from ..jobs import sources
from ..jobs.job import Job
from ..jobs.sink import BatchOutput
from ..rounds.inbox import RoundKind
from ..rounds.message import BinMessage
from ..rounds.query import Query, committed
from .engine import PartialSparkEngine
from .messages import is_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .base_postgres import Postgres

INTAKE = "intake"
_ROWS = "relation STRING, path STRING, rows BINARY"


class PartialStreamEngine(PartialSparkEngine):
    """The engine of a stream. It retains the changes of the last epoch until Spark has committed its micro-batch."""

    _streams = True

    def __init__(self, job: PartialJob, bins: int | None, sources: dict[str, str | None], base: Any) -> None:
        self._job, self._sources = job, sources
        super().__init__(job._spec, job.session, job.location, bins, base=base)

    def _options(self, bins: int | None) -> dict[str, Any]:
        options = super()._options(bins)
        sources.check_same(options["sources"], self._sources, self.location)
        self._job._new = self._new
        self._job._claim_sink(options)
        return options

    def _generation(self) -> dict[str, Any]:
        owner = secrets.token_hex(6)
        return super()._generation() | {"stream": True, "sources": self._sources, "owner": owner}

    def _made(self, options: dict[str, Any], spec: EngineSpec, route: Any) -> Query:
        query = super()._made(options, spec, route)

        def wanted() -> int | None:
            last = next((e for e in reversed(query.inbox.entries) if e.kind is RoundKind.EPOCH and not e.void), None)
            return last.number if last is not None and last.epoch > committed(self._job._spark) else None

        query.keep_from = wanted
        return query

    def _check_open(self) -> None:
        if not self._open:
            why = "it was stopped" if self._job._stopped else "call finish() to see why"
            raise Error(self._job._ended(why))
        super()._check_open()

    def last(self) -> dict[str, Changes]:
        """Return the changes of the last epoch. ``step`` returned the same unless its process was killed first."""
        first = self._query.keep_from()
        assert first is not None, f"the micro-batch of epoch {self.epoch} is committed in {self._job._spark}"
        entries = [e for e in self._query.inbox.entries[first:] if e.kind is not RoundKind.RESCALE and not e.void]
        out: list[BinMessage] = [m for e in entries for m in self._query.output(e.number) if is_change(m)]
        return {name: self._view_changes(view, out, self.epoch) for name, view in self.views.items()}


class PartialJob(Job):
    """A stream with partial state, created by `sharedstate_lite.spark.stream`; see the module's docstring and `Job`.

    A context manager, which stops the stream.
    """

    def __init__(self, base: Mapping[str, Postgres] | None, *given: Any) -> None:
        self._base = base
        self._engine: PartialStreamEngine | None = None
        self._refusal: Error | None = None
        super().__init__(*given)

    # --- using it ---------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The last complete epoch, which lookups read."""
        return self._running.epoch

    def read(self, view: str | View, key: Any = None) -> pd.DataFrame:
        """Return the rows of one key of a view, after filling the key if it is a hole.

        Without a key, return the rows of all filled keys. The sink receives the changes of a key while it is filled.
        """
        return self._running.read(view, key)

    def lookup(self, view: str | View, keys: Sequence[Any]) -> pd.DataFrame:
        """Return the rows of several keys of a view as one frame. All holes are filled in the same rounds."""
        return self._running.lookup(view, keys)

    def evict(self, view: str | View, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Evict keys of a view, and return the evicted keys by operator; see `PartialDriver.evict`."""
        return self._running.evict(view, key, n)

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """Return the filled keys of a view, an aggregate or one side of a join, sorted. Raises ViewError."""
        return self._running.filled(operator)

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """Return the state, including base tables; see `sharedstate_lite.engine.engine.Engine.state`."""
        return self._running.state(operator)

    @property
    def _running(self) -> PartialStreamEngine:
        assert self._engine is not None
        return self._engine

    # --- sources ------------------------------------------------------------------

    def _settle(self, bins: int | None, sources: dict[str, str | None]) -> None:
        self._name = INTAKE
        self._engine = PartialStreamEngine(self, bins, sources, self._base)
        self.bins = self._engine.bins

    def _forget(self) -> None:
        self._release()
        shutil.rmtree(self.location / INTAKE, ignore_errors=True)
        super()._forget()

    def _release(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _build(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        wires = [_rows(frame, r, [c.name for c in self._schema(r)]) for r, frame in frames.items()]
        stream = wires[0]
        for other in wires[1:]:
            stream = stream.union(other)
        return stream

    def _epochs(self) -> int:
        return self.epoch

    def _schema(self, relation: str) -> Any:
        return known(self._empty_engine.catalog, relation)[1]

    # --- epochs ---------------------------------------------------------------------

    def _batch_output(self, rows: pa.Table, number: int) -> BatchOutput:
        self._refusal = None
        parts: dict[str, list[pa.Table]] = {}
        opened: set[Path] = set()
        for relation, path, blob in zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True):
            if path is None:
                parts.setdefault(relation, []).append(pa.ipc.open_stream(blob).read_all())
            else:
                opened.add(local_path(path))
                parts.setdefault(relation, []).append(read_file(local_path(path), self._schema(relation)))
        given = {relation: pa.concat_tables(some, promote_options="permissive") for relation, some in parts.items()}
        return BatchOutput(opened, sum(len(some) for some in given.values()), lambda: self._step(given, number))

    def _step(self, given: Mapping[str, pa.Table], number: int) -> dict[str, Changes]:
        if self._running.epoch == number + 1:
            return self._running.last()
        if self._running.epoch != number:
            self._unread = CheckpointError(
                f"{self.location}: the checkpoint is inconsistent: its sources are at batch {number}, but its state "
                f"is at epoch {self._running.epoch}; use another checkpoint"
            )
            raise self._unread
        try:
            undone, self._running._undone = self._running._undone, None
            if undone is not None:
                raise undone
            return self._running.step(given)
        except Error as error:
            # A plain Error comes from Spark, not from the rows, so the next attempt may succeed.
            self._refusal = None if type(error) is Error else error
            raise
        except BaseException as error:
            # If a foreachBatch function raises a BaseException such as KeyboardInterrupt, Spark waits for it forever.
            raise Error(f"epoch {number + 1} was interrupted") from error

    def _refused(self, text: str) -> Error | None:
        return self._refusal


def _rows(source: DataFrame, relation: str, names: Sequence[str]) -> DataFrame:
    """Convert the output of :func:`..jobs.sources.frame` into rows for the driver.

    Each row contains either the path of a file, or rows of the relation as an Arrow stream.
    """
    from pyspark.sql import functions as f

    if len(source.columns) == 1:
        return source.select(f.lit(relation).alias("relation"), "path", f.lit(None).cast("binary").alias("rows"))
    named = [*names, "diff"]

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns(named)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            blob = sink.getvalue().to_pybytes()
            columns = {"relation": (relation, pa.string()), "path": (None, pa.string()), "rows": (blob, pa.binary())}
            yield pa.RecordBatch.from_pydict({name: pa.array([value], of) for name, (value, of) in columns.items()})

    return source.mapInArrow(packed, _ROWS)
