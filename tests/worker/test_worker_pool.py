"""PostgreSQL through a few connections that everybody uses."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
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
    """Many rows of parameters over several connections: each answer says which row it is to; none is missing."""
    pool = w.ConnectionPool(common, server.dsn, size=3)
    rng = np.random.default_rng(1)
    asked = rng.integers(0, PRODUCTS + 100, 5_000)
    answer = pool.query("SELECT id, name, price FROM product WHERE id = %(id)s", pa.table({"id": asked}))
    there = np.flatnonzero(asked < PRODUCTS)
    assert answer.column("row").to_pylist() == there.tolist()
    assert answer.column("id").to_pylist() == asked[there].tolist()
    assert answer.column("name").to_pylist() == [f"product {n}" for n in asked[there]]


def test_never_more_connections_than_its_size(common: DriverServer, server: postgres.Server) -> None:
    """Twelve threads ask at once, and the server itself counts the connections that they take."""
    pool = w.ConnectionPool(common, server.dsn, size=2)
    sql = "SELECT count(*) AS n FROM pg_stat_activity WHERE pid <> %s AND query LIKE '%%pg_sleep%%', pg_sleep(0.001)"
    sql = "SELECT (SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%pg_sleep%%') AS n, pg_sleep(%s)::text"
    with ThreadPoolExecutor(12) as threads:
        told = list(threads.map(lambda _: pool.query(sql, pa.table({"s": [0.002] * 10})), range(24)))
    assert max(max(answer.column("n").to_pylist()) for answer in told) == 2
    counts = pool.stats()
    assert [counts[name] for name in ("connections", "most", "opened", "queries")] == [2, 2, 2, 240]


def test_a_pool_that_only_reads_says_how_to_write(common: DriverServer, server: postgres.Server) -> None:
    """An INSERT is refused unless the pool is made for it; then a batch is one transaction."""
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
    """The runtime is killed while it writes: Lost, and the rows are there once or not at all, never twice."""
    pool = w.ConnectionPool(application, server, size=1, writes=True)
    with server.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS entry (n int)")
        with ThreadPoolExecutor(1) as threads:
            sql = "INSERT INTO entry SELECT %s FROM pg_sleep(30)"
            writing = threads.submit(pool.query, sql, pa.table({"n": [7]}))
            busy = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            until(lambda: connection.execute(busy).fetchall()[0][0] == 1)
            os.kill(runtimes(application)[0], signal.SIGKILL)
            with pytest.raises(w.Lost, match="not known whether that was done"):
                writing.result(20)
        assert connection.execute("SELECT count(*) FROM entry").fetchall()[0][0] == 0


def test_a_connection_that_the_server_ends_is_replaced(application: DriverServer, server: postgres.Server) -> None:
    """Connections that were ended from outside, as when a server starts again, cost those who only read nothing."""
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
    """What would stay with the connection is refused, and the next task's connection knows nothing of it."""
    pool, nothing = w.ConnectionPool(common, server, size=1, writes=writes), pa.table({"n": [1]}).select([])
    with pytest.raises(Error, match=f"{sql.split()[0]} changes the session of a connection that other tasks use next"):
        pool.query(sql, nothing)
    asked = "SELECT count(*) AS n, current_setting('transaction_read_only') AS reads FROM product"
    assert pool.query(asked, nothing).to_pylist() == [{"row": 0, "n": PRODUCTS, "reads": "off" if writes else "on"}]
    with pytest.raises(Error, match="division by zero"):
        pool.query("SELECT 1 / 0", nothing)
    assert pool.query("SELECT 7 AS n", nothing).column("n").to_pylist() == [7]
    assert pool.stats()["connections"] == 1


def test_numbers_of_any_width_are_one_column(common: DriverServer, server: postgres.Server) -> None:
    """PostgreSQL tells a small parameter as a smallint and a large one as a bigint; the answer has room for all."""
    pool = w.ConnectionPool(common, server, size=2)
    numbers = [1] * 250 + [100_000, None, 2**40, 2]
    answer = pool.query("SELECT %s AS x", pa.table({"n": pa.array(numbers, pa.int64())}))
    assert answer.column("x").to_pylist() == numbers and answer.schema.field("x").type == pa.int64()
    with pytest.raises(Error, match="column x has values of several types .*Cast it"):
        pool.query("SELECT CASE WHEN %s > 1 THEN ARRAY[[1]] ELSE ARRAY[1] END AS x", pa.table({"n": [1, 2]}))
    with pytest.raises(Error, match="the answer has a column row"):
        pool.query("SELECT 1 AS row", pa.table({"n": [1]}).select([]))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"])
    with pytest.raises(Error, match="two of the columns .* have one name"):
        pool.query("SELECT %(n)s", twice)


def test_a_bracket_after_a_per_cent_sign_is_no_name(common: DriverServer, server: postgres.Server) -> None:
    """Of ``%%(`` the per cent sign is the pattern's: parameters go by their order, and two may have one name."""
    pool = w.ConnectionPool(common, server, size=1)
    twice = pa.Table.from_arrays([pa.array(["a(b"]), pa.array([5])], ["n", "n"])
    answer = pool.query("SELECT %s LIKE '%%(b' AS found, %s AS n", twice)
    assert answer.select(["found", "n"]).to_pylist() == [{"found": True, "n": 5}]


def test_nothing_asked_has_columns_all_the_same(common: DriverServer, server: postgres.Server) -> None:
    """An empty batch, as an empty partition has it, is answered with the columns of a full one."""
    pool = w.ConnectionPool(common, server, size=1)
    sql = "SELECT id, name, price FROM product WHERE id = %s"
    empty = pool.query(sql, pa.table({"id": pa.array([], pa.int64())}))
    assert empty.num_rows == 0 and empty.schema == pool.query(sql, pa.table({"id": [1]})).schema


def test_an_open_connection_is_refused(common: DriverServer, server: postgres.Server) -> None:
    """A connection is not safe to share: the message has the expression, its type, and both ways out."""
    with server.connect() as connection:
        assert isinstance(connection, psycopg.Connection)
        said = r"connection is a psycopg.Connection.*w.share\(table\).*w.ConnectionPool\(session, dsn\)"
        with pytest.raises(Error, match=f"ConnectionPool: {said}"):
            w.ConnectionPool(common, connection)  # type: ignore[arg-type]
