"""What Spark's state store holds, read by Spark's own state reader, from beside a query or after it.

    state(location)                      which pieces of state there are, rows and bytes
    state(location, "visit[product]")    the rows of one, with their diff
    state(location, ..., batch=7)        the same after micro-batch 7, while Spark keeps it
    changes(location, operator, batch)   what that micro-batch changed, as rows with a diff
    batches(location)                    which micro-batch was which epoch

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

from ..errors import CheckpointError, TimeError
from . import blueprint, tables
from .inbox import Inbox
from .query import committed
from .route import Route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reader:
    """The state below one checkpoint folder of Spark's."""

    def __init__(
        self, session: SparkSession, checkpoint: Path, make: Callable[[], Route], batch: int | None = None
    ) -> None:
        self.session, self.checkpoint, self.make, self.route = session, checkpoint, make, make()
        self._address = str(checkpoint)
        if checkpoint.as_uri() != f"file://{checkpoint}":
            # Spark's reader finds nothing below a folder whose name has a blank or the like in it.
            folder = tempfile.mkdtemp(prefix="state-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._address = str(Path(folder) / "checkpoint")
            os.symlink(checkpoint, self._address, target_is_directory=True)
        last = committed(checkpoint) - 1
        self.batch = last if batch is None else batch
        if not 0 <= self.batch <= last and last >= 0:
            raise TimeError(f"{checkpoint}: there is no micro-batch {batch}; 0 to {last} are done")

    def heads(self) -> tables.Heads:
        """The heads of all bins."""
        out: dict[tuple[int, int], dict[str, Any]] = {}
        for stage in range(1, self.route.stages + 1) if self.batch >= 0 else ():
            for key, head in self._variable(stage, "head").selectExpr("key.bin", "value.head").collect():
                out[stage, key] = json.loads(head)
        return out

    def blobs(self, stage: int, part: str) -> list[bytes]:
        """The runs of one piece of state."""
        if self.batch < 0:
            return []
        return [bytes(row[0]) for row in self.runs(stage).where(f"part = '{part}'").select("blob").collect()]

    def runs(self, stage: int) -> DataFrame:
        """The runs of a stage: bin, part, run, blob."""
        return self._variable(stage, "runs").selectExpr(
            "key.bin AS bin", "user_map_key.part AS part", "user_map_key.run AS run", "user_map_value.blob AS blob"
        )

    def _variable(self, stage: int, name: str) -> DataFrame:
        # Spark numbers the operators of a query from its end.
        return (
            self.session.read.format("statestore")
            .option("operatorId", self.route.stages - stage)
            .option("stateVarName", name)
            .option("batchId", self.batch)
            .load(self._address)
        )


def state(
    checkpoint: str | os.PathLike[str],
    operator: str | None = None,
    batch: int | None = None,
    session: SparkSession | None = None,
) -> pd.DataFrame:
    """The state of an engine on Spark at ``checkpoint``, whether it runs, was closed or was killed.

    The same table as the engine's own ``state()``: without ``operator`` one row a piece of state,
    with one its rows and their diff. ``batch`` is a micro-batch that Spark still keeps
    (default: the last one that is done). Raises CheckpointError, ViewError, TimeError.
    """
    reader = _reader(checkpoint, batch, session)
    if operator is None:
        return tables.state_table(reader.route, reader.heads())
    stage, place = tables.find(reader.route, operator)
    return tables.state_rows(place, reader.blobs(stage, operator))


def changes(
    checkpoint: str | os.PathLike[str], operator: str, batch: int, session: SparkSession | None = None
) -> pd.DataFrame:
    """What a micro-batch changed in one piece of state: rows with their diff. Raises as :func:`state` does."""
    after = _reader(checkpoint, batch, session)
    stage, place = tables.find(after.route, operator)
    before = Reader(after.session, after.checkpoint, after.make, batch - 1).blobs(stage, operator) if batch else []
    return tables.state_rows(place, after.blobs(stage, operator), before)


def batches(checkpoint: str | os.PathLike[str]) -> pd.DataFrame:
    """The micro-batches of a checkpoint: batch, kind (epoch, read, ...), epoch, and whether it was refused."""
    where, told = _told(checkpoint)
    entries = Inbox(where / told["options"]["generation"], told["options"]["began"]).entries
    rows = [(e.number, e.kind, e.epoch, e.void) for e in entries]
    return pd.DataFrame(rows, columns=["batch", "kind", "epoch", "refused"])


def _told(checkpoint: str | os.PathLike[str]) -> tuple[Path, dict[str, Any]]:
    where = Path(checkpoint).expanduser().absolute()
    return where, blueprint.read(where)


def _reader(checkpoint: str | os.PathLike[str], batch: int | None, session: SparkSession | None) -> Reader:
    if session is None:
        from .session import session as running

        session = running()
    where, told = _told(checkpoint)
    plan = blueprint.built(told, where)
    folder = where / told["options"]["generation"] / "spark"
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: Spark's part of the checkpoint is gone; use another checkpoint")
    return Reader(session, folder, plan.routed, batch)
