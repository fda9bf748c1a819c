"""The state reader: tables of what Spark's state store holds, while a query runs, after it, or after kill -9.

    state(reader)                        the pieces of state, with their rows and bytes
    state(reader, "visit[product]")      the rows of one piece, with their diff
    changes(reader, "visit[product]")    the rows that the reader's micro-batch changed, with their diff
    batches(location)                    the micro-batches: kind, epoch, and whether their state is retained

Spark retains the last 100 micro-batches (``spark.sql.streaming.minBatchesToRetain``). The change feed of Spark's own
reader would show blobs, and a merge of runs as a change; so `changes` decodes two micro-batches and subtracts them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...errors import CheckpointError, TimeError, is_integer
from ..bins import engine_spec, tables
from ..bins.route import Route
from ..query.errors import reason
from ..query.inbox import Inbox
from ..session.paths import absolute
from . import checkpoint_copy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession


class StateReader:
    """The state in one checkpoint folder of Spark's after one micro-batch (default: the last committed one).

    ``moved_from`` is the path under which the checkpoint was written, if it is another one now. ``make`` builds the
    route without rows. Raises TimeError for a micro-batch that is not retained.
    """

    def __init__(
        self,
        session: SparkSession,
        checkpoint: Path,
        make: Callable[[], Route],
        batch: int | None = None,
        moved_from: Path | None = None,
    ) -> None:
        self.session, self.checkpoint, self.make, self.route = session, checkpoint, make, make()
        self.moved_from = moved_from
        self._address = str(checkpoint)
        if moved_from is not None or checkpoint.as_uri() != f"file://{checkpoint}":
            # Spark's reader finds no committed batch if the path contains a blank.
            folder = tempfile.mkdtemp(prefix="state-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._address = str(Path(folder) / "checkpoint" / "spark")
            self._link(Path(self._address))
        self.batch = retained(checkpoint)[-1] if batch is None else _checked(checkpoint, batch)

    @property
    def kind(self) -> str:
        """full, shared or partial."""
        return self.route.engine.kind

    def heads(self) -> tables.Heads:
        """The heads of all bins."""
        out: dict[tuple[int, int], dict[str, Any]] = {}
        for stage in range(1, self.route.stages + 1) if self.batch >= 0 else ():
            for key, head in self._rows(stage, "head", "key.bin", "value.head"):
                out[stage, key] = json.loads(head)
        return out

    def blobs(self, stage: int, part: str) -> list[bytes]:
        """The runs of one piece of state, as blobs."""
        if self.batch < 0:
            return []
        from pyspark.sql import functions as f

        # A literal, because the name of a view may contain quotes.
        mine = f.col("user_map_key.part") == f.lit(part)
        return [bytes(row[0]) for row in self._rows(stage, "runs", "user_map_value.blob", where=mine)]

    def runs(self, stage: int) -> DataFrame:
        """The runs of a stage: columns bin, part, run, blob."""
        return self.variable(stage, "runs").selectExpr(
            "key.bin AS bin", "user_map_key.part AS part", "user_map_key.run AS run", "user_map_value.blob AS blob"
        )

    def metadata(self) -> list[Row]:
        """Spark's metadata of the query's stateful operators; empty before its first micro-batch."""
        if self.batch < 0:
            return []
        rows: list[Row] = self.session.read.format("state-metadata").load(self._address).collect()
        return rows

    def variable(self, stage: int, name: str) -> DataFrame:
        """One state variable of a stage, from Spark's state reader."""
        # Spark numbers the operators of a query from its end.
        return (
            self.session.read.format("statestore")
            .option("operatorId", self.route.stages - stage)
            .option("stateVarName", name)
            .option("batchId", self.batch)
            .load(self._address)
        )

    def _rows(self, stage: int, name: str, *columns: str, where: Column | bool = True) -> list[Row]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as f

        try:
            return self.variable(stage, name).where(f.lit(where)).selectExpr(*columns).collect()
        except (PySparkException, Py4JError) as error:
            why = reason(str(getattr(error, "java_exception", error)))
            raise CheckpointError(
                f"{self.checkpoint.parents[1]}: Spark cannot read the state of micro-batch {self.batch}: {why}; "
                "read another micro-batch, or another checkpoint"
            ) from error

    def _link(self, target: Path) -> None:
        """Link the checkpoint at ``target``. If it was moved, copy the files that hold paths, and correct them."""
        if self.moved_from is None:
            target.parent.mkdir(parents=True)
            os.symlink(self.checkpoint, target, target_is_directory=True)
            return
        for state in (self.checkpoint / "state").glob("[0-9]*"):
            copy = target / "state" / state.name
            shutil.copytree(state / "_metadata", copy / "_metadata", ignore=shutil.ignore_patterns(".*"))
            for each in state.iterdir():
                if each.name != "_metadata":
                    os.symlink(each, copy / each.name)
        for each in self.checkpoint.iterdir():
            if each.name not in ("state", "sources"):
                os.symlink(each, target / each.name)
        checkpoint_copy.rewrite_paths(target.parent, self.moved_from, self.session)


