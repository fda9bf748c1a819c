"""Reading PostgreSQL tables as DataFrames, and writing DataFrames to PostgreSQL tables.

    frame = jdbc(session, server, "visit")           # a Server, or any DSN
    frame.where("product = 'Apple' AND batch <= 7")  # PostgreSQL evaluates the filter and sends only matching rows
    write(frame, server, "visit")                    # each task copies its rows; either all rows appear or none

Reading uses PostgreSQL's JDBC driver, which is one of the jars that the setup downloads (`session.jars`). Spark pushes
filters, limits and the selection of columns down to PostgreSQL. Timestamps do not have a time zone in Spark or in
PostgreSQL, and do not depend on the time zone of the JVM. Writing uses COPY, because Spark's own JDBC writer inserts
rows one at a time.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import psycopg
import pyarrow as pa
from psycopg import sql

from ...errors import Error
from ...postgres import Server
from ...postgres.rows import connected, copy, create, identifier
from ..session import jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER = "org.postgresql.Driver"
FETCH_ROWS = 10_000
"""The number of rows per fetch. By default, the driver fetches the entire result into the JVM's memory."""


def jdbc(
    session: SparkSession, where: Server | str, table: str, *, partitions: int = 1, by: str | None = None
) -> DataFrame:
    """Return a PostgreSQL table or view as a DataFrame. Each action reads the table again.

    ``where`` is a Server or a DSN, and ``table`` is a name or ``schema.name``. If ``by`` is given, a column of numbers,
    dates or times, ``partitions`` tasks read ranges of this column in parallel. Raises
    :class:`~sharedstate_lite.errors.Error` if the session does not have the driver's jar, if the server does not
    respond, or if the table or the column does not exist.
    """
    _driver(session)
    if not isinstance(partitions, int) or partitions < 1 or (partitions > 1) != (by is not None):
        raise Error(f"partitions={partitions}, by={by!r}: to read with several tasks, pass their number and a column")
    options = {"driver": DRIVER, "fetchsize": str(FETCH_ROWS), "preferTimestampNTZ": "true"}
    with connected(where) as connection:
        options |= _address(connection)
        name = identifier(table).as_string(connection)
        columns = _columns(connection, table)
        if by is not None:
            if by not in columns:
                raise Error(f"table {table!r} has no column {by!r}; it has {', '.join(columns)}")
            options |= _bounds(connection, table, by, partitions)
    return session.read.format("jdbc").options(dbtable=name, **options).load()


def write(frame: DataFrame, where: Server | str, table: str, *, append: bool = False, replace: bool = False) -> int:
    """Write the rows of a DataFrame to a PostgreSQL table, and return the number of rows.

    Each task copies its rows into an intermediate table, exactly once even if Spark runs the task again. One
    transaction then renames this table to ``table``, or appends its rows to ``table``. Raises
    :class:`~sharedstate_lite.errors.Error` if the table exists and neither ``append`` nor ``replace`` is set, or if
    writing fails. A failed write leaves the database unchanged.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if getattr(frame, "isStreaming", True):
        raise Error(
            f"table {table!r}: {frame!r} is not a batch DataFrame; to write a stream, call write() in its foreachBatch"
        )
    if append and replace:
        raise Error(f"table {table!r}: append keeps the table's rows, but replace drops them; choose one")
    dsn = where.dsn if isinstance(where, Server) else where
    mark = secrets.token_hex(6)
    # Create these tables in the schema of the target table, because a rename does not change the schema.
    before, dot, _ = table.rpartition(".")
    loading, parts = (f"{before}{dot}loading {mark} {what}" for what in ("rows", "parts"))
    schema = to_arrow_schema(frame.schema)
    with connected(dsn) as connection:
        if not (append or replace) and _columns(connection, table, missing_ok=True):
            raise Error(f"table {table!r} already exists; pass append=True or replace=True")
        create(connection, loading, schema, words="UNLOGGED TABLE" if append else "TABLE")
        create(connection, parts, pa.schema([("part", pa.int32()), ("rows", pa.int64())]), ["part"], "UNLOGGED TABLE")
    try:
        frame.mapInArrow(_copier(dsn, loading, parts, schema), "rows long").agg({"rows": "sum"}).collect()
        with connected(dsn) as connection:
            columns = schema.names if append else None
            return _publish(connection, loading, parts, table, columns, replace)
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


def _publish(
    connection: psycopg.Connection[Any], loading: str, parts: str, table: str, append: list[str] | None, replace: bool
) -> int:
    """Rename the table ``loading`` to ``table``, or append its columns ``append`` to ``table``.

    Returns the number of rows.
    """
    new, name = identifier(loading), identifier(table)
    try:
        if append is not None:
            columns = sql.SQL(", ").join(map(sql.Identifier, append))
            connection.execute(sql.SQL("INSERT INTO {0} ({1}) SELECT {1} FROM {2}").format(name, columns, new))
        else:
            if replace:
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
            last = sql.Identifier(table.rpartition(".")[2])
            connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(new, last))
            connection.execute(sql.SQL("ANALYZE {}").format(name))
        counted = connection.execute(sql.SQL("SELECT coalesce(sum(rows), 0) FROM {}").format(identifier(parts)))
        return int(counted.fetchall()[0][0])
    except psycopg.Error as error:
        raise Error(f"table {table!r}: {error.diag.message_primary or error}; nothing was written") from None


def _driver(session: SparkSession) -> None:
    """Raise Error if the session's JVM does not have the driver."""
    found, named = jars.find("postgresql"), _named(session)
    if "postgresql-" not in named and not any(path.name in named for path in found.paths):
        raise Error(
            "PostgreSQL's JDBC driver is not in this session: "
            f"{found.absent or 'it was downloaded after the session started'}; "
            + (found.mend or "call sharedstate_lite.spark.stop() and start another session")
        )


