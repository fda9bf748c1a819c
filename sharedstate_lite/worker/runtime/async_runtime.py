"""The state behind an AsyncRuntime: one event loop for the coroutines of all tasks, with a limit on calls in flight.

The loop runs in a separate thread, so a coroutine that blocks delays other coroutines but not other resources. A
function is sent only once, pickled by cloudpickle. Later requests identify it by its digest.
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
    """Runs the calls of all tasks on the host, with at most ``in_flight`` calls at the same time."""

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
        """Answer one request.

        ``function`` registers a pickled function, and ``map`` calls a registered function for each row of the table.
        """
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
            # close() cancels the calls. If the caller's connection is closed, this task is cancelled.
            if not self._closed:
                raise
            raise Error(f"{self._name}: it was closed while calls were in flight") from None
        finally:
            self._running.discard(running)
        self._rows += len(results)
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(head["schema"]))) if head["schema"] else None
        return {}, self._table(results, schema)

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. The channel has already cancelled the caller's request and its calls."""

    def counts(self) -> dict[str, int]:
        """Return the counters of the event loop.

        ``queries`` is the number of batches, ``loads`` the number of calls, and ``rows`` the number of results.
        ``most`` is the maximum number of calls that were in flight at the same time.
        """
        return {"queries": self._batches, "loads": self._calls, "most": self._most, "rows": self._rows}

    async def close(self) -> None:
        """Cancel all calls and stop the event loop."""
        self._closed = True
        for running in list(self._running):
            running.cancel()
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closed:
            # A background task of a coroutine can raise SystemExit. The other coroutines must continue.
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
                except BaseException as error:  # users' code can raise anything
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
                "The modules that it imports must be on sys.path when the runtime starts."
            ) from error
        return function

    def _table(self, results: list[Any], schema: pa.Schema | None) -> pa.Table:
        for position, result in enumerate(results):
            if not isinstance(result, dict):
                raise Error(
                    f"{self._name}: row {position}: the coroutine returned a {type(result).__qualname__}. "
                    "Return a dict that maps column names to values."
                )
        try:
            # from_pylist() uses only the columns of the schema or of the first row, and drops all others.
            names = dict.fromkeys(name for result in results for name in result)
            if schema is not None:
                if odd := [name for name in names if name not in schema.names]:
                    raise Error(
                        f"{self._name}: the results have a column {odd[0]!r} that is not in the schema. "
                        "Add it to the schema."
                    )
                return pa.Table.from_pylist(results, schema)
            return pa.table({name: [result.get(name) for result in results] for name in names})
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise Error(
                f"{self._name}: the results cannot be converted to a table ({error}). Pass a schema to map()."
            ) from None
