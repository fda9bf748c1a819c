"""What Spark's state store holds, read by Spark's own state reader, from beside a query or after it.

    state(location)                      which pieces of state there are, rows and bytes
    state(location, "visit[product]")    the rows of one, with their diff
    state(location, ..., batch=7)        the same after micro-batch 7, while Spark keeps it
    changes(location, operator, batch)   what that micro-batch changed, as rows with a diff
    batches(location)                    which micro-batch was which epoch, and which of them are kept

Spark keeps the last micro-batches, 100 by default (``spark.sql.streaming.minBatchesToRetain``).
The change feed of Spark's reader would show blobs, and a merge of runs as a change; so
two batches are decoded and subtracted.
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
from ..bins import blueprint, tables
from ..bins.route import Route
from ..query.inbox import Inbox
from ..query.query import reason
from ..session.paths import absolute
from . import checkpoint_copy

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession


class StateReader:
    """The state below one checkpoint folder of Spark's."""

    def __init__(
        self,
        session: SparkSession,
        checkpoint: Path,
        make: Callable[[], Route],
        batch: int | None = None,
        moved: str = "",
    ) -> None:
        self.session, self.checkpoint, self.make, self.moved, self.route = session, checkpoint, make, moved, make()
        self._address = str(checkpoint)
        if moved or checkpoint.as_uri() != f"file://{checkpoint}":
            # Spark's reader finds nothing below a folder whose name has a blank or the like in it.
            folder = tempfile.mkdtemp(prefix="state-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._address = str(Path(folder) / "checkpoint" / "spark")
            (_shown_here if moved else _linked)(checkpoint, Path(self._address), moved)
        self.batch = kept(checkpoint)[-1] if batch is None else _checked(checkpoint, batch)

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
        """The runs of one piece of state."""
        if self.batch < 0:
            return []
        from pyspark.sql import functions as f

        # A literal, not a text: a view's name may hold a quote.
        mine = f.col("user_map_key.part") == f.lit(part)
        return [bytes(row[0]) for row in self._rows(stage, "runs", "user_map_value.blob", where=mine)]

    def runs(self, stage: int) -> DataFrame:
        """The runs of a stage: bin, part, run, blob."""
        return self.variable(stage, "runs").selectExpr(
            "key.bin AS bin", "user_map_key.part AS part", "user_map_key.run AS run", "user_map_value.blob AS blob"
        )

    def metadata(self) -> list[Row]:
        """What Spark says of the query's stateful operators; nothing before its first micro-batch."""
        if self.batch < 0:
            return []
        rows: list[Row] = self.session.read.format("state-metadata").load(self._address).collect()
        return rows

    def variable(self, stage: int, name: str) -> DataFrame:
        """One state variable of a stage, as Spark's state reader gives it."""
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
            said = reason(str(getattr(error, "java_exception", error)))
            raise CheckpointError(
                f"{self.checkpoint.parents[1]}: Spark cannot read the state of micro-batch {self.batch}: {said}; "
                "try another one, or another checkpoint"
            ) from error


def _linked(checkpoint: Path, to: Path, _: str) -> None:
    to.parent.mkdir(parents=True)
    os.symlink(checkpoint, to, target_is_directory=True)


def _shown_here(checkpoint: Path, to: Path, before: str) -> None:
    """Links to what is in a checkpoint, and mended copies of the files that hold whole paths."""
    for state in (checkpoint / "state").glob("[0-9]*"):
        mine = to / "state" / state.name
        shutil.copytree(state / "_metadata", mine / "_metadata", ignore=shutil.ignore_patterns(".*"))
        for each in state.iterdir():
            if each.name != "_metadata":
                os.symlink(each, mine / each.name)
    for each in checkpoint.iterdir():
        if each.name not in ("state", "sources"):
            os.symlink(each, to / each.name)
    checkpoint_copy.move_in(to.parent, before)


def kept(checkpoint: Path) -> list[int]:
    """The micro-batches below a checkpoint folder of Spark's whose state it keeps; -1, with nothing, if there is none.

    They are those in its log of commits, which is cut as the state is.
    """
    return sorted(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()) or [-1]


def _checked(checkpoint: Path, batch: int) -> int:
    """The number of a micro-batch that is kept. Raises TimeError."""
    there, where = kept(checkpoint), checkpoint.parents[1]
    if not is_integer(batch):
        raise TimeError(f"{where}: batch={batch!r}: a micro-batch has a whole number; batches() lists them")
    if batch in there and batch >= 0:
        return int(batch)
    if there == [-1]:
        raise TimeError(f"{where}: there is no micro-batch {batch}: none is done yet")
    if 0 <= batch < there[0]:
        raise TimeError(
            f"{where}: micro-batch {batch} is not kept any more, {there[0]} to {there[-1]} are; set "
            "spark.sql.streaming.minBatchesToRetain on the session before the engine starts, to keep more"
        )
    raise TimeError(f"{where}: there is no micro-batch {batch}; {there[0]} to {there[-1]} are kept")


def state(reader: StateReader, operator: str | None = None) -> pd.DataFrame:
    """The state of an engine on Spark at ``checkpoint``, whether it runs, was closed or was killed.

    The same table as the engine's own ``state()``: without ``operator`` one row a piece of state,
    with one its rows and their diff. ``batch`` is a micro-batch that Spark still keeps
    (default: the last one that is done); :func:`batches` lists them. Raises CheckpointError for
    what is no checkpoint, ViewError for an operator and TimeError for a batch that is not there.
    """
    if operator is None:
        return tables.state_table(reader.route, reader.heads())
    stage, place = tables.find(reader.route, operator)
    return tables.state_rows(place, reader.blobs(stage, operator))


def changes(after: StateReader, operator: str) -> pd.DataFrame:
    """What a micro-batch changed in one piece of state: rows with their diff. Raises as :func:`state` does."""
    stage, place = tables.find(after.route, operator)
    if not after.batch:
        return tables.state_rows(place, after.blobs(stage, operator))
    if after.batch - 1 < kept(after.checkpoint)[0]:
        raise TimeError(
            f"{after.checkpoint.parents[1]}: what micro-batch {after.batch} changed is shown by the one before it, "
            "which is not kept any more; state() shows what was there after it"
        )
    before = StateReader(after.session, after.checkpoint, after.make, after.batch - 1, after.moved)
    return tables.state_rows(place, after.blobs(stage, operator), before.blobs(stage, operator))


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """The micro-batches of a checkpoint: batch, kind (epoch, read, ...), epoch, refused, and kept.

    ``refused`` says that it came to nothing, ``kept`` that :func:`state` can still show it.
    They are numbered anew when views are installed or dropped. Raises CheckpointError.
    """
    where, told = _told(checkpoint)
    folder = where / told["options"]["generation"]
    there = set(kept(folder / "spark"))
    if told["options"].get("stream") and told["kind"] != "partial":
        # Such a stream keeps no log of its own: each micro-batch is an epoch.
        rows = [(n, "epoch", n + 1, False, n in there) for n in range(max(there) + 1)]
    else:
        entries = Inbox(folder, told["options"]["began"]).entries
        rows = [(e.number, e.kind, e.epoch, e.void, e.number in there) for e in entries]
    out = pd.DataFrame(rows, columns=["batch", "kind", "epoch", "refused", "kept"])
    return out.astype({"batch": "int64", "epoch": "int64", "refused": "bool", "kept": "bool"})


def _told(checkpoint: str | os.PathLike[str]) -> tuple[Path, dict[str, Any]]:
    where = absolute(checkpoint)
    return where, blueprint.read(where)


def opened(
    checkpoint: str | os.PathLike[str],
    batch: int | None,
    session: SparkSession | None,
    place: blueprint.Placing | None = None,
) -> StateReader:
    """What reads the state at a checkpoint. Raises CheckpointError and TimeError."""
    from ..session.connect import living

    where, told = _told(checkpoint)
    if session is None:
        from ..session.session import session as running

        session = running()
    living(session, "reading a checkpoint's state")
    plan = blueprint.built(told, where, place)
    folder = where / told["options"]["generation"] / "spark"
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: Spark's part of the checkpoint is gone; use another checkpoint")
    # A copy, or a location that was moved and not started since: Spark has written down where it was.
    home = told["options"]["home"]
    return StateReader(
        session, folder, plan.routed, batch, "" if home == str(where) else f"{home}/{folder.parent.name}"
    )
