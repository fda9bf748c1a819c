"""Sharing from Spark's tasks, on one machine, on local-cluster and on a standalone cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pytest
from leftovers import runtimes, until
from sparks import EXECUTOR, PLACES

import sharedstate_lite.spark as kit
from sharedstate_lite import postgres
from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.spark.session.settings import VARIABLE
from sharedstate_lite.worker.handles import driver as drivers
from sharedstate_lite.worker.runtime import host

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ELSEWHERE = ["local-cluster", "standalone"]
Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def ids(spark: SparkSession, rows: int = 20_000, values: int = 1_000, tasks: int = 4) -> DataFrame:
    """A frame of ids with many repetitions in every task."""
    return spark.range(0, rows, 1, tasks).selectExpr(f"id % {values} AS id")


def keeping(seen: w.ConcurrentSet, before: Callable[[], None] = lambda: None) -> Batches:
    """Keep the rows with new ids; ``before`` runs for each batch after the request to the set."""

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            new = seen.add_new(batch.column("id"))
            before()
            yield batch.filter(pa.array(new))

    return keep


def collected(frame: DataFrame) -> list[int]:
    """The ids of a frame, in order."""
    return sorted(int(row.id) for row in frame.collect())


def test_a_set_drops_what_any_task_has_seen(anywhere: SparkSession) -> None:
    """The tasks of one host keep each id once, without a shuffle."""
    seen = w.ConcurrentSet(anywhere)
    kept = ids(anywhere).mapInArrow(keeping(seen), "id long")
    assert "Exchange" not in kept._jdf.queryExecution().toString()
    assert collected(kept) == list(range(1_000))
    row = w.metrics().set_index("handle").loc[seen._name]
    assert (row["rows"], row["loads"], row["hits"]) == (20_000, 1_000, 19_000)
    with pytest.raises(Exception, match="another query has filled this set"):
        kept.collect()
    seen.close()


def test_every_api_can_share(anywhere: SparkSession) -> None:
    """A handle works the same from an RDD, mapInPandas, mapInArrow and a UDF, and in the driver."""
    from pyspark.sql.functions import pandas_udf

    graph = w.share(w.CSR.from_edges(np.arange(100) % 10, np.arange(100) % 7), anywhere)
    expected = [int(graph.csr().neighbours(node).sum()) for node in range(10)]
    rdd = anywhere.sparkContext.parallelize(range(10), 4)
    assert rdd.map(lambda node: int(graph.csr().neighbours(node).sum())).collect() == expected

    def in_pandas(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"id": [int(graph.csr().neighbours(node).sum()) for node in frame["id"]]})

    @pandas_udf("long")  # type: ignore[call-overload]
    def in_udf(nodes: pd.Series) -> pd.Series:
        return nodes.map(lambda node: int(graph.csr().neighbours(node).sum()))

    nodes = anywhere.range(0, 10, 1, 4)
    assert [row.id for row in nodes.mapInPandas(in_pandas, "id long").collect()] == expected
    assert [row[0] for row in nodes.select(in_udf("id")).collect()] == expected
    graph.close()


def test_tasks_map_one_memory(anywhere: SparkSession) -> None:
    """Every worker of a host maps the same file read-only, and it is the driver's own."""
    table = w.share(pa.table({"a": np.arange(100_000)}), anywhere)

    def look(_: int) -> tuple[int, str, int]:
        held = table.table()
        maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "sharedstate-lite" in line]
        return os.getpid(), f"{maps[0][1]} {maps[0][4]}", held.num_rows

    said = anywhere.sparkContext.parallelize(range(8), 8).map(look).collect()
    assert len({pid for pid, _, _ in said}) > 1
    assert len({inode for _, inode, _ in said}) == 1 and said[0][1].startswith("r--")
    row = w.metrics().set_index("handle").loc[table._name]
    assert row["loads"] == 0
    table.close()


