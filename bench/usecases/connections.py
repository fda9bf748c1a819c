"""Use case 3: connections to the database.

The rungs are:

- one connection per query;
- one connection per partition;
- one connection per worker process;
- one connection per worker process, with pipelined queries;
- one pool for the host, also with pipelined queries.

The chart therefore shows three gains separately: fewer connections, pipelining, and sharing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa

from sharedstate_lite.lessons.usecases.ladder import Rung, RunResult, digest
from sharedstate_lite.worker import ConnectionPool

from . import enrich

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

Connection = psycopg.Connection[Any]
ROWS = 1_000
"""The maximum number of events in one batch of a task."""
_mine: dict[str, tuple[int, Connection]] = {}
"""The connection that this worker process keeps open, by mark, as (pid of the process that opened it, connection)."""


def per_query(events: DataFrame, dsn: str, opened: Accumulator[int]) -> DataFrame:
    """Enrich events with a new connection for every query. ``opened`` counts the connections."""

    def ask(sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
        found = []
        for key in keys:
            opened.add(1)
            with psycopg.connect(dsn, autocommit=True) as connection:
                found.append(connection.execute(sql, (key,)).fetchall())
        return found

    return enrich.over(events, lambda parts: (enrich.enriched(ids, ask) for ids in parts), ROWS)


def per_partition(events: DataFrame, dsn: str, opened: Accumulator[int]) -> DataFrame:
    """Enrich events with one connection per partition. ``opened`` counts the connections."""

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        opened.add(1)
        with psycopg.connect(dsn, autocommit=True) as connection:
            for ids in parts:
                yield enrich.enriched(ids, lambda sql, keys: _each(connection, sql, keys))

    return enrich.over(events, work, ROWS)


def per_process(events: DataFrame, dsn: str, opened: Accumulator[int], mark: str, ahead: bool = False) -> DataFrame:
    """Enrich events with one connection per worker process, which stays open for later partitions.

    ``mark`` identifies the connection; see :func:`kept`. If ``ahead`` is True, queries are pipelined. ``opened``
    counts the connections.
    """

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        connection = kept(dsn, mark, opened)
        for ids in parts:
            yield enrich.enriched(ids, lambda sql, keys: (_ahead if ahead else _each)(connection, sql, keys))

    return enrich.over(events, work, ROWS)


def pooled(events: DataFrame, pool: ConnectionPool) -> DataFrame:
    """Enrich events through one pool for all tasks on the host."""

    def ask(sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
        answer = pool.query(sql, pa.table({"key": pa.array(keys, pa.int64())}))
        found: list[list[tuple[Any, ...]]] = [[] for _ in keys]
        rows = zip(*(column.to_pylist() for column in answer.columns), strict=True)
        for row, *values in rows:
            found[row].append(tuple(values))
        return found

    return enrich.over(events, lambda parts: (enrich.enriched(ids, ask) for ids in parts), ROWS)


@contextlib.contextmanager
def rungs(
    session: SparkSession, dsn: str, events: DataFrame, few: DataFrame | None = None, size: int = 8
) -> Iterator[dict[str, Rung]]:
    """Yield the rungs of the ladder. Each counts the connections that it opened.

    The rung that connects for every query is slow and processes ``few`` (by default all of ``events``). The others
    process ``events``. ``size`` is the number of connections in the pool.
    """
    few = events if few is None else few
    many, fewer = events.count(), few.count()
    marks = [secrets.token_hex(6) for _ in range(2)]
    with ConnectionPool(session, dsn, size=size) as pool:

        def counted(make: Any) -> RunResult:
            opened = session.sparkContext.accumulator(0)
            return RunResult(digest(make(opened)), {"connections": opened.value})

        def shared() -> RunResult:
            answer = digest(pooled(events, pool))
            return RunResult(answer, {"connections": pool.stats()["opened"]})

        yield {
            "connect per query": Rung(
                fewer, lambda: counted(lambda o: per_query(few, dsn, o)), empty=lambda: digest(enrich.nothing(few))
            ),
            "per partition": Rung(many, lambda: counted(lambda o: per_partition(events, dsn, o))),
            "per process": Rung(many, lambda: counted(lambda o: per_process(events, dsn, o, marks[0]))),
            "per process, pipelined": Rung(
                many, lambda: counted(lambda o: per_process(events, dsn, o, marks[1], True))
            ),
            "one pool": Rung(many, shared),
        }


def _each(connection: Connection, sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
    """Run one query per key, and wait for each answer before sending the next query."""
    return [connection.execute(sql, (key,), prepare=True).fetchall() for key in keys]


def _ahead(connection: Connection, sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
    """Run one query per key as a pipeline: send all queries, then read all answers."""
    if not keys:
        return []
    cursor = connection.cursor()
    cursor.executemany(sql, [(key,) for key in keys], returning=True)
    found = [cursor.fetchall()]
    while cursor.nextset():
        found.append(cursor.fetchall())
    return found


def kept(dsn: str, mark: str, opened: Accumulator[int] | None = None) -> Connection:
    """Return this process's open connection for ``mark``, or open one.

    Connections for other marks are closed. A connection inherited from the parent process through a fork is not used.
    ``opened`` counts the connections that are opened.
    """
    pid, connection = _mine.get(mark, (0, None))
    if connection is None or pid != os.getpid() or connection.closed:
        for other, (whose, stale) in list(_mine.items()):
            if whose == os.getpid():
                stale.close()
            del _mine[other]
        if opened is not None:
            opened.add(1)
        connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=1)
        _mine[mark] = (os.getpid(), connection)
    return connection
