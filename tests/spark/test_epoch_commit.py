"""Structured Streaming commits epochs: a kill at each point of a micro-batch, against `protocols.SparkBatches`.

The driver is killed inside the operator and inside the sink. The kills before the offsets and before the commit are
checkpoints from which the entry of the log was removed, as such a kill leaves them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kills
import pytest
from pyspark.sql import SparkSession

from sharedstate_lite import protocols

VALUES = (1, 2, 10)
SCRIPT = """
import sys
sys.path[:0] = {tests!r}
import sharedstate_lite as ss
from test_epoch_commit import query
with ss.spark.session(memory="1g") as session:
    query(session, {place!r}, {point!r})
"""


def query(session: SparkSession, place: str, point: str = "") -> None:
    """Run a sum over the files, one a batch; a line of ``calls`` is what the sink was given. Dies at ``point``."""
    driver, folder = os.getpid(), Path(place)

    def work(frames: Any) -> Any:
        for frame in frames:
            if point == "operator" and (frame["x"] == VALUES[-1]).any():
                os.kill(driver, signal.SIGKILL)
            yield frame

    def note(frame: Any, batch: int) -> None:
        with (folder / "calls").open("a") as calls:
            calls.write(f"{batch} {frame.first()[0]}\n")
        if point == "sink" and batch == 2:
            os.kill(driver, signal.SIGKILL)

    rows = session.readStream.schema("x INT").option("maxFilesPerTrigger", 1).csv(f"{place}/rows")
    total = rows.mapInPandas(work, "x INT").groupBy().sum("x")
    writer = total.writeStream.outputMode("complete").foreachBatch(note)
    writer.option("checkpointLocation", f"{place}/spark").trigger(availableNow=True).start().awaitTermination()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "last"), [("before offsets", [2, 2]), ("operator", [2]), ("sink", [2, 2]), ("before commit", [2, 2])]
)
def test_rule_23_a_kill_at_each_point_of_a_batch(
    spark: SparkSession, start: Callable[..., Any], tmp_path: Path, point: str, last: list[int]
) -> None:
    """After any kill, the totals by batch are those of a run without one; the sink may be given a batch again."""
    (tmp_path / "rows").mkdir()
    for number, value in enumerate(VALUES):
        file = tmp_path / "rows" / f"{number}.csv"
        file.write_text(f"{value}\n")
        os.utime(file, (number, number))
    killed = point in ("operator", "sink")
    tests = [str(Path(each).parent) for each in (__file__, kills.__file__)]
    script = SCRIPT.format(tests=tests, place=str(tmp_path), point=point if killed else "")
    process = start(script)
    assert kills.ended(process) == killed
    logs = {"before offsets": ["offsets", "commits"], "before commit": ["commits"]}.get(point, [])
    for entry in [entry for log in logs for entry in (tmp_path / "spark" / log).glob("*2*")]:
        entry.unlink()
    query(spark, str(tmp_path))
    calls = [tuple(map(int, line.split())) for line in (tmp_path / "calls").read_text().splitlines()]
    assert dict(calls) == {0: 1, 1: 3, 2: 13}
    assert [batch for batch, _ in calls if batch == 2] == last
    by_batch = tuple(dict(calls).values())
    explored = protocols.explore(protocols.SparkBatches(records=VALUES), 1)
    assert by_batch in {end.output for end in explored.outcomes}
    repeated = tuple(total for _, total in calls)
    assert repeated in {end.output for end in protocols.explore(protocols.SparkBatches(once=False), 1).outcomes}
