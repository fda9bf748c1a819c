"""A pattern on Spark, rescaled and with a killed worker, finds what it finds in one process (rules 26, 31 and 33)."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from managed_operators import parts, written
from pyspark.sql import SparkSession

from sharedstate_lite import managed as m
from sharedstate_lite.data.flights import SCHEMA, flights

SOURCE = m.source("flights", SCHEMA, key="plane", time="at")


@pytest.mark.slow
def test_a_pattern_is_rescaled_and_loses_a_worker_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """From 2 to 4 workers; then a Python worker dies inside a condition, and the job continues from its checkpoint."""
    doom = tmp_path / "doom"
    year = flights(20_000)
    epochs = parts(year[year["delay"] >= 60], 4)
    end = year["at"].max() + pd.Timedelta(days=2)

    def is_late(flight: Any, taken: Any) -> bool:
        if doom.exists():
            doom.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(flight["delay"]) >= 60

    def operator() -> Any:
        return m.pattern("a b", SOURCE, {"a": is_late, "b": is_late}, within="24 hours", by="any", id="delay")

    folder = written(tmp_path / "in", epochs[:2])
    places: dict[str, Any] = {"checkpoint": tmp_path / "state", "session": spark, "slots": 4}
    with m.spark.run(operator(), SOURCE, {"flights": folder}, tmp_path / "out", workers=2, **places) as job:
        assert job.run_available() == 2
        assert set(job.owners) == {0, 1}
        job.rescale(4)
        written(folder, epochs[2:3], first=3)
        assert job.run_available() == 1
        assert set(job.owners) == {0, 1, 2, 3}
    doom.touch()
    written(folder, epochs[3:], first=4)
    with m.spark.run(operator(), SOURCE, {"flights": folder}, tmp_path / "out", **places) as job:
        assert job.run_available() == 1
        assert not doom.exists()
        job.advance(end)
        found = job.emitted()
    with m.run(operator(), SOURCE, bins=16) as run:
        frames = [run.step(each) for each in epochs] + [run.advance(end)]
    expected = pd.concat([each for each in frames if len(each)], ignore_index=True)
    pd.testing.assert_frame_equal(found, expected)
    assert len(found) > 100
