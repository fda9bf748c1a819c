"""Use case 4: queries in flight at once.

The rungs: one connection for each worker process and one query at a time · the same through the host's pool · threads
· an asyncio runtime with 1, 4, 16 and 64 calls in flight on the host. All pools have the same size. Each query first
waits ``latency`` seconds in the client, which simulates a distant server.
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

from ...worker import AsyncRuntime, ConnectionPool
from . import connections, enrich
from .ladder import Rung, RunResult, digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 500
"""Events in one batch of a task."""
CONNECTIONS = 16
IN_FLIGHT = (1, 4, 16, 64)


def alone(events: DataFrame, dsn: str, latency: float, mark: str) -> DataFrame:
    """One query at a time over the connection of the process; ``mark`` as in :mod:`.connections`."""

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        connection = connections.kept(dsn, mark)

        def ask(sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
            return [connection.execute(sql, (key,), prepare=True).fetchall() for key in _away(keys, latency)]

        yield from (enrich.enriched(ids, ask) for ids in parts)

    return enrich.over(events, work, ROWS)


def synchronous(events: DataFrame, pool: ConnectionPool, latency: float) -> DataFrame:
    """One query at a time through the pool."""
    ask = functools.partial(_waited, pool, latency)
    return enrich.over(events, lambda parts: (enrich.enriched(ids, ask) for ids in parts), ROWS)


def threaded(events: DataFrame, pool: ConnectionPool, latency: float, threads: int) -> DataFrame:
    """The same from ``threads`` threads in each task."""

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        ask = functools.partial(_waited, pool, latency)
        with ThreadPoolExecutor(threads) as executor:
            for ids in parts:
                found = executor.map(lambda id: enrich.enriched([id], ask), ids)
                yield from pa.Table.from_batches(found, enrich.ARROW).combine_chunks().to_batches()

    return enrich.over(events, work, ROWS)


def in_flight(events: DataFrame, calls: AsyncRuntime, pool: ConnectionPool, latency: float) -> DataFrame:
    """The host's runtime has as many calls in flight as ``calls`` allows, of all tasks together."""

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
    """The ladder over ``events``; what has few questions under way, and so takes long, over ``few`` (default: all).

    Counted: calls, or for the pool's users connections, that were busy at once at most.
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
    """The keys, one after the other, each after ``latency`` seconds: a server that is so far away."""
    for key in keys:
        time.sleep(latency)  # what this ladder measures
        yield key


def _waited(pool: ConnectionPool, latency: float, sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
    """One query after the other through the pool, each after ``latency`` seconds."""
    found = []
    for key in _away(keys, latency):
        answer = pool.query(sql, pa.table({"key": pa.array([key], pa.int64())})).drop_columns(["row"])
        found.append([tuple(row.values()) for row in answer.to_pylist()])
    return found
