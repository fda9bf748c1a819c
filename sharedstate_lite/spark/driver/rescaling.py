"""Another number of partitions for a checkpoint whose query is stopped: its state moved, its views as they were.

Spark fixes the number of a stateful query's partitions with its first micro-batch and keeps
to it; ``spark.sql.shuffle.partitions`` on a restart is ignored without a word. What moves the
state is Spark's own ``_streamingCheckpointManager.repartition``: a micro-batch without
input, after which every group lies on the partition that its hash names. The name is
private, and there is none on Spark Connect.

It works on a copy, the next generation of the checkpoint, and the one file that names the
generation is replaced at the end. So a rescaling that fails or is killed leaves the
checkpoint as it was, and its remains go when the checkpoint is next used. For a moment
both are on the disk.
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
from ..bins import blueprint
from ..query.inbox import Inbox
from ..query.query import committed, reason
from ..session.connect import living
from ..session.paths import absolute
from ..session.session import session as running
from . import checkpoint_copy
from .store import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rescale(checkpoint: str | os.PathLike[str], partitions: int, session: SparkSession | None) -> None:
    """See :func:`sharedstate_lite.spark.rescale`."""
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise Error(f"partitions={partitions!r}: it is a whole number from 1")
    where = absolute(checkpoint)
    blueprint.read(where)
    if checkpoint_copy.is_copy(where):
        raise CheckpointError(f"{where} is a copy that stays as it is; restore it to a folder, and rescale that")
    on = running() if session is None else session
    living(on, "rescale")
    manager: Any = getattr(on, "_streamingCheckpointManager", None)
    if manager is None:
        raise Error(
            "rescale: Spark moves state between partitions only where the driver is in this process, and this session "
            "is of Spark Connect; use local[N], local-cluster or spark://host:port"
        )
    lock = lock_folder(where)
    try:
        told = blueprint.read(where)
        before = where / told["options"]["generation"]
        checkpoint_copy.clear(where, before.name)
        _at_rest(before)
        if number(before / "spark") == partitions:
            return
        after = where / f"g-{secrets.token_hex(6)}"
        try:
            shutil.copytree(before, after)
            with tempfile.TemporaryDirectory(prefix="rescale-") as folder:
                # Spark finds nothing below a folder whose name has a blank or the like in it.
                link = Path(folder).resolve() / after.name
                os.symlink(after, link, target_is_directory=True)
                checkpoint_copy.move_in(link, f"{told['options']['home']}/{before.name}")
                _repartition(manager, link / "spark", partitions)
            checkpoint_copy.move_in(after, str(link))
            if (after / "log.jsonl").exists():
                _note(after, told["options"]["began"])
            told["options"] |= {"generation": after.name, "home": str(where)}
            blueprint.put(where, told)
        except BaseException:
            shutil.rmtree(after, ignore_errors=True)
            raise
        shutil.rmtree(before, ignore_errors=True)
    finally:
        os.close(lock)


def number(spark: Path, batch: int | None = None) -> int:
    """How many partitions a checkpoint of Spark's has, as of one batch; its log of offsets says it."""
    last = committed(spark) - 1 if batch is None else batch
    told = json.loads((spark / "offsets" / str(last)).read_text().splitlines()[1])
    return int(told["conf"]["spark.sql.shuffle.partitions"])


def partitions(checkpoint: str | os.PathLike[str], batch: int | None, session: SparkSession | None) -> pd.DataFrame:
    """See :func:`sharedstate_lite.spark.partitions`."""
    where = absolute(checkpoint)
    told = blueprint.read(where)
    spark = where / told["options"]["generation"] / "spark"
    if not committed(spark):
        raise TimeError(f"{where}: no micro-batch is done there yet, so it has no partitions")
    reader = opened(where, batch, session)
    numbers = {label: n for n, label in enumerate(told["options"]["labels"])}
    rows = []
    for stage in range(1, reader.route.stages + 1):
        found = reader.variable(stage, "head").selectExpr("partition_id", "key.bin", "value.head").collect()
        for partition, label, text in found:
            head = json.loads(text)
            runs = [run for part in head["runs"].values() for run in part]
            size = (sum(run[2] for run in runs), sum(run[1] for run in runs))
            rows.append(
                (stage, numbers[label], partition, number(spark, reader.batch), *size, *head.get("by", (None, None)))
            )
    columns = ["stage", "bin", "partition", "of", "rows", "bytes", "process", "found"]
    return pd.DataFrame(sorted(rows), columns=columns)


def _at_rest(generation: Path) -> None:
    """Refuse a checkpoint with input that is not done: the next micro-batch is the rescaling."""
    spark = generation / "spark"
    done = committed(spark)
    if not done:
        raise CheckpointError(
            f"{generation.parent}: no micro-batch is done there yet; how many partitions it will have is "
            "spark.sql.shuffle.partitions of the session that runs the first"
        )
    begun = max((int(f.name) for f in (spark / "offsets").glob("[0-9]*") if f.name.isdigit()), default=-1) + 1
    if begun > done or len(Inbox(generation, 0).entries) > done:
        raise CheckpointError(
            f"{generation.parent}: micro-batch {done} was begun and is not done; run its engine or stream once more, "
            "which completes it, close it, and rescale then"
        )


def _note(generation: Path, began: int) -> None:
    """Count Spark's micro-batch as one of ours. What the last one left on its way, in partial state, still is."""
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
            f"Spark does not move the state to {partitions} partitions ({reason(str(error))}); the checkpoint is as it "
            "was"
        ) from error
