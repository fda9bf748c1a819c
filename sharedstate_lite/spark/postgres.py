"""Writing Spark DataFrames to PostgreSQL tables.

    write(frame, server, "visit")    # each task copies its rows; either all rows appear or none

Writing uses COPY, because Spark's own JDBC writer inserts rows one at a time. To read a table, use Spark's own reader:
``session.read.jdbc``. It needs PostgreSQL's JDBC driver, which the setup downloads (`session.jars`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
from psycopg import sql

from ..errors import Error
from ..postgres import Server
from ..postgres.rows import connected, copy, create, identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(frame: DataFrame, where: Server | str, table: str, *, replace: bool = False) -> int:
    """Write the rows of a DataFrame to a PostgreSQL table, and return the number of rows.

    Each task copies its rows into an intermediate table, exactly once even if Spark runs the task again. One
    transaction then renames this table to ``table``. Raises :class:`~sharedstate_lite.errors.Error` if the table exists
    and ``replace`` is not set, or if writing fails. A failed write leaves the database unchanged.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if getattr(frame, "isStreaming", True):
        raise Error(
            f"table {table!r}: {frame!r} is not a batch DataFrame; to write a stream, call write() in its foreachBatch"
        )
    dsn = where.dsn if isinstance(where, Server) else where
    mark = secrets.token_hex(6)
    # Create these tables in the schema of the target table, because a rename does not change the schema.
    before, dot, _ = table.rpartition(".")
    loading, parts = (f"{before}{dot}loading {mark} {what}" for what in ("rows", "parts"))
    schema = to_arrow_schema(frame.schema)
    with connected(dsn) as connection:
        there = connection.execute("SELECT to_regclass(%s)", (identifier(table).as_string(connection),)).fetchall()
        if there[0][0] is not None and not replace:
            raise Error(f"table {table!r} already exists; pass replace=True, or write another table")
        create(connection, loading, schema)
        create(connection, parts, pa.schema([("part", pa.int32()), ("rows", pa.int64())]), ["part"], "UNLOGGED TABLE")
    try:
        frame.mapInArrow(_copier(dsn, loading, parts, schema), "rows long").agg({"rows": "sum"}).collect()
        with connected(dsn) as connection:
            return _publish(connection, loading, parts, table, replace)
    finally:
        with connected(dsn) as connection:
            for name in (loading, parts):
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(identifier(name)))


def _copier(
    dsn: str, loading: str, parts: str, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that each task runs: it copies the task's rows and records its partition in one transaction.

    If an earlier run of the task has recorded the partition, the function does nothing.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with connected(dsn) as connection:
            enter = sql.SQL("INSERT INTO {} VALUES (%s, 0) ON CONFLICT DO NOTHING").format(identifier(parts))
            # A concurrent run of this task waits here until the transaction of the first run ends.
            if connection.execute(enter, (context.partitionId(),)).rowcount:
                count = copy(connection, loading, schema, batches)
                note = sql.SQL("UPDATE {} SET rows = %s WHERE part = %s").format(identifier(parts))
                connection.execute(note, (count, context.partitionId()))
        yield pa.record_batch({"rows": pa.array([1], pa.int64())})

    return run


def _publish(connection: psycopg.Connection[Any], loading: str, parts: str, table: str, replace: bool) -> int:
    """Rename the table ``loading`` to ``table``, and return the number of rows."""
    new, name = identifier(loading), identifier(table)
    try:
        if replace:
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
        last = sql.Identifier(table.rpartition(".")[2])
        connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(new, last))
        connection.execute(sql.SQL("ANALYZE {}").format(name))
        counted = connection.execute(sql.SQL("SELECT coalesce(sum(rows), 0) FROM {}").format(identifier(parts)))
        return int(counted.fetchall()[0][0])
    except psycopg.Error as error:
        raise Error(f"table {table!r}: {error.diag.message_primary or error}; nothing was written") from None


__all__ = ["write"]
