"""A pool of PostgreSQL connections."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pytest
from leftovers import runtimes, until

from sharedstate_lite import postgres
from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer

PRODUCTS = 1_000


def test_answers_come_in_the_order_of_their_questions(common: DriverServer, server: postgres.Server) -> None:
    """5,000 parameter rows over three connections: every answer has the position of its row, and none is missing."""
    pool = w.ConnectionPool(common, server.dsn, size=3)
    rng = np.random.default_rng(1)
    asked = rng.integers(0, PRODUCTS + 100, 5_000)
    answer = pool.query("SELECT id, name, price FROM product WHERE id = %(id)s", pa.table({"id": asked}))
    there = np.flatnonzero(asked < PRODUCTS)
    assert answer.column("row").to_pylist() == there.tolist()
    assert answer.column("id").to_pylist() == asked[there].tolist()
    assert answer.column("name").to_pylist() == [f"product {n}" for n in asked[there]]


def test_never_more_connections_than_its_size(common: DriverServer, server: postgres.Server) -> None:
    """Twelve threads ask at once; PostgreSQL counts at most two connections."""
    pool = w.ConnectionPool(common, server.dsn, size=2)
    sql = "SELECT count(*) AS n FROM pg_stat_activity WHERE pid <> %s AND query LIKE '%%pg_sleep%%', pg_sleep(0.001)"
    sql = "SELECT (SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%pg_sleep%%') AS n, pg_sleep(%s)::text"
    with ThreadPoolExecutor(12) as threads:
        told = list(threads.map(lambda _: pool.query(sql, pa.table({"s": [0.002] * 10})), range(24)))
    assert max(max(answer.column("n").to_pylist()) for answer in told) == 2
    counts = pool.stats()
    assert [counts[name] for name in ("connections", "most", "opened", "queries")] == [2, 2, 2, 240]


def test_a_pool_that_only_reads_says_how_to_write(common: DriverServer, server: postgres.Server) -> None:
    """An INSERT is refused without writes=True; with it, a batch is one transaction."""
    reads, writes = (w.ConnectionPool(common, server, size=1, writes=writes) for writes in (False, True))
    with server.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS mark (n int PRIMARY KEY)")
    insert = "INSERT INTO mark VALUES (%s)"
    with pytest.raises(Error, match=r"read-only transaction\. .*writes=True"):
        reads.query(insert, pa.table({"n": [1]}))
    assert writes.query(insert, pa.table({"n": [1, 2]})).to_pydict() == {"row": [0, 1], "changed": [1, 1]}
    with pytest.raises(Error, match="duplicate key"):
        writes.query(insert, pa.table({"n": [3, 1]}))
    assert reads.query("SELECT n FROM mark WHERE n > %s ORDER BY n", pa.table({"n": [0]})).column("n").to_pylist() == [
        1,
        2,
    ]


def test_writes_that_a_kill_interrupts_are_reported(application: DriverServer, server: postgres.Server) -> None:
    """The runtime is killed during a write: Lost is raised, and the rows are not written twice."""
    pool = w.ConnectionPool(application, server, size=1, writes=True)
    with server.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS entry (n int)")
        with ThreadPoolExecutor(1) as threads:
            sql = "INSERT INTO entry SELECT %s FROM pg_sleep(30)"
            writing = threads.submit(pool.query, sql, pa.table({"n": [7]}))
            busy = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            until(lambda: connection.execute(busy).fetchall()[0][0] == 1)
            os.kill(runtimes(application)[0], signal.SIGKILL)
            with pytest.raises(w.Lost, match="it is unknown whether the request was executed"):
                writing.result(20)
        assert connection.execute("SELECT count(*) FROM entry").fetchall()[0][0] == 0


def test_a_connection_that_the_server_ends_is_replaced(application: DriverServer, server: postgres.Server) -> None:
    """If the server closes a connection, a read-only query is retried on a new one."""
    pool = w.ConnectionPool(application, server, size=1)
    sql, one = "SELECT name /* by name */ FROM product WHERE id = %s", pa.table({"id": [1]})
    assert pool.query(sql, one).num_rows == 1
    with server.connect(autocommit=True) as connection:
        others = "FROM pg_stat_activity WHERE query LIKE '%by name%' AND pid <> pg_backend_pid()"
        assert len(connection.execute(f"SELECT pg_terminate_backend(pid) {others}").fetchall()) == 1
    assert pool.query(sql, one).num_rows == 1
    assert pool.stats()["connections"] == 1


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("sql", ["BEGIN READ WRITE", "SET default_transaction_read_only = off", "SET search_path = x"])
def test_a_connection_is_handed_on_as_it_was(
    common: DriverServer, server: postgres.Server, sql: str, writes: bool
) -> None:
    """A statement that changes its session is refused, and later queries see the original session."""
    pool, nothing = w.ConnectionPool(common, server, size=1, writes=writes), pa.table({"n": [1]}).select([])
    with pytest.raises(Error, match=f"{sql.split()[0]} changes the session of a connection that other tasks use later"):
        pool.query(sql, nothing)
    asked = "SELECT count(*) AS n, current_setting('transaction_read_only') AS reads FROM product"
    assert pool.query(asked, nothing).to_pylist() == [{"row": 0, "n": PRODUCTS, "reads": "off" if writes else "on"}]
    with pytest.raises(Error, match="division by zero"):
        pool.query("SELECT 1 / 0", nothing)
    assert pool.query("SELECT 7 AS n", nothing).column("n").to_pylist() == [7]
    assert pool.stats()["connections"] == 1


def test_numbers_of_any_width_are_one_column(common: DriverServer, server: postgres.Server) -> None:
    """Answers of smallint and bigint become one int64 column; other mixtures raise."""
    pool = w.ConnectionPool(common, server, size=2)
    numbers = [1] * 250 + [100_000, None, 2**40, 2]
    answer = pool.query("SELECT %s AS x", pa.table({"n": pa.array(numbers, pa.int64())}))
    assert answer.column("x").to_pylist() == numbers and answer.schema.field("x").type == pa.int64()
    with pytest.raises(Error, match="column x has values of several types .*Cast it"):
        pool.query("SELECT CASE WHEN %s > 1 THEN ARRAY[[1]] ELSE ARRAY[1] END AS x", pa.table({"n": [1, 2]}))
    with pytest.raises(Error, match="the answer has a column row"):
        pool.query("SELECT 1 AS row", pa.table({"n": [1]}).select([]))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"])
    with pytest.raises(Error, match="two of the columns .* have the same name"):
        pool.query("SELECT %(n)s", twice)


def test_an_escaped_per_cent_sign_starts_no_name(common: DriverServer, server: postgres.Server) -> None:
    """``%%(`` is an escaped per cent sign and no named parameter."""
    pool = w.ConnectionPool(common, server, size=1)
    twice = pa.Table.from_arrays([pa.array(["a(b"]), pa.array([5])], ["n", "n"])
    answer = pool.query("SELECT %s LIKE '%%(b' AS found, %s AS n", twice)
    assert answer.select(["found", "n"]).to_pylist() == [{"found": True, "n": 5}]


def test_an_empty_batch_has_columns(common: DriverServer, server: postgres.Server) -> None:
    """The answer to an empty batch has the columns of a full one."""
    pool = w.ConnectionPool(common, server, size=1)
    sql = "SELECT id, name, price FROM product WHERE id = %s"
    empty = pool.query(sql, pa.table({"id": pa.array([], pa.int64())}))
    assert empty.num_rows == 0 and empty.schema == pool.query(sql, pa.table({"id": [1]})).schema


ENRICH = "SELECT name, price::float8 FROM product WHERE id = %s"


@pytest.mark.parametrize("how", ["inner", "left"])
def test_enrich_joins_as_pandas_does(
    common: DriverServer, server: postgres.Server, how: Literal["inner", "left"]
) -> None:
    """The columns of the batch and of the answers, in the order of the batch; unmatched rows only with left."""
    pool = w.ConnectionPool(common, server, size=3)
    rng = np.random.default_rng(7)
    ids = rng.integers(PRODUCTS - 40, PRODUCTS + 20, 700)
    frame = pd.DataFrame({"event": np.arange(700), "id": ids}, index=np.arange(700) + 5)
    products = pd.DataFrame({"id": np.arange(PRODUCTS)})
    products["name"] = [f"product {n}" for n in products["id"]]
    products["price"] = products["id"] / 4
    expected = frame.merge(products, on="id", how=how)
    expected["name"] = expected["name"].where(expected["name"].notna(), None)
    found = pool.enrich(frame, ENRICH, on="id", how=how)
    pd.testing.assert_frame_equal(found, expected)
    batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
    assert isinstance(pool.enrich(batch, ENRICH, "id", how), pa.RecordBatch)
    for arrow in (batch, pa.Table.from_batches([batch])):
        said = pool.enrich(arrow, ENRICH, on=["id"], how=how).to_pandas()
        pd.testing.assert_frame_equal(said, expected)
    # The same by name, and with several answers for a row.
    twice = "SELECT n FROM product, generate_series(1, id - 997) AS n WHERE id = %(id)s ORDER BY n"
    some = pd.DataFrame({"id": [998, 5_000, 999]})
    n = pool.enrich(some, twice, on="id", how=how)
    rows = [(998, 1), (5_000, None), (999, 1), (999, 2)]
    assert [(a, None if pd.isna(b) else b) for a, b in n.itertuples(index=False)] == [
        row for row in rows if how == "left" or row[1] is not None
    ]
    assert n["n"].dtype == ("Int64" if how == "left" else "int64")
    empty = pool.enrich(batch.slice(0, 0), ENRICH, on="id", how=how)
    assert empty.num_rows == 0 and empty.schema.names == ["event", "id", "name", "price"]


def test_what_enrich_refuses(common: DriverServer, server: postgres.Server) -> None:
    """A missing column, a column of both sides and an unknown join raise, and say what to do."""
    pool, frame = w.ConnectionPool(common, server, size=1), pd.DataFrame({"id": [1]})
    with pytest.raises(Error, match=r"on='key', but the batch has no column 'key'. Its columns are id"):
        pool.enrich(frame, ENRICH, on="key")
    with pytest.raises(Error, match="both have a column id. Rename it with AS, or leave it out"):
        pool.enrich(frame, "SELECT id FROM product WHERE id = %s", on="id")
    with pytest.raises(Error, match="how='outer' is not valid. Pass 'inner' or 'left'"):
        pool.enrich(frame, ENRICH, on="id", how="outer")
    with pytest.raises(Error, match="got a dict. Pass a pandas DataFrame or an Arrow table"):
        pool.enrich({"id": [1]}, ENRICH, on="id")


def test_a_frame_is_answered_with_a_frame(common: DriverServer, server: postgres.Server) -> None:
    """query() of a DataFrame returns one, with nullable integers where there are NULLs."""
    pool = w.ConnectionPool(common, server, size=2)
    frame = pd.DataFrame({"n": pd.array([2**60 + 1, None], "Int64")})
    answer = pool.query("SELECT %s::bigint AS n, 7 AS seven", frame)
    assert answer["n"].tolist() == [2**60 + 1, pd.NA] and answer["n"].dtype == "Int64"
    assert answer["seven"].dtype == "int32" and answer["row"].tolist() == [0, 1]
    assert pool.query("SELECT 7 AS n", frame[[]])["n"].tolist() == [7, 7], "rows without parameters"
    with pytest.raises(Error, match="the DataFrame cannot be converted to Arrow .*Use one type in each column"):
        pool.query("SELECT %s", pd.DataFrame({"n": [1, "a"]}))


def test_an_open_connection_is_refused(common: DriverServer, server: postgres.Server) -> None:
    """A connection is refused; the message has the expression, its type, and both ways to share."""
    with server.connect() as connection:
        assert isinstance(connection, psycopg.Connection)
        said = r"connection is a psycopg.Connection.*w.share\(table\).*w.ConnectionPool\(session, dsn\)"
        with pytest.raises(Error, match=f"ConnectionPool: {said}"):
            w.ConnectionPool(common, connection)  # type: ignore[arg-type]
