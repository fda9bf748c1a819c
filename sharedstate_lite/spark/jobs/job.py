"""A streaming job, which reads folders of Parquet files or streaming DataFrames and sends changes of views to a sink.

A job has the same stages and bins as an engine on Spark, but no driver calls ``step``. Spark reads the input
(:mod:`.sources`), each micro-batch is one epoch, and its changes go to the sink (:mod:`.sink`). A wrong value, or a
retraction of a row that does not exist, ends the job with the error that an in-process engine would raise.

A thread watches the query. If a micro-batch fails for a reason other than its rows, such as a killed worker, it is
retried, with at most eight attempts in total. A refused row, a file that Spark cannot read and a sink that raises an
exception would fail at every attempt. They end the job, and ``finish`` raises the error.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException

from ...changelog.validate import relation as known
from ...errors import CheckpointError, Error, RelationError
from ...system.notes import folder_name, note
from ...system.scratch import lock_folder
from ..bins import engine_spec
from ..bins.bin import ViewRecipe
from ..bins.engine_spec import EngineSpec
from ..driver import checkpoint_copy
from ..driver.engine import BINS, checked_bins
from ..rounds.errors import TRIES, refused
from ..rounds.operator import run_stages
from ..rounds.query import committed, discard_state, progressed
from ..session.checks import stateful, usable
from ..session.paths import absolute, made
from ..session.quiet import silence
from . import failures, sink, sources
from .sink import BatchOutput, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 0.25


class Job:
    """A running stream, created by :func:`sharedstate_lite.spark.stream`. It is a context manager."""

    def __init__(
        self,
        spec: EngineSpec,
        inputs: Mapping[str, Any],
        target: Sink,
        session: SparkSession,
        checkpoint: str | os.PathLike[str],
        bins: int | None,
    ) -> None:
        usable(session, "a stream")
        silence()
        self._spec, self._route = spec, spec.checked_route()
        self.location, self._sink = absolute(checkpoint), sink.check(target)
        self.session, bins = session, checked_bins(bins)
        self._queries: list[StreamingQuery] = []
        self._turn, self._over = threading.RLock(), threading.Event()
        self._stopped, self._shown = False, -1
        self._counts: dict[int, int] = {}
        """Micro-batch -> number of input rows. The job counts them, because Spark counts only the files of a folder."""
        self._fault: Error | None = None
        self._unread: CheckpointError | sources.UnreadFile | None = None
        self._raised: BaseException | None = None
        """Failures of the last micro-batch in the driver: a file that was not read, and an exception from the sink."""
        frames, self._new = self._frames(inputs), False
        folders = {relation: folder for relation, (folder, _) in frames.items()}
        self._folders = [folder for folder in folders.values() if folder is not None]
        sink.check_not_read(self._sink, self._empty_engine.views, folders)
        self._lock, self._name, self._owner = -1, "", ""
        try:
            self._settle(bins, folders)
            self.continued = "" if self._new else f"{folder_name(checkpoint)}, epoch {self._epochs()}"
            """Where the job continued: a checkpoint and its epoch, as text. Empty for a new job."""
            self._sources = {relation: frame for relation, (_, frame) in frames.items()}
            self._launch()
        except BaseException:
            if self._new:
                self._forget()
            self._release()
            raise
        if self.continued:
            note(f"continues from {self.continued}")
        threading.Thread(target=self._watch, name=f"stream {self.location.name}", daemon=True).start()

    # --- using it ---------------------------------------------------------------

    def finish(self, show: Callable[[str], None] | None = None, seconds: float | None = None) -> None:
        """Wait until all available input is processed. ``show`` is called with a line for each completed micro-batch.

        ``seconds`` limits the wait, for a source that never ends. The job continues afterwards. Ctrl-C stops the job.

        If a row is refused, raises the same error as an in-process engine. Raises Error if a file cannot be read, if
        the sink raises an exception, if a batch fails eight times, or if the job or its session was stopped.
        """
        if self._stopped and self._fault is None:
            raise Error(self._ended("it was stopped"))
        deadline = None if seconds is None else time.monotonic() + seconds
        drained = threading.Event()
        threading.Thread(target=self._drain, args=(drained,), daemon=True).start()
        try:
            while True:
                left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - time.monotonic())
                over = drained.wait(max(left, 0.0)) or left <= 0
                if show is not None:
                    self._show(show)
                if over:
                    break
        except KeyboardInterrupt:
            self.stop()
            raise
        if self._fault is not None:
            raise self._fault
        if self._over.is_set() and not self._stopped:
            raise Error(self._ended("its query or its session was stopped by other code"))

    def _ended(self, why: str) -> str:
        return f"{self.location}: this stream has ended: {why}; start another one with the same checkpoint to continue"

    def progress(self) -> pd.DataFrame:
        """Return the last micro-batches as a table, with one row per micro-batch.

        The columns are batch, rows (of input), seconds, and spent (the milliseconds that each phase took, as a dict).
        """
        with self._turn:
            queries = list(self._queries)
        return progressed(queries, self._counts)

    @property
    def query(self) -> StreamingQuery:
        """Spark's current query. Each retry of a micro-batch starts a new one."""
        return self._queries[-1]

    @property
    def active(self) -> bool:
        """Whether the job is running."""
        return not self._over.is_set()

    def stop(self) -> None:
        """Stop the job. Calling it again is harmless.

        To continue, call ``stream`` with the same checkpoint.
        """
        with self._turn:
            self._stopped = True
            with contextlib.suppress(Py4JError, OSError):  # the session has ended, and the query with it
                self.query.stop()
            self._over.set()
            self._release()

    def __repr__(self) -> str:
        since = f", continued from {self.continued}" if self.continued else ""
        return f"<{self._spec.kind} stream, views: {', '.join(self._empty_engine.views)}{since}>"

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- running ------------------------------------------------------------------

    def _launch(self) -> None:
        """Start the query. Raises Error if a file of the pending batch is lost, or if Spark rejects the query."""
        sources.PendingBatch(self._spark).check(sources.reported_files(self.location))
        discard_state(self._spark, committed(self._spark))
        # Each start has bins with a salt of their own: a file that was not read in the last start may be read now.
        writer = self._build(self._sources).writeStream
        writer = writer.outputMode("update").option("checkpointLocation", str(self._spark))
        try:
            self._queries = [*self._queries[1 - TRIES :], writer.foreachBatch(self._take).start()]
        except PySparkException as error:
            text = str(error).partition("\n")[0].rstrip(";")
            raise Error(f"{self.location}: Spark cannot stream this: {text}") from error

    def _watch(self) -> None:
        """Restart the query after failures that may be temporary, until the job ends. Runs in its own thread."""
        failed: dict[int, int] = {}
        with contextlib.suppress(Py4JError, OSError):  # the session has ended
            while True:
                text = ""
                try:
                    self.query.awaitTermination()
                except StreamingQueryException as error:
                    text = str(error)
                with self._turn:
                    if self._stopped or not text:
                        break
                    batch = committed(self._spark)
                    failed[batch] = failed.get(batch, 0) + 1
                    self._fault = self._failure(text, failed[batch] >= TRIES)
                    if self._fault is None:
                        try:
                            self._launch()
                        except Error as error:
                            self._fault = error
                    if self._fault is not None:
                        self._release()
                        break
        with self._turn:
            self._release()
        self._over.set()

    def _drain(self, drained: threading.Event) -> None:
        """Set the event when all available input is processed or the job has ended. Runs in its own thread."""
        with contextlib.suppress(Py4JError, OSError):
            while not self._over.is_set():
                query = self.query
                try:
                    query.processAllAvailable()
                except StreamingQueryException:
                    # The thread of _watch starts another query or ends the job. Wait for that.
                    while query is self.query and not self._over.wait(LOOK_SECONDS):
                        continue
                    continue
                if query is self.query:
                    break
        drained.set()

    def _show(self, show: Callable[[str], None]) -> None:
        for batch, rows, seconds in self.progress()[["batch", "rows", "seconds"]].itertuples(index=False, name=None):
            if batch > self._shown:
                show(f"batch {batch}: {rows:,} rows in {seconds:.2f} s")
                self._shown = batch

    def _release(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _forget(self) -> None:
        checkpoint_copy.discard(self.location)

    # --- location and query -------------------------------------------------------

    @property
    def _empty_engine(self) -> Any:
        return self._route.engine

    def _epochs(self) -> int:
        """Return the number of epochs that were completed."""
        return committed(self._spark)

    @property
    def _spark(self) -> Path:
        return self.location / self._name / "spark"

    def _settle(self, bins: int | None, folders: dict[str, str | None]) -> None:
        """Lock the checkpoint's folder, and read its options, or write them if the folder is new."""
        where, spec = self.location, self._spec
        self._lock = lock_folder(made(where))
        wanted = {"stream": True} | ({} if bins is None else {"bins": bins})
        if described := engine_spec.read_matching(where, self._empty_engine, spec, wanted):
            options = described["options"]
            sources.check_same(options["sources"], folders, where)
            checkpoint_copy.remove_generations(where, options["generation"])
        else:
            stateful(self.session, "a stream")
            self._new = True
            more = {"owner": secrets.token_hex(6), "stream": True, "began": 0, "sources": folders}
            options = engine_spec.new_options(spec, bins or BINS, **more)
            engine_spec.write(where, self._empty_engine, spec.kind, options)
        self.bins, self._name = options["bins"], options["generation"]
        self._claim_sink(options)

    def _claim_sink(self, options: Mapping[str, Any]) -> None:
        """Record that the sink's folder belongs to this stream. Raises CheckpointError if it belongs to another one."""
        self._owner = options["owner"]
        sink.claim(self._sink, self._owner, self.location, self._new)

    def _frames(self, inputs: Mapping[str, Any]) -> dict[str, tuple[str | None, DataFrame]]:
        """Check the sources before anything is written, and return relation -> (folder or None, DataFrame).

        The relations are in the order of the catalog, because Spark's logs identify a source by its position.
        """
        out: dict[str, tuple[str | None, DataFrame]] = {}
        if not isinstance(inputs, Mapping) or not inputs:
            raise RelationError("sources: pass a mapping {relation: folder or streaming DataFrame} that is not empty")
        for name, source in inputs.items():
            relation, schema = known(self._empty_engine.catalog, name)
            if relation in out:
                raise RelationError(f"sources: relation {relation} appears twice; names are not case-sensitive")
            out[relation] = sources.frame(self.session, relation, schema, source)
        return {relation: out[relation] for relation in self._empty_engine.catalog.relations if relation in out}

    def _build(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        recipe = ViewRecipe(self._name, self.bins, self._spec.route)
        wires = [
            sources.messages(frame, relation, known(self._empty_engine.catalog, relation)[1], recipe)
            for relation, frame in frames.items()
        ]
        stream = wires[0]
        for other in wires[1:]:
            stream = stream.union(other)
        return run_stages(stream, recipe, self._route.stages).where("stage = 0")

    # --- output ---------------------------------------------------------------------

    def _take(self, frame: DataFrame, number: int) -> None:
        self._unread = self._raised = None
        output = self._batch_output(frame.toArrow(), number)
        try:
            # If a file was removed after Spark listed it, Spark reads it as an empty one.
            sources.PendingBatch(self._spark).check(sources.reported_files(self.location), self._folders, output.files)
        except (CheckpointError, sources.UnreadFile) as error:
            self._unread = error
            raise
        self._counts[number] = output.rows
        changes = output.changes()
        try:
            sink.deliver(self._sink, self._owner, changes, number)
        except BaseException as error:
            self._raised = error
            # If the sink raises something other than an Exception, such as SystemExit, Spark would wait forever.
            raise Error(f"{type(error).__name__}: {error}") from error

    def _batch_output(self, rows: pa.Table, number: int) -> BatchOutput:
        views = self._empty_engine.views
        files, count = sources.files_read(rows), sources.input_rows(rows)
        return BatchOutput(files, count, lambda: sink.changes(rows, views, number))

    # --- failures -------------------------------------------------------------------

    def _refused(self, text: str) -> Error | None:
        """Return the error of a row that was refused, or None for another failure."""
        return refused(text)

    def _failure(self, text: str, last: bool) -> Error | None:
        """Return the error that ends the job, or None to retry the batch. The ``last`` try always ends in an error."""
        # The sink's error takes precedence, because its text may contain a refused row of another stream.
        error = self._refused(text) if self._raised is None else None
        if error is not None:
            return failures.refusal(error, self.location, sources.PendingBatch(self._spark).files())
        if self._unread is not None:
            return failures.unread_file(self._unread, self.location, last)
        return failures.failure(text, self._raised, self.location, last)
