"""A cache in a pandas program, in coroutines, and when its source changes."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leftovers import counters

from sharedstate_lite import worker as w
from sharedstate_lite.errors import Error
from sharedstate_lite.worker.handles.driver import DriverServer
from sharedstate_lite.worker.runtime.lru import LRUTable

Row = dict[str, Any]


def doubled(keys: pa.Array[Any]) -> pa.Table:
    """A row for each key."""
    return pa.table({"twice": pa.array([2 * key for key in keys.to_pylist()], pa.int64())})


def loads(cache: w.Cache) -> int:
    """How many keys tasks and coroutines have loaded."""
    return int(counters(cache)["loads"])


def test_a_series_is_answered_with_a_frame(common: DriverServer) -> None:
    """load gets a Series and may return a frame; the result has the index of the keys, and nullable integers."""
    cache, kinds = w.Cache(common), list[str]()

    def load(keys: pd.Series[Any]) -> pd.DataFrame:
        kinds.append(type(keys).__name__)
        return pd.DataFrame(
            {"name": [f"name {key}" for key in keys], "n": [k if k % 2 else None for k in keys]}
        ).astype({"n": "Int64"})

    keys = pd.Series([3, 2, 3], index=[10, 20, 30])
    for _ in range(2):
        frame = cache.get_or_load(keys, load)
        assert frame["name"].tolist() == ["name 3", "name 2", "name 3"] and frame.index.tolist() == [10, 20, 30]
        assert frame["n"].dtype == "Int64" and frame["n"].tolist() == [3, pd.NA, 3]
    assert kinds == ["Series"] and loads(cache) == 2
    arrow = cache.get_or_load([3, 5], lambda keys: load(keys.to_pandas()))
    assert isinstance(arrow, pa.Table) and arrow.column("n").to_pylist() == [3, 5]
    assert len(cache.get_or_load(keys[:0], load)) == 0


def test_an_invalidated_key_is_loaded_again(common: DriverServer) -> None:
    """invalidate() removes the rows of its keys alone; keys that are not there, and none at all, are fine."""
    cache = w.Cache(common, capacity=10)
    cache.invalidate([1])
    cache.get_or_load([1, 2, 3], doubled)
    cache.invalidate(pd.Series([2, 2, 9]))
    cache.invalidate([])
    assert counters(cache)["held"] == 2
    assert cache.get_or_load([1, 2, 3], doubled).column("twice").to_pylist() == [2, 4, 6]
    assert loads(cache) == 4
    with pytest.raises(Error, match="its values have the type int64, but the new values have string"):
        cache.invalidate(["a"])


def test_a_row_read_before_the_change_is_not_stored(application: DriverServer) -> None:
    """A key is invalidated while it is being loaded: its loader keeps its row, but nobody else gets it."""
    cache, source = w.Cache(application), {1: "old", 2: "two"}
    read, go_on = threading.Event(), threading.Event()

    def slow(keys: pa.Array[Any]) -> pa.Table:
        rows = pa.table({"is": [source[key] for key in keys.to_pylist()]})
        read.set()
        assert go_on.wait(20)
        return rows

    def fast(keys: pa.Array[Any]) -> pa.Table:
        return pa.table({"is": [source[key] for key in keys.to_pylist()]})

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(cache.get_or_load, [1, 2], slow)
        assert read.wait(20)
        waiting = threads.submit(cache.get_or_load, [1], fast)
        other = threads.submit(cache.get_or_load, [2], fast)
        source[1] = "new"
        cache.invalidate([1])
        assert waiting.result(20).column("is").to_pylist() == ["new"], "it waited for a row that is out of date"
        assert not other.done()
        go_on.set()
        assert first.result(20).column("is").to_pylist() == ["old", "two"]
        assert other.result(20).column("is").to_pylist() == ["two"]
    assert cache.get_or_load([1, 2], slow).column("is").to_pylist() == ["new", "two"]
    assert loads(cache) == 3


@given(st.lists(st.tuples(st.sampled_from(["put", "remove", "get"]), st.sets(st.integers(0, 12), min_size=1))))
def test_rows_are_removed(steps: list[tuple[str, set[int]]]) -> None:
    """An LRU table with removals, against a dict."""
    table, held, time = LRUTable("rows", 8, None), dict[int, int](), 0
    for what, keys in steps:
        time += 1
        order = sorted(keys)
        column = pa.chunked_array([pa.array(order, pa.int64())])
        if what == "put":
            table.put(column, pa.table({"at": [time] * len(order)}), 0.0)
            for key in order:
                held.pop(key, None)
                held[key] = time
            for key in list(held)[: max(0, len(held) - 8)]:
                del held[key]
        elif what == "remove":
            table.remove(column)
            for key in order:
                held.pop(key, None)
        else:
            here, rows = table.get(column, 0.0)
            assert here.tolist() == [key in held for key in order]
            found = [key for key in order if key in held]
            assert (rows.column("at").to_pylist() if rows is not None else []) == [held[key] for key in found]
            for key in found:
                held[key] = held.pop(key)
        assert table.count == len(held)


def test_coroutines_share_one_load(common: DriverServer) -> None:
    """A hundred coroutines that miss one key load it once, with tasks and among themselves."""
    cache, calls = w.Cache(common), w.AsyncRuntime(common, in_flight=50)

    async def load(keys: pa.Array[Any]) -> pa.Table:
        await asyncio.sleep(0.01)
        return doubled(keys)

    async def look_up(row: Row) -> Row:
        found = await cache.fetch([row["key"]], load)
        return {"twice": found.column("twice")[0].as_py()}

    cache.get_or_load([0], doubled)
    keys = np.arange(100) % 5
    with ThreadPoolExecutor(2) as threads:
        told = list(threads.map(lambda _: calls.map(look_up, pa.table({"key": keys})), range(2)))
    assert all(one.column("twice").to_pylist() == (2 * keys).tolist() for one in told)
    assert loads(cache) == 5
    assert cache.get_or_load([4], doubled).num_rows == 1 and loads(cache) == 5

    async def plain(row: Row) -> Row:
        frame = await cache.fetch(pd.Series([row["key"]]), lambda keys: pd.DataFrame({"twice": 2 * keys}))
        return {"twice": int(frame["twice"][0])}

    assert calls.map(plain, pa.table({"key": [9, 9, 4]})).column("twice").to_pylist() == [18, 18, 8]


def test_a_coroutine_that_ends_gives_its_load_back(common: DriverServer) -> None:
    """A load that fails or exceeds the timeout is repeated by another caller."""
    cache = w.Cache(common)
    hasty = w.AsyncRuntime(common, timeout=0.05, return_exceptions=True)

    async def hang(keys: pa.Array[Any]) -> pa.Table:
        await asyncio.Event().wait()
        return doubled(keys)

    async def fail(keys: pa.Array[Any]) -> pa.Table:
        raise ZeroDivisionError("no source")

    async def slow(row: Row) -> Row:
        return {"n": len(await cache.fetch([row["key"]], hang))}

    async def broken(row: Row) -> Row:
        return {"n": len(await cache.fetch([row["key"]], fail))}

    one = pa.table({"key": [1]})
    assert hasty.map(slow, one).column("error").to_pylist() == [
        "TimeoutError: the call took longer than timeout=0.05 s"
    ]
    assert hasty.map(broken, one).column("error").to_pylist() == ["ZeroDivisionError: no source"]
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(cache.get_or_load, [1], doubled).result(20).column("twice").to_pylist() == [2]
    with pytest.raises(Error, match=r"only a coroutine that an AsyncRuntime runs can call this. Use get_or_load\(\)"):
        asyncio.run(cache.fetch([1], hang))
    with pytest.raises(
        Error, match=r"load is a coroutine function. In a coroutine, use: await cache.fetch\(keys, load\)"
    ):
        cache.get_or_load([77], hang)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(cache.get_or_load, [77], doubled).result(20).column("twice").to_pylist() == [154]
