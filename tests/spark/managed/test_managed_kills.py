"""Rule 23′ on Spark: the driver is killed with SIGKILL inside an operator, inside the sink, and before the delivery.

The moments before Spark writes its log of offsets and its log of commits are not in the kit's code. They are reached by
removing from a stopped query what Spark writes from then on.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pandas as pd
import pytest
from kills import ended
from managed_operators import FLIGHTS, Late, parts, same, written
from pyspark.sql import SparkSession
from sparks import EXECUTOR, Start, kill

from sharedstate_lite import managed as m
from sharedstate_lite.data.flights import flights

EPOCHS = parts(flights(1_500), 3)
SCRIPT = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from managed_operators import FLIGHTS, Late
import sharedstate_lite as ss
from sharedstate_lite import managed as m
from sharedstate_lite.managed.spark import job as driver
from sharedstate_lite.spark.rounds.query import Query

late, point, sink, write = Late(), {point!r}, Query._sink, driver.sink.write

def dying_sink(self, frame, number):
    if number == 1:
        frame.toArrow()
        os.kill(os.getpid(), signal.SIGKILL)
    sink(self, frame, number)

def dying_write(folder, tables, epoch):
    if epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(folder, tables, epoch)

if point == "operator":
    late.doom = os.getpid(), {moment!r}
elif point == "sink":
    Query._sink = dying_sink
else:
    driver.sink.write = dying_write
m.spark.run(late, FLIGHTS, {{"flights": {folder!r}}}, {out!r}, checkpoint={state!r}).run_available()
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["operator", "sink", "delivery"])
def test_rule_23_on_spark_a_killed_driver_leaves_no_trace(
    spark: SparkSession, start: Start, tmp_path: Path, point: str
) -> None:
    """After a restart, rows and state are those of a run without a failure: no row is missing or emitted twice."""
    folder, out, state = written(tmp_path / "in", EPOCHS), tmp_path / "out", tmp_path / "state"
    process = start(
        SCRIPT.format(
            tests=str(Path(__file__).parent), point=point, moment=str(EPOCHS[1]["at"].iloc[-20]),
            folder=str(folder), out=str(out), state=str(state),
        )
    )  # fmt: skip
    assert ended(process)
    assert not list(out.glob("*/batch-00000002.parquet"))
    with m.run(Late(), FLIGHTS, bins=16) as run:
        frames = [run.step(each) for each in EPOCHS]
        with m.spark.run(Late(), FLIGHTS, {"flights": folder}, out, checkpoint=state, session=spark) as job:
            assert job.epoch == 2
            assert job.run_available() == 1
            same(job, run, frames)


@pytest.mark.slow
def test_rule_23_on_spark_before_offsets_and_before_commits(spark: SparkSession, tmp_path: Path) -> None:
    """The batch runs again with the same result: rows, state, and what a live query shows (rule 28)."""
    folder, out, state = written(tmp_path / "in", EPOCHS[:2]), tmp_path / "out", tmp_path / "state"
    query = state / "query"
    before_offsets = [
        query / "spark" / "offsets" / "1",
        query / "spark" / "commits" / "1",
        query / "out" / "00000001.arrow",
    ]
    before_offsets.append(out / "Late" / "batch-00000002.parquet")
    before_commits = [query / "spark" / "commits" / "1"]
    with m.run(Late(), FLIGHTS, bins=16) as run:
        frames = [run.step(each) for each in EPOCHS[:2]]
        live = "SELECT plane, total, last FROM live.total LEFT JOIN live.last USING (plane) ORDER BY plane"
        expected = run.sql(live)
        for gone in ([], before_offsets, before_commits):
            for file in gone:
                file.unlink()
            with m.spark.run(Late(), FLIGHTS, {"flights": folder}, out, checkpoint=state, session=spark) as job:
                assert job.run_available() == (0 if gone else 2)
                same(job, run, frames)
                pd.testing.assert_frame_equal(job.sql(live), expected)
        written(folder, EPOCHS[2:], 3)
        with m.spark.run(Late(), FLIGHTS, {"flights": folder}, out, checkpoint=state, session=spark) as job:
            assert job.run_available() == 1
            same(job, run, [*frames, run.step(EPOCHS[2])])


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", ["local-cluster"], indirect=True)
def test_rule_31_an_executor_that_is_killed_in_a_batch(everywhere: SparkSession, tmp_path: Path) -> None:
    """Spark repeats the tasks of the lost executor, and the query runs on: rows and state are those of one process."""
    folder, out, state = written(tmp_path / "in", EPOCHS), tmp_path / "out", tmp_path / "state"
    begun, ended, killed = state / "query" / "spark" / "offsets" / "1", threading.Event(), list[int]()

    def killer() -> None:
        while not begun.exists() and not ended.wait(0.01):
            pass
        killed.append(kill(EXECUTOR, most=1))

    with m.run(Late(), FLIGHTS, bins=16) as run:
        frames = [run.step(each) for each in EPOCHS]
        with m.spark.run(Late(), FLIGHTS, {"flights": folder}, out, checkpoint=state, session=everywhere) as job:
            thread = threading.Thread(target=killer)
            thread.start()
            try:
                assert job.run_available() == len(EPOCHS)
            finally:
                ended.set()
                thread.join()
            same(job, run, frames)
    assert killed == [1]
