"""Rule 23′ on Spark: the driver is killed with SIGKILL inside an operator, inside the sink, and before the delivery."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from managed_operators import FLIGHTS, Late, parts, same, written
from pyspark.sql import SparkSession
from sparks import Start

from data.flights import flights
from sharedstate_lite import managed as m

EPOCHS = parts(flights(1_500), 3)
SCRIPT = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from managed_operators import FLIGHTS, Late
import sharedstate_lite as ss
from sharedstate_lite import managed as m
from sharedstate_lite.managed.spark import job as driver
from sharedstate_lite.spark.query.query import Query

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
    children: list[psutil.Process] = []
    while process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True) or children
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
    psutil.wait_procs(children, timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert not list(out.glob("*/batch-00000002.parquet"))
    with m.run(Late(), FLIGHTS, bins=16) as run:
        frames = [run.step(each) for each in EPOCHS]
        with m.spark.run(Late(), FLIGHTS, {"flights": folder}, out, checkpoint=state, session=spark) as job:
            assert job.epoch == 2
            assert job.run_available() == 1
            same(job, run, frames)
