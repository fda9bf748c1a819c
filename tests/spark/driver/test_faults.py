"""Faults, each ending in the recomputed answer, with nothing emitted twice: engines on this machine.

test_faults_stream.py has the same for streams, test_everywhere.py executors that are killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from rehearsal import Rehearsal
from shopping import EPOCHS, RELATIONS, RESULT, bag, rows, views
from sparks import Start, until

import sharedstate_lite as ss
from sharedstate_lite.spark.rounds.errors import TRIES, retry
from sharedstate_lite.spark.rounds.inbox import RoundKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT = 180


@pytest.mark.parametrize("kind", ["shared", pytest.param("full", marks=pytest.mark.slow)])
def test_workers_that_are_killed_and_files_that_are_lost(
    spark: SparkSession, kill_workers: Callable[[], int], kind: str, tmp_path: Path
) -> None:
    """Killed workers change nothing. A lost or altered input file is named, its epoch applied once it is back."""
    live = tmp_path / "a place"
    with ss.engine(kind, views()) as here:
        with ss.spark.engine(kind, views(), spark, checkpoint=live, bins=2) as there:
            here.step(EPOCHS[0])
            there.step(EPOCHS[0])
            assert kill_workers()
            out, expected = there.step(EPOCHS[1]), here.step(EPOCHS[1])
            assert {v: bag(c) for v, c in out.items()} == {v: bag(c) for v, c in expected.items()}
            assert set(ss.spark.partitions(live, session=spark)["found"]) <= {"missing", "new"}
            # As a driver leaves it that is killed after it wrote an epoch, and before Spark read it.
            query = there._query
            query.stop()
            number = query.inbox.put(there._epoch(EPOCHS[2])[1], RoundKind.EPOCH, 3)
        file = query.inbox.path / f"{number:08d}.parquet"
        data, times = file.read_bytes(), (file.stat().st_atime, file.stat().st_mtime)
        file.unlink()
        with pytest.raises(ss.CheckpointError, match="input file of epoch 3 is lost"):
            ss.spark.restore(live, spark)
        file.write_bytes(data[:-1] + b"?")
        with pytest.raises(ss.CheckpointError, match="epoch 3 was changed"):
            ss.spark.restore(live, spark)
        file.write_bytes(data)
        os.utime(file, times)
        here.step(EPOCHS[2])
        moved = live.rename(tmp_path / "another place")
        with pytest.raises(ss.CheckpointError, match=f"was written in {live}, .* move it back"):
            ss.spark.restore(moved, spark)
        moved.rename(live)
        with ss.spark.restore(live, spark) as again:
            assert again.epoch == 3
            assert rows(again.read("result")) == rows(here.read("result"))
            assert bag(again.step(EPOCHS[3])["result"]) == bag(here.step(EPOCHS[3])["result"])


@pytest.mark.parametrize("kind", ["full", "partial"])
@pytest.mark.slow
def test_installs_and_lookups_where_workers_are_gone(
    spark: SparkSession, kill_workers: Callable[[], int], kind: str
) -> None:
    """A late view needs a Spark job beside the query, and a hole several rounds; killed workers make neither fail."""
    catalog = ss.Catalog(t="k STRING, n INT")
    early, late = (
        catalog.view(f"CREATE VIEW by_{c} AS SELECT {c}, COUNT(*) AS rows FROM t GROUP BY {c}") for c in "kn"
    )
    with ss.spark.engine(kind, [early, late] if kind == "partial" else [early], spark, bins=2) as engine:
        engine.step({"t": [(("a", 1), 1), (("b", 1), 1)]})
        assert rows(engine.read("by_k", key="a")) == [("a", 1)]
        assert kill_workers()
        if kind == "full":
            engine.install(late)
            assert kill_workers()
        assert rows(engine.read("by_n", key=1)) == [(1, 2)]


def test_a_job_that_dead_workers_fail_is_run_again(spark: SparkSession, kill_workers: Callable[[], int]) -> None:
    """A job that fails because workers died runs again; an error that stays is raised after the last try."""

    def job() -> int:
        return spark.range(4, numPartitions=2).mapInArrow(lambda batches: batches, "id LONG").count()

    assert job() == 4
    assert kill_workers()
    assert retry(job, "it cannot be counted") == 4
    tries = []

    def lost() -> None:
        tries.append(len(tries))
        spark.range(1).selectExpr("raise_error('lost')").collect()

    with pytest.raises(ss.Error, match="it cannot be counted: .*lost"):
        retry(lost, "it cannot be counted")
    assert len(tries) == TRIES


HUGE = 2**62
TOTALS = "CREATE VIEW totals AS SELECT word, SUM(n) AS total FROM big GROUP BY word"


@pytest.mark.slow
def test_epochs_that_only_a_kernel_can_refuse(spark: SparkSession, tmp_path: Path) -> None:
    """A sum past BIGINT raises the error of one process; later steps and a restart work."""
    view = ss.Catalog(big="word STRING, n BIGINT").view(TOTALS)
    with ss.engine("full", [view]) as here, ss.spark.engine("full", [view], spark, checkpoint=tmp_path / "c") as there:
        for engine in (here, there):
            engine.step({"big": [(("a", HUGE), 1), (("b", 1), 1)]})
        told = []
        for engine in (here, there):
            with pytest.raises(ss.Error) as caught:
                engine.step({"big": [(("a", HUGE), 1), (("b", 2), 1)]})
            told.append(f"{type(caught.value).__name__}: {caught.value}")
        assert told[0] == told[1] and there.epoch == here.epoch == 1
        last = {"big": [(("a", -HUGE), 1), (("b", 3), 1)]}
        assert bag(there.step(last)["totals"]) == bag(here.step(last)["totals"])
        kinds = ss.spark.batches(tmp_path / "c")
        assert list(kinds["refused"]) == [False, True, False]
        there.close()
        with ss.spark.restore(tmp_path / "c", spark) as again:
            assert again.epoch == 2 and rows(again.read("totals")) == rows(here.read("totals"))


def rotate(spark: SparkSession) -> None:
    """Change the order of the idle Python workers: one runs a task and goes to the end of the queue."""

    def task(one: int) -> int:
        return one

    task.__module__ = "__main__"  # by value, since workers cannot import this file
    assert spark.sparkContext.parallelize([1], 1).map(task).collect() == [1]


MOST = 12


def wander(spark: SparkSession, place: Path, checked: bool) -> list[str]:
    """Step while partitions move between workers, until an answer is wrong or a stale bin is detected.

    Returns what the workers found of their bins, over all epochs, and "wrong" where an answer was.
    """
    found: list[str] = []
    with ss.engine("full", views()) as here, ss.spark.engine("full", views(), spark, checkpoint=place) as there:
        there._query.stop()  # the next step starts it, with this
        # Without calls between workers, which would run the bin where it is in memory.
        there._query.recipe.checked, there._query.recipe.use_rpc = checked, False
        for n in range(MOST):
            step: Any = (
                EPOCHS[0] if n == 0 else {"visit": [((f"p{i}", f"u{n % 3}", 100 * n + i), 1) for i in range(12)]}
            )
            expected = here.step(step)
            try:
                same = {v: bag(c) for v, c in there.step(step).items()} == {v: bag(c) for v, c in expected.items()}
            except ss.Error:
                same = False
            found += list(ss.spark.partitions(place, session=spark)["found"])
            if not same:
                return [*found, "wrong"]
            if checked and {"stale", "used"} <= set(found):
                return found
            rotate(spark)
    return found


@pytest.mark.slow
def test_a_bin_in_memory_counts_only_if_the_store_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """When partitions move, workers have stale bins: the token detects them; without the check, answers are wrong."""
    found = wander(spark, tmp_path / "checked", True)
    assert "wrong" not in found and {"used", "stale"} <= set(found)
    found = wander(spark, tmp_path / "believed", False)
    assert found[-1] == "wrong" and "stale" not in found


SCRIPT = """
import sys, sharedstate_lite as ss
with ss.spark.session(memory="1g") as session:
    view = ss.Catalog(**{relations!r}).view({sql!r})
    with ss.spark.engine({kind!r}, [view], session, checkpoint={place!r}, bins=2) as engine:
        engine.step({first!r})
        print("one", flush=True)
        engine.step({second!r})
        print("two", flush=True)
