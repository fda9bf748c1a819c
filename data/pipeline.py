"""The shop as Parquet, at any size: Spark distributes the epochs, `rows` computes each.

A task computes whole epochs and writes their files; the driver receives one line for each file. All files are written
to a folder beside the target, which is renamed at the end, with its manifest: the target is complete or absent. A
folder to be replaced is moved aside first and removed at the end; the next run restores one that a killed run moved
aside. An interrupt or a failure leaves no file. On a cluster, the target must be on a file system that all machines
share.
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

import sharedstate_lite.spark as kit
from sharedstate_lite.errors import Error
from sharedstate_lite.system.scratch import Scratch

from . import folder
from .files import checked_path
from .interrupts import late
from .rows import RELATIONS, changes
from .spec import Spec

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Row, SparkSession

TASKS = 200
"""The most tasks of the job: more would cost more to start, fewer would show less progress."""

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
    """Write the shop of these parameters (see `Spec`) to the folder ``out`` and return its manifest.

    The rows are those of `generate`, in any session. ``overwrite`` replaces a folder that was made before.
    ``progress(done, total)`` is called twice a second with numbers of tasks. Raises Error for invalid parameters, for a
    folder that is taken or cannot be written, and if Spark fails.
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
        raise Error(f"{error.filename or target}: it cannot be written ({reason}); choose another folder") from error
    finally:
        if scratch is not None:
            with late():
                scratch.close()
    return manifest


def begin(target: Path, overwrite: bool) -> Scratch:
    """A folder beside ``target`` to write to. Raises Error if the target is taken or cannot be written."""
    try:
        _put_back(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    if target.is_dir() and any(target.iterdir()):
        if not overwrite:
            raise Error(f"{target}: the folder is not empty; choose another, or overwrite a folder that was made")
        try:
            folder.read(target)
        except Error as error:
            raise Error(
                f"{target}: only a folder that this command made is overwritten ({error}); choose another"
            ) from error
    elif target.exists() and not target.is_dir():
        raise Error(f"{target}: it is a file; choose a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not os.access(target, os.W_OK):
            raise PermissionError(13, "Permission denied")
        return Scratch(target.parent, f".{target.name}.making-")
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> Error:
    return Error(f"{target}: the folder cannot be written ({error.strerror or error}); choose another")


def _aside(target: Path) -> Path:
    """Where a folder is while it is replaced. Not in a Scratch, which is removed also if the new one fails."""
    return target.with_name(f".{target.name}.making-replaced")


def _into_place(scratch: Scratch, target: Path) -> None:
    """Rename the folder to ``target``. After any exception, the target is the old folder or the new one."""
    if not target.exists():
        scratch.release(target)
        return
    target.rename(_aside(target))
    try:
        scratch.release(target)
    finally:
        _put_back(target)


def _put_back(target: Path) -> None:
    """Restore the folder that was moved aside, or remove it if the new one is in its place."""
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
        raise Error(f"{root}: Spark could not make the epochs: {_reason(error)}; see {kit.log_file()}") from error
    said = [(f.pop("epoch"), f.pop("relation"), f) for f in files]
    if len({(epoch, relation) for epoch, relation, _ in said}) != len(RELATIONS) * spec.epochs:
        raise Error(f"{root}: Spark made {len(said)} of {len(RELATIONS) * spec.epochs} files; make the folder again")
    return folder.conclude(root, spec.parameters(), said)


def _task(spec: Spec, root: str, now: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the epochs of a partition and yield a line for each file."""
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
    """The last line of a worker's traceback, or the first line of another message."""
    text = str(error)
    found = re.findall(r"^\s*(\w*(?:Error|Exception|Interrupt)\b.*)$", text, re.MULTILINE)
    return str(found[-1] if found else text.strip().splitlines()[0])[:300]


def _collect(
    spark: SparkSession, lines: DataFrame, tasks: int, progress: Callable[[int, int], None] | None
) -> list[Row]:
    """All rows of ``lines``; calls ``progress`` meanwhile.

    Another thread waits for Spark: an interrupt is raised in this thread, and within a call to the JVM it would break
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
    """The number of finished tasks of the job."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(_GROUP)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
