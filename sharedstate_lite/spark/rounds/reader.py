"""The state reader: reads the bins of a query from Spark's state store, while the query runs and after ``kill -9``.

Spark retains the state of the last 100 micro-batches (``spark.sql.streaming.minBatchesToRetain``).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointError, TimeError, is_integer, shorten
from .errors import reason
from .message import Heads
from .operator import KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

BIN = f"hash(key.{KEY})"
"""The number of a bin, in Spark SQL."""


class StateReader:
    """Reads the state of a query with ``stages`` stages as of one micro-batch (default: the last committed one).

    ``checkpoint`` is Spark's checkpoint folder. Raises TimeError if the micro-batch is not retained.
    """

    def __init__(self, session: SparkSession, checkpoint: Path, stages: int, batch: int | None = None) -> None:
        self.session, self.checkpoint, self.stages = session, checkpoint, stages
        self._address = str(checkpoint)
        if checkpoint.as_uri() != f"file://{checkpoint}":
            # Spark's reader does not find the committed batches if the path contains a space.
            folder = tempfile.mkdtemp(prefix="state-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._address = str(Path(folder) / "spark")
            os.symlink(checkpoint, self._address, target_is_directory=True)
        self.batch = retained(checkpoint)[-1] if batch is None else _checked(checkpoint, batch)

    def heads(self) -> Heads:
        """Return the decoded head of each bin."""
        out: dict[tuple[int, int], dict[str, Any]] = {}
        for stage in range(1, self.stages + 1) if self.batch >= 0 else ():
            for number, head in self._rows(stage, "head", BIN, "value.head"):
                out[stage, number] = json.loads(head)
        return out

    def blobs(self, stage: int, parts: Collection[str]) -> dict[str, list[bytes]]:
        """Return the runs of some parts of a stage's state, from all bins, read by a single Spark job."""
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
            .option("operatorId", self.stages - stage)
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


def retained(checkpoint: Path) -> list[int]:
    """Return the numbers of the micro-batches whose state Spark's checkpoint folder retains, in ascending order.

    Returns [-1] before the first micro-batch. The numbers come from Spark's commit log, which Spark trims together with
    the state.
    """
    return sorted(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*") if f.name.isdigit()) or [-1]


def _checked(checkpoint: Path, batch: int) -> int:
    """Return ``batch`` if it is the number of a retained micro-batch. Raises TimeError otherwise."""
    there = retained(checkpoint)
    if not is_integer(batch) or batch < 0 or batch not in there:
        kept = "none is yet" if there == [-1] else f"{there[0]} to {there[-1]} are"
        raise TimeError(
            f"{checkpoint.parents[1]}: micro-batch {shorten(batch)} is not retained, {kept}; to retain more, set "
            "spark.sql.streaming.minBatchesToRetain on the session before the engine starts"
        )
    return int(batch)
