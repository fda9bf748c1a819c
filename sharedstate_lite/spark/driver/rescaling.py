"""Rescaling: another number of partitions for the state of a stopped query, with the same views.

Spark fixes the number of partitions of a stateful query in its first micro-batch. A different
``spark.sql.shuffle.partitions`` at a restart is silently ignored. Spark's own
``_streamingCheckpointManager.repartition`` moves the state: it runs a micro-batch without input, after which each group
is on the partition of its hash. It is a private API of PySpark.

Spark works on a copy, the next generation of the checkpoint. At the end one file that names the generation is replaced.
So a rescaling that fails or is killed leaves the checkpoint as it was, and the next use removes the copy. Meanwhile
the state is on the disk twice.
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

from ...errors import CheckpointError, Error, TimeError
from ...system.scratch import lock_folder
from ..bins import engine_spec
from ..query.errors import reason
from ..query.inbox import Inbox
from ..query.query import committed
from ..session.checks import usable
from ..session.paths import absolute
from ..session.session import session as running
from . import checkpoint_copy
from .store import StateReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rescale(checkpoint: str | os.PathLike[str], partitions: int, session: SparkSession | None) -> None:
    """See `sharedstate_lite.spark.rescale`."""
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise Error(f"partitions={partitions!r}: give a whole number from 1")
    where = absolute(checkpoint)
    engine_spec.read(where)
    if checkpoint_copy.is_copy(where):
        raise CheckpointError(
            f"{where} is a copy, which is never changed; restore it to another folder, and rescale that"
        )
    on = running() if session is None else session
    usable(on, "rescale")
    manager: Any = on._streamingCheckpointManager
    lock = lock_folder(where)
    try:
        described = engine_spec.read(where)
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
                # Spark finds no committed batch if the path contains a blank.
                link = Path(folder).resolve() / after.name
                os.symlink(after, link, target_is_directory=True)
                checkpoint_copy.rewrite_paths(link, Path(options["home"]) / before.name, on)
                _repartition(manager, link / "spark", partitions)
            checkpoint_copy.rewrite_paths(after, link, on)
            if (after / "log.jsonl").exists():
                _log_rescaling(after, options["began"])
            options |= {"generation": after.name, "home": str(where)}
            engine_spec.replace(where, described)
        except BaseException:
            shutil.rmtree(after, ignore_errors=True)
            raise
        shutil.rmtree(before, ignore_errors=True)
    finally:
        os.close(lock)


def partition_count(spark: Path, batch: int | None = None) -> int:
    """The number of partitions in one micro-batch (default: the last one), from Spark's log of offsets."""
    last = committed(spark) - 1 if batch is None else batch
    metadata = json.loads((spark / "offsets" / str(last)).read_text().splitlines()[1])
    return int(metadata["conf"]["spark.sql.shuffle.partitions"])


def partitions(reader: StateReader) -> pd.DataFrame:
    """See `sharedstate_lite.spark.partitions`."""
    where = reader.checkpoint.parents[1]
    if reader.batch < 0:
        raise TimeError(f"{where}: the query has committed no micro-batch yet, so it has no partitions")
    options = engine_spec.read(where)["options"]
    numbers = {label: n for n, label in enumerate(options["labels"])}
    of, rows = partition_count(reader.checkpoint, reader.batch), []
    for stage in range(1, reader.route.stages + 1):
        found = reader.variable(stage, "head").selectExpr("partition_id", "key.bin", "value.head").collect()
        for partition, label, text in found:
            head = json.loads(text)
            runs = [run for part in head["runs"].values() for run in part]
            size = (sum(run[2] for run in runs), sum(run[1] for run in runs))
            rows.append((stage, numbers[label], partition, of, *size, *head["by"]))
    columns = ["stage", "bin", "partition", "of", "rows", "bytes", "process", "found"]
    return pd.DataFrame(sorted(rows), columns=columns)


def _check_at_rest(generation: Path) -> None:
    """Refuse a checkpoint with unprocessed input, because the rescaling is the next micro-batch."""
    spark = generation / "spark"
    done = committed(spark)
    if not done:
        raise CheckpointError(
            f"{generation.parent}: the query has committed no micro-batch yet; the first one sets the number of "
            "partitions, to spark.sql.shuffle.partitions of its session"
        )
    begun = max((int(f.name) for f in (spark / "offsets").glob("[0-9]*") if f.name.isdigit()), default=-1) + 1
    if begun > done or len(Inbox(generation, 0).entries) > done:
        raise CheckpointError(
            f"{generation.parent}: micro-batch {done} has started and is not committed; start its engine or stream, "
            "which completes it, close it, and rescale again"
        )


def _log_rescaling(generation: Path, began: int) -> None:
    """Log Spark's micro-batch as one of the engine. In partial state, messages of the one before it are still open."""
    inbox = Inbox(generation, began)
    last = len(inbox.entries)
    inbox.skip("rescale")
    before = generation / "out" / f"{last - 1:08d}.arrow"
    if before.exists():
        shutil.copy2(before, before.with_name(f"{last:08d}.arrow"))


def _repartition(manager: Any, spark: Path, partitions: int) -> None:
    try:
        manager.repartition(str(spark), partitions)
    except (PySparkException, Py4JError) as error:
        raise CheckpointError(
            f"Spark cannot move the state to {partitions} partitions ({reason(str(error))}); nothing was changed"
        ) from error
