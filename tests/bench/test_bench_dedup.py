"""Deduplication: every rung keeps each id once, and shuffles the expected records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from bench.usecases import dedup
from sharedstate_lite.data import ids
from sharedstate_lite.lessons.usecases import ladder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT, TASKS = 40_000, 4


def test_deduplication(spark: SparkSession) -> None:
    """Each id is kept once; the first rung shuffles all rows, the shared set one record for each id."""
    frame = ids.ids(spark, COUNT, mean=500.0, tasks=TASKS)
    different = ids.table(COUNT, mean=500.0).column("id").unique()
    steps = ladder.climb(dedup.rungs(spark, frame), warm=0)
    kept = ladder.digest(spark.createDataFrame(pa.table({"id": different})))
    assert all(step.answer == kept for step in steps) and ladder.same(steps)
    records = {step.name: step.counts["records shuffled"] for step in steps}
    assert records["shuffle, then a set"] >= COUNT
    assert len(different) < records["a set per task, then shuffle"] <= TASKS * len(different) + TASKS
    assert len(different) <= records["one shared set"] <= 1.1 * len(different) + TASKS
    assert records["one shared set"] < records["dropDuplicates"]
    assert steps[0].counts["bytes shuffled"] > steps[-1].counts["bytes shuffled"] > 0
