"""A stream of partial state: sources bring epochs, callers look up keys meanwhile, changes go to the sink.

    engine.json, g-.../    those of the engine (`engine`)
    intake/spark/          the checkpoint of the query that reads the sources

There are two queries. A query without state reads the sources, and its foreachBatch calls ``step`` of the engine, which
is the other query. So a lookup never waits for a source, and rows wait for lookups as an epoch does (`scheduler`). From
a folder the query passes on the names of files, which the driver reads; of a DataFrame it passes on the rows.

Micro-batch n of the sources is epoch n + 1. If Spark repeats a micro-batch, its epoch is complete already, perhaps in a
process that was killed. The changes of that epoch are then read from the engine's outboxes, which are retained until
Spark has committed the micro-batch. So each epoch is applied once, and a folder receives its changes once.
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
from ..bins.engine_spec import EngineSpec
from ..bins.files import local_path, read_file
from ..bins.messages import BinMessage
from ..jobs import sources
from ..jobs.job import Job
from ..jobs.sink import BatchOutput
from ..query.query import Query, committed
from .engine import PartialSparkEngine
from .messages import is_change

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .base_postgres import Postgres

INTAKE = "intake"
_ROWS = "relation STRING, path STRING, rows BINARY"


class PartialStreamEngine(PartialSparkEngine):
    """The engine of a stream. It retains the changes of its last epoch until Spark has committed that micro-batch."""

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

    def _made(self, options: dict[str, Any], plan: EngineSpec, route: Any) -> Query:
        query = super()._made(options, plan, route)

        def wanted() -> int | None:
            last = next((e for e in reversed(query.inbox.entries) if e.kind == "epoch" and not e.void), None)
            return last.number if last is not None and last.epoch > committed(self._job._spark) else None

        query.keep_from = wanted
        return query

    def _check_open(self) -> None:
        if not self._open:
            why = "it was stopped" if self._job._stopped else "finish() says why"
            raise Error(self._job._ended(why))
        super()._check_open()

    def last(self) -> dict[str, Changes]:
        """The changes of the last epoch, as ``step`` returned them, or would have if its caller had not been killed."""
        first = self._query.keep_from()
        assert first is not None, f"epoch {self.epoch} is in the log of {self._job._spark}"
        entries = [e for e in self._query.inbox.entries[first:] if e.kind != "rescale" and not e.void]
        out: list[BinMessage] = [m for e in entries for m in self._query.output(e.number) if is_change(m)]
        return {name: self._view_changes(view, out, self.epoch) for name, view in self.views.items()}


class PartialJob(Job):
    """See the module and `spark.jobs.job.Job`; `sharedstate_lite.spark.stream` creates it. A context manager."""

    def __init__(self, base: Mapping[str, Postgres] | None, *given: Any) -> None:
        self._base = base
        self._engine: PartialStreamEngine | None = None
        self._refusal: Error | None = None
        super().__init__(*given)

    # --- using it ---------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The last epoch that lookups see."""
        return self._running.epoch

    def read(self, view: str, key: Any = None) -> pd.DataFrame:
        """The rows of a key of a view, which is filled if it is a hole; without a key, those of all filled keys.

        The sink receives the changes of a filled key until it is evicted.
        """
        return self._running.read(view, key)

    def lookup(self, view: str, keys: Sequence[Any]) -> pd.DataFrame:
        """The rows of several keys of a view as one frame. The keys share the rounds that fill them."""
        return self._running.lookup(view, keys)

    def evict(self, view: str, key: Any = None, n: int | None = None) -> dict[str, list[Any]]:
        """Evict one key, all, or ``n`` random ones (by ``seed``); returns {operator: [keys]}, downstream included."""
        return self._running.evict(view, key, n)

    def filled(self, operator: str) -> list[tuple[Any, ...]]:
        """The filled keys, sorted, of a view, an aggregate or a join's side."""
        return self._running.filled(operator)

    def state(self, operator: str | None = None) -> pd.DataFrame:
        """The state, base tables included; see `sharedstate_lite.engine.engine.Engine.state`."""
        return self._running.state(operator)

    @property
    def _running(self) -> PartialStreamEngine:
        assert self._engine is not None
        return self._engine

    # --- what it is made from -----------------------------------------------------

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

    def _schema(self, relation: str) -> Any:
        return known(self._empty_engine.catalog, relation)[1]

    # --- what comes out -------------------------------------------------------------

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
                f"{self.location}: its sources are at batch {number}, its state is at epoch {self._running.epoch}: "
                "they are not of one checkpoint; use another one"
            )
            raise self._unread
        try:
            undone, self._running._undone = self._running._undone, None
            if undone is not None:
                raise undone
            return self._running.step(given)
        except Error as error:
            # A plain Error comes from Spark, not from the rows: the next attempt may succeed.
            self._refusal = None if type(error) is Error else error
            raise
        except BaseException as error:
            # Spark waits without end for a foreachBatch that raises no Exception, such as KeyboardInterrupt.
            raise Error(f"epoch {number + 1} was interrupted") from error

    def _refused(self, text: str) -> Error | None:
        return self._refusal


def _rows(source: DataFrame, relation: str, names: Sequence[str]) -> DataFrame:
    """What :func:`..jobs.sources.frame` gave, as rows for the driver: a file's path, or rows as an Arrow stream."""
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
