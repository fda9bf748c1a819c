"""The state behind an AsyncRuntime: one event loop for the coroutines of all tasks, with a limit on calls in flight.

The loop runs in a separate thread, so a coroutine that blocks delays other coroutines but not other resources. A
function is sent only once, pickled by cloudpickle. Later requests identify it by its digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from ...errors import Error
from . import current
from .cancellation import is_own
from .functions import FunctionRegistry, result_table, unpickled
from .resource import Caller, Context, Head, Reply

Function = Callable[..., Coroutine[Any, Any, Any]]
BACKOFF_SECONDS, LONGEST_BACKOFF = 0.1, 10.0
CLOSE_SECONDS = 1
"""How long calls may take to end, and the shared object to close, when the handle is closed."""
ERROR = "error"
"""The column that contains the messages of failed calls."""


class Pace:
    """Spreads calls over time, at most ``rate`` per second. If ``rate`` is None, calls do not wait.

    >>> pace = Pace(10)
    >>> [round(pace.delay(now), 3) for now in (5.0, 5.0, 5.05, 9.0)]
    [0.0, 0.1, 0.15, 0.0]
    """

    def __init__(self, rate: float | None) -> None:
        self._interval, self._next = 1 / rate if rate else 0.0, 0.0

    def delay(self, now: float) -> float:
        """Return how many seconds the next call must wait if it is ready at the time ``now``."""
        at = max(now, self._next)
        self._next = at + self._interval
        return at - now


class Failure(str):
    """The message of a call that has failed, in place of its result."""


class AsyncRuntimeState:
    """Runs the calls of all tasks on the host. The handle of the same name defines the options."""

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._name = context.resource
        current.find, current.loop = context.find, asyncio.get_running_loop()
        self._functions = FunctionRegistry(self._name)
        self._free, self._pace = asyncio.Semaphore(int(options["in_flight"])), Pace(options["rate"])
        self._setup, self._timeout, self._retries = options["setup"], options["timeout"], int(options["retries"])
        self._shared: asyncio.Task[Any] | None = None
        self._return_exceptions = bool(options["return_exceptions"])
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
            await self._functions.add(head["digest"], table)
            return {}, None
        function = self._functions.find(head)
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
        if not self._return_exceptions:
            return {}, result_table(self._name, results, head)
        failed = pa.array([str(one) if isinstance(one, Failure) else None for one in results], pa.string())
        answer = result_table(self._name, [{} if isinstance(one, Failure) else one for one in results], head)
        if not answer.num_columns:
            return {}, pa.table({ERROR: failed})
        if ERROR in answer.column_names:
            raise Error(f"{self._name}: the column {ERROR} is for the messages of failed calls. Rename yours.")
        return {}, answer.append_column(ERROR, failed)

    def disconnected(self, caller: Caller) -> None:
        """Do nothing. The channel has already cancelled the caller's request and its calls."""

    def counts(self) -> dict[str, int]:
        """Return the counters of the event loop.

        ``calls`` is the number of calls, including retries, and ``in_flight`` the maximum number of calls in flight at
        the same time.
        """
        return {"requests": self._batches, "rows": self._rows, "calls": self._calls, "in_flight": self._most}

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
            await asyncio.wait(calls, timeout=CLOSE_SECONDS)
        with contextlib.suppress(Exception):  # users' code
            if self._shared is not None:
                shared = self._shared.result()
                close = getattr(shared, "aclose", None) or shared.close
                closing = close()
                if inspect.isawaitable(closing):
                    await asyncio.wait_for(closing, CLOSE_SECONDS)
        self._loop.stop()

    async def _map(self, function: Function, rows: list[dict[str, Any]]) -> list[Any]:
        shared = await self._make_shared()
        calls = [asyncio.ensure_future(self._call(function, shared, at, row)) for at, row in enumerate(rows)]
        try:
            return list(await asyncio.gather(*calls))
        finally:
            for call in calls:
                call.cancel()

    async def _call(self, function: Function, shared: tuple[Any, ...], position: int, row: dict[str, Any]) -> Any:
        """Call the function for one row until it returns or no retries are left. Return its result, or a Failure."""
        said, failed = "", BaseException()
        for attempt in range(self._retries + 1):
            if attempt:
                # Calls that have failed together must not come back together, so the waits differ.
                longest = min(BACKOFF_SECONDS * 2 ** (attempt - 1), LONGEST_BACKOFF)
                await asyncio.sleep(longest * random.uniform(0.5, 1))
            async with self._free:
                if wait := self._pace.delay(self._loop.time()):
                    await asyncio.sleep(wait)
                self._calls += 1
                self._in_flight += 1
                self._most = max(self._most, self._in_flight)
                try:
                    async with asyncio.timeout(self._timeout) as limit:
                        return await function(row, *shared)
                except BaseException as error:  # users' code can raise anything
                    if is_own(error):
                        raise
                    said, failed = f"{type(error).__name__}: {error}", error
                    if limit.expired():
                        said = f"TimeoutError: the call took longer than timeout={self._timeout:g} s"
                finally:
                    self._in_flight -= 1
            if not isinstance(failed, Exception):
                break
        if self._return_exceptions:
            return Failure(said)
        raise Error(f"{self._name}: row {position}: {said}") from failed

    async def _make_shared(self) -> tuple[Any, ...]:
        """Return what the calls share, as their additional arguments. The first batch makes it, and others wait."""
        if self._setup is None:
            return ()
        if self._shared is None or (self._shared.done() and (self._shared.cancelled() or self._shared.exception())):
            self._shared = asyncio.ensure_future(self._call_setup())
        return (await asyncio.shield(self._shared),)

    async def _call_setup(self) -> Any:
        setup = await asyncio.to_thread(unpickled, self._name, bytes.fromhex(self._setup))
        try:
            made = setup()
            return await made if inspect.isawaitable(made) else made
        except BaseException as error:  # users' code can raise anything
            if is_own(error):
                raise
            raise Error(f"{self._name}: setup failed: {type(error).__name__}: {error}") from error
