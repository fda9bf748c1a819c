"""Generates a shop of any size as Parquet files: Spark distributes the epochs, and `rows` computes each of them.

A task computes complete epochs and writes their files. The driver receives one row per file. All files, and then the
manifest, are written to a temporary folder next to the target. At the end, this folder is renamed to the target, so the
target is either complete or absent. If a folder is replaced, the old folder is moved aside first and removed at the
end. If a run is killed in between, the next run restores the old folder. An interrupt or a failure does not leave any
files behind. On a cluster, the target must be on a file system that all machines share.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .. import spark as kit
from ..errors import Error
from ..system.scratch import Scratch
from . import folder
from .files import checked_path
from .interrupts import late
from .rows import RELATIONS, changes
from .spec import Spec

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Row, SparkSession

TASKS = 200
"""The maximum number of tasks. More tasks take longer to start, and fewer tasks make the progress less precise."""

POLL_SECONDS = 0.5

_GROUP = "data.make"

_LINE = "epoch BIGINT, relation STRING, rows BIGINT, retractions BIGINT, checksum STRING"


def make(
    out: str | os.PathLike[str],
    *,
    session: SparkSession | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> dict[str, Any]:
    """Write the shop with these parameters (see `Spec`) to the folder ``out``. Returns its manifest.

    The rows are the same as those of `generate`, in any session. With ``overwrite``, a folder that an earlier call has
    written is replaced. ``progress(done, total)`` is called twice per second with the number of finished tasks and the
    number of all tasks. Raises Error for invalid parameters, for a folder that is not empty or cannot be written, and
    if Spark fails.
    """
    spec = Spec.make(**parameters)
    target = checked_path(out).resolve()
    scratch: Scratch | None = None
    try:
        with late():
            scratch = begin(target, overwrite)
        spark = session or kit.session()
        manifest = _write(spark, spec, scratch.path, progress)
        with late():
            _into_place(scratch, target)
    except OSError as error:
        reason = error.strerror or error
        raise Error(f"{error.filename or target}: cannot write ({reason}). Choose another folder.") from error
    finally:
        if scratch is not None:
            with late():
                scratch.close()
    return manifest


def begin(target: Path, overwrite: bool) -> Scratch:
    """Return a temporary folder next to ``target``, to write the files to.

    Raises Error if ``target`` is a file, is not empty, or cannot be written. With ``overwrite``, it can be a folder
    that `make` has written.
    """
    try:
        _put_back(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    if target.is_dir() and any(target.iterdir()):
        if not overwrite:
            raise Error(f"{target}: the folder is not empty. Choose another, or overwrite one written by make.")
        try:
            folder.read(target)
        except Error as error:
            raise Error(
                f"{target}: overwrite replaces only a folder that make has written. Choose another folder."
            ) from error
    elif target.exists() and not target.is_dir():
        raise Error(f"{target}: this is a file. Choose a folder.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not os.access(target, os.W_OK):
            raise PermissionError(13, "Permission denied")
        return Scratch(target.parent, f".{target.name}.making-")
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> Error:
    return Error(f"{target}: the folder cannot be written ({error.strerror or error}). Choose another folder.")


def _aside(target: Path) -> Path:
    """Return the path to which the old folder is moved while it is replaced.

    This is not a Scratch, because a Scratch would be removed even if writing the new folder fails.
    """
    return target.with_name(f".{target.name}.making-replaced")


def _into_place(scratch: Scratch, target: Path) -> None:
    """Rename the folder of ``scratch`` to ``target``.

    After an exception, ``target`` is either the old folder or the new one.
    """
    if not target.exists():
        scratch.release(target)
        return
    target.rename(_aside(target))
    try:
        scratch.release(target)
    finally:
        _put_back(target)


def _put_back(target: Path) -> None:
    """Restore the folder that was moved aside. If ``target`` exists, remove the folder that was moved aside instead."""
    aside = _aside(target)
    if target.exists():
        shutil.rmtree(aside, ignore_errors=True)
    elif aside.is_dir():
        aside.rename(target)


def _write(spark: SparkSession, spec: Spec, root: Path, progress: Callable[[int, int], None] | None) -> dict[str, Any]:
    for relation in RELATIONS:
        (root / relation).mkdir()
    tasks = min(spec.epochs, TASKS)
    task = functools.partial(_task, spec, str(root), time.time())
    lines = spark.range(1, spec.epochs + 1, 1, tasks).mapInArrow(task, _LINE)
    try:
        files = [row.asDict() for row in _collect(spark, lines, tasks, progress)]
    except Exception as error:
        raise Error(
            f"{root}: Spark failed to write the epochs: {_reason(error)}. The log is {kit.log_file()}."
        ) from error
    said = [(f.pop("epoch"), f.pop("relation"), f) for f in files]
    if len({(epoch, relation) for epoch, relation, _ in said}) != len(RELATIONS) * spec.epochs:
        raise Error(
            f"{root}: Spark wrote only {len(said)} of {len(RELATIONS) * spec.epochs} files. Generate the folder again."
        )
    return folder.conclude(root, spec.parameters(), said)


def _task(spec: Spec, root: str, now: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the epochs of one partition. Yields one row per file: epoch, relation, and its entry for the manifest."""
    for batch in batches:
        for epoch in batch.column(0).to_numpy().tolist():
            made = changes(spec, epoch)
            lines = [
                {"epoch": epoch, "relation": name, **folder.write(Path(root), name, epoch, rows)}
                for name, rows in made.items()
            ]
            folder.stamp(Path(root), epoch, spec.epochs, now)
            yield pa.RecordBatch.from_pylist(lines)


def _reason(error: Exception) -> str:
    """Return the last line of the Python traceback in an error, or the first line if there is no traceback."""
    text = str(error)
    found = re.findall(r"^\s*(\w*(?:Error|Exception|Interrupt)\b.*)$", text, re.MULTILINE)
    return str(found[-1] if found else text.strip().splitlines()[0])[:300]


def _collect(
    spark: SparkSession, lines: DataFrame, tasks: int, progress: Callable[[int, int], None] | None
) -> list[Row]:
    """Return all rows of ``lines``, and call ``progress`` while Spark computes them.

    Another thread waits for Spark. An interrupt is raised in this thread, and during a call to the JVM it would break
    the connection.
    """
    ended = threading.Event()
    rows: list[Row] = []
    faults: list[BaseException] = []
    context = spark.sparkContext if hasattr(spark, "_sc") else None

    def run() -> None:
        try:
            if context is not None:
                context.setJobGroup(_GROUP, f"data.make, {tasks} tasks", interruptOnCancel=True)
            rows.extend(lines.collect())
        except BaseException as fault:
            faults.append(fault)
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        while not ended.wait(POLL_SECONDS):
            if progress is not None and context is not None:
                progress(_done(context), tasks)
    except BaseException:
        if context is not None:
            context.cancelJobGroup(_GROUP)
        raise
    if faults:
        raise faults[0]
    return rows


def _done(context: SparkContext) -> int:
    """Return the number of the job's finished tasks."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(_GROUP)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
