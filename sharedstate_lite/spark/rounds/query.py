"""One streaming query, which reads from its inbox, runs the stages and writes its output for the driver.

Each file in the inbox is one micro-batch with the same number. A foreachBatch sink in the driver receives the messages
that the last stage sends. It writes them to ``out/NNNNNNNN.arrow``, and renames the file into place. Spark may call the
sink twice for a batch. If the file already exists, an earlier attempt has run all stages and written their stores. The
sink then does nothing, and Spark commits the batch. So what a batch has sent is final once this file is there, and a
driver that runs round after round need not wait for the commit (`Query.ahead`).

The state of a batch that is not committed is deleted before the query starts. Spark keeps the first file of each
version of a store. When a batch runs again, the file of a killed attempt would remain, and differ from the state in
memory.

A batch that fails is tried again. If it failed because a kernel refused a message, Spark would run the same batch at
every restart of the query. So before the restart, the file of the batch is voided, which makes the batch empty. The
output of the failed attempt is deleted first. Otherwise, the stores that this attempt wrote would be committed with the
empty batch.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from ...errors import CheckpointError, Error
from ..session.paths import readable
from ..session.quiet import silence
from .bin import Recipe, Rounds
from .errors import TRIES, reason, refused
from .inbox import COLUMNS, Inbox, InboxEntry, RoundKind
from .message import BinMessage, Heads
from .operator import WIRE, run_stages
from .reader import StateReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CLOSED = "the query on Spark was stopped by another thread"
PARTITIONS = "spark.sql.shuffle.partitions"
NO_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings of a query. Spark plans each micro-batch anew, and generated code does not pay off for its few rows."""
LOOK_SECONDS = 0.1
"""How often a driver that waits for an output looks whether the query has ended instead."""
KEPT = 2
"""How many outputs are kept after their batches are committed. That of the last round that was not refused is, too."""


