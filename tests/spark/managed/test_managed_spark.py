"""Operators with managed state on Spark: the same rows and the same state as in one process (rule 31)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from data.flights import SCHEMA, flights
from sharedstate_lite import managed as m

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers cannot import this module
FLIGHTS = m.source("flights", SCHEMA, key="plane", time="at", delay="10 minutes", late="drop")


class Late(m.Operator):
    """A plane that leaves an hour late twice within a day."""

    out = "plane STRING, first TIMESTAMP, second TIMESTAMP"
    last = m.Value("TIMESTAMP", ttl="24 hours")
    total = m.Reducing("BIGINT", "sum")
    tail = m.List("STRUCT<dest: STRING, delay: INT>")
    quiet = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Emit the pair."""
        self.total.add(1)
        if row["delay"] < 60:
            return
        self.tail.append({"dest": row["dest"], "delay": row["delay"]})
        if self.last.get() is not None:
            out(key, self.last.get(), row["at"])
        self.last.set(row["at"])
        self.quiet.set(row["at"] + pd.Timedelta(hours=3))

    def on_quiet(self, key: Any, at: Any, out: Any) -> None:
        """Emit the time of the timer."""
        out(key, None, at)


def parts(rows: pd.DataFrame, count: int) -> list[pd.DataFrame]:
    """Cut rows into epochs."""
    size = -(-len(rows) // count)
    return [rows.iloc[at : at + size].reset_index(drop=True) for at in range(0, len(rows), size)]


def written(folder: Path, epochs: Sequence[pd.DataFrame], first: int = 1) -> Path:
    """Write a file per epoch."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(epochs, first):
        pa.parquet.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / f"{number:04d}.parquet")
    return folder


def same(job: Any, run: m.ManagedRun, frames: Sequence[pd.DataFrame]) -> None:
    """Emitted rows in their order, and the rows of each relation, are those of the run."""
    expected = pd.concat([each for each in frames if len(each)] or frames[:1], ignore_index=True)
    pd.testing.assert_frame_equal(job.emitted(), expected)
    there = job.state()
    for relation in run.state()["relation"].unique():
        mine, theirs = run.state(relation), job.state(relation)
        pd.testing.assert_frame_equal(mine, theirs)
        assert there.loc[there["relation"] == relation, "rows"].sum() >= len(theirs)


def test_late_planes(spark: SparkSession, tmp_path: Path) -> None:
    """Rows, state, watermark and dropped rows equal those of one process."""
    epochs = parts(flights(3_000), 3)
    with m.run(Late(), FLIGHTS, bins=16) as run:
        frames = [run.step(each) for each in epochs]
        with m.spark.run(
            Late(), FLIGHTS, {"flights": written(tmp_path / "in", epochs)}, tmp_path / "out",
            checkpoint=tmp_path / "state", session=spark,
        ) as job:  # fmt: skip
            assert job.run_available() == 3
            assert (job.epoch, job.watermark, job.late) == (run.epoch, run.watermark, run.late)
            same(job, run, frames)
            key = frames[-1]["plane"][0]
            assert job.read("tail", key) == run.read("tail", key)