def retained(checkpoint: Path) -> list[int]:
    """The micro-batches whose state a checkpoint folder of Spark's retains; [-1] before the first one.

    They are those in its log of commits, which Spark trims as it trims the state.
    """
    return sorted(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()) or [-1]


def _checked(checkpoint: Path, batch: int) -> int:
    """Return ``batch``, the number of a micro-batch that is retained. Raises TimeError."""
    there, where = retained(checkpoint), checkpoint.parents[1]
    if not is_integer(batch):
        raise TimeError(f"{where}: batch={batch!r}: give a whole number; batches() lists the micro-batches")
    if batch in there and batch >= 0:
        return int(batch)
    if there == [-1]:
        raise TimeError(f"{where}: there is no micro-batch {batch}: the query has committed none yet")
    if 0 <= batch < there[0]:
        raise TimeError(
            f"{where}: micro-batch {batch} is not retained any more, {there[0]} to {there[-1]} are; to retain more, "
            "set spark.sql.streaming.minBatchesToRetain on the session before the engine starts"
        )
    raise TimeError(f"{where}: there is no micro-batch {batch}; {there[0]} to {there[-1]} are retained")


def state(reader: StateReader, operator: str | None = None) -> pd.DataFrame:
    """The table of an engine's ``state(operator)``, for full and shared state. Raises ViewError for the operator."""
    if operator is None:
        return tables.state_table(reader.route, reader.heads())
    stage, place = tables.find(reader.route, operator)
    return tables.state_rows(place, reader.blobs(stage, operator))


def changes(after: StateReader, operator: str) -> pd.DataFrame:
    """The rows that a micro-batch changed in one piece of state, with their diff. Raises ViewError and TimeError."""
    stage, place = tables.find(after.route, operator)
    if not after.batch:
        return tables.state_rows(place, after.blobs(stage, operator))
    if after.batch - 1 < retained(after.checkpoint)[0]:
        raise TimeError(
            f"{after.checkpoint.parents[1]}: the changes of micro-batch {after.batch} need the state of the one before "
            "it, which is not retained any more; state() shows the state after it"
        )
    before = StateReader(after.session, after.checkpoint, after.make, after.batch - 1, after.moved_from)
    return tables.state_rows(place, after.blobs(stage, operator), before.blobs(stage, operator))


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """See `sharedstate_lite.spark.batches`."""
    where = absolute(checkpoint)
    described = engine_spec.read(where)
    options = described["options"]
    folder = where / options["generation"]
    there = set(retained(folder / "spark"))
    if options.get("stream") and described["kind"] != "partial":
        # Such a stream has no log of its own: each micro-batch is an epoch.
        rows = [(n, "epoch", n + 1, False, n in there) for n in range(max(there) + 1)]
    else:
        entries = Inbox(folder, options["began"]).entries
        rows = [(e.number, e.kind, e.epoch, e.void, e.number in there) for e in entries]
    out = pd.DataFrame(rows, columns=["batch", "kind", "epoch", "refused", "kept"])
    return out.astype({"batch": "int64", "epoch": "int64", "refused": "bool", "kept": "bool"})


def opened(
    checkpoint: str | os.PathLike[str],
    batch: int | None,
    session: SparkSession | None,
    place: engine_spec.Placing | None = None,
) -> StateReader:
    """A reader of the state at a checkpoint. Raises CheckpointError and TimeError."""
    from ..session.checks import usable

    where = absolute(checkpoint)
    described = engine_spec.read(where)
    if session is None:
        from ..session.session import session as running

        session = running()
    usable(session, "reading a checkpoint's state")
    plan = engine_spec.parse(described, where, place)
    options = described["options"]
    folder = where / options["generation"] / "spark"
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is missing: the checkpoint is not complete; use another one")
    # A copy has another path than the engine that it is of, and so has a location that was moved by hand.
    moved_from = None if options["home"] == str(where) else Path(options["home"]) / options["generation"]
    return StateReader(session, folder, plan.route, batch, moved_from)