def _named(session: SparkSession) -> str:
    """Return the paths of the jars with which the session was started."""
    return session.conf.get("spark.jars", "") or ""


def _address(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the options of Spark's JDBC source for the server to which ``connection`` is connected."""
    info = connection.info
    if not info.host or info.host.startswith(("/", "@")):
        raise Error(
            f"PostgreSQL at {info.host or 'a Unix socket'}: JDBC needs TCP; use a host such as 127.0.0.1 in the DSN"
        )
    host = f"[{info.host}]" if ":" in info.host else info.host
    given = info.get_parameters()
    kept = {name: given[name] for name in ("sslmode", "sslrootcert") if given.get(name)}
    url = f"jdbc:postgresql://{host}:{info.port}/{quote(info.dbname, safe='')}"
    out = {"url": f"{url}?{urlencode(kept)}" if kept else url, "user": info.user}
    return out | ({"password": info.password} if info.password else {})


def _columns(connection: psycopg.Connection[Any], table: str, missing_ok: bool = False) -> list[str]:
    """Return the names of a table's columns.

    If the table does not exist, return an empty list if ``missing_ok``, or raise an Error that lists existing tables.
    """
    named = identifier(table).as_string(connection)
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped "
        "ORDER BY attnum",
        (named,),
    ).fetchall()
    if found or missing_ok:
        return [str(row[0]) for row in found]
    there = connection.execute(
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 20"
    ).fetchall()
    names = [row[0] for row in there]
    raise Error(f"table {table!r} does not exist in {connection.info.dbname!r}; its tables are {names}")


def _bounds(connection: psycopg.Connection[Any], table: str, by: str, partitions: int) -> dict[str, str]:
    """Return Spark's options for reading ranges of the column ``by`` in parallel, or none if the table is empty."""
    query = sql.SQL("SELECT min({0})::text, max({0})::text FROM {1}").format(sql.Identifier(by), identifier(table))
    types = "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s"
    kind = str(connection.execute(types, (identifier(table).as_string(connection), by)).fetchall()[0][0])
    if not re.match(r"smallint|integer|bigint|numeric|real|double|date|timestamp", kind):
        raise Error(f"table {table!r}: column {by!r} has type {kind}; use a column of numbers, dates or times")
    low, high = connection.execute(query).fetchall()[0]
    if low is None:
        return {}
    quoted = sql.Identifier(by).as_string(connection)
    return {"partitionColumn": quoted, "lowerBound": low, "upperBound": high, "numPartitions": str(partitions)}


__all__ = ["jdbc", "write"]
