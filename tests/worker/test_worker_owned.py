"""Cache and AsyncRuntime, used by many callers at once."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leftovers import runtimes, until

from sharedstate_lite import postgres
from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.runtime import cache, protocol


@pytest.fixture(scope="module")
def wide(common: DriverServer) -> w.Cache:
    """A cache that evicts nothing."""
    return w.Cache(common, capacity=1_000_000)


def doubled(keys: pa.Array[Any]) -> pa.Table:
    """A row for each key."""
    return pa.table({"twice": pa.array([2 * key for key in keys.to_pylist()], pa.int64())})


class TestCache:
    """A cache returns the right rows, loads none twice, and returns none that is too old."""

    def test_a_row_for_each_key_in_order(self, application: DriverServer) -> None:
        """Hits, misses and repeated keys are returned in the order of the keys."""
        cache = w.Cache(application, capacity=np.int64(3))
        for keys in ([5, 1, 5], [1, 2, 3, 4, 5, 1], [], [9, 5]):
            assert cache.get_or_load(keys, doubled).column("twice").to_pylist() == [2 * key for key in keys]

    @given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=20), min_size=1, max_size=12))
    def test_many_at_once_load_a_key_once(self, wide: w.Cache, batches: list[list[int]]) -> None:
        """Threads that miss the same keys at once load each key once, and all get its row."""
        with TestCache.once:
            offset = TestCache.next
            TestCache.next += 1_000
        loaded: list[int] = []

        def load(keys: pa.Array[Any]) -> pa.Table:
            loaded.extend(keys.to_pylist())
            return doubled(keys)

        asked = [[offset + key for key in batch] for batch in batches]
        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(lambda keys: wide.get_or_load(keys, load), asked))
        assert [answer.column("twice").to_pylist() for answer in answers] == [[2 * k for k in keys] for keys in asked]
        assert sorted(loaded) == sorted({key for keys in asked for key in keys})

    once, next = threading.Lock(), 0

    def test_a_load_that_fails_is_tried_by_another(self, application: DriverServer) -> None:
        """If a load raises, the exception reaches its caller, and a waiting caller loads the key."""
        cache = w.Cache(application, capacity=10)
        begun, go_on = threading.Event(), threading.Event()

        def fail(keys: pa.Array[Any]) -> pa.Table:
            begun.set()
            assert go_on.wait(20)
            raise ZeroDivisionError("no source")

        with ThreadPoolExecutor(2) as threads:
            failing = threads.submit(cache.get_or_load, [1], fail)
            assert begun.wait(20)
            waiting = threads.submit(cache.get_or_load, [1], doubled)
            go_on.set()
            assert waiting.result(20).column("twice").to_pylist() == [2]
            with pytest.raises(ZeroDivisionError):
                failing.result(20)

    @pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # from Python 3.12
    def test_a_task_that_dies_gives_its_load_back(self, application: DriverServer) -> None:
        """If a process is killed during its load, a waiting caller loads the key."""
        cache = w.Cache(application, capacity=10)
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:

            def hang(keys: pa.Array[Any]) -> pa.Table:
                os.write(theirs, b"x")
                signal.pause()
                return doubled(keys)

            cache.get_or_load([1], hang)
        assert os.read(ours, 1) == b"x"
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(cache.get_or_load, [1], doubled)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            assert waiting.result(20).column("twice").to_pylist() == [2]
        os.close(ours)
        os.close(theirs)

    def test_a_killed_runtime_loses_no_answer(self, application: DriverServer) -> None:
        """After kill -9 of the runtime, also during a load, the answers are the same."""
        cache = w.Cache(application, capacity=10)
        cache.get_or_load([1, 2], doubled)

        def load(keys: pa.Array[Any]) -> pa.Table:
            os.kill(runtimes(application)[0], signal.SIGKILL)
            return doubled(keys)

        assert cache.get_or_load([2, 3], load).column("twice").to_pylist() == [4, 6]
        assert cache.get_or_load([3, 2], doubled).column("twice").to_pylist() == [6, 4]

    def test_no_answer_is_older_than_its_bound(self, application: DriverServer) -> None:
        """No thread gets a value that is older than ttl seconds at the time of its request."""
        ttl = 0.05
        cache = w.Cache(application, capacity=10, ttl=ttl)
        loads: list[int] = []

        def now(keys: pa.Array[Any]) -> pa.Table:
            loads.append(len(keys))
            return pa.table({"read": [time.monotonic()] * len(keys)})

        def ages(_: int) -> list[float]:
            asked = time.monotonic()
            return [asked - read for read in cache.get_or_load([1, 2, 3], now).column("read").to_pylist()]

        with ThreadPoolExecutor(4) as threads:
            told = [age for one in threads.map(ages, range(400)) for age in one]
        assert max(told) <= ttl
        assert 3 < sum(loads) < len(told)

    def test_what_load_may_not_answer(self, application: DriverServer) -> None:
        """A wrong number of rows, other columns and a result that is not a table raise, and nothing is stored."""
        cache = w.Cache(application, capacity=10)
        with pytest.raises(Error, match="got 2 keys and returned 1 rows"):
            cache.get_or_load([1, 2], lambda keys: doubled(keys).slice(1))
        with pytest.raises(Error, match="the result of load: got a dict. Pass a pandas DataFrame or an Arrow table"):
            cache.get_or_load([1], lambda keys: {})  # type: ignore[arg-type,return-value]
        cache.get_or_load([1], doubled)
        with pytest.raises(Error, match=r"load returned columns \(other string\), but earlier it returned \(twice"):
            cache.get_or_load([2], lambda keys: pa.table({"other": ["x"]}))
        strict = pa.schema([pa.field("twice", pa.int64(), nullable=False)])
        with pytest.raises(
            Error, match=r"load returned columns \(twice int64 not null\), but earlier it returned \(twice int64\)"
        ):
            cache.get_or_load([2], lambda keys: doubled(keys).cast(strict))
        with pytest.raises(Error, match="load is a NoneType. Pass a function that takes keys"):
            cache.get_or_load([2], None)  # type: ignore[arg-type]
        with pytest.raises(StopIteration):
            cache.get_or_load([2], lambda keys: next(iter([])))
        for capacity, ttl in ((0, None), (True, None), (1, 0), (1, -1.0)):
            with pytest.raises(Error, match=r"capacity=|ttl="):
                w.Cache(application, capacity, ttl)

    def test_times_that_clocks_show_twice_are_two_keys(self, application: DriverServer) -> None:
        """The repeated hour at the end of summer time has distinct keys, each loaded once."""
        cache, loaded = w.Cache(application), list[int]()
        hours = pa.array([1_603_584_000 + 1_800 * n for n in range(8)], pa.timestamp("s", "Europe/Berlin"))

        def load(keys: pa.Array[Any]) -> pa.Table:
            loaded.extend(keys.cast(pa.int64()).to_pylist())
            return pa.table({"at": keys.cast(pa.int64())})

        for _ in range(2):
            assert cache.get_or_load(hours, load).column("at").to_pylist() == hours.cast(pa.int64()).to_pylist()
        assert loaded == hours.cast(pa.int64()).to_pylist()

    def test_positions_of_millions_fit_a_head(self) -> None:
        """Positions of millions of keys fit into a head."""
        positions = [0, 7, 8, 2_999_999]
        assert cache.unpack_positions(cache.pack_positions(positions, 3_000_000)).tolist() == positions
        assert len(cache.pack_positions(positions, 3_000_000)) < protocol.LARGEST_HEAD // 10


class TestAsyncRuntime:
    """Coroutines of many callers on one loop."""

    def test_results_in_order_and_no_more_at_once_than_allowed(self, application: DriverServer) -> None:
        """Two callers share the bound; results are in the order of the rows although later calls end first."""
        calls = w.AsyncRuntime(application, in_flight=4)

        async def later_first(row: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(0.02 / (1 + row["n"]))
            return {"n": row["n"], "square": row["n"] ** 2}

        with ThreadPoolExecutor(2) as threads:
            batches = [pa.table({"n": np.arange(30)}), pa.table({"n": np.arange(5)})]
            answers = list(threads.map(lambda batch: calls.map(later_first, batch), batches))
        for batch, answer in zip(batches, answers, strict=True):
            assert answer.column("square").to_pylist() == [n**2 for n in batch.column("n").to_pylist()]
        assert w.metrics().set_index("handle").loc[calls._name]["in_flight"] == 4

    def test_a_coroutine_may_use_the_pool(self, application: DriverServer, server: postgres.Server) -> None:
        """A coroutine queries a captured pool, within the pool's number of connections."""
        calls, pool = w.AsyncRuntime(application, in_flight=16), w.ConnectionPool(application, server, size=2)

        async def name(row: dict[str, Any]) -> dict[str, Any]:
            found = await pool.fetch("SELECT name FROM product WHERE id = %s", [row["id"]])
            return found[0]

        answer = calls.map(name, pa.table({"id": [5, 3, 4] * 20}))
        assert answer.column("name").to_pylist() == ["product 5", "product 3", "product 4"] * 20
        assert pool.stats()["most"] == 2
        with pytest.raises(Error, match=r"only a coroutine that an AsyncRuntime runs can call this. Use query\(\)"):
            asyncio.run(pool.fetch("SELECT 1"))

    def test_what_a_coroutine_may_not_take_along(self, application: DriverServer) -> None:
        """A captured mutable value is refused; the message has its name, its type, and both ways to share."""
        calls, one = w.AsyncRuntime(application), pa.table({"n": [1]})
        seen: dict[int, int] = {}
        lock = threading.Lock()

        async def counts(row: dict[str, Any]) -> dict[str, Any]:
            seen[row["n"]] = 1
            return row

        async def guarded(row: dict[str, Any]) -> dict[str, Any]:
            with lock:
                return row

        def helper() -> int:
            return len(seen)

        async def indirect(row: dict[str, Any]) -> dict[str, Any]:
            return {"n": helper()}

        async def default(row: dict[str, Any], *, box: list[int] = []) -> dict[str, Any]:  # noqa: B006
            return {"n": len(box)}

        add = list[int]().append

        async def method(row: dict[str, Any]) -> dict[str, Any]:
            add(row["n"])
            return row

        class Counter:
            total: ClassVar[dict[str, int]] = {}

            async def count(self, row: dict[str, Any]) -> dict[str, Any]:
                return row

        async def common(row: dict[str, Any]) -> dict[str, Any]:
            return {"n": len(Counter.total)}

        count = 0

        async def assigns(row: dict[str, Any]) -> dict[str, Any]:
            nonlocal count
            count += 1
            return row

        for coroutine, said in (
            (counts, "seen is a dict"),
            (guarded, "lock is a _thread.lock"),
            (indirect, "helper is a"),
            (default, "a default argument is a list"),
            (method, "add is a builtin_function_or_method"),
            (common, "Counter is a type"),
            (Counter().count, "the object of .*Counter.count is a .*Counter"),
            (functools.partial(default, box=[1]), "box is a list"),
            (assigns, "count is a int, which is not safe to share: assigns would assign to a copy"),
        ):
            with pytest.raises(Error, match=rf"map: {said}.*which every task maps read-only.*let the runtime own it"):
                calls.map(coroutine, one)

        def unfinished() -> Callable[[dict[str, Any]], Coroutine[Any, Any, Any]]:
            async def row(row: dict[str, Any]) -> dict[str, Any]:
                # An attribute with the name of a variable is no capture, and a cell may still be empty.
                return {"n": sum(row.values()) + len([*row.items()]) if row else later}

            items = [1]
            if not items:
                later = 1
            return row

        assert calls.map(unfinished(), one).column("n").to_pylist() == [2]

    def test_the_first_error_is_the_batchs(self, application: DriverServer) -> None:
        """An exception of a coroutine reaches the caller with its row, and later calls work."""
        calls = w.AsyncRuntime(application)

        async def inverse(row: dict[str, Any]) -> dict[str, Any]:
            return {"x": 1 / row["n"]}

        with pytest.raises(Error, match="row 2: ZeroDivisionError"):
            calls.map(inverse, pa.table({"n": [1, 2, 0, 4]}))
        assert calls.map(inverse, pa.table({"n": [4]})).column("x").to_pylist() == [0.25]
        for error in (SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration):

            async def ends(row: dict[str, Any], error: type[BaseException] = error) -> dict[str, Any]:
                raise error

            with pytest.raises(Error, match=rf"row 0: .*{error.__name__}"), ThreadPoolExecutor(1) as threads:
                threads.submit(calls.map, ends, pa.table({"n": [1]})).result(20)
        empty = calls.map(inverse, pa.table({"n": pa.array([], pa.int64())}), pa.schema({"x": pa.float64()}))
        assert empty.schema == pa.schema({"x": pa.float64()})

    def test_no_column_of_an_answer_is_lost(self, application: DriverServer) -> None:
        """Results may have different columns; columns that the schema lacks and duplicate names raise."""
        calls = w.AsyncRuntime(application)

        async def some(row: dict[str, Any]) -> dict[str, Any]:
            return {str(n): n for n in range(row["n"])}

        assert calls.map(some, pa.table({"n": [0, 2, 1]})).to_pydict() == {"0": [None, 0, 0], "1": [None, 1, None]}
        with pytest.raises(Error, match="two of .* have the same name"):
            calls.map(some, pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"]))
        with pytest.raises(Error, match="schema is a str"):
            calls.map(some, pa.table({"n": [1]}), "n long")  # type: ignore[arg-type]
        wanted = pa.schema({"0": pa.int64(), "1": pa.int32()})
        assert calls.map(some, pa.table({"n": [0, 1]}), wanted).to_pydict() == {"0": [None, 0], "1": [None, None]}
        with pytest.raises(Error, match="the results have a column '2' that is not in the schema. Add it"):
            calls.map(some, pa.table({"n": [0, 3]}), wanted)

    def test_closing_ends_the_calls(self, application: DriverServer) -> None:
        """close() during a batch raises an error in the waiting caller."""
        calls = w.AsyncRuntime(application)

        async def never(row: dict[str, Any]) -> dict[str, Any]:
            await asyncio.Event().wait()
            return row

        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(calls.map, never, pa.table({"n": [1, 2]}))
            until(lambda: bool((w.metrics()["calls"] == 2).any()))
            calls.close()
            with pytest.raises(Error, match="closed while calls were in flight"):
                waiting.result(20)