def test_foreach_batch_shares(anywhere: SparkSession, tmp_path: Path) -> None:
    """Tasks started in foreachBatch use a cache and a mailbox."""
    cache, box = w.Cache(anywhere, capacity=100), w.Mailbox(anywhere)
    box.serve(lambda table: table.append_column("twice", pa.array(table.column("id").to_numpy() * 2)))
    found: list[tuple[int, int]] = []

    def enrich(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = cache.get_or_load(batch.column("id"), lambda keys: box.ask(pa.table({"id": keys})))
            yield from rows.to_batches()

    def sink(frame: DataFrame, _: int) -> None:
        found.extend((row.id, row.twice) for row in frame.mapInArrow(enrich, "id long, twice long").collect())

    anywhere.range(0, 50, 1, 2).write.parquet(str(tmp_path / "in"))
    stream = anywhere.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "state")).start()
    query.processAllAvailable()
    query.stop()
    assert sorted(found) == [(n, 2 * n) for n in range(50)]
    cache.close()
    box.close()


def test_a_killed_attempt_loses_nothing(anywhere: SparkSession) -> None:
    """A Python worker is killed after it has added: the next attempt of its partition sees the values as new again."""
    seen = w.ConcurrentSet(anywhere)

    def die() -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and context.partitionId() in (0, 3):
            os.kill(os.getpid(), signal.SIGKILL)

    assert collected(ids(anywhere).mapInArrow(keeping(seen, die), "id long")) == list(range(1_000))
    seen.close()


def test_a_killed_runtime_costs_repetition_at_most(anywhere: SparkSession) -> None:
    """The runtime is killed during a job: with a final dropDuplicates the answer is right."""
    seen = w.ConcurrentSet(anywhere)
    assert w.share(pa.table({"a": [1]}), anywhere).table().num_rows == 1
    (pid,) = runtimes(drivers.driver(anywhere))

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    kept = ids(anywhere).mapInArrow(keeping(seen, kill), "id long").dropDuplicates(["id"])
    assert collected(kept) == list(range(1_000))
    assert pid not in runtimes(drivers.driver(anywhere))
    seen.close()


