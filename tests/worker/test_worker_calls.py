"""An AsyncRuntime's options: setup, timeout, retries, rate and return_exceptions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from aiohttp import web
from leftovers import counters, until

from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.runtime.async_runtime import Pace

Row = dict[str, Any]


class Service:
    """Fails for each row a number of times; counts what it was asked."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.asked = failures, dict[int, int]()

    def ask(self, n: int) -> int:
        """Square a number, or fail."""
        self.asked[n] = self.asked.get(n, 0) + 1
        if self.asked[n] <= self.failures:
            raise ConnectionError(f"busy with {n}")
        return n * n


async def square(row: Row, service: Service) -> Row:
    """A call of the service."""
    return {"square": service.ask(row["n"])}


async def inverse(row: Row) -> Row:
    """Fails for 0, and hangs for negative numbers."""
    if row["n"] < 0:
        await asyncio.Event().wait()
    return {"x": 1 / row["n"]}


@pytest.fixture(scope="module")
def http() -> Iterator[str]:
    """A web server that returns the number in its path, and the connection that the request came over."""

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peername")
        return web.json_response({"n": int(request.match_info["n"]), "port": peer[1]})

    loop, ready = asyncio.new_event_loop(), threading.Event()
    address = []

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/{n}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        ready.set()
        await ended.wait()
        await runner.cleanup()

    ended = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    assert ready.wait(20)
    yield address[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(20)
    loop.close()


def test_all_calls_share_one_session(common: DriverServer, http: str) -> None:
    """An aiohttp session is made once; 200 calls use at most as many connections as are in flight."""

    async def get(row: Row, session: aiohttp.ClientSession) -> Row:
        async with session.get(f"{http}/{row['n']}") as response:
            return {**await response.json(), "session": id(session)}

    with w.AsyncRuntime(common, in_flight=4, setup=aiohttp.ClientSession) as calls:
        frame = pd.DataFrame({"n": range(100)}, index=range(50, 150))
        told = [calls.map(get, frame) for _ in range(2)]
        assert all(one["n"].tolist() == list(range(100)) and one.index.equals(frame.index) for one in told)
        both = pd.concat(told)
        assert both["session"].nunique() == 1 and both["port"].nunique() <= 4
        assert counters(calls)["in_flight"] == 4


def test_what_setup_makes_is_closed_with_the_handle(common: DriverServer, tmp_path: Any) -> None:
    """A coroutine function can be a setup; its result is closed when the handle is."""
    mark = str(tmp_path / "closed")

    class Client:
        async def aclose(self) -> None:
            open(mark, "w").close()  # noqa: SIM115

    async def connect() -> Client:
        await asyncio.sleep(0)
        return Client()

    async def name(row: Row, client: Client) -> Row:
        return {"name": type(client).__name__}

    with w.AsyncRuntime(common, setup=connect) as calls:
        assert calls.map(name, pa.table({"n": [1, 2]})).to_pydict() == {"name": ["Client", "Client"]}
        assert not (tmp_path / "closed").exists()
    until((tmp_path / "closed").exists)


def test_a_setup_that_fails_is_tried_again(common: DriverServer, tmp_path: Any) -> None:
    """The first batch gets the error of setup, and the next one calls it again."""
    mark = str(tmp_path / "tried")

    def connect() -> Service:
        try:
            open(mark, "x").close()  # noqa: SIM115
        except FileExistsError:
            return Service()
        raise ConnectionError("no such host")

    calls = w.AsyncRuntime(common, setup=connect)
    with pytest.raises(Error, match="setup failed: ConnectionError: no such host"):
        calls.map(square, pa.table({"n": [3]}))
    assert calls.map(square, pa.table({"n": [3]})).to_pydict() == {"square": [9]}


@pytest.mark.parametrize("retries", [0, 2])
def test_a_failed_call_is_repeated(common: DriverServer, retries: int) -> None:
    """Each row fails twice: two retries are enough, and every attempt is counted."""
    calls = w.AsyncRuntime(common, setup=lambda: Service(failures=2), retries=retries, return_exceptions=True)
    told = calls.map(square, pa.table({"n": [2, 3]})).to_pydict()
    assert counters(calls)["calls"] == 2 * (retries + 1)
    if retries:
        assert told == {"square": [4, 9], "error": [None, None]}
    else:
        assert told == {"error": ["ConnectionError: busy with 2", "ConnectionError: busy with 3"]}


def test_a_slow_call_fails_alone(common: DriverServer) -> None:
    """A call that exceeds the timeout and one that raises have messages; the others have results."""
    calls = w.AsyncRuntime(common, timeout=0.05, return_exceptions=True)
    frame = pd.DataFrame({"n": [4, -1, 0, 2]})
    told = calls.map(inverse, frame)
    assert told["x"].tolist()[::3] == [0.25, 0.5] and told["x"].isna().tolist() == [False, True, True, False]
    slow, zero = told["error"].tolist()[1:3]
    assert slow == "TimeoutError: the call took longer than timeout=0.05 s" and zero.startswith("ZeroDivisionError")
    assert calls.map(inverse, pa.table({"n": [0]}), pa.schema({"x": pa.float64()})).schema.names == ["x", "error"]
    strict = w.AsyncRuntime(common, timeout=0.05)
    with pytest.raises(Error, match="row 1: TimeoutError: the call took longer than timeout=0.05 s"):
        strict.map(inverse, frame[:2])
    assert strict.map(inverse, frame[:1])["x"].tolist() == [0.25]

    async def own(row: Row) -> Row:
        return {"error": 1}

    with pytest.raises(Error, match="the column error is for the messages of failed calls. Rename yours"):
        calls.map(own, frame[:1])


def test_calls_keep_their_rate(common: DriverServer) -> None:
    """Calls that are ready at once start at equal intervals; a pause is not made up for."""
    pace = Pace(20)
    assert [round(pace.delay(now), 3) for now in (7.0, 7.0, 7.0, 7.2, 9.0, 9.01)] == [0, 0.05, 0.1, 0, 0, 0.04]
    assert [Pace(None).delay(now) for now in (0.0, 0.0)] == [0, 0]
    calls = w.AsyncRuntime(common, rate=1_000)
    assert calls.map(inverse, pa.table({"n": np.arange(1, 30)})).column("x").to_pylist() == [
        1 / n for n in range(1, 30)
    ]


def test_integers_with_nulls_stay_integers(common: DriverServer) -> None:
    """A DataFrame's integers with NULLs are nullable, so that large ones are exact; Arrow's are as they were."""
    big = 2**53 + 1
    calls = w.AsyncRuntime(common)

    async def some(row: Row) -> Row:
        return {"n": row["n"] if row["n"] % 2 else None, "all": row["n"]}

    async def nothing(row: Row) -> Row:
        return {}

    assert calls.map(nothing, pd.DataFrame({"n": [1, 2]}, index=[7, 8])).index.tolist() == [7, 8]
    told = calls.map(some, pd.DataFrame({"n": [big, 2]}))
    assert told["n"].tolist() == [big, pd.NA] and [str(kind) for kind in told.dtypes] == ["Int64", "int64"]


def test_what_a_runtime_refuses(common: DriverServer) -> None:
    """Values of options, a coroutine with the wrong parameters, and a setup that is no function."""
    one = pa.table({"n": [1]})
    with pytest.raises(Error, match=r"with \(row, shared\): too many .*with setup=, it takes \(row, shared\)"):
        w.AsyncRuntime(common, setup=Service).map(inverse, one)
    with pytest.raises(Error, match=r"with \(row\): missing a required argument: 'service'"):
        w.AsyncRuntime(common).map(square, one)
    for name, value in (("timeout", 0), ("rate", -1.0), ("rate", True), ("retries", -1), ("retries", 0.5)):
        with pytest.raises(Error, match=f"AsyncRuntime: {name}={value!r} is not valid"):
            w.AsyncRuntime(common, **{name: value})  # type: ignore[arg-type]
    service = Service()
    with pytest.raises(
        Error, match="AsyncRuntime: service is a .*Service, which is not safe to share: pass a function"
    ):
        w.AsyncRuntime(common, setup=service)  # type: ignore[arg-type]
    with pytest.raises(Error, match="service is a .*Service, which is not safe to share"):
        w.AsyncRuntime(common, setup=lambda: service)
