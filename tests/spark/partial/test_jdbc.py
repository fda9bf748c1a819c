"""PostgreSQL and Spark: filters are pushed down, rows come back unchanged, a write is complete or absent."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sharedstate_lite import postgres
from sharedstate_lite.errors import Error
from sharedstate_lite.spark.partial.jdbc import jdbc, write
from sharedstate_lite.spark.session import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_driver = jars.find("postgresql")
pytestmark = pytest.mark.skipif(_driver.absent is not None, reason=f"no JDBC driver: {_driver.absent}; {_driver.mend}")

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
    """A server with the table ``visit``; it logs its statements."""
    with postgres.Server(settings={"log_statement": "all"}) as running:
        postgres.write(running, "visit", ROWS, key=["Length"])
        yield running


def tables(server: postgres.Server) -> set[str]:
    """The names of the tables."""
    with server.connect() as connection:
        return {
            str(row[0]) for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        }


def test_rows_arrive_as_they_are(spark: SparkSession, server: postgres.Server) -> None:
    """Every column arrives with its type and values, by one task or by several, from a Server or a DSN."""
    frame = jdbc(spark, server, "visit")
    assert frame.schema.simpleString() == (
        "struct<product:string,Length:int,batch:bigint,share:double,ok:boolean,day:date,at:timestamp_ntz>"
    )
    assert frame.orderBy("Length").toArrow().to_pylist() == ROWS.to_pylist()
    parts = jdbc(spark, server.dsn, "public.visit", partitions=3, by="Length")
    assert parts.rdd.getNumPartitions() == 3
    assert sorted(row["Length"] for row in parts.select("Length").collect()) == list(range(COUNT))


def test_filters_and_columns_go_down(
    spark: SparkSession, server: postgres.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """PostgreSQL filters and selects the columns: explain and the server's log show it."""
    before = 0 if server._log is None else len(server._log.read_text().splitlines())
    frame = jdbc(spark, server, "visit").where("product = 'p3' AND batch <= 1").select("Length")
    frame.explain("formatted")
    told = capsys.readouterr().out
    assert "*EqualTo(product,p3)" in told and "*LessThanOrEqual(batch,1)" in told
    assert "ReadSchema: struct<Length:int>" in told and "Filter" not in told.replace("PushedFilters", "")
    expected = [n for n, row in enumerate(ROWS.to_pylist()) if row["product"] == "p3" and row["batch"] <= 1]
    assert sorted(row[0] for row in frame.collect()) == expected
    if server._log is not None:
        asked = [line for line in server._log.read_text().splitlines()[before:] if 'SELECT "Length"' in line]
        # A cursor's later portions are logged with their statement too.
        assert asked and all(re.search(r"""WHERE .*"product" = 'p3'.*"batch" <= 1""", line) for line in asked)


def test_each_action_reads_anew(spark: SparkSession, server: postgres.Server) -> None:
    """Each action reads the table again; with a filter by batch the rows stay the same."""
    postgres.write(server, "feed", pa.table({"x": [1, 2], "batch": [1, 1]}), replace=True)
    frame = jdbc(spark, server, "feed")
    before = frame.where("batch <= 1")
    assert (frame.count(), before.count()) == (2, 2)
    postgres.write(server, "feed", pa.table({"x": [3], "batch": [2]}), append=True)
    assert (frame.count(), before.count()) == (3, 2)


