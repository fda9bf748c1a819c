"""Faults of streams: the changes stay those of one process, batch by batch, each written once.

test_stream_kills.py kills drivers at every step, without Spark.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
import pytest
from shopping import COUNTS, EPOCHS, RELATIONS, RESULT, arrow, bag, changelog, expected, folders, views
from sparks import Start, until

import sharedstate_lite as ss
from sharedstate_lite.spark.jobs.sink import deliver
from sharedstate_lite.spark.rounds.errors import TRIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("result", "counts")
WAIT = 180
MANY: Any = [((f"p{n % 12}", "u1", 1_000 + n), 1) for n in range(20_000)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "shared"])
def test_killed_workers_do_not_end_a_stream(
    spark: SparkSession, kill_workers: Callable[[], int], kind: str, tmp_path: Path
) -> None:
    """Workers killed between and in micro-batches: the stream tries again, and its changes are those of one process."""
    source = tmp_path / "shop"
    for number in range(4):
        folders(source, number)
    killed: list[int] = []

    def sink(changes: dict[str, ss.Changes], number: int) -> None:
        for name, each in changes.items():
            if len(each):
                target = tmp_path / "out" / name / f"batch-{number:08d}.parquet"
                target.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(each.to_arrow(), target)
        if number in (0, 2):
            # The next micro-batch starts with dead workers.
            killed.append(kill_workers())

    named = {r: source / r for r in RELATIONS}
    with ss.spark.stream(kind, views(), named, sink, session=spark, checkpoint=tmp_path / "c", bins=2) as job:
        job.finish()
        # Once more, in the middle of a batch.
        late = source / "visit" / "epoch=00009" / "part.parquet"
        late.parent.mkdir()
        pq.write_table(arrow("visit", MANY), late)
        finishing = threading.Thread(target=job.finish)
        finishing.start()
        begun, deadline = job._query.checkpoint / "offsets" / "4", time.monotonic() + WAIT
        while not begun.exists():
            assert finishing.is_alive() and time.monotonic() < deadline
        killed.append(kill_workers())
        finishing.join(WAIT)
    assert len(killed) == 3 and min(killed) > 0
    told = {name: changelog(tmp_path / "out", name) for name in NAMES}
    assert {name: each[: len(expected(4)[name])] for name, each in told.items()} == expected(4)
    with ss.engine(kind, views()) as here:
        for epoch in EPOCHS:
            here.step(epoch)
        assert {name: bag(each) for name, each in here.step({"visit": MANY}).items()} == {n: told[n][-1] for n in NAMES}


@pytest.mark.slow
def test_what_fails_each_time_ends_the_stream(
    spark: SparkSession, kill_workers: Callable[[], int], tmp_path: Path
) -> None:
    """A stream whose workers are killed in each attempt raises after eight of them; another one continues."""
    source = tmp_path / "shop"
    folders(source, 0)
    named = {r: source / r for r in RELATIONS}

    def job() -> Any:
        return ss.spark.stream(
            "full", views(), named, tmp_path / "out", session=spark, checkpoint=tmp_path / "c", bins=2
        )

    over = threading.Event()

    def killer() -> None:
        while not over.wait(0.02):
            with contextlib.suppress(AssertionError):  # none has been started yet
                kill_workers()

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        with job() as running, pytest.raises(ss.Error, match=f"failed {TRIES} times in batch 0"):
            running.finish()
    finally:
        over.set()
        thread.join()
    assert not list((tmp_path / "out").glob("*/*"))
    with job() as again:
        again.finish()
    assert {name: changelog(tmp_path / "out", name) for name in NAMES} == expected(1)


SCRIPT = """
import os, signal
import sharedstate_lite as ss
from sharedstate_lite.spark.jobs import sink
kept = sink.deliver
def deliver(target, owner, out, number):
    if number == 1 and {where!r} == "before the sink":
        os.kill(os.getpid(), signal.SIGKILL)
    kept(target, owner, out, number)
    if number == 1 and {where!r} == "after the sink":
        os.kill(os.getpid(), signal.SIGKILL)
