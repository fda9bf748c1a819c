"""Requests of tasks to the driver, many at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from leftovers import until

from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer


class TestMailbox:
    """Requests answered by a function in the driver."""

    def test_each_gets_its_own_answer(self, application: DriverServer) -> None:
        """Twenty threads ask at once; each gets its own answer from a plain and from an async handler."""
        for handler in (lambda table: table, self.echo):
            box = w.Mailbox(application)
            box.serve(handler)
            with ThreadPoolExecutor(20) as threads:
                answers = list(threads.map(box.ask, [pa.table({"n": [n]}) for n in range(60)]))
            assert [answer.column("n").to_pylist() for answer in answers] == [[n] for n in range(60)]

    @staticmethod
    async def echo(table: pa.Table) -> pa.Table:
        """Return the request."""
        await asyncio.sleep(0)
        return table

    def test_a_request_waits_for_a_handler(self, application: DriverServer) -> None:
        """A request that arrives before serve() is answered after it."""
        box = w.Mailbox(application)
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(box.ask, pa.table({"n": [1]}))
            until(lambda: bool(application.runtimes()))
            box.serve(lambda table: table)
            assert asking.result(20).num_rows == 1

    def test_an_exception_of_a_handler_reaches_the_caller(self, application: DriverServer) -> None:
        """Whatever a handler raises reaches the caller, and later requests are answered."""
        box, one = w.Mailbox(application), pa.table({"n": [1]})

        for error in (StopIteration, SystemExit, asyncio.CancelledError, KeyError):

            def plain(table: pa.Table, error: type[BaseException] = error) -> pa.Table:
                raise error

            async def later(table: pa.Table, error: type[BaseException] = error) -> pa.Table:
                raise error

            for handler in (plain, later):
                box.serve(handler)
                with pytest.raises(Error, match=rf"its handler raised .*{error.__name__}"):
                    with ThreadPoolExecutor(1) as threads:
                        threads.submit(box.ask, one).result(20)
        box.serve(lambda table: self.echo(table))
        assert box.ask(one).num_rows == 1

    def test_closing_ends_the_wait(self, application: DriverServer) -> None:
        """A request without a handler raises when the mailbox is closed."""
        box = w.Mailbox(application)
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(box.ask, pa.table({"n": [1]}))
            until(lambda: bool((w.metrics()["requests"] == 1).any()))
            box.close()
            with pytest.raises(Error, match="it is closed"):
                asking.result(20)
