"""Faults of streams: the changes stay those of one process, batch by batch, each written once."""

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
from sharedstate_lite.spark.jobs import sources
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
        # Once more, in the middle of a batch, while no call waits for it.
        late = source / "visit" / "epoch=00009" / "part.parquet"
        late.parent.mkdir()
        pq.write_table(arrow("visit", MANY), late)
        begun = job.location / job._name / "spark" / "offsets" / "4"
        deadline = time.monotonic() + WAIT
        while not begun.exists():
            assert job.active and time.monotonic() < deadline
        killed.append(kill_workers())
        job.finish()
        assert job.active
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
    """A stream whose workers are killed in each attempt ends after eight of them; another one continues."""
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
        with (
            job() as running,
            pytest.raises(ss.Error, match=f"failed {TRIES} times in the same batch"),
        ):
            running.finish()
    finally:
        over.set()
        thread.join()
    assert not running.active and not list((tmp_path / "out").glob("*/*"))
    with job() as again:
        again.finish()
    assert {name: changelog(tmp_path / "out", name) for name in NAMES} == expected(1)


SCRIPT = """
import sharedstate_lite as ss
with ss.spark.session(memory="1g") as session:
    catalog = ss.Catalog(**{relations!r})
    views = [catalog.view({result!r}), catalog.view({counts!r})]
    sources = {{r: {source!r} + "/" + r for r in {relations!r}}}
    with ss.spark.stream("shared", views, sources, {out!r}, session=session, checkpoint={place!r}, bins=2) as job:
        job.finish()
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_in_a_batch(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    """kill -9 in a micro-batch: another stream with the checkpoint completes it; each change is written once."""
    source, place, sink = tmp_path / "shop", tmp_path / "c", tmp_path / "out"
    for number in range(4):
        folders(source, number)
    given = {"relations": RELATIONS, "result": RESULT, "counts": COUNTS, "source": str(source)}
    process = start(SCRIPT.format(out=str(sink), place=str(place), **given))
    until(process, lambda: any((g / "spark" / "offsets" / "1").exists() for g in place.glob("g-*")))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    psutil.wait_procs(children, timeout=WAIT)
    with pytest.raises(ss.CheckpointError, match="micro-batch 1 has started but is not committed"):
        ss.spark.rescale(place, 4, spark)
    named = {r: source / r for r in RELATIONS}
    with ss.spark.stream("shared", views(), named, sink, session=spark, checkpoint=place, bins=2) as job:
        job.finish()
    assert {name: changelog(sink, name) for name in NAMES} == expected(4)


def test_a_file_that_is_lost_while_the_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A file that is removed after Spark listed it: the batch fails, and is committed once the file is back."""
    source, sink = tmp_path / "shop", tmp_path / "out"
    for number in range(2):
        folders(source, number)
    lost = source / "visit" / "epoch=00002" / "part.parquet"
    kept = tmp_path / "kept.parquet"
    named = {r: source / r for r in RELATIONS}
    seen: list[int] = []

    def take(changes: dict[str, ss.Changes], number: int) -> None:
        seen.append(number)
        if number == 0:
            lost.rename(kept)

    def job(to: Any) -> Any:
        return ss.spark.stream("full", views()[1:], named, to, session=spark, checkpoint=tmp_path / "c", bins=2)

    with job(take) as running, pytest.raises(ss.CheckpointError, match="epoch=00002/part.parquet.*lost"):
        running.finish()
    assert seen == [0]
    kept.rename(lost)
    with job(sink) as running:
        running.finish()
    assert changelog(sink, "counts") == expected(2, first=1)["counts"]


def test_the_files_of_a_batch_are_known_from_sparks_logs(tmp_path: Path) -> None:
    """Sources with logs of different length, compacted entries, and a batch without input: the right files each."""
    spark = tmp_path / "spark"
    for folder in ("offsets", "commits", "sources/0", "sources/1"):
        (spark / folder).mkdir(parents=True)

    def entry(name: str, number: int) -> str:
        return f'{{"path":"file:///shop/{name}%20x.parquet","timestamp":1,"batchId":{number}}}'

    (spark / "sources" / "0" / "0").write_text("v1\n" + entry("info", 0))
    (spark / "sources" / "1" / "8").write_text("v1\n" + entry("visit8", 8))
    (spark / "sources" / "1" / "9.compact").write_text("\n".join(["v1", entry("visit8", 8), entry("visit9", 9)]))
    for number, visit in ((11, 8), (12, 9)):
        (spark / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"logOffset":0}}\n{{"logOffset":{visit}}}')
    (spark / "commits" / "11").write_text("v1\n{}")
    assert list(sources.PendingBatch(spark).files()) == ["/shop/visit9 x.parquet"]
    (spark / "commits" / "12").write_text("v1\n{}")
    assert list(sources.PendingBatch(spark).files()) == []


def test_the_file_that_spark_could_not_read() -> None:
    """Its name is found, blanks included, and no other path in the message is taken for it."""
    said = "[FAILED] Encountered error while reading file file:///a%20b/shop.parquet/v/part.parquet. SQLSTATE: KD001"
    assert sources.unreadable_file(said) == "/a b/shop.parquet/v/part.parquet"
    assert sources.unreadable_file("FileStreamSource[file:/shop.parquet/info] Python worker exited") is None