def test_written_by_every_task(spark: SparkSession, server: postgres.Server) -> None:
    """A frame of several partitions becomes a table with the same rows; append adds by name, replace drops it."""
    frame = jdbc(spark, server, "visit", partitions=3, by="Length")
    assert write(frame, server, "again") == COUNT
    with server.connect() as connection:
        query = "SELECT count(*) FROM (({0} EXCEPT ALL {1}) UNION ALL ({1} EXCEPT ALL {0})) AS different"
        differ = connection.execute(query.format("SELECT * FROM visit", "SELECT * FROM again")).fetchone()
    assert differ == (0,)
    assert write(frame.where("Length < 5").select("batch", "Length"), server, "again", append=True) == 5
    with server.connect() as connection:
        assert connection.execute('SELECT sum("Length") FROM again WHERE at IS NULL').fetchone() == (10,)
    assert write(frame.where("Length < 0"), server.dsn, "again", replace=True) == 0
    assert jdbc(spark, server, "again").count() == 0
    assert jdbc(spark, server, "again", partitions=2, by="Length").count() == 0
    assert {name for name in tables(server) if "loading" in name} == set()


def test_a_task_that_runs_twice_writes_once(spark: SparkSession, server: postgres.Server) -> None:
    """A task that runs again after a commit does not write its rows twice."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from sharedstate_lite.spark.partial.jdbc import _copier, _publish

    frame = spark.createDataFrame([("a",), ("b",)], "product string").coalesce(1)
    postgres.write(server, "twice rows", pa.table({"product": pa.array([], pa.string())}))
    nothing = pa.table({"part": pa.array([], pa.int32()), "rows": pa.array([], pa.int64())})
    postgres.write(server, "twice parts", nothing, key=["part"])
    task = _copier(server.dsn, "twice rows", "twice parts", to_arrow_schema(frame.schema))
    for _ in range(2):
        frame.mapInArrow(task, "rows long").collect()
    with server.connect() as connection:
        assert _publish(connection, "twice rows", "twice parts", "twice", None, False) == 2
        assert connection.execute("SELECT product FROM twice ORDER BY 1").fetchall() == [("a",), ("b",)]


def test_failed_write_leaves_nothing(spark: SparkSession, server: postgres.Server) -> None:
    """If one task fails, there is no new table, the old one is unchanged, and no temporary table remains."""
    before = tables(server)
    bad = jdbc(spark, server, "visit", partitions=2, by="Length").selectExpr(
        "Length", "IF(Length = 2999, raise_error('no more'), product) AS product"
    )
    for options in ({}, {"replace": True}, {"append": True}):
        with pytest.raises(Exception, match="no more"):
            write(bad, server, "broken" if not options else "visit", **options)
    assert tables(server) == before
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM visit").fetchone() == (COUNT,)


def test_what_is_refused(spark: SparkSession, server: postgres.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read or written is refused before Spark starts a job; the error says what to do."""
    frame = spark.range(3)
    for act, said in (
        (lambda: jdbc(spark, server, "nowhere"), "does not exist in 'postgres'; its tables are .*'visit'"),
        (lambda: jdbc(spark, server, "visit", partitions=2, by="length"), "no column 'length'; it has .*Length"),
        (lambda: jdbc(spark, server, "visit", partitions=2), "pass their number and a column"),
        (lambda: jdbc(spark, server, "visit", by="Length"), "pass their number and a column"),
        (lambda: jdbc(spark, "host=127.0.0.1 port=1 user=u", "visit"), "127.0.0.1:1.*correct the DSN"),
        (lambda: write(frame, server, "visit"), "already exists.*append=True or replace=True"),
        (lambda: write(frame, server, "visit", append=True, replace=True), "choose one"),
        (lambda: write(server, frame, "visit"), "is not a batch DataFrame"),
        (lambda: jdbc(spark, server, "visit", partitions=2, by="product"), "has type text; use a column of numbers"),
        (lambda: jdbc(spark, 5432, "visit"), "got 5432"),
        (lambda: write(frame, server, "visit", append=True), 'column "id".*does not exist'),
    ):
        with pytest.raises(Error, match=said):
            act()
    monkeypatch.setattr(jars, "find", lambda name: jars.Found(name, "1", absent="the disk is on fire", mend="water"))
    monkeypatch.setattr("sharedstate_lite.spark.partial.jdbc._named", lambda session: "")
    with pytest.raises(Error, match="driver is not in this session: the disk is on fire; water"):
        jdbc(spark, server, "visit")
