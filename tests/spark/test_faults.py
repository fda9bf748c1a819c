"""Faults, each ending in the recomputed answer, with nothing emitted twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from conftest import Start

import sharedstate_lite as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
FIRST: dict[str, Any] = {"info": [(("a", "F"), 1), (("b", "G"), 1)], "visit": [(("a", "x", 1), 2), (("b", "y", 5), 1)]}
SECOND: dict[str, Any] = {"visit": [(("a", "z", 9), 1), (("b", "y", 5), -1)]}
THIRD: dict[str, Any] = {"visit": [(("b", "y", 7), 1)]}
WAIT = 180


def view() -> ss.View:
    """The view in a catalog of its own."""
    return ss.Catalog(**RELATIONS).view(RESULT)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """A frame's rows."""
    return [tuple(row) for row in frame.itertuples(index=False)]


def workers() -> list[psutil.Process]:
    """The Python workers of this process' session."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if "pyspark.daemon" in " ".join(process.cmdline()):
                found.append(process)
    assert found
    return found


def test_workers_that_are_killed_and_files_that_are_lost(spark: SparkSession, tmp_path: Path) -> None:
    """Killed workers change nothing; a lost or altered input file is named, and its epoch done once it is back."""
    live = tmp_path / "a place"
    with ss.engine("full", [view()]) as here:
        with ss.spark.engine("full", [view()], spark, checkpoint=live, bins=2) as there:
            assert there.step(FIRST)["result"].kinds() == here.step(FIRST)["result"].kinds()
            for worker in workers():
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
            out, expected = there.step(SECOND)["result"], here.step(SECOND)["result"]
            assert out.to_arrow().equals(expected.to_arrow())
            with pytest.raises(ss.CheckpointError, match="another engine is running there"):
                ss.spark.engine("full", [view()], spark, checkpoint=live)
            # What a driver leaves that was killed after it had written an epoch, and before Spark had read it.
            query = there._query
            query.stop()
            messages = [m._replace(bin=there._label[m.bin]) for m in there._epoch(THIRD)[1]]
            number = query.inbox.put(messages, "epoch", 3)
        file = query.inbox.path / f"{number:08d}.parquet"
        data, times = file.read_bytes(), (file.stat().st_atime, file.stat().st_mtime)
        file.unlink()
        with pytest.raises(ss.CheckpointError, match="input file of epoch 3 is lost"):
            ss.spark.restore(live, spark)
        file.write_bytes(data[:-1] + b"?")
        with pytest.raises(ss.CheckpointError, match="epoch 3 is not what was written"):
            ss.spark.restore(live, spark)
        file.write_bytes(data)
        os.utime(file, times)
        here.step(THIRD)
        with ss.spark.restore(live, spark) as again:
            assert again.epoch == 3
            assert rows(again.read("result")) == rows(here.read("result"))
        moved = live.rename(tmp_path / "another place")
        with ss.spark.restore(moved, spark) as again:
            assert again.step({})["result"].to_pandas().empty
            assert rows(again.read("result")) == rows(here.read("result"))


SCRIPT = """
import sys, time, sharedstate_lite as ss
first, second, relations, sql, place = {first!r}, {second!r}, {relations!r}, {sql!r}, {place!r}
with ss.spark.session(memory="1g") as session:
    view = ss.Catalog(**relations).view(sql)
    with ss.spark.engine("full", [view], session, checkpoint=place, bins=2) as engine:
        print(engine.epoch, flush=True)
        if engine.epoch == 0:
            engine.step(first)
            print("one", flush=True)
            engine.step(second)
        else:
            print(engine.read("result").to_json(orient="values"), flush=True)
            print(ss.spark.batches(place)["kind"].tolist(), flush=True)
"""


def test_a_driver_that_is_killed_in_an_epoch(start: Start, tmp_path: Path) -> None:
    """kill -9 once Spark has begun an epoch: the next engine there completes it, exactly once."""
    place = tmp_path / "live"
    script = SCRIPT.format(first=FIRST, second=SECOND, relations=RELATIONS, sql=RESULT, place=str(place))
    process = start(script)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["0\n", "one\n"]
    offsets, deadline = list(place.glob("g-*"))[0] / "spark" / "offsets" / "1", time.monotonic() + WAIT
    while not offsets.exists():
        assert process.poll() is None and time.monotonic() < deadline
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.005)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    psutil.wait_procs(children, timeout=WAIT)
    out, err = start(script).communicate(timeout=WAIT)
    assert err == ""
    epoch, frame, kinds = out.splitlines()
    assert (epoch, kinds) == ("2", "['epoch', 'epoch', 'read']")
    assert json.loads(frame) == [["F", 9]]
