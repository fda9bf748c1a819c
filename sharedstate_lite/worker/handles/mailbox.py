"""Requests that tasks send to the driver, where a function answers them. No message broker is needed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ...errors import Error
from ..runtime.cancellation import is_own
from ..runtime.resource import Head, Reply
from .batches import as_table, like
from .driver import SparkLike, driver
from .handle import SharedHandle

SERVE_SECONDS = 60.0
"""How long a request waits for the driver to call `Mailbox.serve`."""


class Mailbox(SharedHandle):
    """Carries requests from tasks to the driver.

    A task sends a request with `ask`. In the driver, the function that was passed to `serve` answers it. If the runtime
    is killed, `ask` raises Lost. The request is not repeated, because the driver may have received it.
    """

    kind = "Mailbox"

    def __init__(self, spark: SparkLike = None) -> None:
        found = driver(spark)
        self._handler: Callable[[pa.Table], Any] | None = None
        self._serving, self._closed = asyncio.Event(), False
        self._loop = found.loop
        super().__init__(found, found.register(self.kind, {}, serve=self._serve))

    def serve(self, handler: Callable[[pa.Table], Any]) -> None:
        """Answer requests with ``handler``, a plain or async function that takes an Arrow table.

        The handler returns an Arrow table or a pandas DataFrame. A plain handler runs in a thread. If several tasks
        send requests, it can run in several threads at the same time, so it must protect the data that it changes. An
        async handler runs on the event loop of the driver's server.

        Raises Error in a task, after the application has ended, and if ``handler`` is not callable.
        """
        if self._driver is None:
            raise Error(f"{self!r}: only the driver can call serve(). Tasks call ask().")
        if not self._driver.alive:
            raise Error(f"{self!r}: its application has ended. Create another one in a session that is running.")
        if not callable(handler):
            raise Error(
                f"{self._name}.serve: got a {type(handler).__qualname__}. Pass a function that takes an Arrow table."
            )
        self._handler = handler
        self._loop.call_soon_threadsafe(self._serving.set)

    def ask(self, batch: Any) -> Any:
        """Send a batch to the driver and return its answer.

        If the batch is a pandas DataFrame, the answer is one too; otherwise it is an Arrow table. Raises Error if the
        handler raises an exception, and Lost if the runtime exits before it answers.
        """
        _, answer, _ = self._request({"op": "ask"}, as_table(f"{self._name}.ask", batch), retry=False)
        assert answer is not None
        return like(answer, batch)

    def close(self) -> None:
        """Close the mailbox on every host. Later requests, and requests that wait for `serve`, raise Error."""
        super().close()
        self._closed = True
        with contextlib.suppress(RuntimeError):  # the loop has stopped, because the application has ended
            self._loop.call_soon_threadsafe(self._serving.set)

    async def _serve(self, head: Head, table: pa.Table | None) -> Reply:
        try:
            await asyncio.wait_for(self._serving.wait(), SERVE_SECONDS)
        except TimeoutError:
            raise Error(
                f"{self._name}: serve() was not called within {SERVE_SECONDS:g} s. Call it before tasks call ask()."
            ) from None
        handler = self._handler
        if self._closed or handler is None:
            raise Error(f"{self._name}: it is closed. Create another one in the driver.")
        assert table is not None
        try:
            in_loop = inspect.iscoroutinefunction(handler)
            answer = handler(table) if in_loop else await asyncio.to_thread(_call, handler, table)
            if isinstance(answer, _Raised):
                raise answer.error
            if inspect.isawaitable(answer):
                answer = await answer
        except BaseException as error:  # users' code can raise anything
            if is_own(error):
                raise
            raise Error(f"{self._name}: its handler raised {type(error).__name__}: {error}") from error
        return {}, as_table(f"{self._name}: the result of its handler", answer)


@dataclasses.dataclass
class _Raised:
    """An exception as a return value. A future does not accept StopIteration, so the task would wait forever."""

    error: BaseException


def _call(handler: Callable[[pa.Table], Any], table: pa.Table) -> Any:
    try:
        return handler(table)
    except BaseException as error:  # reported to the task that sent the request
        return _Raised(error)
