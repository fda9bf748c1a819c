"""A stream: an engine whose epochs are files, and which passes the changes of its views to a sink.

    run.json, g-.../    the files of the engine
    g-.../rows/         the input files of the last epochs, as links
    g-.../delivered     the number of the last micro-batch whose changes the sink has received
    intake/             the micro-batches of DataFrames, as files (`sources`)

A round has the next file of each source. The driver links the files, logs their names, and sends them to the bins,
which read the rows. After the round, its changes go to the sink. If the driver is killed before that, the next call of
`Stream.finish` delivers them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ...errors import Error
from ...system.notes import continues
from ..bins.channels import ROWS
from ..bins.engine_spec import EngineSpec
from ..bins.files import file_messages
from ..driver import checkpoint_copy
from ..driver.engine import SparkEngine
from ..rounds.input_files import clean, kept, waiting
from ..rounds.message import BinMessage
from ..session.checks import usable
from ..session.paths import made
from . import sink, sources
from .sink import Sink
from .sources import Intake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 0.1
"""How long an idle stream waits before it looks for new files."""
REMEDY = "remove it, or put the correct file in its place, and call finish() again"


class Stream:
    """A stream, created by :func:`sharedstate_lite.spark.stream`. It is a context manager, which stops the stream."""

    def __init__(
        self,
        spec: EngineSpec,
        inputs: Mapping[str, Any],
        target: Sink,
        session: SparkSession | None,
        checkpoint: str | os.PathLike[str],
        bins: int | None,
    ) -> None:
        self.session = usable(session, "a stream")
        empty = spec.checked_route().engine
        self._sink, found = sink.check(target), sources.checked(empty.catalog, inputs)
        named = {name: str(source) if isinstance(source, Path) else None for name, source in found.items()}
        sink.check_not_read(self._sink, empty.views, named)
        engine = self._engine = SparkEngine(spec, self.session, checkpoint, bins, sources=named)
        self._query, self.location, self.bins = engine._query, engine.location, engine.bins
        try:
            sink.claim(self._sink, engine.owner, self.location, not engine.resumed)
        except BaseException:
            engine.close()
            if not engine.resumed:
                checkpoint_copy.discard(self.location)
            raise
        self._rows, self._delivered = made(self._query.folder / "rows"), self._query.folder / "delivered"
        self._changed = threading.Condition()
        """Notified when a DataFrame's micro-batch was written to a file, and when a file was processed."""
        self._folders: dict[str, Path] = {}
        self._done: dict[str, set[str]] = {}
        """Relation -> the files that were processed, relative to its folder."""
        self._intakes: list[Intake] = []
        logged = [entry.about.get("files", {}) for entry in self._query.inbox.entries if not entry.void]
        for at, (relation, schema) in enumerate(empty.catalog.relations.items()):
            if (source := found.get(relation)) is not None:
                done = self._done[relation] = {files[relation] for files in logged if relation in files}
                if isinstance(source, Path):
                    self._folders[relation] = source
                else:
                    self._folders[relation] = folder = made(self.location / "intake" / str(at) / "rows")
                    self._intakes.append(Intake(source, schema, folder, done, self._changed))
        self._counts: dict[int, int] = {}
        """Micro-batch -> number of input rows. Spark counts messages."""
        self._shown = -1
        self.continued = continues(checkpoint, f"epoch {engine.epoch}") if engine.resumed else ""
        """Where the stream continued: a checkpoint and its epoch, as text. Empty for a new stream."""

    def finish(self, show: Callable[[str], None] | None = None, seconds: float | None = None) -> None:
        """Process all input that is available now. ``show`` is called with a line for each completed micro-batch.

        With ``seconds``, process what is available and what comes, for this time. Ctrl-C stops the stream.

        If a row is refused, raises the same error as an in-process engine. Raises Error if a file cannot be read, if
        the sink raises an exception, if a batch fails eight times, or if the stream or its session was stopped. The
        next call continues where the last one ended.
        """
        end = None if seconds is None else time.monotonic() + seconds
        try:
            self._engine._check_open()
            with self._engine._call_lock:  # `stop` waits until a round is over, or undone
                last = int(self._delivered.read_text()) if self._delivered.exists() else -1
                if pending := self._query.pending(after=last):
                    self._deliver(pending[0].number, pending[1])
            for intake in self._intakes:
                intake.start({"availableNow": True} if end is None else {"processingTime": "0 seconds"})
            more = True
            while more:
                self._engine._check_open()
                coming = [intake for intake in self._intakes if intake.running()]
                found = {relation: waiting(folder, self._done[relation]) for relation, folder in self._folders.items()}
                files = {relation: some[0] for relation, some in found.items() if some}
                if files:
                    with self._engine._call_lock:
                        self._step(files)
                    if show is not None:
                        self._show(show)
                elif coming or end is not None:
                    with self._changed:
                        self._changed.wait(LOOK_SECONDS)
                more = bool(files or coming) if end is None else time.monotonic() < end
        except KeyboardInterrupt:
            self.stop()
            raise
        finally:
            for intake in self._intakes:
                intake.stop()

    def progress(self) -> pd.DataFrame:
        """Return the last micro-batches as a table, with one row per micro-batch.

        The columns are batch, rows (of input), seconds, and spent (the milliseconds that each phase took, as a dict).
        """
        lines = {}
        for report in self._query.progress():
            spent, batch = dict(report["durationMs"]), report["batchId"]
            if "addBatch" in spent:  # without it, there was no input
                lines[batch] = (batch, self._counts.get(batch, 0), spent["triggerExecution"] / 1e3, spent)
        return pd.DataFrame([lines[n] for n in sorted(lines)], columns=["batch", "rows", "seconds", "spent"])

    @property
    def query(self) -> StreamingQuery:
        """Spark's current query. Each retry of a micro-batch starts a new one."""
        return self._query.queries[-1]

    @property
    def active(self) -> bool:
        """Whether the stream was not stopped."""
        return self._engine._open

    def stop(self) -> None:
        """Stop the stream. Calling it again is harmless. To continue, call ``stream`` with the same checkpoint.

        A call of `finish` in another thread raises an Error, and its micro-batch is undone unless it was committed.
        """
        self._engine.close()

    def __repr__(self) -> str:
        since = f", continued from {self.continued}" if self.continued else ""
        return f"<{self._engine.kind} stream, views: {', '.join(self._engine.views)}{since}>"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- a round ------------------------------------------------------------------

    def _step(self, files: Mapping[str, Path]) -> None:
        """Run the epoch of some files, one of a relation, and deliver its changes."""
        number, messages = len(self._query.inbox.entries), list[BinMessage]()
        for at, (relation, file) in enumerate(files.items()):
            try:
                here = kept(file, self._rows, f"{number:08d}-{at}.parquet")
            except FileNotFoundError:  # it was removed after it was listed
                return
            if not here.stat().st_size:
                raise Error(f"{file}: this file is empty (0 bytes); {REMEDY}")
            try:
                pyarrow.parquet.read_metadata(here)
            except (OSError, pa.ArrowException) as error:
                raise Error(f"{file}: this file cannot be read ({error}); {REMEDY}") from error
            messages += file_messages(self._engine._route, relation, self.bins, here)
        names = {relation: str(file.relative_to(self._folders[relation])) for relation, file in files.items()}
        try:
            out = self._engine._run_epoch(messages, {"files": names})
        except Error as error:
            if type(error) is not Error:  # a plain Error is not about rows
                error.add_note(f"in {', '.join(map(str, files.values()))}: {REMEDY}")
            raise
        with self._changed:
            for relation, name in names.items():
                self._done[relation].add(name)
            self._changed.notify_all()
        self._deliver(number, out)
        clean(self._rows, number - 1)
        self._query.raise_interrupt()

    def _deliver(self, number: int, out: list[BinMessage]) -> None:
        """Pass the changes of a micro-batch to the sink. Raises Error if the sink raises an exception."""
        self._counts[number] = sum(int(message.blob) for message in out if message.channel == ROWS)
        changes = {name: self._engine._changes(name, out) for name in self._engine.views}
        try:
            sink.deliver(self._sink, self._engine.owner, changes, number)
        except Exception as error:
            raise Error(
                f"the sink raised {type(error).__name__}: {error}; fix the sink, and call finish() again, or start the "
                "stream again with the same checkpoint. The sink then receives this batch again"
            ) from error
        unfinished = self._delivered.with_name(f".{self._delivered.name}")
        unfinished.write_text(str(number))
        unfinished.replace(self._delivered)

    def _show(self, show: Callable[[str], None]) -> None:
        for batch, rows, seconds in self.progress()[["batch", "rows", "seconds"]].itertuples(index=False, name=None):
            if batch > self._shown:
                show(f"batch {batch}: {rows:,} rows in {seconds:.2f} s")
                self._shown = batch
