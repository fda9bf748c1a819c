"""One streaming query, from its inbox through the stages to its output: start, run a micro-batch, stop.

Each file of the inbox is one micro-batch, with the file's number. A foreachBatch sink in the driver receives the
messages that leave the last stage, and writes them to ``out/NNNNNNNN.arrow`` by a rename. Spark may call the sink twice
for a batch. If the file is there, an earlier attempt has run all stages and written their stores, so the sink does
nothing, and Spark commits the batch.

A batch that fails is tried again. If a kernel refused a message, the query has ended, and Spark would run the same
batch at every restart. So the file of that batch is voided and the query restarted: the batch is then empty. Output of
the failed attempt is removed first; otherwise the stores that it wrote would be committed with the empty batch.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from ...errors import CheckpointError, Error
from ..bins.bin import BinFactory
from ..bins.messages import BinMessage
from ..session.paths import readable
from ..session.quiet import silence
from .errors import TRIES, reason, refused
from .inbox import Inbox
from .processor import WIRE, run_stages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CLOSED = "the query on Spark was stopped by another thread"
KEPT = 2
"""Outputs that stay after their batch is committed."""


class Query:
    """See the module. All of its files are in ``folder``."""

    def __init__(
        self, session: SparkSession, folder: Path, plan: BinFactory, stages: int, bin_of_key: dict[int, int], began: int
    ) -> None:
        self.session, self.folder, self.plan, self.stages, self.bin_of_key = session, folder, plan, stages, bin_of_key
        silence()
        self.inbox = Inbox(folder, began)
        self.inbox.prepare()
        self._out = folder / "out"
        self._out.mkdir(exist_ok=True)
        self._running: StreamingQuery | None = None
        self._ends, self._closed = threading.RLock(), False
        self._newest: dict[int, pa.Table] = {}
        self._interrupt: tuple[int, BaseException] | None = None
        self.refusal: Error | None = None
        """The error of the last batch that a kernel refused while the query was starting."""
        self.keep_from: Callable[[], int | None] = lambda: None
        """The first micro-batch whose output must stay; None to keep only the last ones."""

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint folder."""
        return self.folder / "spark"

    @property
    def committed(self) -> int:
        """The number of committed batches."""
        return committed(self.checkpoint)

    def start(self) -> None:
        """Start, and complete batches in progress. Raises CheckpointError for a lost or changed input file."""
        self.inbox.check(self.committed)
        self._launch()
        # A batch that is refused now was begun by an earlier process, which never reported its epoch as done.
        while (refusal := self._finish(waiting=False)) is not None:
            self.refusal = refusal

    def run(self, messages: Iterable[BinMessage] | Path, kind: str, epoch: int) -> list[BinMessage]:
        """Run one micro-batch; returns its output. Raises the kernel's error if it is refused; later calls work."""
        if self._running is None or not self._running.isActive:
            self.start()
        number = self.inbox.put(messages, kind, epoch)
        refusal = self._finish(waiting=True)
        if refusal is not None:
            raise refusal
        return self.output(number)

    def output(self, number: int) -> list[BinMessage]:
        """The messages that a batch sent to the driver."""
        table = self._newest.pop(number, None)
        if table is None:
            table = _load(self._file(number))
        rows = zip(
            *(table.column(name).to_pylist() for name in ("bin", "stage", "channel", "what", "blob")), strict=True
        )
        return [BinMessage(stage, where, channel, what, blob) for where, stage, channel, what, blob in rows]

    def raise_interrupt(self) -> None:
        """Raise the exception that interrupted this thread after its batch was committed, once its output was read."""
        if self._interrupt is not None and self._interrupt[0] == threading.get_ident():
            (_, error), self._interrupt = self._interrupt, None
            raise error

    def progress(self) -> list[Any]:
        """Spark's progress reports of the last micro-batches."""
        return [] if self._running is None else list(self._running.recentProgress)

    def stop(self) -> None:
        """Stop. A second call waits for the first one."""
        with self._ends:
            running, self._running = self._running, None
            if running is not None:
                with contextlib.suppress(Py4JError, OSError):  # the session, and so the query, has ended
                    running.stop()

    def close(self) -> None:
        """Stop for good. A thread that waits for a batch gets an Error, and that batch is voided."""
        with self._ends:
            self._closed = True
            self.stop()

    def _launch(self) -> None:
        with self._ends:
            self.stop()
            if self._closed:
                raise Error(CLOSED)
            self._running = self._started()

    def _started(self) -> StreamingQuery:
        try:
            source = self.session.readStream.schema(WIRE).option("maxFilesPerTrigger", 1)
            wire = run_stages(source.parquet(readable(self.inbox.path)), self.plan, self.stages, self.bin_of_key)
            writer = wire.writeStream.outputMode("update").option("checkpointLocation", str(self.checkpoint))
            return writer.foreachBatch(self._sink).start()
        except (Py4JError, OSError) as error:
            raise Error(f"the query on Spark cannot start: {reason(str(error))}") from error

    def _finish(self, waiting: bool) -> Error | None:
        """Wait until all files are committed; returns the first refusal, after voiding its file and a restart.

        A batch that failed for another reason, such as a killed worker, runs again. After ``TRIES`` failures the last
        one is raised. The file is then voided if a caller is ``waiting`` for it, and otherwise stays for another try.
        An exception that interrupts the wait for a batch that is already committed does not undo the batch: see
        `raise_interrupt`.
        """
        wanted, failed = len(self.inbox.entries), 0
        refusal: Error | None = None
        try:
            while self.committed < wanted:
                try:
                    running = self._running
                    if running is None:
                        raise Error(CLOSED)
                    running.processAllAvailable()
                except StreamingQueryException as error:
                    refusal_of_batch, number = refused(str(error)), self.committed
                    failed += 1
                    if refusal_of_batch is not None:
                        self._void(number)
                        refusal = refusal or refusal_of_batch
                    elif failed >= TRIES:
                        raise Error(f"the query on Spark failed in batch {number}: {reason(str(error))}") from error
                    self._launch()
        except BaseException as error:
            self.stop()
            number, ended = self.committed, isinstance(error, Py4JError | OSError)
            if waiting and number == wanted:
                self._interrupt = None if ended else (threading.get_ident(), error)
                return refusal
            if waiting:
                self._void(number)
            if ended:
                raise Error(f"the Spark session has ended, or its JVM, in batch {number}") from error
            raise
        return refusal

    def _void(self, number: int) -> None:
        # No sink is writing this file: stopping the query waits for the sink.
        self._file(number).unlink(missing_ok=True)
        self.inbox.void(number)

    def _sink(self, frame: DataFrame, number: int) -> None:
        file = self._file(number)
        if file.exists():
            return
        table = frame.toArrow()
        unfinished = file.with_name(f".{file.name}")
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        unfinished.replace(file)
        self._newest = {number: table}
        keep = self.keep_from()
        first = number - KEPT + 1 if keep is None else min(keep, number - KEPT + 1)
        for old in self._out.glob("[0-9]*.arrow"):
            if int(old.stem) < first:
                old.unlink()

    def _file(self, number: int) -> Path:
        return self._out / f"{number:08d}.arrow"


def committed(checkpoint: Path) -> int:
    """The number of committed micro-batches in Spark's checkpoint folder."""
    return 1 + max((int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()), default=-1)


def progressed(queries: Iterable[StreamingQuery], rows: Mapping[int, int]) -> pd.DataFrame:
    """The micro-batches in Spark's progress reports: batch, rows, seconds, and ``spent``, milliseconds by part.

    ``rows`` are the input rows by batch, because Spark counts files only.
    """
    lines: dict[int, tuple[Any, ...]] = {}
    for query in queries:
        with contextlib.suppress(Py4JError, OSError):  # the session has ended
            for p in query.recentProgress:
                report = p if isinstance(p, dict) else json.loads(p.json)
                spent = report["durationMs"]
                if "addBatch" in spent:  # otherwise there was no input
                    batch = report["batchId"]
                    lines[batch] = (batch, rows.get(batch, 0), spent["triggerExecution"] / 1e3, spent)
    return pd.DataFrame([lines[n] for n in sorted(lines)], columns=["batch", "rows", "seconds", "spent"])


def _load(file: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.BufferReader(file.read_bytes())).read_all()
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"{file}: a batch's output cannot be read ({error}); use another checkpoint") from error
