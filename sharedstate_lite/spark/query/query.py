"""One streaming query: from its inbox through the stages to its outbox, started, run and stopped.

Every file of the inbox is one micro-batch, and the micro-batch's number is the file's.
What comes out goes to a foreachBatch sink here in the driver, which Spark may call
twice for one batch: it writes ``out/NNNNNNNN.arrow`` under another name and renames it. Where that is there, an
earlier attempt has run every stage and written their stores, so the batch is committed as it is, and nothing runs.

A batch that fails is tried again. A kernel's refusal ends the query, and Spark would run the same batch at each restart
for ever. So its file is voided, and the query started again: then that batch is empty. What an attempt has sent out
goes first, or the stores that it wrote would be committed with it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.ipc
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException

from ... import errors
from ...errors import CheckpointError, Error
from ..bins.bin import Plan
from ..bins.messages import BinMessage
from ..session.paths import readable
from ..session.quiet import silence
from .inbox import Inbox
from .processor import MARK, WIRE, through

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

T = TypeVar("T")
CLOSED = "the query on Spark was stopped meanwhile"
KEPT = 2
TRIES = 8
"""When workers die together with what starts them, each attempt ends at another of those that were idle."""


class Query:
    """See the module. ``folder`` holds everything of it."""

    def __init__(
        self, session: SparkSession, folder: Path, plan: Plan, stages: int, labels: dict[int, int], began: int
    ) -> None:
        self.session, self.folder, self.plan, self.stages, self.labels = session, folder, plan, stages, labels
        silence()
        self.inbox = Inbox(folder, began)
        self.inbox.prepare()
        self._out = folder / "out"
        self._out.mkdir(exist_ok=True)
        self._running: StreamingQuery | None = None
        self._ends, self._closed = threading.RLock(), False
        self._here: dict[int, pa.Table] = {}
        self._interrupt: tuple[int, BaseException] | None = None
        self.refusal: Error | None = None
        """What a kernel said to the last batch that was refused when the query was started."""
        self.wanted: Callable[[], int | None] = lambda: None
        """From which micro-batch on what came out is wanted still; None if nobody wants it beyond the last ones."""

    @property
    def checkpoint(self) -> Path:
        """Spark's own folder."""
        return self.folder / "spark"

    @property
    def committed(self) -> int:
        """How many batches are done."""
        return committed(self.checkpoint)

    def start(self) -> None:
        """Start, and finish what was begun. Raises CheckpointError for an input file that is lost or altered."""
        self.inbox.check(self.committed)
        self._launch()
        # What is refused now was begun before; the one who asked for it was never told that it had happened.
        while (refusal := self._finish(asked=False)) is not None:
            self.refusal = refusal

    def run(self, messages: Iterable[BinMessage] | Path, kind: str, epoch: int) -> list[BinMessage]:
        """Run one micro-batch; returns what came out. Raises the kit's error if a kernel refuses, and goes on."""
        if self._running is None or not self._running.isActive:
            self.start()
        number = self.inbox.put(messages, kind, epoch)
        refusal = self._finish(asked=True)
        if refusal is not None:
            raise refusal
        return self.came_out(number)

    def came_out(self, number: int) -> list[BinMessage]:
        """What a batch sent to the driver."""
        table = self._here.pop(number, None)
        if table is None:
            table = _load(self._file(number))
        rows = zip(
            *(table.column(name).to_pylist() for name in ("bin", "stage", "channel", "what", "blob")), strict=True
        )
        return [BinMessage(stage, where, channel, what, blob) for where, stage, channel, what, blob in rows]

    def interrupted(self) -> None:
        """Raise what interrupted this thread when its batch was done already, now that what the batch did is known."""
        if self._interrupt is not None and self._interrupt[0] == threading.get_ident():
            (_, error), self._interrupt = self._interrupt, None
            raise error

    def progress(self) -> list[Any]:
        """What Spark tells of the last micro-batches."""
        return [] if self._running is None else list(self._running.recentProgress)

    def stop(self) -> None:
        """Stop; a second call waits for the first, and does nothing."""
        with self._ends:
            running, self._running = self._running, None
            if running is not None:
                with contextlib.suppress(Py4JError, OSError):  # where the session has ended, so has the query
                    running.stop()

    def close(self) -> None:
        """Stop for good, whoever waits for a batch in another thread: he is told, and that batch is voided."""
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
            wire = through(source.parquet(readable(self.inbox.path)), self.plan, self.stages, self.labels)
            writer = wire.writeStream.outputMode("update").option("checkpointLocation", str(self.checkpoint))
            return writer.foreachBatch(self._sink).start()
        except (Py4JError, OSError) as error:
            raise Error(f"the query on Spark cannot be started: {reason(str(error))}") from error

    def _finish(self, asked: bool) -> Error | None:
        """Wait until every file is done; returns the first refusal, once its file is voided and the query restarted.

        A batch that failed otherwise (a killed worker, say) is run again by a restarted
        query. When it has failed ``TRIES`` times the failure is raised; the file is voided
        if its caller is there to be told (``asked``), and stays for another try if not. What
        interrupts the wait for a batch that is done by then does not undo it: see :meth:`interrupted`.
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
                    said, number = refused(str(error)), self.committed
                    failed += 1
                    if said is not None:
                        self._void(number)
                        refusal = refusal or said
                    elif failed >= TRIES:
                        raise Error(f"the query on Spark failed in batch {number}: {reason(str(error))}") from error
                    self._launch()
        except BaseException as error:
            self.stop()
            number, ended = self.committed, isinstance(error, Py4JError | OSError)
            if asked and number == wanted:
                self._interrupt = None if ended else (threading.get_ident(), error)
                return refusal
            if asked:
                self._void(number)
            if ended:
                raise Error(f"the Spark session has ended, or its JVM, in batch {number}") from error
            raise
        return refusal

    def _void(self, number: int) -> None:
        # No sink is at work on it any more: Spark's stop waits for one.
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
        self._here = {number: table}
        wanted = self.wanted()
        first = number - KEPT + 1 if wanted is None else min(wanted, number - KEPT + 1)
        for old in self._out.glob("[0-9]*.arrow"):
            if int(old.stem) < first:
                old.unlink()

    def _file(self, number: int) -> Path:
        return self._out / f"{number:08d}.arrow"


def committed(checkpoint: Path) -> int:
    """How many micro-batches below a checkpoint folder of Spark's are done."""
    return 1 + max((int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()), default=-1)


