"""A few connections to PostgreSQL, used by all tasks of a host, one query after the other on each.

A batch of parameters is cut in pieces; each goes down one connection as a pipeline,
several at once over several connections, and the answers are put in order. A connection
is opened when all that there are are busy, until there are ``size`` of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
from psycopg import conninfo

from ...errors import Error
from .postgres_arrow import joined, nulls, parameters, rows
from .resource import Caller, Context, Head, Reply

PIECE = 200
"""Queries that go down one connection at a time."""
CONNECT_SECONDS = 10
"""For one connection to the server to come about."""
CHANGES = {"BEGIN", "START", "SET", "RESET", "DISCARD", "LISTEN", "UNLISTEN", "PREPARE", "DEALLOCATE", "LOAD"}
"""What PostgreSQL says that it has done, of statements whose effect stays with the connection."""
T = TypeVar("T")


class ConnectionPoolState:
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
        out = joined(self._name, done)
        self._rows += out.num_rows
        self._bytes += out.nbytes
        return {}, out

    async def fetch(self, sql: str, given: Any) -> list[dict[str, Any]]:
        """The rows of one query, for a coroutine that runs here."""

        async def ask(connection: psycopg.AsyncConnection[Any]) -> list[dict[str, Any]]:
            cursor = await connection.execute(sql, given, prepare=True)
            self._queries += 1
            await self._unchanged(connection, cursor.statusmessage)
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            if len(set(names)) < len(names):
                raise Error(f"{self._name}: two columns of {', '.join(names)} have one name; give one another with AS")
            return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

        found = await self._asked(ask)
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

        async def ask(connection: psycopg.AsyncConnection[Any]) -> pa.Table:
            async with connection.transaction() if self._writes else contextlib.nullcontext():
                if not given:
                    columns = await self._columns(connection, sql, empty)
                    return rows(self._name, [columns], [] if columns is None else [[]], start)
                cursor = connection.cursor()
                await cursor.executemany(sql, given, returning=True)
                self._queries += len(given)
                sets: list[list[Any] | int] = []
                described: list[Any] = []
                while True:
                    described.append(cursor.description)
                    sets.append(cursor.rowcount if described[-1] is None else await cursor.fetchall())
                    if not cursor.nextset():
                        break
            await self._unchanged(connection, cursor.statusmessage)
            return rows(self._name, described, sets, start)

        return await self._asked(ask)

    async def _asked(self, ask: Callable[[psycopg.AsyncConnection[Any]], Awaitable[T]]) -> T:
        """A question's answer; where the connection has ended and nothing was written, asked once more on a new one."""
        for fresh in (False, True):
            async with self._connection(fresh) as connection:
                try:
                    return await ask(connection)
                except psycopg.Error as error:
                    if fresh or self._writes or not connection.closed:
                        raise self._refused(error) from None
        raise AssertionError("the second answer is an error, or the answer")

    async def _unchanged(self, connection: psycopg.AsyncConnection[Any], said: str | None) -> None:
        """Raise Error where a statement has changed what the next one finds, and let go of the connection."""
        word = (said or "").partition(" ")[0]
        if word in CHANGES or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            await connection.close()
            raise Error(
                f"{self._name}: {word} changes the connection, which is another task's next; say in the DSN what all "
                "shall have, such as options='-c search_path=shop'; a batch of a pool that writes is a transaction"
            )

    async def _columns(self, connection: psycopg.AsyncConnection[Any], sql: str, empty: Any) -> Any:
        """The columns of an answer to which there is no question: asked with NULLs, where asking changes nothing."""
        if self._writes:
            return None
        return (await connection.execute(sql, empty)).description

    @contextlib.asynccontextmanager
    async def _connection(self, fresh: bool) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._room:
            connection = None
            while self._free and connection is None:
                connection = self._free.pop()
                if fresh or _ended(connection):
                    await self._end(connection)
                    connection = None
            if connection is None:
                connection = await self._connect()
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


def _ended(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the server has ended a connection that waits; one that is not asked says nothing but that."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
