"""Streams of partial state: lookups while rows arrive and through restarts, compared with one process."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from lookups import WAIT, appear, bags, here, looked_up
from shopping import EPOCHS, RELATIONS, arrow, bag, changelog, folders, rows, views
from support import own

import sharedstate_lite as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_lookups_between_epochs(spark: SparkSession, tmp_path: Path, notes: Callable[[], list[str]]) -> None:
    """The sink gets the changes of each step, again if it raised; filled keys survive restarts."""
    source, place = tmp_path / "shop", tmp_path / "c"
    wanted, answers = here()
    out: list[tuple[int, dict[str, Counter[Any]]]] = []
    bad = {2}

    def sink(changes: dict[str, ss.Changes], number: int) -> None:
        out.append((number, bags(changes)))
        assert {each.to_pandas()["time"].eq(number + 1).all() for each in changes.values()} == {True}
        if number in bad:
            raise ValueError("the disk is full")

    def job(**more: Any) -> Any:
        named = {r: source / r for r in RELATIONS} | more
        return ss.spark.stream("partial", views(), named, sink, session=spark, checkpoint=place, bins=2)

    folders(source, 0)
    with job() as running:
        with pytest.raises(ss.CheckpointError, match="another engine is using this folder"):
            job()
        running.finish()
        assert running.epoch == 1 and list(running.progress()["rows"]) == [72]
        assert running.filled("result") == [] and not any(out[0][1].values())
        looked_up(running)
        appear(source / "visit", "1.parquet", EPOCHS[1]["visit"])
        running.finish()
    # Files of two relations cannot appear at the same time.
    folders(source, 2)
    with job() as running, pytest.raises(ss.Error, match="the sink raised ValueError: the disk is full.*batch again"):
        running.finish()
    with pytest.raises(ss.CheckpointError, match="created by a stream, not by an engine"):
        ss.spark.engine("partial", views(), spark, checkpoint=place)
    with pytest.raises(ss.CheckpointError, match="visit came from .*/visit, and now comes from .*/info"):
        job(visit=source / "info")
    bad.clear()
    assert notes() == [f"continues from {place}, epoch 2"]
    with job() as running:
        assert notes() == [f"continues from {place}, epoch 3"]
        # Lookups must not remove the changes that the sink has not received yet.
        assert running.epoch == 3 and running.filled("result") == [("c1",), ("c2",)]
        looked_up(running)
        running.finish()
        appear(source / "visit", "3.parquet", EPOCHS[3]["visit"])
        running.finish()
        assert looked_up(running) == answers
        assert sorted(running.evict("counts", key="u1")["counts"]) == [("u1",)]
        assert running.filled("counts") == [("u9",)]
        assert [name for name in running.state()["operator"] if name == "result"]
        appear(source / "visit", "odd.parquet", [(("p1", "u1", 77), -1)])
        with pytest.raises(ss.RowError, match="visit: .*77") as caught:
            running.finish()
        assert "odd.parquet: remove it" in caught.value.__notes__[0] and not running.active
        with pytest.raises(ss.Error, match="this stream has ended: call finish.. to see why; start another one with"):
            running.read("result", key="c1")
    with pytest.raises(ss.Error, match="this stream has ended: it was stopped; start another one with"):
        running.read("result", key="c1")
    assert [number for number, _ in out] == [0, 1, 2, 2, 3]
    assert [changes for _, changes in out] == [*wanted[:3], *wanted[2:]]


@pytest.mark.slow
def test_what_is_refused_ends_the_stream_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A retraction of an absent row and a corrupt file are named; without the file the stream continues."""
    source, sink = tmp_path / "shop", tmp_path / "out"
    folders(source, 0)
    named = {r: source / r for r in RELATIONS}

    def job() -> Any:
        return ss.spark.stream("partial", views(), named, sink, session=spark, checkpoint=tmp_path / "c", bins=2)

    with job() as running:
        running.finish()
        before = looked_up(running)
        odd = appear(source / "visit", "odd.parquet", [(("p1", "u1", 77), -1)])
        with pytest.raises(ss.RowError, match="visit: .*77"):
            running.finish()
    odd.unlink()
    corrupt = appear(source / "visit", "corrupt.parquet", b"no parquet")
    with job() as running, pytest.raises(ss.Error, match="corrupt.parquet: this file cannot be read"):
        running.finish()
    corrupt.unlink()
    assert ss.spark.filled(tmp_path / "c", "result", session=spark) == [("c1",), ("c2",)]
    log = ss.spark.batches(tmp_path / "c")
    epochs = log[log["kind"] == "epoch"]
    assert list(epochs["epoch"]) == [1, 2] and not epochs["refused"].any() and log["kept"].iloc[-1]
    stored = ss.spark.state(tmp_path / "c", session=spark)
    assert stored.set_index("operator")["rows"]["result"] == 2
    ss.spark.rescale(tmp_path / "c", 1, spark)
    assert set(ss.spark.partitions(tmp_path / "c", session=spark)["of"]) == {1}
    with job() as running:
        running.finish()
        assert looked_up(running) == before
        appear(source / "visit", "1.parquet", EPOCHS[1]["visit"])
        running.finish()
        assert looked_up(running) != before
    with job() as running:
        assert running.filled("result") == [("c1",), ("c2",)], "what was filled before it was rescaled is filled still"
    with ss.engine("partial", views()) as engine:
        engine.step(EPOCHS[0])
        looked_up(engine)
        assert [bag(engine.step(EPOCHS[1])["result"])] == changelog(sink, "result")
    with pytest.raises(ss.ViewError, match="max_rows: only partial state has this option"):
        ss.spark.stream("full", views(), named, sink, session=spark, checkpoint=tmp_path / "d", max_rows=5)
    with pytest.raises(ss.CheckpointError, match="changes of a stream with another checkpoint"):
        ss.spark.stream("partial", views(), named, sink, session=spark, checkpoint=tmp_path / "d")
    assert not (tmp_path / "d" / "run.json").exists()
    shutil.copytree(tmp_path / "c" / "intake", tmp_path / "older")
    with job() as running:
        appear(source / "visit", "3.parquet", EPOCHS[3]["visit"])
        appear(source / "visit", "4.parquet", [(("p1", "u1", 4), 1)])
        running.finish()
    shutil.rmtree(tmp_path / "c" / "intake")
    (tmp_path / "older").rename(tmp_path / "c" / "intake")
    with (
        job() as running,
        pytest.raises(ss.CheckpointError, match="at batch 4, but its state is at epoch 6"),
    ):
        running.finish()