sink.deliver = deliver
with ss.spark.session(memory="1g") as session:
    catalog = ss.Catalog(**{relations!r})
    views = [catalog.view({result!r}), catalog.view({counts!r})]
    sources = {{r: {source!r} + "/" + r for r in {relations!r}}}
    with ss.spark.stream("shared", views, sources, {out!r}, session=session, checkpoint={place!r}, bins=2) as job:
        job.finish()
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in the batch", "before the sink", "after the sink"])
def test_a_driver_that_is_killed(spark: SparkSession, start: Start, tmp_path: Path, where: str) -> None:
    """kill -9 in a micro-batch or around its sink: another stream completes it; each change is written once."""
    source, place, sink = tmp_path / "shop", tmp_path / "c", tmp_path / "out"
    for number in range(4):
        folders(source, number)
    given = {"relations": RELATIONS, "result": RESULT, "counts": COUNTS, "source": str(source)}
    process = start(SCRIPT.format(out=str(sink), place=str(place), where=where, **given))
    if where == "in the batch":
        until(process, lambda: any((g / "spark" / "offsets" / "1").exists() for g in place.glob("g-*")))
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        psutil.wait_procs(children, timeout=WAIT)
        with pytest.raises(ss.CheckpointError, match="micro-batch 1 has started but is not committed"):
            ss.spark.rescale(place, 4, spark)
    else:
        assert process.wait(WAIT) == -signal.SIGKILL
    named = {r: source / r for r in RELATIONS}
    with ss.spark.stream("shared", views(), named, sink, session=spark, checkpoint=place, bins=2) as job:
        job.finish()
    assert {name: changelog(sink, name) for name in NAMES} == expected(4)


def test_a_stream_that_is_stopped_by_another_thread(spark: SparkSession, tmp_path: Path) -> None:
    """`stop` undoes the micro-batch in progress, and `finish` raises; another stream processes all of it."""
    source, sink = tmp_path / "shop", tmp_path / "out"
    for number in range(4):
        folders(source, number)
    named = {r: source / r for r in RELATIONS}
    stopping: list[threading.Thread] = []

    def take(changes: dict[str, ss.Changes], number: int) -> None:
        deliver(sink, "", changes, number)
        if number == 1:
            stopping.append(threading.Thread(target=job.stop))
            stopping[0].start()

    with ss.spark.stream("full", views(), named, take, session=spark, checkpoint=tmp_path / "c", bins=2) as job:
        with pytest.raises(ss.Error, match="closed|stopped by another thread"):
            job.finish()
        stopping[0].join(WAIT)
        assert not job.active
    with ss.spark.stream("full", views(), named, take, session=spark, checkpoint=tmp_path / "c", bins=2) as again:
        again.finish()
    assert {name: changelog(sink, name) for name in NAMES} == expected(4)


def test_a_dataframe_whose_source_fails(spark: SparkSession, tmp_path: Path) -> None:
    """A source that fails is tried again; one that always fails is named. A row that is refused is in a file."""
    (tmp_path / "in").mkdir()
    pq.write_table(arrow("visit", EPOCHS[0]["visit"]), tmp_path / "in" / "0.parquet")
    tries, view = tmp_path / "tries", views()[1]

    def fails(most: int) -> Any:
        def task(batches: Any) -> Any:
            for batch in batches:
                with tries.open("a") as file:
                    file.write(".")
                if tries.stat().st_size <= most:
                    raise OSError("the source is away")
                yield batch

        rows = spark.readStream.schema("product STRING, user STRING, length INT, diff LONG").parquet(f"{tmp_path}/in")
        return rows.mapInArrow(task, "product STRING, user STRING, length INT, diff LONG")

    def job(most: int) -> Any:
        sources = {"visit": fails(most)}
        return ss.spark.stream(
            "full", [view], sources, tmp_path / "out", session=spark, checkpoint=tmp_path / "c", bins=2
        )

    with job(1_000) as running, pytest.raises(ss.Error, match=f"failed {TRIES} times in micro-batch 0: .*is away"):
        running.finish()
    tries.unlink()
    with job(2) as running:
        running.finish()
        assert changelog(tmp_path / "out", "counts") == expected(1)["counts"]
        pq.write_table(arrow("visit", [(("p1", "u1", 77), -1)]), tmp_path / "in" / "1.parquet")
        with pytest.raises(ss.RowError, match="77") as caught:
            running.finish()
        file = Path(caught.value.__notes__[0].removeprefix("in ").partition(": remove it")[0])
        pq.write_table(arrow("visit", EPOCHS[1]["visit"]), file)
        running.finish()
    assert changelog(tmp_path / "out", "counts") == expected(2)["counts"]
