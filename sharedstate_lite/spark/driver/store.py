"""The state reader: shows Spark's state store as tables, while a query runs, after it stops, and after ``kill -9``.

    state(reader)                        one row per piece of state: its rows, its bytes and its columns of the bill
    state(reader, "visit[product]")      the rows of one piece of state, with their diffs
    changes(reader, "visit[product]")    the rows that the reader's micro-batch changed, with their diffs
    batches(location)                    one row per micro-batch: its kind and epoch, and whether its state is retained

Spark retains the state of the last 100 micro-batches (``spark.sql.streaming.minBatchesToRetain``). The change feed of
Spark's own reader shows blobs, and reports a merge of runs as a change. So `changes` decodes the state after two
successive micro-batches and subtracts the earlier rows from the later ones.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...errors import CheckpointError, TimeError, is_integer
from ..bins import engine_spec, tables
from ..query.errors import reason
from ..query.inbox import Inbox
from ..query.processor import KEY
from ..session.paths import absolute
from . import checkpoint_copy

BIN = f"hash(key.{KEY})"
"""The number of a bin in Spark SQL."""

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession


class StateReader:
    """Reads the state in one of Spark's checkpoint folders as of one micro-batch (default: the last committed one).

    ``make`` builds the route, with an engine that has no rows. An object with only ``stages``, their number, is enough
    for `blobs`, `runs` and `variable`. ``moved_from`` is the path at which the checkpoint was
    written, or None if it has not moved. Raises TimeError if the micro-batch is not retained.
    """

    def __init__(
        self,
        session: SparkSession,
        checkpoint: Path,
        make: Callable[[], Any],
        batch: int | None = None,
        moved_from: Path | None = None,
    ) -> None:
        self.session, self.checkpoint, self.make, self.route = session, checkpoint, make, make()
        self.moved_from = moved_from
        self._address = str(checkpoint)
        if moved_from is not None or checkpoint.as_uri() != f"file://{checkpoint}":
            # Spark's reader does not find the committed batches if the path contains a space.
            folder = tempfile.mkdtemp(prefix="state-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._address = str(Path(folder) / "checkpoint" / "spark")
            self._link(Path(self._address))
        self.batch = retained(checkpoint)[-1] if batch is None else _checked(checkpoint, batch)

    @property
    def kind(self) -> str:
        """The strategy: ``full``, ``shared`` or ``partial``."""
        return str(self.route.engine.kind)

    def heads(self) -> tables.Heads:
        """Return the decoded head of each bin."""
        out: dict[tuple[int, int], dict[str, Any]] = {}
        for stage in range(1, self.route.stages + 1) if self.batch >= 0 else ():
            for key, head in self._rows(stage, "head", BIN, "value.head"):
                out[stage, key] = json.loads(head)
        return out

    def blobs(self, stage: int, parts: Collection[str]) -> dict[str, list[bytes]]:
        """Return the encoded runs of some pieces of a stage's state, from all bins, read by a single Spark job."""
        out: dict[str, list[bytes]] = {part: [] for part in parts}
        if self.batch >= 0:
            from pyspark.sql import functions as f

            # Use literals, because the name of a view can contain quotes.
            mine = f.col("user_map_key.part").isin([f.lit(part) for part in parts])
            for part, blob in self._rows(stage, "runs", "user_map_key.part", "user_map_value.blob", where=mine):
                out[part].append(bytes(blob))
        return out

    def runs(self, stage: int) -> DataFrame:
        """Return the runs of a stage as a DataFrame with the columns bin, part, run and blob."""
        return self.variable(stage, "runs").selectExpr(
            f"{BIN} AS bin", "user_map_key.part AS part", "user_map_key.run AS run", "user_map_value.blob AS blob"
        )

    def metadata(self) -> list[Row]:
        """Return Spark's metadata on the query's stateful operators, or an empty list before the first micro-batch."""
        if self.batch < 0:
            return []
        rows: list[Row] = self.session.read.format("state-metadata").load(self._address).collect()
        return rows

    def variable(self, stage: int, name: str) -> DataFrame:
        """Return one state variable of a stage as a DataFrame, read with Spark's ``statestore`` data source."""
        # Spark numbers the operators of a query starting from its end.
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
        """Create a symbolic link to the checkpoint at ``target``.

        If the checkpoint was moved, copy the files that contain paths, correct them, and link all other files.
        """
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
    """Return the numbers of the micro-batches whose state Spark's checkpoint folder retains, in ascending order.

    Returns [-1] before the first micro-batch. The numbers come from Spark's commit log, which Spark trims together with
    the state.
    """
    return sorted(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()) or [-1]


