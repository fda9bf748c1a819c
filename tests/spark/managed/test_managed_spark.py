"""Operators with managed state on Spark: the same rows and the same state as in one process (rule 31)."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from any_names import INTERNAL, SOME, columns_of, states_of
from managed_operators import FLIGHTS, Late, parts, same, stored, written
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from sharedstate_lite import managed as m
from sharedstate_lite.data.flights import flights
from sharedstate_lite.errors import RowError, StateError
from sharedstate_lite.managed.declare import RESERVED
from sharedstate_lite.managed.run import chained
from sharedstate_lite.managed.spark.log import BatchLog
from sharedstate_lite.spark.rounds.inbox import InboxEntry, RoundKind
from sharedstate_lite.storage.encoding import NULL

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers cannot import this module
SENSOR = m.source("reading", "k STRING, t TIMESTAMP, x INT", key="k", time="t", delay="10 seconds", late="drop")
START = pd.Timestamp("2024-01-01")


class Mixed(m.Operator):
    """Uses a state of each kind, and emits what they contain. The row -1 raises."""

    out = "k STRING, t TIMESTAMP, parity INT, what STRING, seen LIST<INT>"
    last = m.Value("STRUCT<x: INT, at: TIMESTAMP>", ttl="40 seconds")
    word = "quiet"
    tail = m.List("MAP<STRING, INT>")
    byte = m.Map("INT", "LIST<ARRAY<STRING, 2>>")
    hours = m.Array("DOUBLE", 3, default=0.5)
    recent = m.Ordered("x INT", ttl="30 seconds")
    total = m.Reducing("BIGINT", "sum")
    mean = m.Aggregating("DOUBLE", m.Mean)
    quiet = m.Timer()

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Change some states, by the value."""
        x = row["x"]
        if x == -1:
            raise ValueError("this row is wrong")
        before = self.last.get()
        self.last.set({"x": x, "at": row["t"]})
        self.total.add(x)
        self.mean.add(float(x))
        self.recent.add(x)
        self.hours.set(x % 3, self.hours.get(x % 3) + 1.0)
        if x % 2:
            self.byte.put(x % 4, [*self.byte.get(x % 4, []), [key, str(x)]])
            self.quiet.set(row["t"] + pd.Timedelta(seconds=7))
        elif x % 3 == 0:
            self.tail.append({"x": x, str(key): 1})
        else:
            self.byte.clear()
        what = repr((before, self.total.get(), self.mean.get(), self.hours.get(), self.tail.get(), str(self.clock)))
        out(key, row["t"], x % 2, what, [each["x"] for each in self.recent.range()])

    def on_quiet(self, key: Any, at: Any, out: Any) -> None:
        """Say so, and come back once."""
        if self.total.get() % 3 == 0:
            self.total.add(1)
            self.quiet.set(at + pd.Timedelta(seconds=3))
        out(key, at, 2, self.word, None)


class Lengths(m.Operator):
    """Columns at a time, by another key."""

    key = "parity"
    out = "parity INT, t TIMESTAMP, n BIGINT"
    n = m.Reducing("BIGINT", "sum")

    def rows(self, batch: Any, out: Any) -> None:
        """Count, and emit the length of each text."""
        length = batch["what"].str.len()
        self.n.add(batch.keys, length)
        out.add({"parity": batch["parity"], "t": batch["t"], "n": length})


class Gaps(m.Operator):
    """Rows by event time."""

    key = "n"
    order = "event"
    out = "n BIGINT, t TIMESTAMP, gap DOUBLE"
    last = m.Value("TIMESTAMP", ttl="1 minutes")

    def row(self, key: Any, row: Any, out: Any) -> None:
        """Emit the time since the key's last row."""
        before = self.last.get()
        self.last.set(row["t"])
        out(key, row["t"], None if before is None else (row["t"] - before).total_seconds())


def readings(seed: int, count: int) -> pd.DataFrame:
    """Rows of one epoch, out of order by up to 20 seconds, so that some are late."""
    draw = random.Random(seed)
    rows = [
        (draw.choice(["a", "b", "c", "d", "e", None]), START + pd.Timedelta(seconds=20 * seed + draw.uniform(-20, 20)),
         draw.randrange(12)) for _ in range(count)
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["k", "t", "x"])
    return frame.astype({"t": "datetime64[us]", "x": "Int32"})


