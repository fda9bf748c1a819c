"""Use case 4: several queries in flight at the same time.

The rungs are:

- one connection per worker process, with one query at a time;
- the host's connection pool, with one query at a time per task;
- the host's pool, with several threads in each task;
- the host's pool and an asyncio runtime with 1, 4, 16 and 64 calls in flight on the host.

All pools have the same size. The client waits ``latency`` seconds before each query, which simulates a distant server.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sharedstate_lite.lessons.usecases.ladder import Rung, RunResult, digest
from sharedstate_lite.worker import AsyncRuntime, ConnectionPool

from . import connections, enrich

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 500
"""The maximum number of events in one batch of a task."""
CONNECTIONS = 16
"""The size of each connection pool."""
IN_FLIGHT = (1, 4, 16, 64)
"""The numbers of calls in flight, with one rung for each."""


def alone(events: DataFrame, dsn: str, latency: float, mark: str) -> DataFrame:
    """Enrich events with one query at a time, over the worker process's own connection.

    ``mark`` identifies the connection, as in :func:`.connections.kept`.
    """

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        connection = connections.kept(dsn, mark)

        def ask(sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
            return [connection.execute(sql, (key,), prepare=True).fetchall() for key in _away(keys, latency)]

        yield from (enrich.enriched(ids, ask) for ids in parts)

    return enrich.over(events, work, ROWS)


def synchronous(events: DataFrame, pool: ConnectionPool, latency: float) -> DataFrame:
    """Enrich events through the pool, with one query at a time in each task."""
    ask = functools.partial(_waited, pool, latency)
    return enrich.over(events, lambda parts: (enrich.enriched(ids, ask) for ids in parts), ROWS)


def threaded(events: DataFrame, pool: ConnectionPool, latency: float, threads: int) -> DataFrame:
    """Enrich events through the pool from ``threads`` threads in each task, with one query at a time in each thread."""

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        ask = functools.partial(_waited, pool, latency)
        with ThreadPoolExecutor(threads) as executor:
            for ids in parts:
                found = executor.map(lambda id: enrich.enriched([id], ask), ids)
                yield from pa.Table.from_batches(found, enrich.ARROW).combine_chunks().to_batches()

    return enrich.over(events, work, ROWS)


def in_flight(events: DataFrame, calls: AsyncRuntime, pool: ConnectionPool, latency: float) -> DataFrame:
    """Enrich events through the pool from coroutines in the host's runtime.

    ``calls`` limits the number of calls in flight for all tasks together.
    """

    async def ask(row: dict[str, Any]) -> dict[str, Any]:
        return await enrich.one(pool, row["id"], latency)

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        for ids in parts:
            yield from enrich.told(calls.map(ask, pa.table({"id": pa.array(ids, pa.int64())}), enrich.ARROW))

    return enrich.over(events, work, ROWS)


@contextlib.contextmanager
def rungs(
    session: SparkSession, dsn: str, events: DataFrame, latency: float, few: DataFrame | None = None
) -> Iterator[dict[str, Rung]]:
    """Yield the rungs of the ladder.

    Rungs with fewer than 16 queries in flight are slow and process ``few`` (by default all of ``events``). The others
    process ``events``. Each rung that uses a pool counts the largest number of connections in use at the same time.
    """
    few = events if few is None else few
    many, fewer = events.count(), few.count()
    tasks = session.sparkContext.defaultParallelism
    with contextlib.ExitStack() as open_:
        handles = {n: open_.enter_context(AsyncRuntime(session, in_flight=n)) for n in IN_FLIGHT}
        pools = {
            n: open_.enter_context(ConnectionPool(session, dsn, size=CONNECTIONS))
            for n in ("one", "threads", *IN_FLIGHT)
        }

        def run(frame: DataFrame, pool: ConnectionPool) -> RunResult:
            answer = digest(frame)
            return RunResult(answer, {"connections at once": pool.stats()["most"]})

        def flying(n: int, frame: DataFrame) -> RunResult:
            return run(in_flight(frame, handles[n], pools[n], latency), pools[n])

        mark = secrets.token_hex(6)
        found = {
            "own connection": Rung(fewer, lambda: RunResult(digest(alone(few, dsn, latency, mark)))),
            "synchronous": Rung(fewer, lambda: run(synchronous(few, pools["one"], latency), pools["one"])),
            "threads": Rung(
                many,
                lambda: run(threaded(events, pools["threads"], latency, CONNECTIONS // tasks or 1), pools["threads"]),
            ),
        }
        for n in IN_FLIGHT:
            some, count = (few, fewer) if n < CONNECTIONS else (events, many)
            found[f"asyncio, {n}"] = Rung(count, functools.partial(flying, n, some))
        yield found


def _away(keys: Sequence[int], latency: float) -> Iterator[int]:
    """Yield the keys one at a time, each after ``latency`` seconds. This simulates the latency of a distant server."""
    for key in keys:
        time.sleep(latency)  # the wait that this ladder measures
        yield key


def _waited(pool: ConnectionPool, latency: float, sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
    """Run one query per key through the pool, one at a time, each after ``latency`` seconds."""
    found = []
    for key in _away(keys, latency):
        answer = pool.query(sql, pa.table({"key": pa.array([key], pa.int64())})).drop_columns(["row"])
        found.append([tuple(row.values()) for row in answer.to_pylist()])
    return found
