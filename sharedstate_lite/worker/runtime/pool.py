"""The state behind a Pool: connections that a user's function opens, each with its own thread.

Some drivers, such as sqlite3, allow only the thread that has opened a connection to use it. A batch is split into one
piece per connection. The pieces run at the same time, and the answers are returned in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from ...errors import Error
from .functions import FunctionRegistry, result_table, unpickled
from .postgres_arrow import ROW, check_columns, parameters
from .resource import Caller, Context, Head, Reply

T = TypeVar("T")


class _Slot:
    """A connection and the only thread that uses it."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.connection: Any = None


class PoolState:
    """A pool of at most ``size`` connections, which the pickled function ``connect`` opens."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name, self._size = context.resource, int(options["size"])
        self._connect = options["connect"]
        self._functions = FunctionRegistry(self._name)
        self._idle: list[_Slot] = []
        self._free = asyncio.Semaphore(self._size)
        self._requests = self._open = self._most = self._opened = self._queries = self._rows = self._sent = 0
        self._closed = False

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """Answer one request.

        ``query`` runs the SQL once for each row of parameters, ``function`` registers a pickled function, ``map`` calls
        a registered function for each row, and ``stats`` returns the counters.
        """
        if head["op"] == "stats":
            return self.counts(), None
        assert table is not None
        if head["op"] == "function":
            await self._functions.add(head["digest"], table)
            return {}, None
        if head["op"] == "query":
            ask = functools.partial(_execute, head["sql"])
            out = _answer_table(self._name, await self._pieces(ask, parameters(head["sql"], table)))
        else:
            function = self._functions.find(head)
            if function is None:
                return {"unknown": True}, None
            out = result_table(self._name, await self._pieces(function, table.to_pylist()), head)
        self._requests += 1
        self._rows += out.num_rows
        self._sent += out.nbytes
        return {}, out

    async def fetch(self, sql: str, given: Any) -> list[dict[str, Any]]:
        """Run one query and return its rows as dicts. Called by a coroutine in this process."""
        asked = [() if given is None else given]
        ((names, answer),) = await self._pieces(functools.partial(_execute, sql), asked)
        rows = [dict(zip(names, row, strict=True)) for row in answer] if isinstance(answer, list) else []
        self._rows += len(rows)
        return rows

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. A connection becomes free when the call that uses it has returned."""

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
        """Close idle connections now, and busy connections when their call has returned."""
        self._closed = True
        while self._idle:
            await self._discard(self._idle.pop())

    async def _pieces(self, call: Callable[[Any, Any], T], rows: list[Any]) -> list[T]:
        """Return ``call(connection, row)`` for each row, in order. The rows are divided among the connections."""
        step = max(1, -(-len(rows) // self._size))
        pieces = [asyncio.ensure_future(self._piece(call, rows, at, step)) for at in range(0, len(rows), step)]
        try:
            return [one for piece in await asyncio.gather(*pieces) for one in piece]
        finally:
            for piece in pieces:
                piece.cancel()

    async def _piece(self, call: Callable[[Any, Any], T], rows: list[Any], start: int, step: int) -> list[T]:
        def work(connection: Any) -> list[T]:
            out = []
            for at, row in enumerate(rows[start : start + step], start):
                out.append(_safely(f"{self._name}: row {at}", functools.partial(call, connection, row)))
            _safely(f"{self._name}: commit", functools.partial(_commit, connection))
            return out

        await self._free.acquire()
        # A thread cannot be cancelled. If the caller is gone, the connection stays in use until the call returns.
        out = await asyncio.shield(asyncio.ensure_future(self._use(work)))
        self._queries += len(out)
        return out

    async def _use(self, work: Callable[[Any], T]) -> T:
        """Run ``work(connection)`` in the thread of a free or new connection."""
        loop = asyncio.get_running_loop()
        slot = self._idle.pop() if self._idle else _Slot()
        try:
            if slot.connection is None:
                slot.connection = await loop.run_in_executor(slot.thread, self._new)
                self._open += 1
                self._opened += 1
                self._most = max(self._most, self._open)
            out = await loop.run_in_executor(slot.thread, work, slot.connection)
            if self._closed:
                await self._discard(slot)
            else:
                self._idle.append(slot)
        except BaseException:
            await self._discard(slot)
            raise
        finally:
            self._free.release()
        return out

    def _new(self) -> Any:
        def connect() -> Any:
            out = unpickled(self._name, bytes.fromhex(self._connect))()
            if out is None:
                raise TypeError("it returned None")
            return out

        return _safely(f"{self._name}: connect failed", connect)

    async def _discard(self, slot: _Slot) -> None:
        if slot.connection is not None:
            self._open -= 1
            close = functools.partial(_safely, self._name, getattr(slot.connection, "close", lambda: None))
            with contextlib.suppress(Error):
                await asyncio.get_running_loop().run_in_executor(slot.thread, close)
        slot.thread.shutdown(wait=False)


def _safely(what: str, call: Callable[[], T]) -> T:
    """Return ``call()``. Raises Error for every exception, because a future does not accept StopIteration."""
    try:
        return call()
    except Error:
        raise
    except BaseException as error:  # users' code can raise anything
        raise Error(f"{what}: {type(error).__name__}: {error}") from error


def _execute(sql: str, connection: Any, row: Any) -> tuple[list[str], list[Any] | int]:
    """Run one statement on a DB-API connection. Return its columns and rows, or [] and the number of changed rows."""
    cursor = connection.cursor()
    try:
        cursor.execute(sql, row)
        if cursor.description is None:
            return [], cursor.rowcount
        return [column[0] for column in cursor.description], list(cursor.fetchall())
    finally:
        cursor.close()


def _commit(connection: Any) -> None:
    """Commit, so that no transaction stays open while the connection is idle."""
    try:
        getattr(connection, "commit", lambda: None)()
    except Exception as error:
        if "no transaction" not in str(error).lower():  # what DuckDB says if there is nothing to commit
            raise


def _answer_table(name: str, answers: list[tuple[list[str], Any]]) -> pa.Table:
    """Return all answers as one table, each row with the position of the parameter row that it answers."""
    if not answers:
        return pa.table({ROW: pa.array([], pa.int64())})
    columns = answers[0][0]
    if not columns:
        return pa.table({ROW: range(len(answers)), "changed": [int(answer) for _, answer in answers]})
    check_columns(name, columns)
    rows = [(at, *row) for at, (_, answer) in enumerate(answers) for row in answer]
    arrays: list[Any] = [pa.array([row[0] for row in rows], pa.int64())]
    for at, column in enumerate(columns, 1):
        try:
            arrays.append(pa.array([row[at] for row in rows]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Error(f"{name}: column {column} has values of several types ({error}). Cast it in the SQL.") from None
    return pa.Table.from_arrays(arrays, [ROW, *columns])
