"""The state behind a ConnectionPool: PostgreSQL connections that all tasks on a host share.

In a read-only pool, a batch of parameters is split into pieces. Each piece is sent over one connection as a pipeline,
several pieces run at the same time on different connections, and the answers are returned in order. In a pool that can
write, a batch is one piece. If all connections are busy, a new one is opened, up to a maximum of ``size``.
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
from .postgres_arrow import answer_table, concatenate, null_parameters, parameters
from .resource import Caller, Context, Head, Reply

PIECE = 200
"""The maximum number of queries in one pipeline of a read-only pool."""
CONNECT_SECONDS = 10
SESSION_STATE = {"BEGIN", "START", "SET", "RESET", "DISCARD", "LISTEN", "UNLISTEN", "PREPARE", "DEALLOCATE", "LOAD"}
"""The first words of the command tags of statements that change the state of their session."""
T = TypeVar("T")


class ConnectionPoolState:
    """A pool of at most ``size`` connections to ``dsn``. They are read-only unless ``writes`` is True."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name, self._size = context.resource, int(options["size"])
        self._dsn, self._writes = str(options["dsn"]), bool(options["writes"])
        self._idle: list[psycopg.AsyncConnection[Any]] = []
        self._free = asyncio.Semaphore(self._size)
        self._requests = self._open = self._most = self._opened = self._queries = self._rows = self._sent = 0
        self._closed = False

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Answer one request.

        ``query`` runs the SQL once for each row of parameters, and ``stats`` returns the counters.
        """
        if head["op"] == "stats":
            return self.counts(), None
        assert table is not None
        given = parameters(head["sql"], table)
        if self._writes:
            done = [await self._pipeline(head["sql"], given, 0, None)]
        else:
            nulls = null_parameters(head["sql"], table)
            starts = range(0, max(len(given), 1), PIECE)
            pieces = [
                asyncio.ensure_future(self._pipeline(head["sql"], given[at : at + PIECE], at, nulls)) for at in starts
            ]
            try:
                done = list(await asyncio.gather(*pieces))
            finally:
                for piece in pieces:
                    piece.cancel()
        out = concatenate(self._name, done)
        self._requests += 1
        self._rows += out.num_rows
        self._sent += out.nbytes
        return {}, out

    async def fetch(self, sql: str, given: Any) -> list[dict[str, Any]]:
        """Run one query and return its rows as dicts. Called by a coroutine in this process."""

        async def ask(connection: psycopg.AsyncConnection[Any]) -> list[dict[str, Any]]:
            cursor = await connection.execute(sql, given, prepare=True)
            self._queries += 1
            await self._check_session(connection, cursor.statusmessage)
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            if len(set(names)) < len(names):
                raise Error(
                    f"{self._name}: two of the columns {', '.join(names)} have the same name. Rename one with AS."
                )
            return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

        found = await self._retried(ask)
        self._rows += len(found)
        return found

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. The channel has already cancelled the caller's queries, which releases their connections."""

    def counts(self) -> dict[str, int]:
        """Return the counters of the pool."""
        return {
            "requests": self._requests,
            "connections": self._open,
            "most": self._most,
            "opened": self._opened,
            "queries": self._queries,
            "rows": self._rows,
            "sent": self._sent,
        }

    async def close(self) -> None:
        """Close idle connections now, and busy connections when their query has finished."""
        self._closed = True
        while self._idle:
            await self._disconnect(self._idle.pop())

    async def _pipeline(self, sql: str, given: list[Any], start: int, nulls: Any) -> pa.Table:
        """Run ``sql`` in order for each row of parameters in ``given``, on one connection. Return the answers.

        If the pool can write, all of them run in one transaction. ``start`` is the position of the first row in the
        batch. ``nulls`` is a row of NULL parameters; if ``given`` is empty, it is used to find the answer's columns.
        """

        async def ask(connection: psycopg.AsyncConnection[Any]) -> pa.Table:
            async with connection.transaction() if self._writes else contextlib.nullcontext():
                if not given:
                    columns = await self._columns(connection, sql, nulls)
                    return answer_table(self._name, [columns], [] if columns is None else [[]], start)
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
            await self._check_session(connection, cursor.statusmessage)
            return answer_table(self._name, described, sets, start)

        return await self._retried(ask)

    async def _retried(self, ask: Callable[[psycopg.AsyncConnection[Any]], Awaitable[T]]) -> T:
        """Run ``ask`` on a connection. If the server has closed a read-only connection, retry once on a new one."""
        for fresh in (False, True):
            async with self._connection(fresh) as connection:
                try:
                    return await ask(connection)
                except psycopg.Error as error:
                    if fresh or self._writes or not connection.closed:
                        raise self._error(error) from None
        raise AssertionError("the second attempt returns or raises")

    async def _check_session(self, connection: psycopg.AsyncConnection[Any], status: str | None) -> None:
        """Raise Error if the last statement changed session settings or left a transaction open.

        The connection is then closed, so that other tasks do not use it.
        """
        word = (status or "").partition(" ")[0]
        if word in SESSION_STATE or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            await connection.close()
            raise Error(
                f"{self._name}: {word} changes the session of a connection that other tasks use later. Put settings "
                "into the DSN, such as options='-c search_path=shop'. With writes=True, each batch is a transaction."
            )

    async def _columns(self, connection: psycopg.AsyncConnection[Any], sql: str, nulls: Any) -> Any:
        """Run the query with NULL parameters and return its columns. Return None if the pool can write.

        Called if there are no rows of parameters.
        """
        if self._writes:
            return None
        return (await connection.execute(sql, nulls)).description

    @contextlib.asynccontextmanager
    async def _connection(self, fresh: bool) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with self._free:
            connection = None
            while self._idle and connection is None:
                connection = self._idle.pop()
                if fresh or _ended(connection):
                    await self._disconnect(connection)
                    connection = None
            if connection is None:
                connection = await self._connect()
            usable = False
            try:
                yield connection
                usable = True
            except Error:
                usable = True
                raise
            finally:
                # A cancelled query leaves part of an answer on its connection, so the connection must be closed.
                if usable and not connection.closed and not self._closed:
                    self._idle.append(connection)
                else:
                    await self._disconnect(connection)

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        try:
            dsn = conninfo.make_conninfo(self._dsn, connect_timeout=CONNECT_SECONDS)
            out = await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=1)
            if not self._writes:
                await out.execute("SET default_transaction_read_only = on")
        except psycopg.Error as error:
            raise self._error(error) from None
        self._open += 1
        self._opened += 1
        self._most = max(self._most, self._open)
        return out

    async def _disconnect(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._open -= 1
        with contextlib.suppress(psycopg.Error):
            await connection.close()

    def _error(self, error: psycopg.Error) -> Error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            said += (
                ". A pool is read-only by default, so that queries can be retried. "
                "To write, use ConnectionPool(..., writes=True)."
            )
        return Error(f"{self._name}: PostgreSQL: {said}")


def _ended(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Return True if the server has closed an idle connection. Only this makes an idle connection readable."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
