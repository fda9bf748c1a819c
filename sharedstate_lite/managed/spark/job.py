"""The driver of operators on Spark: it starts the query, runs micro-batches, delivers what is emitted, and reads state.

    run.json       the declarations of the operators and the source, and the numbers of bins and slots
    query/         the query: Spark's checkpoint, and the inbox with the log (`spark.rounds.inbox`)
    rows/          the input files of the last epochs, as links, so that a batch can be run again
    moved/         the copies of bins that are about to move

The inbox's log has an entry for each micro-batch (`BatchLog`), from which a restart continues.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ...errors import CheckpointError, RowError, StateError
from ...spark.jobs import sink
from ...spark.rounds import home
from ...spark.rounds.inbox import RoundKind
from ...spark.rounds.input_files import waiting
from ...spark.rounds.message import BinMessage
from ...spark.rounds.query import Query
from ...spark.rounds.reader import StateReader, retained
from ...spark.session.checks import stateful, usable
from ...spark.session.paths import absolute, made
from ...storage import wire
from ...storage.batch import Delta, concat
from ...storage.encoding import NULL, Dictionary
from ...system.notes import continues
from ...system.scratch import lock_folder
from .. import bins as placement
from ..declare import Declared, EventSource, StatefulOperator
from ..events import Events, read_rows
from ..queries import At, query
from ..run import ManagedRun, chained
from ..run import restore as restored
from ..snapshot_files import check_declared, expired
from ..types import microseconds, moment
from .bin import ManagedRecipe
from .log import REMEDY, BatchLog
from .rows import sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINS = 16


class ManagedJob:
    """A chain of operators on Spark. `run` starts it, and continues it if the checkpoint exists."""

    continued = ""
    """Where the job continued: a checkpoint and its epoch, as text. Empty for a new job."""

    def __init__(
        self,
        chain: Sequence[Declared],
        source: EventSource,
        folder: Path,
        out: Path,
        location: Path,
        session: SparkSession,
        options: dict[str, Any],
        order: str | None,
        begin: ManagedRun | None,
    ) -> None:
        self.chain, self.source, self.location, self._order = list(chain), source, location, order
        self._folder, self._out = folder, out
        self._lock = lock_folder(made(location))
        try:
            self.resumed = not (new := not (location / home.FILE).exists())
            found = self._options(session, options)
            self.bins, self.slots, self._owner = found["bins"], found["slots"], found["owner"]
            sink.claim(out, self._owner, location, new)
            # The bins of an earlier start have the operators that were passed then, so no worker may use them.
            recipe = ManagedRecipe(f"{self._owner} {secrets.token_hex(6)}", self.bins, chain, source, self.slots)
            # A session of its own has its own settings. The number of partitions is that of the slots.
            self.session = session.newSession()
            for name, value in session.conf.getAll.items():
                if name.startswith("spark.sql.streaming."):
                    self.session.conf.set(name, value)
            self.session.conf.set("spark.sql.shuffle.partitions", self.slots)
            self._query = Query(self.session, made(location / "query"), recipe, len(chain), 0)
            self._query.start()
            entries = self._query.inbox.entries
            self._log = BatchLog(chain, source, location, entries, found["owners"], self.slots)
            if found["restore"] and not entries:
                self._begin(begin)
            if pending := self._query.pending():
                self._write(pending[0].epoch, pending[1])
        except BaseException:
            with contextlib.suppress(AttributeError):  # the query was not made
                self._query.close()
            os.close(self._lock)
            raise

    def _options(self, session: SparkSession, wanted: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the checkpoint. If it is new, write them first."""
        source = self.source
        mine: dict[str, Any] = {
            "source": [source.name, str(source.columns), list(source.key), source.time, source.delay, source.late],
            "folder": str(self._folder),
        }
        if found := home.known(self.location, "managed"):
            check_declared(found["operators"], self.chain)
            mine |= {name: wanted[name] for name in ("bins", "slots") if wanted[name] is not None}
            home.check_same(self.location, found, mine)
            return found
        stateful(session, "an operator with managed state")
        bins, slots = wanted["bins"], wanted["slots"]
        bins = BINS if bins is None else bins
        slots = int(str(session.conf.get("spark.sql.shuffle.partitions"))) if slots is None else slots
        placement.word_range(0, bins)  # raises unless the number is a power of 2
        if not 1 <= slots <= bins:
            raise StateError(f"slots={slots}: pass a number from 1 to that of the bins, {bins}")
        owners = placement.assign([0] * bins, wanted["workers"] or slots)
        if max(owners) >= slots:
            raise StateError(f"workers={wanted['workers']}: there are {slots} slots; pass at most this number")
        options = {**mine, "operators": [each.describe() for each in self.chain], "bins": bins, "slots": slots,
                   "owners": owners, "owner": f"m-{secrets.token_hex(6)}", "restore": wanted["restore"]}  # fmt: skip
        home.write(self.location, "managed", options)
        return options

    def _begin(self, run: ManagedRun | None) -> None:
        """Give the state of a run in one process to the bins, in a micro-batch without rows."""
        if run is None:
            raise CheckpointError(f"{self.location}: the first start was interrupted; pass the same restore= again")
        size = run.bins // self.bins
        if not size:
            raise StateError(f"bins={self.bins}: the checkpoint has {run.bins}; pass at most this number")
        blobs = ([each.store.take(range(size * bin, size * (bin + 1))) for each in run.instances[0]]
                 for bin in range(self.bins))  # fmt: skip
        about = {"epoch": run.epoch, "after": run.micros, "first": run.counts[0], "late": run.late}
        messages, about = self._log.begin(blobs, about)
        self._query.run(messages, RoundKind.MOVE, run.epoch, about)

    # --- the log ----------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of the last epoch."""
        return self._query.inbox.epoch

    @property
    def late(self) -> int:
        """The number of late rows that were dropped."""
        return int(self._log.last["late"])

    @property
    def watermark(self) -> datetime.datetime | None:
        """The watermark after the last epoch."""
        return None if self._log.last["after"] == NULL else moment(self._log.last["after"])

    @property
    def owners(self) -> list[int]:
        """The slot of each bin."""
        return list(self._log.last["owners"])

    @property
    def snapshots(self) -> list[int]:
        """The epochs whose state Spark still has."""
        kept = set(retained(self._query.checkpoint))
        return sorted({entry.epoch for entry in self._log.done if entry.number in kept and entry.epoch})

    # --- epochs -----------------------------------------------------------------

    def waiting(self) -> list[Path]:
        """Return the input files that were not processed yet, in the order of their modification times."""
        seen = {entry.about["file"] for entry in self._log.done}
        return [f for f in waiting(self._folder, seen) if f.parent == self._folder and f.suffix == ".parquet"]

    def run_available(self, clock: Any = None, moves: bool = True) -> int:
        """Process all input files that are there, and then all ``moves`` under way. Returns the number of files.

        ``clock`` is what operators read as ``self.clock``: a number or a text. Raises RowError for wrong or late rows,
        and StateError if a callback raises. The file is then not processed, and the state is as before it.
        """
        done = 0
        refusal, self._query.refusal = self._query.refusal, None
        if refusal is not None:
            raise refusal
        while files := self.waiting():
            self._batch(files[0], NULL, clock)
            done += 1
        while moves and self.moving:
            self._batch(None, NULL, None)
        return done

    def advance(self, time: datetime.datetime, clock: Any = None) -> None:
        """Process an epoch without rows that moves the watermark to ``time``. Raises StateError for an earlier time."""
        micros = microseconds(time)
        if self.source.time is None or micros < self._log.last["after"]:
            raise StateError(f"advance: {time} is before the watermark {self.watermark}, or the source has no time; "
                             "a watermark only moves forward")  # fmt: skip
        self._batch(None, micros, clock)

    def _batch(self, file: Path | None, tick: int, clock: Any) -> None:
        """Run one micro-batch: the rows of a file, or a tick, or neither, and the moves that are due."""
        messages, about = self._log.next(file, tick, clock)
        kind = RoundKind.MOVE if file is None and tick == NULL else RoundKind.EPOCH
        try:
            sent = self._query.run(messages, kind, about["epoch"], about)
        except (RowError, StateError) as error:
            if file is not None:
                error.add_note(f"in {file}: {REMEDY}")
            raise
        self._log.steps = about["steps"]
        self._write(about["epoch"], sent)
        self._log.clean()
        self._query.raise_interrupt()

    # --- what is emitted --------------------------------------------------------

    def _write(self, epoch: int, messages: list[BinMessage]) -> None:
        last, strings = self.chain[-1], Dictionary()
        if messages:
            events, _ = sorted_rows([each.blob for each in messages], last.out.fields, strings)
            sink.write(self._out, {last.name: events.to_arrow()}, epoch)

    def emitted(self) -> pd.DataFrame:
        """Return all rows that the last operator has emitted, from the files in the output folder, by epoch."""
        last, strings = self.chain[-1], Dictionary()
        files = sorted((self._out / last.name).glob("batch-*.parquet"))
        tables = [pyarrow.parquet.read_table(file) for file in files]
        table = pa.concat_tables(tables) if tables else sorted_rows([], last.out.fields, strings)[0].to_arrow()
        columns = read_rows(table, last.out, last.name, strings)
        return Events(last.out.fields, columns, np.zeros(len(table), dtype=np.int64), strings).frame()

    # --- reading ----------------------------------------------------------------

    def snapshot(self, at: int | None = None, bin: int | None = None) -> ManagedRun:
        """Return the state after epoch ``at`` (None: the last one) as a run in this process, with a worker per slot.

        Spark's state reader reads it, while the job runs on. The run can be read, checkpointed and continued. With
        ``bin``, only this bin is read. Raises TimeError if Spark no longer has the state.
        """
        if at is not None and at not in self.snapshots:
            raise expired(at, self.snapshots)
        out = ManagedRun(self.chain, self.source, self.slots, self.bins, "columns", 1, 1, self._order)
        entries = [entry for entry in self._log.done if at is None or entry.epoch == at]
        if not entries:
            return out
        about, stages = entries[-1].about, len(self.chain)
        out.epoch, out.micros, out.late, out.owners = about["epoch"], about["after"], about["late"], about["owners"]
        out.counts = [about["first"] + about["rows"], *[(out.epoch + 1) << 32] * (stages - 1)]
        reader = StateReader(self.session, self._query.checkpoint, stages, entries[-1].number)
        for stage in range(1, stages + 1):
            runs, parts = reader.runs(stage), defaultdict(list)
            if bin is not None:
                runs = runs.where(f"bin = {out.owners[bin] + self.slots * bin}")
            for number, part, _, blob in runs.collect():
                parts[number % self.slots, part].append(wire.decode(blob, out.strings))
            for (slot, part), lines in parts.items():
                delta = concat([Delta(each[:-1], each[-1]) for each in lines], len(lines[0]) - 1)
                out.instances[slot][stage - 1].store.write({part: delta}, out.epoch)
        for worker in out.instances:
            for each in worker:
                each.watermark = out.micros
                each.reindex()
        return out

    def read(self, name: str, key: Any = None, at: int | None = None) -> Any:
        """Return the state of a key as a Python value; without a key, a frame. See `ManagedRun.read`."""
        with self.snapshot(at, None if key is None else self._bin(name, key)) as found:
            return found.read(name, key)

    def _bin(self, name: str, key: Any) -> int:
        with ManagedRun(self.chain, self.source, 1, self.bins, "columns", 0, 1, self._order) as empty:
            return empty.bin_of(empty.find(name)[0], key)[0]

    def state(self, relation: str | None = None, at: int | None = None) -> pd.DataFrame:
        """Return what is stored; see `ManagedRun.state`. A slot is a worker."""
        with self.snapshot(at) as found:
            return found.state(relation)

    def contents(self, name: str, at: int | None = None) -> Events:
        """Return a state's keys and values, sorted by key; see `ManagedRun.contents`."""
        with self.snapshot(at) as found:
            return found.contents(name)

    def sql(self, text: str, at: At = None) -> pd.DataFrame:
        """Return the result of a SELECT over state; see `ManagedRun.sql`.

        ``live.NAME`` is the state after the last micro-batch. A crash does not undo it, because Spark has committed it.
        """
        return query(self, text, at)

    # --- moving -----------------------------------------------------------------

    @property
    def moving(self) -> bool:
        """Whether bins are moving, or will move in the next micro-batches."""
        return self._log.moving

    def rescale(self, workers: int, migration: str | placement.Migration = "batched") -> int:
        """Let the bins move to ``workers`` slots while the job runs, and return the number of steps.

        Each of the next micro-batches makes one step; `run_available` makes those that are left. The number of slots
        is the largest number of workers. Raises StateError if a move is under way.
        """
        return self._log.rescale(workers, migration)

    # --- the end ----------------------------------------------------------------

    def close(self) -> None:
        """Stop the query. To continue, call `run` with the same checkpoint. Closing again has no effect."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            self._query.close()
            os.close(lock)

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.chain)
        since = f", continued from {self.continued}" if self.continued else ""
        return f"ManagedJob({names}, epoch={self.epoch}, slots={self.slots}{since})"

    def __enter__(self) -> ManagedJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(
    operators: StatefulOperator | Sequence[StatefulOperator],
    source: EventSource,
    inputs: Mapping[str, str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str],
    slots: int | None = None,
    bins: int | None = None,
    workers: int | None = None,
    order: str | None = None,
    restore: str | os.PathLike[str] | None = None,
    session: SparkSession | None = None,
) -> ManagedJob:
    """Start operators on Spark, or continue them if ``checkpoint`` exists; a note then says so.

    ``inputs`` maps the name of the source to a folder of Parquet files, of which each is one epoch. ``out`` is the
    folder for what the last operator emits: ``out/Late/batch-00000001.parquet`` for epoch 1. ``bins`` (16) is a power
    of 2. ``slots`` (Spark's ``spark.sql.shuffle.partitions``) is the number of partitions, and the largest number of
    ``workers``, which own the bins at the start. ``order`` replaces the operators' own. A new job continues the run
    whose checkpoint in one process is in ``restore``. Raises StateError for task state, which has no key, and
    CheckpointError if a checkpoint belongs to other operators.
    """
    chain = chained(operators, source, order)
    for each in chain:
        for task in each.tasks:
            raise StateError(f"{each.name}.{task} is task state, but on Spark every state belongs to a key; "
                             "run this operator in one process with m.run(...)")  # fmt: skip
    if not isinstance(inputs, Mapping) or [*inputs] != [source.name]:
        raise StateError(f"inputs: pass {{{source.name!r}: folder}}, the folder of the source's Parquet files")
    folder = absolute(inputs[source.name], source.name, StateError)
    if not folder.is_dir():
        raise StateError(f"{source.name}: {folder} is not a folder; pass a folder of Parquet files")
    session = usable(session, "an operator on Spark")
    wanted = {"bins": bins, "slots": slots, "workers": workers, "restore": restore is not None}
    target = absolute(out, "out", StateError)
    location = absolute(checkpoint)
    with contextlib.ExitStack() as stack:
        begin = None
        if restore is not None and not (location / "query" / "log.jsonl").exists():
            begin = stack.enter_context(restored(absolute(restore, "restore"), operators, workers=1, store="columns"))
        job = ManagedJob(chain, source, folder, target, location, session, wanted, order, begin)
    if job.resumed:
        job.continued = continues(checkpoint, f"epoch {job.epoch}")
    return job


__all__ = ["ManagedJob", "run"]