class Query(Rounds):
    """A streaming query that runs the bins of ``recipe`` in ``stages`` stages, with all its files in ``folder``.

    ``began`` is the modification time of the first input file, in seconds.
    """

    def __init__(self, session: SparkSession, folder: Path, recipe: Recipe, stages: int, began: int) -> None:
        self.session, self.folder, self.recipe, self.stages = session, folder, recipe, stages
        silence()
        self.inbox = Inbox(folder, began)
        self.inbox.prepare()
        self._out = folder / "out"
        self._out.mkdir(exist_ok=True)
        self._running: StreamingQuery | None = None
        self.queries: list[StreamingQuery] = []
        """The last queries that were started. Every failure starts another one."""
        self._ends, self._closed, self._written = threading.RLock(), False, threading.Condition()
        self._newest: dict[int, pa.Table] = {}
        self._interrupt: tuple[int, BaseException] | None = None
        self.refusal: Error | None = None
        """The error of the last batch that a kernel refused while the query was starting, or None."""
        self.ahead = False
        """Whether `run` does not wait for Spark's commit. The state reader shows the batch only after `commit`."""

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint folder."""
        return self.folder / "spark"

    @property
    def committed(self) -> int:
        """The number of committed batches."""
        return committed(self.checkpoint)

    def start(self) -> None:
        """Start the query, and finish any batches that were in progress.

        Raises CheckpointError if an input file is missing or has changed.
        """
        self.inbox.check(self.committed)
        self._launch()
        # A batch that is refused now was started by an earlier process, which never reported its epoch as complete.
        while (refusal := self._finish(waiting=False)) is not None:
            self.refusal = refusal

    def run(
        self, messages: Iterable[BinMessage] | Path, kind: RoundKind, epoch: int, about: dict[str, Any] | None = None
    ) -> list[BinMessage]:
        """See `Rounds.run`. A round is a micro-batch. If it is refused, the query can run others."""
        if self._running is None or not self._running.isActive:
            self.start()
        number = self.inbox.put(messages, kind, epoch, about)
        refusal = self._finish(waiting=True)
        if refusal is not None:
            raise refusal
        return self.output(number)

    def commit(self) -> None:
        """Wait until Spark has committed the last batch."""
        if self.committed < len(self.inbox.entries):
            if self._running is None or not self._running.isActive:
                self.start()
            self._finish(waiting=False)

    def output(self, number: int) -> list[BinMessage]:
        """Return the messages that a batch sent to the driver."""
        table = self._newest.pop(number, None)
        if table is None:
            table = _load(self._file(number))
        rows = zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True)
        return [BinMessage(stage, where, channel, what, blob) for where, stage, channel, what, blob in rows]

    def pending(self, after: int = -1) -> tuple[InboxEntry, list[BinMessage]] | None:
        """Return the last round that was not refused, and what it has sent, or None if its number is at most ``after``.

        A driver that was killed may not have used what the round has sent.
        """
        entry = self.inbox.last()
        return None if entry is None or entry.number <= after else (entry, self.output(entry.number))

    def reader(self) -> StateReader:
        """Return a reader of the state after the last committed batch."""
        return StateReader(self.session, self.checkpoint, self.stages)

    def heads(self) -> Heads:
        """See `Rounds.heads`."""
        return self.reader().heads()

    def blobs(self, stage: int, parts: Collection[str]) -> dict[str, list[bytes]]:
        """See `Rounds.blobs`."""
        return self.reader().blobs(stage, parts)

    def raise_interrupt(self) -> None:
        """See `Rounds.raise_interrupt`. Call this after the output of the batch has been used."""
        if self._interrupt is not None and self._interrupt[0] == threading.get_ident():
            (_, error), self._interrupt = self._interrupt, None
            raise error

    def progress(self) -> list[Any]:
        """Return Spark's progress reports on the last micro-batches, also if the query has failed and started again."""
        return [report for each in self.queries for report in each.recentProgress]

    def stop(self) -> None:
        """Stop the query. A second call waits until the first one is finished."""
        with self._ends:
            running, self._running = self._running, None
            if running is not None:
                with contextlib.suppress(Py4JError, OSError):  # the session has ended, and the query with it
                    running.stop()

    def close(self) -> None:
        """Stop the query permanently. A thread that waits for a batch receives an Error, and its batch is voided."""
        with self._ends:
            self._closed = True
            self.stop()

    def _launch(self) -> None:
        with self._ends:
            self.stop()
            if self._closed:
                raise Error(CLOSED)
            # If the output is there, the sink skips the batch, and the state of the attempt that wrote it is used.
            version = self.committed + self._file(self.committed).exists()
            discard_state(self.checkpoint, version)
            self._file(version).unlink(missing_ok=True)
            self.recipe.salt = secrets.token_hex(16)
            self._running = self._started()
            self.queries = [*self.queries[1 - TRIES :], self._running]

    def _started(self) -> StreamingQuery:
        try:
            source = self.session.readStream.schema(WIRE).option("maxFilesPerTrigger", 1)
            wire = run_stages(source.parquet(readable(self.inbox.path)), self.recipe, self.stages)
            writer = wire.writeStream.outputMode("update").option("checkpointLocation", str(self.checkpoint))
            # A new query keeps the number of partitions that the session has now.
            conf, before = self.session.conf, str(self.session.conf.get(PARTITIONS))
            conf.set(PARTITIONS, partitions(self.session, self.recipe.numbers))
            try:
                running = writer.foreachBatch(self._sink).start()
            finally:
                conf.set(PARTITIONS, before)
            for name, value in NO_CODE.items():  # the query has a session of its own
                running._jsq.streamingQuery().sparkSessionForStream().conf().set(name, value)
            return running
        except (Py4JError, OSError) as error:
            raise Error(f"the query on Spark did not start: {reason(str(error))}") from error

    def _finish(self, waiting: bool) -> Error | None:
        """Wait until all files are committed. Return the error of the first batch that was refused, or None.

        The file of a refused batch is voided, and the query is restarted. A batch that failed for another reason, such
        as a killed worker, runs again. After ``TRIES`` failures, the last one is raised as an Error. The file is then
        voided if a caller is ``waiting`` for the batch, and otherwise kept for another try. If an exception interrupts
        the wait but the batch is already committed, the batch is not undone: see `raise_interrupt`.
        """
        wanted, failed = len(self.inbox.entries), 0
        refusal: Error | None = None

        def over() -> bool:
            return waiting and self.ahead and self._file(wanted - 1).exists() or self.committed >= wanted

        try:
            while not over():
                try:
                    running = self._running
                    if running is None:
                        raise Error(CLOSED)
                    self._wait(running, over)
                except StreamingQueryException as error:
                    refusal_of_batch, number = refused(str(error)), self.committed
                    failed += 1
                    if refusal_of_batch is not None:
                        self._void(number)
                        refusal = refusal or refusal_of_batch
                    elif failed >= TRIES:
                        why = reason(str(error))
                        raise Error(f"the query on Spark failed {TRIES} times in batch {number}: {why}") from error
                    self._launch()
        except BaseException as error:
            self.stop()
            ended = isinstance(error, Py4JError | OSError)
            if waiting and over():
                self._interrupt = None if ended else (threading.get_ident(), error)
                return refusal
            if waiting:
                self._void(wanted - 1)
            if ended:
                raise Error(f"the Spark session has ended during batch {wanted - 1}; start another one") from error
            raise
        return refusal

    def _wait(self, running: StreamingQuery, over: Callable[[], bool]) -> None:
        """Wait until all files are committed, or ``over`` is true. Raises the exception that ended the query."""
        while self.ahead and running.isActive:
            with self._written:
                if self._written.wait_for(over, LOOK_SECONDS):
                    return
        running.processAllAvailable()

    def _void(self, number: int) -> None:
        # The sink is not writing this file now, because stopping the query has waited for the sink.
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
        self._newest = {number: table}
        with self._written:
            unfinished.replace(file)
            self._written.notify_all()
        last = self.inbox.last(before=number)
        first = min(number - KEPT + 1, number if last is None else last.number)
        for old in self._out.glob("[0-9]*.arrow"):
            if int(old.stem) < first:
                old.unlink()

    def _file(self, number: int) -> Path:
        return self._out / f"{number:08d}.arrow"


def partitions(session: SparkSession, bins: int) -> int:
    """Return how many partitions a new query has: as many as a shuffle of the session, but none without a bin."""
    return min(int(str(session.conf.get(PARTITIONS))), bins)


def committed(checkpoint: Path) -> int:
    """Return the number of committed micro-batches in Spark's checkpoint folder."""
    return 1 + max((int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()), default=-1)


def discard_state(checkpoint: Path, version: int) -> None:
    """Delete the files of the state stores that are later than ``version``, the number of batches that they include."""
    for file in (checkpoint / "state").glob("*/*/**/*"):
        found = re.match(r"\.?(\d+)[._]", file.name)
        if found is not None and int(found[1]) > version and not {"_metadata", "_stateSchema"} & {*file.parts}:
            if file.parent.name != "SSTs" and file.is_file():
                file.unlink(missing_ok=True)


def _load(file: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.BufferReader(file.read_bytes())).read_all()
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"{file}: the batch's output cannot be read ({error}); use another checkpoint") from error
