"""What the tests of managed state on Spark share: an operator over flights, its input files, and the comparison."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from pyspark import cloudpickle

from sharedstate_lite import managed as m
from sharedstate_lite.data.flights import SCHEMA

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers cannot import this module
FLIGHTS = m.source("flights", SCHEMA, key="plane", time="at", delay="10 minutes", late="drop")


class Late(m.Operator):
    """A plane that leaves an hour late twice within a day."""

    out = "plane STRING, first TIMESTAMP, second TIMESTAMP"
    last = m.Value("TIMESTAMP", ttl="24 hours")
    total = m.Reducing("BIGINT", "sum")
    tail = m.List("STRUCT<dest: STRING, delay: INT>")
    quiet = m.Timer()
    doom: tuple[int, str] | None = None
    """The process to kill when a row of this time comes, for tests."""

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Emit the pair."""
        if self.doom is not None and row["at"] >= pd.Timestamp(self.doom[1]):
            os.kill(self.doom[0], signal.SIGKILL)
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
    with job.snapshot() as found:
        contents = stored(run)
        assert contents.keys() == stored(found).keys()
        for relation, rows in stored(found).items():
            pd.testing.assert_frame_equal(rows, contents[relation])


def stored(run: m.ManagedRun) -> dict[str, pd.DataFrame]:
    """The rows of each relation, without their bins, and without the numbers that order waiting rows."""
    found = run.state()[["operator", "relation"]].drop_duplicates()
    names = [f"{operator}.{relation}" for operator, relation in found.itertuples(index=False)]
    return {name: run.state(name).drop(columns=["@number", "bin"], errors="ignore") for name in names}