def test_one_load_a_missing_key(anywhere: SparkSession) -> None:
    """Tasks that miss the same keys load each of them once."""
    cache = w.Cache(anywhere, capacity=10_000)
    box = w.Mailbox(anywhere)
    loaded: list[int] = []

    def load(table: pa.Table) -> pa.Table:
        loaded.extend(table.column("id").to_pylist())
        return table

    box.serve(load)

    def enrich(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = cache.get_or_load(batch.column("id"), lambda keys: box.ask(pa.table({"id": keys})))
            yield from rows.to_batches()

    kept = ids(anywhere, rows=8_000, values=2_000)
    assert collected(kept.mapInArrow(enrich, "id long")) == collected(kept)
    assert sorted(loaded) == list(range(2_000))
    cache.close()
    box.close()


def test_tasks_share_connections_and_a_loop(anywhere: SparkSession) -> None:
    """Eight tasks query through a pool and through coroutines: the server has at most the pool's connections."""
    with postgres.Server() as server:
        postgres.write(server, "product", pa.table({"id": np.arange(500), "name": [f"p {n}" for n in range(500)]}))
        pool, calls = w.ConnectionPool(anywhere, server, size=2), w.AsyncRuntime(anywhere, in_flight=8)

        async def name(row: dict[str, Any]) -> dict[str, Any]:
            return (await pool.fetch("SELECT id, name FROM product WHERE id = %s", [row["id"]]))[0]

        def by_query(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                sql = "SELECT id, name FROM product WHERE id = %(id)s"
                yield from pool.query(sql, batch).drop_columns(["row"]).to_batches()

        def by_coroutine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from calls.map(name, batch).to_batches()

        events = ids(anywhere, rows=800, values=500, tasks=8)
        expected = sorted((n % 500, f"p {n % 500}") for n in range(800))
        for enrich in (by_query, by_coroutine):
            rows = events.mapInArrow(enrich, "id long, name string").collect()
            assert sorted((row.id, row.name) for row in rows) == expected
        counts = w.metrics().set_index("handle").loc[pool._name]
        assert counts["opened"] <= 2 and counts["queries"] == 1_600
        with server.connect() as connection:
            others = "SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> pg_backend_pid()"
            assert connection.execute(others).fetchall()[0][0] <= 2
        calls.close()
        pool.close()
        assert pool._name not in set(w.metrics()["handle"])


def test_an_error_in_the_runtime_reaches_the_user(anywhere: SparkSession) -> None:
    """An error of a resource fails the Spark job with its message."""
    box = w.Mailbox(anywhere)

    def refuse(table: pa.Table) -> pa.Table:
        raise KeyError("no such symbol")

    box.serve(refuse)
    ask: Callable[[Any], Any] = lambda n: box.ask(pa.table({"n": [n]})).num_rows  # noqa: E731
    with pytest.raises(Exception, match="its handler raised KeyError: 'no such symbol'"):
        anywhere.sparkContext.parallelize([1], 1).map(ask).collect()
    box.close()
    with pytest.raises(Error, match="it is closed"):
        box.ask(pa.table({"n": [1]}))


@pytest.mark.parametrize("anywhere", ELSEWHERE, indirect=True)
@pytest.mark.slow
def test_a_killed_executor_does_not_take_the_runtime_along(anywhere: SparkSession) -> None:
    """The executor that started the runtime is killed: the runtime stays, and the answer is exact."""
    seen = w.ConcurrentSet(anywhere)
    table = w.share(pa.table({"a": [1]}), anywhere)
    anywhere.sparkContext.parallelize(range(4), 4).map(lambda _: table.table().num_rows).collect()
    before = runtimes(drivers.driver(anywhere))

    def kill() -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and context.partitionId() == 0:
            for parent in psutil.Process().parents():
                if EXECUTOR in " ".join(parent.cmdline()):
                    parent.kill()

    assert collected(ids(anywhere).mapInArrow(keeping(seen, kill), "id long")) == list(range(1_000))
    assert runtimes(drivers.driver(anywhere)) == before
    seen.close()
    table.close()


@pytest.mark.parametrize("anywhere", ELSEWHERE, indirect=True)
@pytest.mark.slow
def test_one_machine_as_two_hosts(anywhere: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SHAREDSTATE_LITE_HOST=executor there are two runtimes, each with its own copy and set."""
    monkeypatch.setenv(host.VARIABLE, "executor")
    # The variable is read when the application's server is created.
    drivers.driver(anywhere).close()
    table = w.share(pa.table({"a": np.arange(1000)}), anywhere)
    seen = w.ConcurrentSet(anywhere)

    def look() -> None:
        assert table.table().num_rows == 1000

    # A barrier stage uses both executors, even if one has just been restarted.
    kept = ids(anywhere, tasks=2).mapInArrow(keeping(seen, look), "id long", barrier=True)
    told = collected(kept)
    assert sorted(set(told)) == list(range(1_000)) and len(told) <= 2_000
    rows = w.metrics()
    assert (rows[rows["handle"] == table._name]["loads"] == 1).all()
    assert rows["host"].nunique() == len(runtimes(drivers.driver(anywhere))) == 2
    drivers.driver(anywhere).close()


@pytest.mark.parametrize("place", ["local", *ELSEWHERE])
@pytest.mark.slow  # test_worker_unsafe ends a context, and test_worker_runtime a driver, without Spark
def test_nothing_is_left_when_the_session_stops(place: str, tmp_path: Path) -> None:
    """When a session stops, its runtime, sockets and memory are gone, although Python goes on."""
    if PLACES[place]:
        nothing_is_left(PLACES[place], tmp_path)
        return
    with kit.Cluster(workers=2) as cluster:
        nothing_is_left(cluster.url, tmp_path)


def nothing_is_left(master: str, folder: Path) -> None:
    """Start a session in another Python, share, stop it, and check what that process and the host still have."""
    script = """
    import sys
    import pyarrow as pa
    import sharedstate_lite as ss
    from sharedstate_lite.worker.handles import driver
    session = ss.spark.session()
    table = ss.worker.share(pa.table({"a": [1]}))
    print(session.sparkContext.parallelize([1], 1).map(lambda _: table.table().num_rows).collect())
    pid = driver.driver(session).runtimes()[0]["pid"]
    ss.spark.stop()
    print(pid, flush=True)
    sys.stdin.read()
    """
    root = Path(__file__).resolve().parents[2]
    code = "\n".join(line[4:] for line in script.splitlines())
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root), VARIABLE: master},
        cwd=folder,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"[1]\n"
    pid = int(process.stdout.readline())
    until(lambda: not psutil.pid_exists(pid))
    fds = [os.readlink(file) for file in Path(f"/proc/{process.pid}/fd").iterdir()]
    assert not [name for name in fds if "sharedstate-lite" in name]
    process.communicate(b"")
    assert process.returncode == 0