def _checked(checkpoint: Path, batch: int) -> int:
    """Return ``batch`` if it is the number of a retained micro-batch. Raises TimeError otherwise."""
    there, where = retained(checkpoint), checkpoint.parents[1]
    if not is_integer(batch):
        raise TimeError(f"{where}: batch={batch!r} is not a whole number; batches() lists the micro-batches")
    if batch in there and batch >= 0:
        return int(batch)
    if there == [-1]:
        raise TimeError(f"{where}: there is no micro-batch {batch}, because the query has not committed any yet")
    if 0 <= batch < there[0]:
        raise TimeError(
            f"{where}: micro-batch {batch} is no longer retained, only {there[0]} to {there[-1]} are; to retain more, "
            "set spark.sql.streaming.minBatchesToRetain on the session before the engine starts"
        )
    raise TimeError(f"{where}: there is no micro-batch {batch}; {there[0]} to {there[-1]} are retained")


def state(reader: StateReader, operator: str | None = None) -> pd.DataFrame:
    """Return the table that an engine's ``state(operator)`` returns, for full or shared state.

    Raises ViewError if the operator is unknown.
    """
    if operator is None:
        return tables.state_table(reader.route, reader.heads(), reader.blobs)
    stage, place = tables.find(reader.route, operator)
    return tables.state_rows(place, reader.blobs(stage, [operator])[operator])


def changes(after: StateReader, operator: str) -> pd.DataFrame:
    """Return the rows that the reader's micro-batch changed in one piece of state, with their diffs.

    Raises ViewError if the operator is unknown, and TimeError if the micro-batch before it is not retained.
    """
    stage, place = tables.find(after.route, operator)
    if not after.batch:
        return tables.state_rows(place, after.blobs(stage, [operator])[operator])
    if after.batch - 1 < retained(after.checkpoint)[0]:
        raise TimeError(
            f"{after.checkpoint.parents[1]}: the changes of micro-batch {after.batch} cannot be computed, because the "
            f"state after micro-batch {after.batch - 1} is no longer retained; use state() instead"
        )
    before = StateReader(after.session, after.checkpoint, after.make, after.batch - 1, after.moved_from)
    return tables.state_rows(place, *(each.blobs(stage, [operator])[operator] for each in (after, before)))


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """Implement `sharedstate_lite.spark.batches`."""
    where = absolute(checkpoint)
    described = engine_spec.read(where)
    options = described["options"]
    folder = where / options["generation"]
    there = set(retained(folder / "spark"))
    if options.get("stream") and described["kind"] != "partial":
        # Such a stream does not keep its own log, and each of its micro-batches is one epoch.
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
    """Return a reader of a checkpoint's state after one micro-batch (default: the last committed one).

    Raises CheckpointError if the checkpoint cannot be read, and TimeError if the micro-batch is not retained.
    """
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
        raise CheckpointError(f"{folder} is missing, so the checkpoint is incomplete; use another one")
    # The path is different in a copy, and in a location that was moved by hand.
    moved_from = None if options["home"] == str(where) else Path(options["home"]) / options["generation"]
    return StateReader(session, folder, plan.route, batch, moved_from)
