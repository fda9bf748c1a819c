"""Use case 3: connections to the database.

The rungs: one connection for each query · for each partition · for each worker process · the same with pipelined
queries
· one pool for the host, pipelined too. So the chart separates three gains: fewer connections, pipelining, sharing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa

from ...worker import ConnectionPool
from . import enrich
from .ladder import Rung, RunResult, digest

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

Connection = psycopg.Connection[Any]
ROWS = 1_000
"""Events in one batch of a task."""
_mine: dict[str, tuple[int, Connection]] = {}
"""The connection that this worker process keeps, by its mark."""


def per_query(events: DataFrame, dsn: str, opened: Accumulator[int]) -> DataFrame:
    """Connect, query, disconnect: for every query."""

    def ask(sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
        found = []
        for key in keys:
            opened.add(1)
            with psycopg.connect(dsn, autocommit=True) as connection:
                found.append(connection.execute(sql, (key,)).fetchall())
        return found

    return enrich.over(events, lambda parts: (enrich.enriched(ids, ask) for ids in parts), ROWS)


def per_partition(events: DataFrame, dsn: str, opened: Accumulator[int]) -> DataFrame:
    """One connection for each partition."""

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        opened.add(1)
        with psycopg.connect(dsn, autocommit=True) as connection:
            for ids in parts:
                yield enrich.enriched(ids, lambda sql, keys: _each(connection, sql, keys))

    return enrich.over(events, work, ROWS)


def per_process(events: DataFrame, dsn: str, opened: Accumulator[int], mark: str, ahead: bool = False) -> DataFrame:
    """One connection that a worker process keeps for the partitions to come; ``ahead``: as a pipeline.

    ``mark`` names whom it is kept for: with another one it is opened anew.
    """

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        connection = kept(dsn, mark, opened)
        for ids in parts:
            yield enrich.enriched(ids, lambda sql, keys: (_ahead if ahead else _each)(connection, sql, keys))

    return enrich.over(events, work, ROWS)


def pooled(events: DataFrame, pool: ConnectionPool) -> DataFrame:
    """One pool for all tasks of the host."""

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
    """The ladder over ``events``; connecting for each query, which takes long, over ``few`` (default: all).

    ``size``: connections of the pool. Counted: connections that were opened.
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
    """One query after the other, each once the one before it is answered."""
    return [connection.execute(sql, (key,), prepare=True).fetchall() for key in keys]


def _ahead(connection: Connection, sql: str, keys: Sequence[int]) -> list[list[tuple[Any, ...]]]:
    """All queries, and then all answers."""
    if not keys:
        return []
    cursor = connection.cursor()
    cursor.executemany(sql, [(key,) for key in keys], returning=True)
    found = [cursor.fetchall()]
    while cursor.nextset():
        found.append(cursor.fetchall())
    return found


def kept(dsn: str, mark: str, opened: Accumulator[int] | None = None) -> Connection:
    """This process's connection; that of a process that it was forked from is not its own."""
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
