"""Rescaling: changing the number of partitions that store the state of a stopped query.

The first micro-batch of a stateful query fixes its number of partitions. If ``spark.sql.shuffle.partitions`` is
different at a restart, Spark silently ignores the new value. Spark's ``_streamingCheckpointManager.repartition``, a
private API of PySpark, can move the state. It runs a micro-batch without input, after which each group is on the
partition that its hash selects.

Spark works on a copy, which becomes the next generation of the checkpoint. The last step replaces the file that names
the current generation. A rescaling that fails or is killed therefore leaves the checkpoint unchanged, and the next use
of the checkpoint removes the copy. During a rescaling, the state needs twice the disk space.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ...errors import CheckpointError, Error, TimeError, is_integer
from ...system.scratch import lock_folder
from ..rounds import home
from ..rounds.errors import reason
from ..rounds.inbox import Inbox, RoundKind
from ..rounds.query import committed
from ..rounds.reader import BIN
from ..rounds.written_paths import rewrite_paths
from ..session.checks import usable
from ..session.paths import absolute
from . import checkpoint_copy
from .store import EngineReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rescale(checkpoint: str | os.PathLike[str], partitions: int, session: SparkSession | None) -> None:
    """Implement `sharedstate_lite.spark.rescale`."""
    if not (is_integer(partitions) and partitions >= 1):
        raise Error(f"partitions={partitions!r}: pass a whole number of at least 1")
    where = absolute(checkpoint)
    home.in_place(where, "views")
    on = usable(session, "rescale")
    manager: Any = on._streamingCheckpointManager
    lock = lock_folder(where)
    try:
        described = home.read(where, "views")
        options = described["options"]
        before = where / options["generation"]
        checkpoint_copy.remove_generations(where, before.name)
        _check_at_rest(before)
        if partition_count(before / "spark") == partitions:
            return
        after = where / f"g-{secrets.token_hex(6)}"
        try:
            shutil.copytree(before, after)
            with tempfile.TemporaryDirectory(prefix="rescale-") as folder:
                # Spark does not find the committed batches if the path contains a space.
                link = Path(folder).resolve() / after.name
                os.symlink(after, link, target_is_directory=True)
                rewrite_paths(link, before, on)
                _repartition(manager, link / "spark", partitions)
            rewrite_paths(after, link, on)
            # Spark has run a micro-batch. The log must give the same numbers to micro-batches.
            Inbox(after, options["began"]).skip(RoundKind.RESCALE)
            options["generation"] = after.name
            home.write(where, "views", described)
        except BaseException:
            shutil.rmtree(after, ignore_errors=True)
            raise
        shutil.rmtree(before, ignore_errors=True)
    finally:
        os.close(lock)


def partition_count(spark: Path, batch: int | None = None) -> int:
    """Return the number of partitions of a micro-batch (default: the last one), according to Spark's offset log."""
    last = committed(spark) - 1 if batch is None else batch
    metadata = json.loads((spark / "offsets" / str(last)).read_text().splitlines()[1])
    return int(metadata["conf"]["spark.sql.shuffle.partitions"])


def partitions(reader: EngineReader) -> pd.DataFrame:
    """Implement `sharedstate_lite.spark.partitions`."""
    where = reader.checkpoint.parents[1]
    if reader.batch < 0:
        raise TimeError(f"{where}: the query has not committed a micro-batch yet, so its state has no partitions")
    of, rows = partition_count(reader.checkpoint, reader.batch), []
    for stage in range(1, reader.route.stages + 1):
        found = reader.variable(stage, "head").selectExpr("partition_id", BIN, "value.head").collect()
        for partition, number, text in found:
            head = json.loads(text)
            runs = [run for part in head["runs"].values() for run in part]
            size = (sum(run[2] for run in runs), sum(run[1] for run in runs))
            rows.append((stage, number, partition, of, *size, *head["by"]))
    columns = ["stage", "bin", "partition", "of", "rows", "bytes", "process", "found"]
    return pd.DataFrame(sorted(rows), columns=columns)


def _check_at_rest(generation: Path) -> None:
    """Raise CheckpointError if no micro-batch has been committed yet, or if one has started but is not committed.

    The rescaling runs as the next micro-batch, so the previous one must be complete.
    """
    spark = generation / "spark"
    done = committed(spark)
    if not done:
        raise CheckpointError(
            f"{generation.parent}: the query has not committed a micro-batch yet. The first one sets the number of "
            "partitions to spark.sql.shuffle.partitions; change this setting of the session instead"
        )
    begun = max((int(f.name) for f in (spark / "offsets").glob("[0-9]*") if f.name.isdigit()), default=-1) + 1
    if begun > done or len(Inbox(generation, 0).entries) > done:
        raise CheckpointError(
            f"{generation.parent}: micro-batch {done} has started but is not committed; start the engine or stream "
            "to complete it, close the engine or stream, and rescale again"
        )


def _repartition(manager: Any, spark: Path, partitions: int) -> None:
    try:
        manager.repartition(str(spark), partitions)
    except (PySparkException, Py4JError) as error:
        raise CheckpointError(
            f"Spark cannot move the state to {partitions} partitions ({reason(str(error))}); the checkpoint was not "
            "changed"
        ) from error
