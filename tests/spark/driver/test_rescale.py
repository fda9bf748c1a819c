"""A stopped query on another number of partitions: the same views, state and later epochs, or nothing changed."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shopping import EPOCHS, RELATIONS, bag, changelog, expected, folders, rows, views
from sparks import Start, until

import sharedstate_lite as ss
from sharedstate_lite.spark.driver import rescaling
from sharedstate_lite.spark.rounds.inbox import RoundKind
from sharedstate_lite.spark.rounds.keys import grouping_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lie(place: Path, spark: SparkSession) -> list[tuple[int, ...]]:
    """The bins of each partition of the first stage, from Spark's state reader; all stages are alike."""
    found = ss.spark.partitions(place, session=spark)
    (of,) = set(found["of"])
    assert list(found["partition"]) == list(found["bin"] % of)
    first = found[found["stage"] == 1]
    return [tuple(first["bin"][first["partition"] == p]) for p in range(of)]


def test_bins_lie_evenly_on_any_number_of_partitions(spark: SparkSession) -> None:
    """Spark puts bin n on partition n modulo the partitions, whatever their number."""
    keys = grouping_keys(12)
    assert len(set(keys)) == 12
    for partitions in (1, 2, 3, 4, 5, 7, 12, 200):
        told = ", ".join(f"pmod(hash({key}), {partitions})" for key in keys)
        assert list(spark.sql(f"SELECT {told}").collect()[0]) == [n % partitions for n in range(12)]


