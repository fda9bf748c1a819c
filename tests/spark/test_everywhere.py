"""The same job on local[2], local-cluster and a standalone master with two workers; executors that are killed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shopping import EPOCHS, RELATIONS, bag, changelog, expected, folders, rows, views
from sparks import EXECUTOR, kill

import sharedstate_lite as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("result", "counts")


@pytest.mark.slow
def test_an_engine_and_a_stream_give_the_same_everywhere(everywhere: SparkSession, tmp_path: Path) -> None:
    """Steps, reads, a refusal, state and a restart give the same with executors in other processes."""
    with ss.engine("shared", views()) as here:
        with ss.spark.engine("shared", views(), everywhere, checkpoint=tmp_path / "c") as there:
            for epoch in EPOCHS[:2]:
                out, wanted = there.step(epoch), here.step(epoch)
                assert {v: bag(c) for v, c in out.items()} == {v: bag(c) for v, c in wanted.items()}
            for engine in (here, there):
                with pytest.raises(ss.RowError, match=r"its multiplicity would be -1 \(stored: 0, this epoch: -1\)"):
                    engine.step({"visit": [(("p1", "u1", 4_711), -1)]})
            name = here.state().operator[0]
            assert there.state(name).equals(here.state(name))
        with ss.spark.restore(tmp_path / "c", everywhere) as there:
            assert bag(there.step(EPOCHS[2])["result"]) == bag(here.step(EPOCHS[2])["result"])


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", ["local-cluster", "standalone"], indirect=True)
def test_an_executor_that_is_killed(everywhere: SparkSession) -> None:
    """An executor killed between two epochs: the answers are exact, and each change is emitted once."""
    with ss.engine("full", views()) as here, ss.spark.engine("full", views(), everywhere) as there:
        for engine in (here, there):
            engine.step(EPOCHS[0])
        assert kill(EXECUTOR, most=1) == 1
        for epoch in EPOCHS[1:]:
            out, wanted = there.step(epoch), here.step(epoch)
            assert {v: bag(c) for v, c in out.items()} == {v: bag(c) for v, c in wanted.items()}
        assert rows(there.read("result")) == rows(here.read("result"))


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", ["local-cluster", "standalone"], indirect=True)
def test_partial_state_and_executors_that_are_killed(everywhere: SparkSession, tmp_path: Path) -> None:
    """Killed before a hit, a miss and an epoch: what is filled stays filled, and each change is emitted once."""
    place = tmp_path / "c"
    with (
        ss.engine("partial", views()) as here,
        ss.spark.engine("partial", views(), everywhere, checkpoint=place) as there,
    ):
        for engine in (here, there):
            engine.step(EPOCHS[0])
            engine.read("result", key="c1")
        for number, (view, key) in enumerate([("result", "c1"), ("counts", "u4"), ("result", "c2")]):
            assert kill(EXECUTOR, most=1) == 1
            assert rows(there.read(view, key=key)) == rows(here.read(view, key=key))
            assert kill(EXECUTOR, most=1) == 1
            out, wanted = there.step(EPOCHS[number + 1]), here.step(EPOCHS[number + 1])
            assert {v: bag(c) for v, c in out.items()} == {v: bag(c) for v, c in wanted.items()}
        for view in NAMES:
            assert there.filled(view) == here.filled(view)
            assert rows(there.read(view)) == rows(here.read(view))


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", ["local-cluster", "standalone"], indirect=True)
def test_an_executor_that_is_killed_in_a_batch(everywhere: SparkSession, tmp_path: Path) -> None:
    """An executor killed while a stream's micro-batch runs: the changelog is that of one process, batch by batch."""
    source = tmp_path / "shop"
    folders(source, 0)
    named = {r: source / r for r in RELATIONS}
    with ss.spark.stream(
        "shared", views(), named, tmp_path / "out", session=everywhere, checkpoint=tmp_path / "c"
    ) as job:
        job.finish()
        for number in range(1, 4):
            folders(source, number)
        finishing = threading.Thread(target=job.finish)
        finishing.start()
        while not (job._query.checkpoint / "offsets" / "1").exists():
            assert finishing.is_alive()
        assert kill(EXECUTOR, most=1) == 1
        finishing.join()
    assert {name: changelog(tmp_path / "out", name) for name in NAMES} == expected(4)
