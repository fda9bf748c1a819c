"""Handles in Spark jobs as a data engineer writes them: pandas, streams, sorted results, several hosts."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from leftovers import counters

from sharedstate_lite import postgres
from sharedstate_lite import worker as w
from sharedstate_lite.worker.handles import driver as drivers
from sharedstate_lite.worker.handles.metrics import COUNTS
from sharedstate_lite.worker.runtime import host

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Row = dict[str, Any]
Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def keeping(seen: w.ConcurrentSet) -> Batches:
    """Keeps the rows with new ids."""

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(seen.add_new(batch.column("id")))

    return keep


def test_pandas_in_and_out(anywhere: SparkSession, server: postgres.Server) -> None:
    """mapInPandas with enrich, query, a cache and coroutines, each on a DataFrame; NULLs in integers stay NULL."""
    pool, cache = w.ConnectionPool(anywhere, server, size=2), w.Cache(anywhere)
    calls = w.AsyncRuntime(anywhere, in_flight=4)

    async def half(row: Row) -> Row:
        return {"half": row["id"] // 2 if row["id"] % 2 == 0 else None}

    def load(ids: pd.Series[Any]) -> pd.DataFrame:
        return pool.query("SELECT name FROM product WHERE id = %s", ids.to_frame("id"))[["name"]]

    def enrich(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            out = pool.enrich(frame, "SELECT name, id AS found FROM product WHERE id = %s", on="id", how="left")
            yield out.assign(half=calls.map(half, out[["id"]])["half"])

    def cached(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            some = frame[frame["id"] < 1_000]
            yield some.assign(name=cache.get_or_load(some["id"], load)["name"])

    ids = anywhere.range(990, 1_010, 1, 4)
    rows = ids.mapInPandas(enrich, "id long, name string, found long, half long").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [
        (n, f"product {n}" if n < 1_000 else None, n if n < 1_000 else None, n // 2 if n % 2 == 0 else None)
        for n in range(990, 1_010)
    ]
    for _ in range(2):
        names = ids.mapInPandas(cached, "id long, name string").collect()
        assert sorted(tuple(row) for row in names) == [(n, f"product {n}") for n in range(990, 1_000)]
    assert counters(cache)["loads"] == 10
    for handle in (pool, cache, calls):
        handle.close()


def test_tasks_share_connections_of_any_kind(anywhere: SparkSession, tmp_path: Path) -> None:
    """Eight tasks enrich from an SQLite file over at most two connections."""
    path = str(tmp_path / "shop.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO product VALUES (?, ?)", [(n, f"p {n}") for n in range(50)])
    connection.close()
    pool = w.Pool(anywhere, lambda: sqlite3.connect(path), size=2)

    def enrich(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pool.enrich(batch, "SELECT name FROM product WHERE id = ?", on="id")

    rows = anywhere.range(0, 60, 1, 8).mapInArrow(enrich, "id long, name string").collect()
    assert sorted(tuple(row) for row in rows) == [(n, f"p {n}") for n in range(50)]
    said = counters(pool)
    assert (said["queries"], said["rows"]) == (60, 50) and said["opened"] <= 2
    pool.close()


def test_calls_of_all_tasks_have_one_limit(anywhere: SparkSession) -> None:
    """setup is called once for the host; retries, a rate and errors by row work from tasks."""

    class Service:
        def __init__(self) -> None:
            self.asked: dict[int, int] = {}

        def ask(self, n: int) -> int:
            self.asked[n] = self.asked.get(n, 0) + 1
            if n % 10 == 3 or (n % 10 == 4 and self.asked[n] == 1):
                raise ConnectionError("busy")
            return id(self)

    calls = w.AsyncRuntime(
        anywhere, in_flight=3, setup=Service, timeout=30, retries=1, rate=10_000, return_exceptions=True
    )

    async def ask(row: Row, service: Service) -> Row:
        return {"id": row["id"], "service": service.ask(row["id"])}

    def work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield calls.map(ask, frame, pa.schema({"id": pa.int64(), "service": pa.int64()}))

    rows = anywhere.range(0, 40, 1, 4).mapInPandas(work, "id long, service long, error string").collect()
    assert sum(row.error == "ConnectionError: busy" for row in rows) == 4
    assert sum(row.error is None for row in rows) == 36
    assert len({row.service for row in rows if row.error is None}) == 1
    assert counters(calls)["calls"] == 48 and counters(calls)["in_flight"] <= 3
    calls.close()


def test_a_cache_for_tasks_and_coroutines(anywhere: SparkSession) -> None:
    """Coroutines and tasks load each key once together; a task invalidates, and so does the driver."""
    cache, calls = w.Cache(anywhere), w.AsyncRuntime(anywhere, in_flight=8)

    async def load(keys: pa.Array[Any]) -> pa.Table:
        return pa.table({"twice": pa.array([2 * key for key in keys.to_pylist()], pa.int64())})

    def load_now(keys: pa.Array[Any]) -> pa.Table:
        return pa.table({"twice": pa.array([2 * key for key in keys.to_pylist()], pa.int64())})

    async def look_up(row: Row) -> Row:
        return {"id": (await cache.fetch([row["id"]], load)).column("twice")[0].as_py()}

    def by_coroutine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from calls.map(look_up, batch).to_batches()

    def by_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from cache.get_or_load(batch.column("id"), load_now).rename_columns(["id"]).to_batches()

    def forget(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            cache.invalidate(batch.column("id"))
            yield batch

    ids = anywhere.range(0, 400, 1, 4).selectExpr("id % 20 AS id")
    expected = sorted(2 * (n % 20) for n in range(400))
    for work in (by_coroutine, by_task, by_coroutine):
        assert sorted(row.id for row in ids.mapInArrow(work, "id long").collect()) == expected
    assert counters(cache)["loads"] == 20
    anywhere.range(0, 5, 1, 1).mapInArrow(forget, "id long").collect()
    cache.invalidate([19, 7])
    assert counters(cache)["held"] == 13
    assert sorted(row.id for row in ids.mapInArrow(by_task, "id long").collect()) == expected
    assert counters(cache)["loads"] == 27
    calls.close()
    cache.close()


def test_a_count_has_one_meaning(anywhere: SparkSession, server: postgres.Server) -> None:
    """A counter that does not apply to a kind of handle is NULL, and docs/worker.md explains them all."""
    handles = (
        w.share(pa.table({"a": [1]}), anywhere),
        w.ConcurrentSet(anywhere),
        w.Cache(anywhere),
        w.ConnectionPool(anywhere, server, size=1),
        w.Pool(anywhere, lambda: sqlite3.connect(":memory:"), size=1),
        w.AsyncRuntime(anywhere),
        w.Mailbox(anywhere),
    )
    table, seen, cache, server_pool, pool, calls, box = handles
    one = pa.table({"n": [1]})

    async def same(row: Row) -> Row:
        return row

    box.serve(lambda table: table)
    table.table()
    seen.add_new([1, 1, 2])
    cache.get_or_load([1, 1, 2], lambda keys: pa.table({"n": keys}))
    server_pool.query("SELECT %s AS n", one)
    pool.query("SELECT ? AS n", one)
    calls.map(same, one)
    box.ask(one)
    rows = w.metrics().set_index("kind").loc[[handle.kind for handle in handles]]
    assert list(rows.columns) == ["application", "host", "handle", *COUNTS, "pss"]
    applies = {kind: [name for name in COUNTS if pd.notna(row[name])] for kind, row in rows.iterrows()}
    pools = ["requests", "rows", "sent", "queries", "connections", "most", "opened"]
    assert applies == {
        "Immutable": ["requests", "loads", "bytes"],
        "ConcurrentSet": ["requests", "rows", "hits", "loads", "held", "bytes"],
        "Cache": ["requests", "rows", "hits", "loads", "held", "bytes"],
        "ConnectionPool": pools,
        "Pool": pools,
        "AsyncRuntime": ["requests", "rows", "calls", "in_flight"],
        "Mailbox": ["requests", "rows", "sent"],
    }
    assert rows["requests"].tolist() == [1] * 7 and rows["rows"].tolist() == [pd.NA, 3, 3, 1, 1, 1, 1]
    assert rows["hits"].dropna().tolist() == [1, 1] and rows["loads"].dropna().tolist() == [0, 2, 2]
    page = (Path(__file__).resolve().parents[2] / "docs" / "worker.md").read_text()
    assert all(f"| `{name}` | {meaning} |" in page for name, meaning in COUNTS.items())
    for handle in handles:
        handle.close()


def test_a_sorted_result_is_refused_or_computed_once(anywhere: SparkSession) -> None:
    """orderBy reads its input twice, in two stages: refused; with localCheckpoint() the answer is exact."""
    ids = anywhere.range(0, 4_000, 1, 4).selectExpr("id % 500 AS id")
    with (
        w.ConcurrentSet(anywhere) as seen,
        pytest.raises(Exception, match=r"two stages of this query.*localCheckpoint"),
    ):
        ids.mapInArrow(keeping(seen), "id long").orderBy("id").collect()
    with w.ConcurrentSet(anywhere) as seen:
        kept = ids.mapInArrow(keeping(seen), "id long").localCheckpoint()
        assert [row.id for row in kept.orderBy("id").collect()] == list(range(500))
    with w.ConcurrentSet(anywhere) as seen:
        # Partition 0 has 3 new ids, so take() continues with other partitions, in another stage.
        few = anywhere.range(0, 40, 1, 8).selectExpr("id % 12 AS id").mapInArrow(keeping(seen), "id long")
        assert sorted(row.id for row in few.take(12)) == list(range(12))


def stream(session: SparkSession, folder: Path) -> DataFrame:
    """A stream of three micro-batches with ids 0 to 9, 5 to 14 and 10 to 19, each id twice."""
    source = folder / "in"
    if not source.exists():
        for n in range(3):
            ids = pa.table({"id": pa.array(list(range(5 * n, 5 * n + 10)) * 2, pa.int64())})
            source.mkdir(exist_ok=True)
            import pyarrow.parquet as pq

            pq.write_table(ids, source / f"{n}.parquet")
            os.utime(source / f"{n}.parquet", (1_000 + n, 1_000 + n))
    return session.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(source))


def test_a_set_outlives_a_micro_batch(anywhere: SparkSession, tmp_path: Path) -> None:
    """A stream keeps each id once; a micro-batch that fails sees its ids as new again when it is repeated."""
    seen = w.ConcurrentSet(anywhere)
    kept: dict[int, list[int]] = {}
    failed: list[int] = []

    def sink(frame: DataFrame, batch: int) -> None:
        # A sorted action computes the batch twice, in two stages of one micro-batch.
        told = [row.id for row in frame.orderBy("id").collect()]
        if batch == 1 and not failed:
            failed.append(batch)
            raise ConnectionError("the sink is away")
        kept[batch] = told

    def start() -> StreamingQuery:
        new = stream(anywhere, tmp_path).mapInArrow(keeping(seen), "id long")
        writer = new.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "state"))
        return writer.trigger(availableNow=True).start()

    with pytest.raises(Exception, match="the sink is away"):
        start().awaitTermination()
    start().awaitTermination()
    assert failed == [1]
    assert kept == {0: list(range(10)), 1: list(range(10, 15)), 2: list(range(15, 20))}
    assert counters(seen)["held"] == 20
    seen.close()


@pytest.mark.parametrize("anywhere", ["local-cluster"], indirect=True)
@pytest.mark.slow
def test_keys_are_invalidated_on_all_hosts(anywhere: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a runtime for each executor, a key that the driver or a task invalidates is loaded again on both."""
    monkeypatch.setenv(host.VARIABLE, "executor")
    drivers.driver(anywhere).close()
    cache = w.Cache(anywhere)

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from cache.get_or_load(np.arange(10), lambda keys: pa.table({"id": keys})).to_batches()

    def job() -> None:
        # A barrier stage uses both executors.
        both = anywhere.range(0, 2, 1, 2).mapInArrow(look_up, "id long", barrier=True)
        assert sorted(row.id for row in both.collect()) == sorted([*range(10)] * 2)

    job()
    rows = w.metrics()
    assert rows["loads"].tolist() == [10, 10] and rows["host"].nunique() == 2
    cache.invalidate([3, 4])
    rows = w.metrics()
    assert rows["held"].dropna().tolist()[:2] == [8, 8]
    job()
    assert w.metrics()["loads"].tolist()[:2] == [12, 12]
    drivers.driver(anywhere).close()