"""


@pytest.mark.parametrize("kind", ["full", pytest.param("shared", marks=pytest.mark.slow)])
def test_a_driver_that_is_killed_in_an_epoch(spark: SparkSession, start: Start, kind: str, tmp_path: Path) -> None:
    """kill -9 after Spark has started an epoch: the next engine completes it, exactly once."""
    place = tmp_path / "live"
    given = {"relations": RELATIONS, "sql": RESULT, "place": str(place), "kind": kind}
    process = start(SCRIPT.format(first=EPOCHS[0], second=EPOCHS[1], **given))
    until(process, lambda: any((g / "spark" / "offsets" / "1").exists() for g in place.glob("g-*")))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    psutil.wait_procs(children, timeout=WAIT)
    assert process.stdout is not None and process.stdout.read() == "one\n"
    with ss.engine(kind, views()[:1]) as here:
        for epoch in EPOCHS[:2]:
            here.step(epoch)
        with ss.spark.engine(kind, views()[:1], spark, checkpoint=place, bins=2) as again:
            assert again.epoch == 2
            assert rows(again.read("result")) == rows(here.read("result"))
            assert ss.spark.batches(place)["kind"].tolist() == ["epoch", "epoch", "read"]
            assert bag(again.step(EPOCHS[2])["result"]) == bag(here.step(EPOCHS[2])["result"])


def test_the_token_without_spark() -> None:
    """The same over bins without Spark, in two processes by turns: right with the token, wrong without."""
    wrong = {True: 0, False: 0}
    for checked in wrong:
        for lose in (1, 2, 3, 5):
            with ss.engine("full", views()) as here, Rehearsal("full", views(), bins=3, lose=lose) as there:
                there._query.recipe.checked = checked
                for epoch in EPOCHS:
                    expected = {v: bag(c) for v, c in here.step(epoch).items()}
                    try:
                        same = {v: bag(c) for v, c in there.step(epoch).items()} == expected
                    except (ss.Error, KeyError):  # a run that the other process has merged away
                        same = False
                    if not same:
                        wrong[checked] += 1
                        break
    assert wrong[True] == 0 and wrong[False] > 0
