"""The clock in the tasks: what it times, and what it leaves out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from sharedstate_lite.lessons.task_clock import TaskClock

Batches = Iterator[pd.DataFrame]
pytestmark = pytest.mark.slow  # it reads the clock; notebooks 07 and 08 run it in every `make test`


def test_the_clock_runs_from_the_first_batch(spark: Any) -> None:
    """It counts what a function does with its batches, but not what it prepares; answers come from all tasks."""

    def late(batches: Batches) -> Batches:
        time.sleep(0.5)
        yield from batches

    def slow(batches: Batches) -> Batches:
        for batch in batches:
            time.sleep(0.02 * len(batch))
            yield batch

    clock = TaskClock(spark.range(10, numPartitions=2))
    clock.run({"late": late, 20: slow})
    assert clock.ms("late") < 50 and clock.ms(20) >= 20
    assert all(answer.id.tolist() == list(range(10)) for answer in clock.answers.values())
    assert list(clock.table().index) == ["late", "20"] and (clock.table().fastest <= clock.table().slowest).all()


def test_an_empty_partition_is_left_out(spark: Any) -> None:
    """A task without rows calls no function."""
    clock = TaskClock(spark.range(2, numPartitions=4), rounds=1)
    clock.run({"same": lambda batches: batches})
    assert clock.answers["same"].id.tolist() == [0, 1]


def test_a_warm_up_does_not_count_and_the_whole_call_does(spark: Any) -> None:
    """The first round of a function may be slow. If whole, what it does before its first batch counts."""
    called: list[int] = []

    def cold(batches: Batches) -> Batches:
        time.sleep(0 if called else 2)
        called.append(1)
        yield from batches

    def late(batches: Batches) -> Batches:
        time.sleep(0.4)
        yield from batches

    clock = TaskClock(spark.range(4, numPartitions=1), rounds=2, warm=1, whole=True)
    clock.run({"cold": cold, "late": late})
    assert clock.table().slowest["cold"] < 500 and clock.ms("late") >= 100