def test_dataframes_beside_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame with two files is one epoch, whatever the order of its columns; the stream keeps its budget."""
    for name in ("info", "visit"):
        (tmp_path / name).mkdir()
        both = [arrow(name, epoch.get(name, [])) for epoch in EPOCHS[:2]]
        for number, table in enumerate(both):
            pq.write_table(table, tmp_path / name / f"{number}.parquet")
    (tmp_path / "info" / "1.parquet").unlink()
    read = spark.readStream.schema("product STRING, user STRING, length INT, diff BIGINT")
    visit = read.parquet(str(tmp_path / "visit")).selectExpr("diff", "length", "user AS USER", "product")
    out: list[dict[str, Counter[Any]]] = []
    sources = {"visit": visit, "info": tmp_path / "info"}
    with ss.spark.stream(
        "partial",
        views(),
        sources,
        lambda changes, number: out.append(bags(changes)),
        session=spark,
        checkpoint=tmp_path / "c",
        bins=1,
        max_rows=30,
    ) as job:
        job.finish()
        merged = {r: [row for epoch in EPOCHS[:2] for row in epoch.get(r, [])] for r in RELATIONS}
        with ss.engine("partial", views()) as engine:
            engine.step(merged)
            keys = ["c0", "c1", "c2", "c3"]
            answers = [row for key in keys for row in rows(engine.read("result", key=key))]
        assert rows(job.lookup("result", keys)) == answers
        state = job.state()
        assert own(state)["rows"].sum() <= 30 < state["rows"].sum()
        assert job.epoch == 1 and len(out) == 1


def test_lookups_while_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    """Each answer is as of an epoch between its call and its return; each change retracts the row before it."""
    source = tmp_path / "visit"
    source.mkdir()
    catalog = ss.Catalog(visit=RELATIONS["visit"])
    view = catalog.view(
        "CREATE VIEW best AS SELECT user, MAX(length) AS longest, COUNT(*) AS n FROM visit GROUP BY user"
    )
    epochs = [[(((f"p{n % 3}"), f"u{n % 4}", 10 * n + k), 1) for k in range(4)] for n in range(4)]
    as_of: list[dict[str, tuple[Any, ...]]] = [{}]
    with ss.engine("full", [view]) as engine:
        for epoch in epochs:
            engine.step({"visit": epoch})
            as_of.append({row[0]: row for row in rows(engine.read("best"))})
    got: list[tuple[int, dict[str, Counter[Any]]]] = []
    with ss.spark.stream(
        "partial",
        [view],
        {"visit": source},
        lambda changes, number: got.append((number + 1, bags(changes))),
        session=spark,
        checkpoint=tmp_path / "c",
        bins=2,
    ) as job:
        asked: list[tuple[int, str, list[tuple[Any, ...]], int]] = []
        over = threading.Event()

        def ask() -> None:
            number = 0
            while not over.is_set():
                key, before = f"u{number % 5}", job.epoch
                asked.append((before, key, rows(job.read("best", key=key)), job.epoch))
                number += 1

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for number, epoch in enumerate(epochs):
                appear(source, f"{number}.parquet", epoch)
                job.finish()
        finally:
            over.set()
            thread.join(WAIT)
        assert job.epoch == len(epochs)
        for before, key, answer, after in asked:
            possible = [[as_of[n][key]] if key in as_of[n] else [] for n in range(before, after + 1)]
            assert answer in possible, (before, key, answer, after)
        filled = {key for (key,) in job.filled("best")}
        assert {row[0]: row for row in rows(job.read("best"))} == {k: v for k, v in as_of[-1].items() if k in filled}
    assert [number for number, _ in got] == list(range(1, len(epochs) + 1)) and len(asked) > len(epochs)
    for number, changes in got:
        for row, diff in changes["best"].items():
            assert as_of[number if diff > 0 else number - 1][row[0]] == row
