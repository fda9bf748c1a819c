"""Tables of PostgreSQL as DataFrames, and DataFrames as tables.

    frame = jdbc(session, server, "visit")           # a Server, or any DSN
    frame.where("product = 'Apple' AND batch <= 7")  # PostgreSQL filters; only those rows come
    write(frame, server, "visit")                    # every task copies its rows; there as a whole or not at all

Reading goes through PostgreSQL's JDBC driver, from the jars that set-up fetched
(:mod:`..session.jars`). Spark hands it filters, limits and the choice of columns; times have no
zone on either side, whatever zone the JVM is in. Writing goes through COPY, since
Spark's own JDBC writer inserts row by row.
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
"""Rows that the driver asks for at a time; by itself it would fetch a result whole, into the JVM's memory."""


def jdbc(
    session: SparkSession, where: Server | str, table: str, *, partitions: int = 1, by: str | None = None
) -> DataFrame:
    """A table, or a view, of PostgreSQL as a DataFrame, read anew by each action.

    ``where`` is a Server or a DSN; ``table`` a name, with its schema before a dot where it
    has one. ``partitions`` tasks read at once if ``by`` names a column of numbers, dates
    or times to part the rows by. Raises :class:`~sharedstate_lite.errors.Error` where the
    driver's jar is absent, nobody answers, or there is no such table or column.
    """
    _driver(session)
    if not isinstance(partitions, int) or partitions < 1 or (partitions > 1) != (by is not None):
        raise Error(f"partitions={partitions}, by={by!r}: to read with several tasks, give their number and a column")
    options = {"driver": DRIVER, "fetchsize": str(FETCH_ROWS), "preferTimestampNTZ": "true"}
    with connected(where) as connection:
        options |= _address(connection)
        name = identifier(table).as_string(connection)
        columns = _columns(connection, table)
        if by is not None:
            if by not in columns:
                raise Error(f"table {table!r}: there is no column {by!r}; it has {', '.join(columns)}")
            options |= _bounds(connection, table, by, partitions)
    return session.read.format("jdbc").options(dbtable=name, **options).load()


def write(frame: DataFrame, where: Server | str, table: str, *, append: bool = False, replace: bool = False) -> int:
    """The rows of a DataFrame as a table of PostgreSQL; returns their number.

    Every task copies into a table that nobody sees yet, once, however often Spark runs it;
    then that becomes the table, in one transaction. A table that is there is refused,
    unless ``append`` or ``replace`` says what to do with it. Raises
    :class:`~sharedstate_lite.errors.Error`, and leaves nothing behind then.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if getattr(frame, "isStreaming", True):
        raise Error(
            f"table {table!r}: {frame!r} is no DataFrame that has an end; a stream's foreachBatch is given such"
        )
    if append and replace:
        raise Error(f"table {table!r}: append adds to a table as it is, and replace drops it; choose one")
    dsn = where.dsn if isinstance(where, Server) else where
    mark = secrets.token_hex(6)
    # In the schema of the table: a rename does not move it to another.
    before, dot, _ = table.rpartition(".")
    loading, parts = (f"{before}{dot}loading {mark} {what}" for what in ("rows", "parts"))
    schema = to_arrow_schema(frame.schema)
    with connected(dsn) as connection:
        if not (append or replace) and _columns(connection, table, missing_ok=True):
            raise Error(f"table {table!r}: it is there already; write with append=True or replace=True")
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
    """What a task does: copy its rows and enter its part, in one transaction, unless an earlier run of it has."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with connected(dsn) as connection:
            enter = sql.SQL("INSERT INTO {} VALUES (%s, 0) ON CONFLICT DO NOTHING").format(identifier(parts))
            # Another run of this task at the same time waits here for the outcome of the first.
            if connection.execute(enter, (context.partitionId(),)).rowcount:
                count = copy(connection, loading, schema, batches)
                note = sql.SQL("UPDATE {} SET rows = %s WHERE part = %s").format(identifier(parts))
                connection.execute(note, (count, context.partitionId()))
        yield pa.record_batch({"rows": pa.array([1], pa.int64())})

    return run


def _publish(
    connection: psycopg.Connection[Any], loading: str, parts: str, table: str, append: list[str] | None, replace: bool
) -> int:
    """Make what was loaded the table, or add these columns of it to the table; returns the number of rows."""
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
    """Refuse where the session's JVM does not have the driver."""
    if getattr(session, "_jsc", None) is None:
        # Spark Connect: what the server has is the server's.
        return
    found, named = jars.find("postgresql"), _named(session)
    if "postgresql-" not in named and not any(path.name in named for path in found.paths):
        raise Error(
            f"PostgreSQL's JDBC driver is not in this session: {found.absent or 'it was fetched after the start'}; "
            + (found.mend or "start the session anew (sharedstate_lite.spark.stop())")
        )


def _named(session: SparkSession) -> str:
    """The jars that a session was started with."""
    return session.conf.get("spark.jars", "") or ""


def _address(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Where the connection goes, in JDBC's words."""
    info = connection.info
    if not info.host or info.host.startswith(("/", "@")):
        raise Error(
            f"PostgreSQL at {info.host or 'a Unix socket'}: JDBC needs TCP; name a host, such as 127.0.0.1, in the DSN"
        )
    host = f"[{info.host}]" if ":" in info.host else info.host
    given = info.get_parameters()
    kept = {name: given[name] for name in ("sslmode", "sslrootcert") if given.get(name)}
    url = f"jdbc:postgresql://{host}:{info.port}/{quote(info.dbname, safe='')}"
    out = {"url": f"{url}?{urlencode(kept)}" if kept else url, "user": info.user}
    return out | ({"password": info.password} if info.password else {})


def _columns(connection: psycopg.Connection[Any], table: str, missing_ok: bool = False) -> list[str]:
    """The columns of a table. Raises Error where there is none, with the tables that there are."""
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
    raise Error(f"table {table!r}: there is none in {connection.info.dbname!r}; there is {[row[0] for row in there]}")


def _bounds(connection: psycopg.Connection[Any], table: str, by: str, partitions: int) -> dict[str, str]:
    """Spark's options for reading ranges of a column; none where the table is empty."""
    query = sql.SQL("SELECT min({0})::text, max({0})::text FROM {1}").format(sql.Identifier(by), identifier(table))
    kind = "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s"
    told = str(connection.execute(kind, (identifier(table).as_string(connection), by)).fetchall()[0][0])
    if not re.match(r"smallint|integer|bigint|numeric|real|double|date|timestamp", told):
        raise Error(f"table {table!r}: column {by!r} is {told}; rows are parted by numbers, dates or times")
    low, high = connection.execute(query).fetchall()[0]
    if low is None:
        return {}
    quoted = sql.Identifier(by).as_string(connection)
    return {"partitionColumn": quoted, "lowerBound": low, "upperBound": high, "numPartitions": str(partitions)}


__all__ = ["jdbc", "write"]