def tried(job: Callable[[], T], what: str) -> T:
    """What a job of Spark's gives that changes nothing else; again where it failed, as when workers were killed.

    Raises Error, which says ``what`` cannot be done, for what fails each time.
    """
    for left in reversed(range(TRIES)):
        try:
            return job()
        except (PySparkException, Py4JJavaError) as error:
            if not left:
                raise Error(f"{what}: {reason(str(error))}") from error
    raise AssertionError(TRIES)


def progressed(queries: Iterable[StreamingQuery], rows: Mapping[int, int]) -> pd.DataFrame:
    """What Spark still tells of micro-batches. ``rows``: those of input by batch, since of files Spark counts none.

    batch, rows, seconds, and seconds by what they went on.
    """
    lines: dict[int, tuple[Any, ...]] = {}
    for query in queries:
        with contextlib.suppress(Py4JError, OSError):  # the session has ended
            for p in query.recentProgress:
                told = p if isinstance(p, dict) else json.loads(p.json)
                spent = told["durationMs"]
                if "addBatch" in spent:  # else it found nothing to do
                    batch = told["batchId"]
                    lines[batch] = (batch, rows.get(batch, 0), spent["triggerExecution"] / 1e3, spent)
    return pd.DataFrame([lines[n] for n in sorted(lines)], columns=["batch", "rows", "seconds", "spent"])


def _load(file: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.BufferReader(file.read_bytes())).read_all()
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"{file}: what the batch sent is not there ({error})") from error


def refused(text: str) -> Error | None:
    """The kit's error that a worker raised, out of what Spark says about it."""
    found = re.search(re.escape(MARK) + r"([\w+/=]+)>>", text)
    if found is None:
        return None
    name, message = json.loads(base64.b64decode(found[1]))
    made: Any = getattr(errors, name, Error)
    error: Error = made(message)
    return error


def reason(text: str) -> str:
    """The line that says what happened, out of what Spark says."""
    ended = re.search(r"terminated with exception: *(\S[^\n]*)", text)
    if ended is not None and not re.search(r"SparkException|Job aborted|FOREACH_BATCH", ended[1]):
        return ended[1][:300]
    lines = [re.sub(r"^(: |Caused by: )", "", line.strip()) for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"[\w.$]*(Error|Exception)\b", line)]
    return (told or lines or ["no reason given"])[-1][:300]