@pytest.mark.parametrize(
    "kind", ["shared", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("full", "partial"))]
)
def test_two_four_one(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    """From 2 partitions to 4 to 1: view, state and later changes equal those of an engine that never moved."""
    place = tmp_path / "a place"
    with ss.engine(kind, views()) as here:

        def steps(engine: Any, numbers: list[int]) -> None:
            for n in numbers:
                told, expected = engine.step(EPOCHS[n]), here.step(EPOCHS[n])
                assert {v: bag(c) for v, c in told.items()} == {v: bag(c) for v, c in expected.items()}
            assert rows(engine.read("result", key="c1")) == rows(here.read("result", key="c1"))

        with ss.spark.engine(kind, views(), spark, checkpoint=place, bins=4) as engine:
            steps(engine, [0])
            with pytest.raises(ss.CheckpointError, match="another engine is using this folder"):
                ss.spark.rescale(place, 4, spark)
        assert lie(place, spark) == [(0, 2), (1, 3)]
        ss.spark.rescale(place, 4, spark)
        assert lie(place, spark) == [(0,), (1,), (2,), (3,)]
        with ss.spark.restore(place, spark) as engine:
            steps(engine, [1, 2])
        ss.spark.rescale(place, 1, spark)
        assert lie(place, spark) == [(0, 1, 2, 3)]
        assert ss.spark.batches(place)["kind"].tolist().count("rescale") == 2
        with ss.spark.restore(place, spark) as engine:
            steps(engine, [3])
        if kind != "partial":
            # The state now, and before the first rescaling: batch 0 was epoch 1.
            name = here.state().operator[0]
            assert ss.spark.state(place, name, session=spark).equals(here.state(name))
            with ss.engine(kind, views()) as first:
                first.step(EPOCHS[0])
                assert ss.spark.state(place, name, batch=0, session=spark).equals(first.state(name))


@pytest.mark.slow
def test_a_stream_is_rescaled_and_spark_ignores_the_setting(spark: SparkSession, tmp_path: Path) -> None:
    """A stream continues after 2 -> 3 partitions; spark.sql.shuffle.partitions at a restart changes nothing."""
    place, sink, source = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "shop"

    def run(number: int) -> None:
        folders(source, number)
        with ss.spark.stream(
            "shared", views(), {r: source / r for r in RELATIONS}, sink, session=spark, checkpoint=place
        ) as job:
            if number == 0:
                with pytest.raises(ss.CheckpointError, match="another engine is using this folder"):
                    ss.spark.rescale(place, 4, spark)
            job.finish()

    run(0)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        run(1)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
    assert lie(place, spark) == [(0, 2), (1, 3)]
    ss.spark.rescale(place, 3, spark)
    assert lie(place, spark) == [(0, 3), (1,), (2,)]
    run(2)
    assert {name: changelog(sink, name) for name in ("result", "counts")} == expected(3)


def test_what_cannot_be_rescaled_is_said(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number below 1, a copy, an empty place, an open epoch are refused; a rescaling that fails changes nothing."""
    place = tmp_path / "live"
    for wrong in (0, -1, True, 2.0):
        with pytest.raises(ss.Error, match="whole number of at least 1"):
            ss.spark.rescale(place, wrong, spark)  # type: ignore[arg-type]
    with pytest.raises(ss.CheckpointError, match="not the checkpoint of an engine or a stream on Spark"):
        ss.spark.rescale(place, 4, spark)
    with ss.spark.engine("full", views(), spark, checkpoint=place, bins=2) as engine:
        engine._query.stop()
        engine.close()
    with pytest.raises(ss.CheckpointError, match="has not committed a micro-batch yet"):
        ss.spark.rescale(place, 4, spark)
    with ss.spark.restore(place, spark) as engine:
        engine.step(EPOCHS[0])
        engine.checkpoint(tmp_path / "copy")
        # As a driver leaves it that is killed after it wrote an epoch.
        engine._query.stop()
        engine._query.inbox.put(engine._epoch(EPOCHS[1])[1], RoundKind.EPOCH, 2)
    with pytest.raises(ss.CheckpointError, match="micro-batch 1 has started but is not committed"):
        ss.spark.rescale(place, 4, spark)
    with pytest.raises(ss.CheckpointError, match="is a copy"):
        ss.spark.rescale(tmp_path / "copy", 4, spark)
    with ss.spark.restore(place, spark) as engine:
        before = rows(engine.read("result"))

    def half(manager: Any, checkpoint: Path, partitions: int) -> None:
        shutil.rmtree(checkpoint / "state")
        raise OSError("the disk is full")

    monkeypatch.setattr(rescaling, "_repartition", half)
    with pytest.raises(OSError, match="the disk is full"):
        ss.spark.rescale(place, 4, spark)
    monkeypatch.undo()
    assert len(list(place.glob("g-*"))) == 1 and lie(place, spark) == [(0,), (1,)]
    with ss.spark.restore(place, spark) as engine:
        assert rows(engine.read("result")) == before


SCRIPT = """
import sharedstate_lite as ss
with ss.spark.session(memory="1g") as session:
    print("ready", flush=True)
    ss.spark.rescale({place!r}, 4, session)
    print("done", flush=True)
"""


@pytest.mark.slow
def test_a_rescaling_that_is_killed_changes_nothing(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    """kill -9 while Spark moves the state: the checkpoint is unchanged, and the next use removes the leftovers."""
    place = tmp_path / "live"
    with ss.spark.engine("full", views(), spark, checkpoint=place, bins=2) as engine:
        engine.step(EPOCHS[0])
        engine.step(EPOCHS[1])
        before = rows(engine.read("result"))
        batches = engine._query.committed
    process = start(SCRIPT.format(place=str(place)))
    until(process, lambda: any((g / "spark" / "offsets" / str(batches)).exists() for g in place.glob("g-*")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None and process.stdout.read() == "ready\n"
    assert len(list(place.glob("g-*"))) == 2
    assert lie(place, spark) == [(0,), (1,)]
    with ss.spark.restore(place, spark) as engine:
        assert len(list(place.glob("g-*"))) == 1
        assert rows(engine.read("result")) == before
        with ss.engine("full", views()) as here:
            for epoch in EPOCHS[:2]:
                here.step(epoch)
            assert bag(engine.step(EPOCHS[2])["result"]) == bag(here.step(EPOCHS[2])["result"])
