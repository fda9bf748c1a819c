"""Request and response between tasks and the driver, without a broker between them."""

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
from ..runtime.channel import Reply
from ..runtime.protocol import Head
from .driver import SparkLike, driver
from .handle import SharedHandle

PATIENCE = 60.0
"""Seconds that a letter waits for somebody to serve."""


class Mailbox(SharedHandle):
    """Tasks ask, a function in the driver answers.

    What was asked when a runtime was killed is not asked again: Lost says that it is not
    known whether the driver has seen it.
    """

    kind = "Mailbox"

    def __init__(self, spark: SparkLike = None) -> None:
        found = driver(spark)
        self._handler: Callable[[pa.Table], Any] | None = None
        self._serving, self._closed = asyncio.Event(), False
        self._loop = found.loop
        super().__init__(found, found.add(self.kind, {}, serve=self._serve))

    def serve(self, handler: Callable[[pa.Table], Any]) -> None:
        """From now on answer with ``handler``: a function, plain or async, of an Arrow table to an Arrow table.

        A plain one runs in a thread, several at once where several tasks ask: what they
        change together is theirs to guard. Raises Error in a task, and for what cannot be called.
        """
        if self._driver is None:
            raise Error(f"{self!r}: serve() is the driver's half; tasks ask()")
        if not self._driver.alive:
            raise Error(f"{self!r}: its application has ended; make another one in a session that runs")
        if not callable(handler):
            raise Error(f"{self._name}.serve: a {type(handler).__qualname__} is no function of an Arrow table")
        self._handler = handler
        self._loop.call_soon_threadsafe(self._serving.set)

    def ask(self, batch: pa.Table | pa.RecordBatch) -> pa.Table:
        """The driver's answer to a batch. Raises Error with what the handler raised, and Lost."""
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        if not isinstance(table, pa.Table):
            raise Error(
                f"{self._name}.ask: a {type(batch).__qualname__} is no Arrow table; pa.table({{...}}) makes one"
            )
        _, answer, _ = self._ask({"op": "ask"}, table, retry=False)
        assert answer is not None
        return answer

    def close(self) -> None:
        """End it on every host; whoever asks it afterwards, or waits for somebody to serve, gets an error."""
        super().close()
        self._closed = True
        with contextlib.suppress(RuntimeError):  # the loop has ended with the application, and with all who waited
            self._loop.call_soon_threadsafe(self._serving.set)

    async def _serve(self, head: Head, table: pa.Table | None) -> Reply:
        try:
            await asyncio.wait_for(self._serving.wait(), PATIENCE)
        except TimeoutError:
            raise Error(f"{self._name}: nobody serves it; call serve(handler) in the driver before tasks ask") from None
        handler = self._handler
        if self._closed or handler is None:
            raise Error(f"{self._name}: it is closed; make another one in the driver")
        assert table is not None
        try:
            in_loop = inspect.iscoroutinefunction(handler)
            answer = handler(table) if in_loop else await asyncio.to_thread(_called, handler, table)
            if isinstance(answer, _Raised):
                raise answer.error
            if inspect.isawaitable(answer):
                answer = await answer
        except BaseException as error:  # the handler is the user's, and may raise anything
            if is_own(error):
                raise
            raise Error(f"{self._name}: its handler raised {type(error).__name__}: {error}") from error
        if isinstance(answer, pa.RecordBatch):
            answer = pa.Table.from_batches([answer])
        if not isinstance(answer, pa.Table):
            raise Error(
                f"{self._name}: its handler answered with a {type(answer).__qualname__}; answer with an Arrow table"
            )
        return {}, answer


@dataclasses.dataclass
class _Raised:
    """What a handler raised, as an answer: a future takes no StopIteration, and its waiter would wait for ever."""

    error: BaseException


def _called(handler: Callable[[pa.Table], Any], table: pa.Table) -> Any:
    try:
        return handler(table)
    except BaseException as error:  # told to who asked
        return _Raised(error)
