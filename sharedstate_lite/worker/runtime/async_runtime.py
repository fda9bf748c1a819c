"""Coroutines of users, all on one loop of the runtime, so many of them at once and no more.

The loop has a thread of its own: a coroutine that blocks holds up other coroutines, and
not the things. A function comes once, as pickled by cloudpickle, and is known by its digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from ...errors import Error
from . import current
from .cancellation import is_own
from .resource import Caller, Context, Head, Reply

Function = Callable[[dict[str, Any]], Coroutine[Any, Any, Any]]


class AsyncRuntimeState:
    """At most ``in_flight`` calls at a time, of all tasks of the host together."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name, self._in_flight = str(options["name"]), int(options["in_flight"])
        current.find, current.loop = context.find, asyncio.get_running_loop()
        self._functions: dict[str, Function] = {}
        self._room = asyncio.Semaphore(self._in_flight)
        self._loop = asyncio.new_event_loop()
        self._closed = False
        threading.Thread(target=self._run, daemon=True, name=self._name).start()
        self._doing: set[Future[list[Any]]] = set()
        self._asked = self._calls = self._now = self._most = self._rows = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """function: here it is; map: its result for each row of the table."""
        assert table is not None
        if head["op"] == "function":
            code = table.column("code")[0].as_py()
            self._functions[head["digest"]] = await asyncio.to_thread(self._unpickled, code)
            return {}, None
        function = self._functions.get(head["digest"])
        if function is None:
            return {"unknown": True}, None
        self._asked += 1
        doing = asyncio.run_coroutine_threadsafe(self._all(function, table.to_pylist()), self._loop)
        self._doing.add(doing)
        try:
            results = await asyncio.wrap_future(doing)
        except asyncio.CancelledError:
            # By close() the calls end; by the end of who asked, this task.
            if not self._closed:
                raise
            raise Error(f"{self._name}: it was closed while calls were under way") from None
        finally:
            self._doing.discard(doing)
        self._rows += len(results)
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(head["schema"]))) if head["schema"] else None
        return {}, self._table(results, schema)

    def left(self, caller: Caller) -> None:
        """Its calls are cancelled with its question."""

    def counts(self) -> dict[str, int]:
        """queries: batches; loads: calls; most: at most so many at once; rows: results."""
        return {"queries": self._asked, "loads": self._calls, "most": self._most, "rows": self._rows}

    async def close(self) -> None:
        """Cancel what runs, and end the loop."""
        self._closed = True
        for doing in list(self._doing):
            doing.cancel()
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closed:
            # A task that a coroutine has left behind may stop the loop, or try to end the process: others go on.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()

    async def _stop(self) -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=1)
        self._loop.stop()

    async def _all(self, function: Function, rows: list[dict[str, Any]]) -> list[Any]:
        async def one(position: int, row: dict[str, Any]) -> Any:
            async with self._room:
                self._calls += 1
                self._now += 1
                self._most = max(self._most, self._now)
                try:
                    return await function(row)
                except BaseException as error:  # the coroutine is the user's, and may raise anything
                    if is_own(error):
                        raise
                    raise Error(f"{self._name}: row {position}: {type(error).__name__}: {error}") from error
                finally:
                    self._now -= 1

        doing = [asyncio.ensure_future(one(position, row)) for position, row in enumerate(rows)]
        try:
            return list(await asyncio.gather(*doing))
        finally:
            for call in doing:
                call.cancel()

    def _unpickled(self, code: bytes) -> Function:
        try:
            function: Function = pickle.loads(code)
        except Exception as error:  # reading it imports the user's modules, which may raise anything
            raise Error(
                f"{self._name}: its function cannot be read in the runtime ({type(error).__name__}: {error}); what it "
                "imports must be there when the runtime starts"
            ) from error
        return function

    def _table(self, results: list[Any], schema: pa.Schema | None) -> pa.Table:
        for position, result in enumerate(results):
            if not isinstance(result, dict):
                raise Error(
                    f"{self._name}: row {position}: the coroutine answered with a {type(result).__qualname__}; "
                    "answer with a dict of column to value"
                )
        try:
            # from_pylist() alone takes the columns of the first row, or of the schema, and drops what others have more.
            names = dict.fromkeys(name for result in results for name in result)
            if schema is not None:
                if odd := [name for name in names if name not in schema.names]:
                    raise Error(f"{self._name}: the answers have a column {odd[0]!r}, and the schema has none; add it")
                return pa.Table.from_pylist(results, schema)
            return pa.table({name: [result.get(name) for result in results] for name in names})
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Error(f"{self._name}: the answers make no table ({error}); give map() the schema") from None