def test_rule_31_a_chain_on_spark_equals_one_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sequence: rows, a refused file, bins that move, a restart with a changed operator, and a tick at the end that
    empties the state."""
    folder = written(tmp_path / "in", [])

    def started(**options: Any) -> Any:
        return m.spark.run(
            [Mixed(), Lengths(), Gaps()], SENSOR, {"reading": folder}, tmp_path / "out", checkpoint=tmp_path / "state",
            session=spark, **options,
        )  # fmt: skip

    def step(job: Any, number: int) -> None:
        rows = readings(number, 25)
        frames.append(run.step(rows, clock=number))
        written(folder, [rows], number)
        assert job.run_available(clock=number) == 1

    with m.run([Mixed(), Lengths(), Gaps()], SENSOR, bins=4) as run:
        frames: list[pd.DataFrame] = []
        with started(bins=4, slots=2, workers=1) as job:
            step(job, 1)
            step(job, 2)
            before = stored(run)
            # File 3 is processed, and half of the bins that move are copied. File 4 is refused, so no bin has moved.
            wrong = readings(4, 9)
            wrong.loc[5, ["k", "x"]], wrong.loc[5, "t"] = ("a", -1), wrong["t"].max()
            frames.append(run.step(readings(3, 25), clock=3))
            with pytest.raises(StateError, match="key 'a'.*this row is wrong") as expected:
                run.step(wrong, clock=3)
            written(folder, [readings(3, 25), wrong], 3)
            assert job.rescale(2, "fluid") == 2
            with pytest.raises(StateError) as found:
                job.run_available(clock=3)
            line = next(
                n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "this row is wrong" in text
            )
            where = f"; it was raised by line {line} of {Path(__file__).name}, in row()"
            assert str(found.value) == f"{expected.value}{where}" and "0004.parquet" in found.value.__notes__[0]
            assert job.owners == [0, 0, 0, 0]
            with pytest.raises(StateError, match="moving already"):
                job.rescale(1)
            same(job, run, frames)
        # The batch of file 3 ran, but the driver was killed before Spark had committed it and the next one.
        for log in ("commits", "offsets"):
            for number in (2, 3)[log == "offsets" :]:
                (tmp_path / "state" / "query" / "spark" / log / str(number)).unlink()
        (folder / "0004.parquet").unlink()
        monkeypatch.setattr(Mixed, "word", "silence")
        with started() as job:
            step(job, 4)
            assert sorted(job.owners) == [0, 0, 1, 1]
            same(job, run, frames)
            step(job, 5)
            frames.append(run.advance(START + pd.Timedelta(hours=1)))
            job.advance(START + pd.Timedelta(hours=1))
            same(job, run, frames)
            assert (job.epoch, job.late, job.watermark) == (run.epoch, run.late, run.watermark) and job.late
            with job.snapshot(at=2) as past:
                for relation, rows in before.items():
                    pd.testing.assert_frame_equal(stored(past)[relation], rows)


def test_task_state_is_refused_by_name(tmp_path: Path) -> None:
    """Task state has no key, so it could not be on Spark."""

    class Offsets(m.Operator):
        offset = m.Task("MAP<STRING, BIGINT>", spread="split")

        def row(self, key: Any, row: Any, out: Any) -> None: ...

    with pytest.raises(StateError, match=r"Offsets\.offset is task state"):
        m.spark.run(Offsets(), SENSOR, {"reading": tmp_path}, tmp_path / "out", checkpoint=tmp_path / "state")


def test_the_driver_refuses_files_before_it_logs_them(tmp_path: Path) -> None:
    """A late row and a missing column raise the error of one process. A file that is no Parquet is refused, too."""
    source = m.source("reading", "k STRING, t TIMESTAMP, x INT", key="k", time="t")
    entries: list[InboxEntry] = []
    log = BatchLog(chained(Mixed(), source, None), source, tmp_path, entries, [0, 0], 2)
    with m.run(Mixed(), source) as run:
        run.step(readings(3, 5))
        entries.append(InboxEntry(0, RoundKind.EPOCH, 1, "", about={**log.last, "after": run.micros}))
        late, broken = readings(1, 5), tmp_path / "broken.parquet"
        for rows in (late, late.drop(columns="t")):
            written(tmp_path / "in", [rows])
            with pytest.raises(RowError) as expected:
                run.step(rows)
            file = tmp_path / "in" / "0001.parquet"
            with pytest.raises(RowError) as found:
                log.next(file, NULL, None)
            assert str(found.value) == str(expected.value) and str(file) in found.value.__notes__[0]
        broken.write_bytes(b"text")
        with pytest.raises(RowError, match="broken.parquet cannot be read"):
            log.next(broken, NULL, None)


def test_flights_in_one_process_then_on_spark_and_back(
    spark: SparkSession, tmp_path: Path, notes: Callable[[], list[str]]
) -> None:
    """A checkpoint of one process continues on Spark, and Spark's state in one process; queries are equal (rule 27)."""
    epochs = parts(flights(4_000), 4)
    with m.run(Late(), FLIGHTS) as run:
        frames = [run.step(epochs[0])]
        run.checkpoint(tmp_path / "first")
        frames += [run.step(each) for each in epochs[1:3]]
        inputs = {"flights": written(tmp_path / "in", epochs[1:2])}
        start = partial(m.spark.run, Late(), FLIGHTS, inputs, tmp_path / "out", checkpoint=tmp_path / "state",
                        session=spark)  # fmt: skip
        with start(restore=tmp_path / "first") as job:
            assert job.run_available() == 1 and "continued" not in repr(job)
        assert notes() == [f"continues from {tmp_path / 'first'}, epoch 1"]
        with start(restore=tmp_path / "first") as job:
            assert notes() == [f"continues from {tmp_path / 'state'}, epoch 2"] and "state, epoch 2)" in repr(job)
            late = "SELECT plane, total, last FROM {}.total JOIN {}.last USING (plane) ORDER BY plane"
            live, past = late.format("live", "live"), late.format("snapshot", "snapshot")
            first = job.sql(past, at=2)
            written(tmp_path / "in", epochs[2:3], 2)
            assert job.run_available() == 1
            assert (job.epoch, job.watermark, job.late) == (run.epoch, run.watermark, run.late)
            same(job, run, frames[1:])
            key = frames[-1]["plane"][0]
            assert job.read("tail", key) == run.read("tail", key) and job.read("tail", "nobody") is None
            assert job.state()["worker"].nunique() == job.slots
            pd.testing.assert_frame_equal(job.sql(live), run.sql(live))
            for at in job.snapshots[-2:]:
                pd.testing.assert_frame_equal(job.sql(past, at=at), run.sql(past, at=at))
            pd.testing.assert_frame_equal(job.sql(past, at=2), first)
            job.snapshot().checkpoint(tmp_path / "second")
        with m.restore(tmp_path / "second", Late(), workers=3) as back:
            assert notes() == [f"continues from {tmp_path / 'second'}, epoch 3"] and "second, epoch 3)" in repr(back)
            pd.testing.assert_frame_equal(back.step(epochs[3]), run.step(epochs[3]))


def test_columns_keys_and_states_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """As in one process: what is emitted and what is stored, with internal names and keywords."""
    given = ", ".join(f"{name} INT" for name in SOME)
    source = m.source("s", f"{given}, time_1 TIMESTAMP", key=INTERNAL, time="time_1")
    *states, last = (name for name in SOME if name not in RESERVED)
    chain = [*columns_of(SOME), states_of(states, key=last)]
    rows = [[*(2_000 * n + at for at in range(len(SOME))), START + pd.Timedelta(minutes=11 * n)] for n in range(2)]
    epochs = [pd.DataFrame([row], columns=[*SOME, "time_1"]).astype({"time_1": "datetime64[us]"}) for row in rows]
    folder, place = written(tmp_path / "in", epochs), tmp_path / "state"
    with (
        m.run(chain, source) as run,
        m.spark.run(chain, source, {"s": folder}, tmp_path / "out", checkpoint=place, slots=1, bins=1) as job,
    ):
        frames = [run.step(each) for each in epochs]
        job.run_available()
        same(job, run, frames)
        assert run.read("Columns.state_1")["state_1"].tolist() == [0, 2_000]
        assert set(run.read(states[3])[states[3]]) == {len(SOME) + 2, 2_000 + len(SOME) + 2, 13}
