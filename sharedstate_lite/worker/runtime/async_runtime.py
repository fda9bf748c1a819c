"""The state behind an AsyncRuntime: one event loop for the coroutines of all tasks, with a bound on calls in flight.

The loop has a thread of its own: a coroutine that blocks delays other coroutines, but no other resource. A function
arrives once, pickled by cloudpickle; later requests name it by its digest.
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
    """Runs at most ``in_flight`` calls at a time, of all tasks of the host together."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name = context.resource
        current.find, current.loop = context.find, asyncio.get_running_loop()
        self._functions: dict[str, Function] = {}
        self._free = asyncio.Semaphore(int(options["in_flight"]))
        self._loop = asyncio.new_event_loop()
        self._closed = False
        threading.Thread(target=self._run, daemon=True, name=self._name).start()
        self._running: set[Future[list[Any]]] = set()
        self._batches = self._calls = self._in_flight = self._most = self._rows = 0

    async def answer(self, head: Head, table: pa.Table | None, caller: Caller) -> Reply:
        """function: register a pickled function; map: call it for each row of the table."""
        assert table is not None
        if head["op"] == "function":
            code = table.column("code")[0].as_py()
            self._functions[head["digest"]] = await asyncio.to_thread(self._unpickle, code)
            return {}, None
        function = self._functions.get(head["digest"])
        if function is None:
            return {"unknown": True}, None
        self._batches += 1
        running = asyncio.run_coroutine_threadsafe(self._map(function, table.to_pylist()), self._loop)
        self._running.add(running)
        try:
            results = await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            # close() cancels the calls; the end of the caller's connection cancels this task.
            if not self._closed:
                raise
            raise Error(f"{self._name}: closed while calls were in flight") from None
        finally:
            self._running.discard(running)
        self._rows += len(results)
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(head["schema"]))) if head["schema"] else None
        return {}, self._table(results, schema)

    def disconnected(self, caller: Caller) -> None:
        """The channel has cancelled the caller's request, and with it the calls."""

    def counts(self) -> dict[str, int]:
        """queries: batches; loads: calls; most: calls in flight at once; rows: results."""
        return {"queries": self._batches, "loads": self._calls, "most": self._most, "rows": self._rows}

    async def close(self) -> None:
        """Cancel the calls and stop the loop."""
        self._closed = True
        for running in list(self._running):
            running.cancel()
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closed:
            # A task that a coroutine left behind may raise SystemExit; the other coroutines continue.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()

    async def _stop(self) -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=1)
        self._loop.stop()

    async def _map(self, function: Function, rows: list[dict[str, Any]]) -> list[Any]:
        async def one(position: int, row: dict[str, Any]) -> Any:
            async with self._free:
                self._calls += 1
                self._in_flight += 1
                self._most = max(self._most, self._in_flight)
                try:
                    return await function(row)
                except BaseException as error:  # users' code may raise anything
                    if is_own(error):
                        raise
                    raise Error(f"{self._name}: row {position}: {type(error).__name__}: {error}") from error
                finally:
                    self._in_flight -= 1

        calls = [asyncio.ensure_future(one(position, row)) for position, row in enumerate(rows)]
        try:
            return list(await asyncio.gather(*calls))
        finally:
            for call in calls:
                call.cancel()

    def _unpickle(self, code: bytes) -> Function:
        try:
            function: Function = pickle.loads(code)
        except Exception as error:  # unpickling imports users' modules
            raise Error(
                f"{self._name}: the runtime cannot unpickle the function ({type(error).__name__}: {error}). "
                "Modules that it imports must be on the path when the runtime starts."
            ) from error
        return function

    def _table(self, results: list[Any], schema: pa.Schema | None) -> pa.Table:
        for position, result in enumerate(results):
            if not isinstance(result, dict):
                raise Error(
                    f"{self._name}: row {position}: the coroutine returned a {type(result).__qualname__}. "
                    "Return a dict of column to value."
                )
        try:
            # from_pylist() takes the columns of the schema or of the first row only, and drops all others.
            names = dict.fromkeys(name for result in results for name in result)
            if schema is not None:
                if odd := [name for name in names if name not in schema.names]:
                    raise Error(f"{self._name}: the results have a column {odd[0]!r} that the schema lacks. Add it.")
                return pa.Table.from_pylist(results, schema)
            return pa.table({name: [result.get(name) for result in results] for name in names})
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Error(f"{self._name}: the results do not form a table ({error}). Pass a schema to map().") from None
