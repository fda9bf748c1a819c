"""A pool of connections that a user's function opens."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from leftovers import runtimes, until

from sharedstate_lite import postgres
from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer

NAME = "SELECT name FROM product WHERE id = ?"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An SQLite file with a hundred products."""
    file = tmp_path_factory.mktemp("shop") / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO product VALUES (?, ?)", [(n, f"product {n}") for n in range(100)])
    connection.close()
    return str(file)


def sqlite(path: str) -> Callable[[], sqlite3.Connection]:
    """Opens the file."""
    return lambda: sqlite3.connect(path)


def test_any_database(common: DriverServer, path: str) -> None:
    """query, enrich, fetch and writes on SQLite, with never more connections than the pool's size."""
    pool = w.Pool(common, sqlite(path), size=3)
    ids = np.random.default_rng(1).integers(0, 120, 1_000)
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: pool.query(NAME, pa.table({"id": ids})), range(6)))
    there = np.flatnonzero(ids < 100)
    assert all(answer.column("row").to_pylist() == there.tolist() for answer in answers)
    assert all(answer.column("name").to_pylist() == [f"product {n}" for n in ids[there]] for answer in answers)
    counts = pool.stats()
    assert counts["most"] <= 3 and counts["opened"] <= 3 and counts["queries"] == 6_000
    left = pool.enrich(pd.DataFrame({"id": [7, 700]}), NAME, on="id", how="left")
    assert left.to_dict("list") == {"id": [7, 700], "name": ["product 7", None]}
    changed = pool.query("INSERT INTO product VALUES (?, ?)", pa.table({"id": [100, 101], "name": ["a", "b"]}))
    assert changed.to_pydict() == {"row": [0, 1], "changed": [1, 1]}
    assert pool.query(NAME, pd.DataFrame({"id": [101]}))["name"].tolist() == ["b"], "another connection sees it"
    assert pool.query(NAME, pa.table({"id": pa.array([], pa.int64())})).num_rows == 0
    with pytest.raises(Error, match=r"row \d: OperationalError: no such column: missing"):
        pool.query("SELECT name FROM product WHERE id = missing OR ?", pa.table({"n": [1, 0]}))
    pool.close()


def test_factories_of_several_kinds(common: DriverServer, server: postgres.Server, path: str) -> None:
    """psycopg and DuckDB, by a function, a lambda and a partial; a coroutine can use the pool."""
    import functools

    import psycopg

    dsn, one = server.dsn, pd.DataFrame({"id": [7]})
    calls = w.AsyncRuntime(common)
    for connect, sql in (
        (lambda: psycopg.connect(dsn), "SELECT name FROM product WHERE id = %s"),
        (functools.partial(sqlite3.connect, path), NAME),
        (lambda: duckdb.connect(), "SELECT 'product ' || ? AS name"),
    ):
        pool = w.Pool(common, connect, size=1)

        async def name(row: dict[str, Any], sql: str = sql, pool: w.Pool = pool) -> dict[str, Any]:
            return (await pool.fetch(sql, [row["id"]]))[0]

        assert pool.enrich(one, sql, on="id")["name"].tolist() == ["product 7"]
        assert calls.map(name, one)["name"].tolist() == ["product 7"]
        assert pool.stats()["opened"] == 1
        pool.close()
    with server.connect() as connection:
        idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        assert connection.execute(idle).fetchall()[0][0] == 0
    with pytest.raises(Error, match="only a coroutine"):
        asyncio.run(w.Pool(common, sqlite(path)).fetch("SELECT 1"))


def test_connections_that_are_no_databases(common: DriverServer) -> None:
    """map() gives a connection and a row to a function; each connection is used by one thread at a time."""

    class Client:
        """Counts who uses it."""

        def __init__(self) -> None:
            self.thread, self.inside = threading.get_ident(), 0

        def ask(self, n: int) -> int:
            assert threading.get_ident() == self.thread and not self.inside
            self.inside += 1
            time.sleep(0.001)
            self.inside -= 1
            return n * n

    pool = w.Pool(common, Client, size=4)

    def square(client: Client, row: dict[str, Any]) -> dict[str, Any]:
        return {"square": client.ask(row["n"])}

    frame = pd.DataFrame({"n": range(40)}, index=range(100, 140))
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: pool.map(square, frame), range(4)))
    assert all(answer["square"].tolist() == [n * n for n in range(40)] for answer in answers)
    assert all(answer.index.equals(frame.index) for answer in answers)
    assert pool.stats()["most"] <= 4

    def stops(client: Client, row: dict[str, Any]) -> dict[str, Any]:
        raise StopIteration

    for _ in range(5):
        with pytest.raises(Error, match="row 0: StopIteration"):
            pool.map(stops, pd.DataFrame({"n": [1]}))
    assert pool.map(square, pa.table({"n": [3]})).to_pydict() == {"square": [9]}
    assert pool.stats()["connections"] <= 4, "a connection on which a call has failed is closed"


def test_what_a_pool_refuses(common: DriverServer, path: str) -> None:
    """An open connection, captured mutable values, and a factory that fails."""
    with sqlite3.connect(path) as connection:
        with pytest.raises(Error, match=r"Pool: connection is a sqlite3.Connection.*a function that makes one.*w.Pool"):
            w.Pool(common, connection)  # type: ignore[arg-type]
        with pytest.raises(Error, match="connection is a sqlite3.Connection, which is not safe to share"):
            w.Pool(common, lambda: connection)
    connection.close()
    with pytest.raises(Error, match=r"Pool: the function cannot be sent to the runtime .*wrap it in a function"):
        w.Pool(common, duckdb.connect)
    with pytest.raises(Error, match="Pool: size=0 is not valid"):
        w.Pool(common, sqlite(path), size=0)
    for connect, said in (
        (lambda: sqlite3.connect("/nowhere/shop.db"), "connect failed: OperationalError: unable to open"),
        (lambda: None, "connect failed: TypeError: it returned None"),
    ):
        pool = w.Pool(common, connect, size=1)  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(Error, match=said):
                pool.query(NAME, pa.table({"id": [1]}))
        assert pool.stats()["connections"] == 0


def test_a_call_that_a_kill_interrupts_is_reported(application: DriverServer, tmp_path: Path) -> None:
    """The runtime is killed during a call: Lost is raised, because the call may have been executed."""
    mark = tmp_path / "begun"
    pool = w.Pool(application, lambda: object(), size=1)
    text = str(mark)

    def hang(client: Any, row: dict[str, Any]) -> dict[str, Any]:
        Path(text).touch()
        time.sleep(60)
        return row

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pool.map, hang, pa.table({"n": [1]}))
        until(mark.exists)
        os.kill(runtimes(application)[0], signal.SIGKILL)
        with pytest.raises(w.Lost, match="it is unknown whether the request was executed"):
            waiting.result(20)
