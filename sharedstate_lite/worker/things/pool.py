"""A few connections to PostgreSQL, used by all tasks of a host, one query after the other on each.

A batch of parameters is cut in pieces; each goes down one connection as a pipeline,
several at once over several connections, and the answers are put in order. A connection
is opened when all that there are are busy, until there are ``size`` of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import conninfo

from ...errors import Error
from . import Caller, Context, Head, Reply
from .columns import nulls, parameters, rows

PIECE = 200
"""Queries that go down one connection at a time."""
CONNECT_SECONDS = 10
"""For one connection to the server to come about."""


class Pool:
    """At most ``size`` connections to ``dsn``; only for reading unless ``writes``."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name, self._size = str(options["name"]), int(options["size"])
        self._dsn, self._writes = str(options["dsn"]), bool(options["writes"])
        self._free: list[psycopg.AsyncConnection[Any]] = []
        self._room = asyncio.Semaphore(self._size)
        self._open = self._most = self._opened = self._queries = self._rows = self._bytes = 0
        self._closed = False

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """query: for each row of the table as parameters; stats."""
        if head["op"] == "stats":
            return self.counts(), None
        assert table is not None
        given = parameters(head["sql"], table)
        if self._writes:
            done = [await self._piece(head["sql"], given, 0, None)]
        else:
            empty = nulls(head["sql"], table)
            starts = range(0, max(len(given), 1), PIECE)
            asked = [
                asyncio.ensure_future(self._piece(head["sql"], given[at : at + PIECE], at, empty)) for at in starts
            ]
            try:
                done = list(await asyncio.gather(*asked))
            finally:
                for one in asked:
                    one.cancel()
        out = pa.concat_tables(done)
        self._rows += out.num_rows
        self._bytes += out.nbytes
        return {}, out

    async def fetch(self, sql: str, given: Any) -> list[dict[str, Any]]:
        """The rows of one query, for a coroutine that runs here."""
        async with self._connection() as connection:
            try:
                cursor = await connection.execute(sql, given, prepare=True)
                self._queries += 1
                if cursor.description is None:
                    return []
                names = [column.name for column in cursor.description]
                found = [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]
            except psycopg.Error as error:
                raise self._refused(error) from None
        self._rows += len(found)
        return found

    def left(self, caller: Caller) -> None:
        """Its questions are cancelled, and their connections come back."""

    def counts(self) -> dict[str, int]:
        """connections open now, at most at once, and opened in all; queries; rows and bytes answered."""
        return {
            "connections": self._open,
            "most": self._most,
            "opened": self._opened,
            "queries": self._queries,
            "rows": self._rows,
            "bytes": self._bytes,
        }

    async def close(self) -> None:
        """End the connections that are free now; the others end when their query does."""
        self._closed = True
        while self._free:
            await self._end(self._free.pop())

    async def _piece(self, sql: str, given: list[Any], start: int, empty: Any) -> pa.Table:
        """Some queries, one after the other on one connection; all of them, or none where they write."""
        async with self._connection() as connection:
            try:
                async with connection.transaction() if self._writes else contextlib.nullcontext():
                    if not given:
                        return rows(self._name, await self._columns(connection, sql, empty), [], start)
                    cursor = connection.cursor()
                    await cursor.executemany(sql, given, returning=True)
                    self._queries += len(given)
                    sets: list[list[Any] | int] = []
                    while True:
                        sets.append(cursor.rowcount if cursor.description is None else await cursor.fetchall())
                        described = cursor.description
                        if not cursor.nextset():
                            break
                return rows(self._name, described, sets, start)
            except psycopg.Error as error:
                raise self._refused(error) from None

    async def _columns(self, connection: psycopg.AsyncConnection[Any], sql: str, empty: Any) -> Any:
        """The columns of an answer to which there is no question: asked with NULLs, where asking changes nothing."""
        if self._writes:
            return None
        return (await connection.execute(sql, empty)).description

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._room:
            connection = self._free.pop() if self._free else await self._connect()
            whole = False
            try:
                yield connection
                whole = True
            except Error:
                whole = True
                raise
            finally:
                # One that was left in the middle of an answer, or is broken, is of no more use.
                if whole and not connection.closed and not self._closed:
                    self._free.append(connection)
                else:
                    await self._end(connection)

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        try:
            dsn = conninfo.make_conninfo(self._dsn, connect_timeout=CONNECT_SECONDS)
            out = await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=1)
            if not self._writes:
                await out.execute("SET default_transaction_read_only = on")
        except psycopg.Error as error:
            raise self._refused(error) from None
        self._open += 1
        self._opened += 1
        self._most = max(self._most, self._open)
        return out

    async def _end(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._open -= 1
        with contextlib.suppress(psycopg.Error):
            await connection.close()

    def _refused(self, error: psycopg.Error) -> Error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            said += "; a pool only reads, so that its questions can be asked again: ConnectionPool(..., writes=True)"
        return Error(f"{self._name}: PostgreSQL: {said}")
