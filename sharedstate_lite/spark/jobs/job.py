"""Views over streams that Spark reads itself: folders of Parquet, or streaming DataFrames, to a sink.

The same stages, bins and blobs as an engine's, without a driver that steps: each
micro-batch is one epoch. What comes in is told in :mod:`.sources`, what goes out in
:mod:`.sink`. A row that cannot be ends the job with the in-process error, and so does a
retraction of what is not there.

A thread watches the query. A micro-batch that fails for a reason outside the rows, as when
a worker is killed, is tried again, up to eight times in all. What would fail each time, a row
that is refused, a file that Spark cannot read, a sink that raises, ends the job, and
``finish`` says why.
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
from ...system.scratch import lock_folder
from ..bins import blueprint
from ..bins.bin import Plan
from ..bins.blueprint import Blueprint
from ..driver import checkpoint_copy
from ..driver.engine import BINS, checked_bins
from ..query.processor import through
from ..query.query import TRIES, committed, progressed, refused
from ..session.checks import stateful, usable
from ..session.paths import absolute, made
from ..session.quiet import silence
from . import failures
from . import sink as outlet
from . import sources as feed
from .sink import Came, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 0.25


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
        usable(session, "a stream")
        silence()
        self._plan, self._route = plan, plan.checked()
        self.location, self._sink = absolute(checkpoint), outlet.checked(sink)
        self.session, bins = session, checked_bins(bins)
        self._queries: list[StreamingQuery] = []
        self._turn, self._over = threading.RLock(), threading.Event()
        self._stopped, self._shown = False, -1
        self._counts: dict[int, int] = {}
        """Micro-batch -> rows of input: of a folder, Spark itself counts files only."""
        self._fault: Error | None = None
        self._missed: CheckpointError | feed.Unopened | None = None
        self._raised: BaseException | None = None
        """What the last micro-batch came to in the driver: a file that was not read, or what the sink raised."""
        frames, self._new = self._frames(sources), False
        folders = {relation: folder for relation, (folder, _) in frames.items()}
        self._folders = [folder for folder in folders.values() if folder is not None]
        outlet.apart(self._sink, self._blueprint.views, folders)
        self._lock, self._name, self._owner = -1, "", ""
        try:
            self._settle(bins, folders)
            self._stream = self._through({relation: frame for relation, (_, frame) in frames.items()})
            self._launch()
        except BaseException:
            if self._new:
                self._forget()
            self._release()
            raise
        threading.Thread(target=self._watch, name=f"stream {self.location.name}", daemon=True).start()

    # --- using it ---------------------------------------------------------------

    def finish(self, show: Callable[[str], None] | None = None, seconds: float | None = None) -> None:
        """Run until all input that is there has been taken; ``show`` gets a line for each micro-batch as it is done.

        ``seconds`` bounds the wait, for sources that never end; the job goes on. Ctrl-C stops the job. Raises the kit's
        error for a row that is refused, and Error for a file that cannot be read, naming it, for a sink that raised,
        for a batch that failed eight times, and where the job has been stopped, or its session.
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
            raise Error(self._ended("its query or its session was ended by other means than stop()"))

    def _ended(self, why: str) -> str:
        return f"{self.location}: this stream has ended: {why}; another one with the same checkpoint goes on"

    def progress(self) -> pd.DataFrame:
        """The micro-batches that Spark still tells of: batch, rows of input, seconds, seconds by what they went on."""
        with self._turn:
            queries = list(self._queries)
        return progressed(queries, self._counts)

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle on it; another one after a micro-batch was tried again."""
        return self._queries[-1]

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return not self._over.is_set()

    def stop(self) -> None:
        """Stop; another ``stream`` on the same checkpoint goes on. Harmless when repeated."""
        with self._turn:
            self._stopped = True
            with contextlib.suppress(Py4JError, OSError):  # where the session has ended, so has the query
                self.query.stop()
            self._over.set()
            self._release()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- running ------------------------------------------------------------------

    def _launch(self) -> None:
        """Start the query, where no file is lost that it would run again."""
        feed.Begun(self._spark).check(feed.excused(self.location))
        writer = self._stream.writeStream.outputMode("update").option("checkpointLocation", str(self._spark))
        try:
            self._queries = [*self._queries[1 - TRIES :], writer.foreachBatch(self._take).start()]
        except PySparkException as error:
            said = str(error).partition("\n")[0].rstrip(";")
            raise Error(f"{self.location}: Spark cannot stream this: {said}") from error

    def _watch(self) -> None:
        """Start the query again where it failed for a reason that may have gone."""
        failed: dict[int, int] = {}
        with contextlib.suppress(Py4JError, OSError):  # the session has ended, and nothing is left to watch
            while True:
                said = ""
                try:
                    self.query.awaitTermination()
                except StreamingQueryException as error:
                    said = str(error)
                with self._turn:
                    if self._stopped or not said:
                        break
                    batch = committed(self._spark)
                    failed[batch] = failed.get(batch, 0) + 1
                    self._fault = self._told(said, failed[batch] >= TRIES)
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
        """Set the event once all input has been taken, or the job is over."""
        with contextlib.suppress(Py4JError, OSError):
            while not self._over.is_set():
                query = self.query
                try:
                    query.processAllAvailable()
                except StreamingQueryException:
                    # The watching thread starts another, or gives up.
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

    # --- what it is made from -----------------------------------------------------

    @property
    def _blueprint(self) -> Any:
        return self._route.engine

    @property
    def _spark(self) -> Path:
        return self.location / self._name / "spark"

    def _settle(self, bins: int | None, sources: dict[str, str | None]) -> None:
        """Take the location, and go on with what it says of itself, or have it say so if it is new."""
        where, plan = self.location, self._plan
        self._lock = lock_folder(made(where))
        wanted = {"join": plan.join, "stream": True} | ({} if bins is None else {"bins": bins})
        if told := blueprint.found(where, self._blueprint, plan.kind, wanted, "a stream"):
            options = told["options"]
            feed.same(options.get("sources", sources), sources, where)
            checkpoint_copy.check_home(where, options)
            checkpoint_copy.remove_generations(where, options["generation"])
        else:
            stateful(self.session, "a stream")
            self._new = True
            more = {"owner": secrets.token_hex(6), "stream": True, "began": 0, "sources": sources}
            options = blueprint.fresh(where, plan.join, bins or BINS, **more)
            blueprint.write(where, self._blueprint, plan.kind, options)
        self.bins, self._labels, self._name = options["bins"], options["labels"], options["generation"]
        self._owns(options)

    def _owns(self, options: Mapping[str, Any]) -> None:
        """Take the sink's folder; an older checkpoint is known by the generation that it had then."""
        self._owner = options.get("owner", options["generation"])
        outlet.taken(self._sink, self._owner, self.location, self._new)

    def _frames(self, sources: Mapping[str, Any]) -> dict[str, tuple[str | None, DataFrame]]:
        """Relation -> its folder, if it has one, and its rows; refused here, before anything is written.

        In the catalog's order, however they were given: Spark's logs know a source by its number.
        """
        out: dict[str, tuple[str | None, DataFrame]] = {}
        if not isinstance(sources, Mapping) or not sources:
            raise RelationError("stream takes {relation: folder or streaming DataFrame}, at least one of them")
        for name, source in sources.items():
            relation, schema = known(self._blueprint.catalog, name)
            if relation in out:
                raise RelationError(f"relation {relation} is given twice; names are compared without case")
            out[relation] = feed.frame(self.session, relation, schema, source)
        return {relation: out[relation] for relation in self._blueprint.catalog.relations if relation in out}

    def _through(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        work = Plan(self._name, self.bins, self._plan.routed)
        wires = [
            feed.messages(frame, relation, known(self._blueprint.catalog, relation)[1], work, self._labels)
            for relation, frame in frames.items()
        ]
        stream = wires[0]
        for other in wires[1:]:
            stream = stream.union(other)
        numbers = {label: number for number, label in enumerate(self._labels)}
        return through(stream, work, self._route.stages, numbers).where("stage = 0")

    # --- what comes out -------------------------------------------------------------

    def _take(self, frame: DataFrame, number: int) -> None:
        self._missed = self._raised = None
        came = self._came(frame.toArrow(), number)
        try:
            # Spark has read a file that was taken away after it was listed as one without rows.
            feed.Begun(self._spark).check(feed.excused(self.location), self._folders, came.opened)
        except (CheckpointError, feed.Unopened) as error:
            self._missed = error
            raise
        self._counts[number] = came.rows
        changes = came.changes()
        try:
            outlet.give(self._sink, self._owner, changes, number)
        except BaseException as error:
            self._raised = error
            # Of what is no Exception, as SystemExit, Spark would not be told, and it would wait for ever.
            raise Error(f"{type(error).__name__}: {error}") from error

    def _came(self, rows: pa.Table, number: int) -> Came:
        views = self._blueprint.views
        return Came(feed.opened(rows), feed.counted(rows), lambda: outlet.changes(rows, views, number))

    # --- faults ---------------------------------------------------------------------

    def _refused(self, text: str) -> Error | None:
        """The kit's error that refused a row, if that was it."""
        return refused(text)

    def _told(self, text: str, last: bool) -> Error | None:
        """What ends the job; None for what may be tried again, unless it was the ``last`` time."""
        # A sink's error first: what it says may be what another stream was refused.
        error = self._refused(text) if self._raised is None else None
        if error is not None:
            return failures.refusal(error, self.location, feed.Begun(self._spark).files())
        if self._missed is not None:
            return failures.missed(self._missed, self.location, last)
        return failures.failure(text, self._raised, self.location, last)
