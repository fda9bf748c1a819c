"""Writing DataFrames to PostgreSQL: every row arrives unchanged and once, and a write is complete or absent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sharedstate_lite import postgres
from sharedstate_lite.errors import Error
from sharedstate_lite.spark.postgres import _copier, _publish, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 3_000
ROWS = pa.table(
    {
        "product": pa.array([None if n % 100 == 99 else f"p{n % 10}" for n in range(COUNT)]),
        "Length": pa.array(range(COUNT), pa.int32()),
        "batch": pa.array([n // 1_000 for n in range(COUNT)], pa.int64()),
        "share": pa.array([n / 7 for n in range(COUNT)]),
        "ok": pa.array([n % 3 == 0 for n in range(COUNT)]),
        "day": pa.array([dt.date(2026, 1, 1) + dt.timedelta(n % 400) for n in range(COUNT)]),
        "at": pa.array([dt.datetime(2026, 3, 29, 1, 30, 0, n) for n in range(COUNT)]),
    }
)
"""Times in an hour that some zones do not have."""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """A server with the table ``visit``."""
    with postgres.Server() as running:
        postgres.write(running, "visit", ROWS, key=["Length"])
        yield running


def tables(server: postgres.Server) -> set[str]:
    """The names of the tables."""
    with server.connect() as connection:
        return {
            str(row[0]) for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        }


def visits(spark: SparkSession) -> DataFrame:
    """The rows of ``visit`` in three partitions."""
    types = "product STRING, Length INT, batch BIGINT, share DOUBLE, ok BOOLEAN, day DATE, at TIMESTAMP_NTZ"
    return spark.createDataFrame(ROWS, types).repartition(3)


def test_written_by_every_task(spark: SparkSession, server: postgres.Server) -> None:
    """A frame of several partitions becomes a table with the same rows; replace drops it."""
    frame = visits(spark)
    assert write(frame, server, "again") == COUNT
    with server.connect() as connection:
        query = "SELECT count(*) FROM (({0} EXCEPT ALL {1}) UNION ALL ({1} EXCEPT ALL {0})) AS different"
        differ = connection.execute(query.format("SELECT * FROM visit", "SELECT * FROM again")).fetchone()
    assert differ == (0,)
    assert write(frame.where("Length < 0"), server.dsn, "again", replace=True) == 0
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM again").fetchone() == (0,)
    assert {name for name in tables(server) if "loading" in name} == set()


def test_a_task_that_runs_twice_writes_once(spark: SparkSession, server: postgres.Server) -> None:
    """A task that runs again after a commit does not write its rows twice."""
    from pyspark.sql.pandas.types import to_arrow_schema

    frame = spark.createDataFrame([("a",), ("b",)], "product string").coalesce(1)
    postgres.write(server, "twice rows", pa.table({"product": pa.array([], pa.string())}))
    nothing = pa.table({"part": pa.array([], pa.int32()), "rows": pa.array([], pa.int64())})
    postgres.write(server, "twice parts", nothing, key=["part"])
    task = _copier(server.dsn, "twice rows", "twice parts", to_arrow_schema(frame.schema))
    for _ in range(2):
        frame.mapInArrow(task, "rows long").collect()
    with server.connect() as connection:
        assert _publish(connection, "twice rows", "twice parts", "twice", False) == 2
        assert connection.execute("SELECT product FROM twice ORDER BY 1").fetchall() == [("a",), ("b",)]


def test_failed_write_leaves_nothing(spark: SparkSession, server: postgres.Server) -> None:
    """If one task fails, there is no new table, the old one is unchanged, and no temporary table remains."""
    before = tables(server)
    bad = visits(spark).selectExpr("Length", "IF(Length = 2999, raise_error('no more'), product) AS product")
    for options in ({}, {"replace": True}):
        with pytest.raises(Exception, match="no more"):
            write(bad, server, "broken" if not options else "visit", **options)
    assert tables(server) == before
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM visit").fetchone() == (COUNT,)


def test_what_is_refused(spark: SparkSession, server: postgres.Server) -> None:
    """What cannot be written is refused before Spark starts a job; the error says what to do."""
    frame = spark.range(3)
    for act, said in (
        (lambda: write(frame, "host=127.0.0.1 port=1 user=u", "visit"), "127.0.0.1:1.*correct the DSN"),
        (lambda: write(frame, server, "visit"), "already exists; pass replace=True"),
        (lambda: write(server, frame, "visit"), "is not a batch DataFrame"),
    ):
        with pytest.raises(Error, match=said):
            act()
