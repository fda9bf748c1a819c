"""Use case 6: caches of query results.

The rungs are no cache, a private cache in each task, and one cache that all tasks on the host share. Products by id and
the top products of a category have separate caches, because hits on a hundred categories would hide the misses on
ids. In all rungs, the same asynchronous pool loads missing keys. A ttl limits the age of cached rows, and older rows
are loaded again.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sharedstate_lite.lessons.usecases.ladder import Rung, RunResult, digest
from sharedstate_lite.worker import AsyncRuntime, Cache, ConnectionPool, metrics
from sharedstate_lite.worker.handles.values import distinct
from sharedstate_lite.worker.runtime.lru import LRUTable

from . import enrich

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1_000
"""The maximum number of events in one batch of a task."""
IN_FLIGHT = CONNECTIONS = 16
BEST = pa.schema([pa.field("top", pa.list_(pa.int64()))])
Load = Callable[["pa.Array[Any]"], pa.Table]
"""A function that loads the rows of some keys from the database, one row per key."""
Look = Callable[[Any, Load], pa.Table]
"""A function that looks up keys, loads the missing ones, and returns one row per key."""


def loaders(calls: AsyncRuntime, pool: ConnectionPool, latency: float) -> tuple[Load, Load]:
    """Return two functions: one loads products by id, and the other loads the top products by category.

    Each query is sent after ``latency`` seconds.
    """

    async def product(row: dict[str, Any]) -> dict[str, Any]:
        import asyncio

        await asyncio.sleep(latency)
        found = await pool.fetch(enrich.PRODUCT, [row["key"]])
        return found[0] if found else {"id": None, "name": None, "category": None}

    async def best(row: dict[str, Any]) -> dict[str, Any]:
        import asyncio

        await asyncio.sleep(latency)
        return {"top": [one["id"] for one in await pool.fetch(enrich.TOP, [row["key"]])]}

    return (
        lambda keys: calls.map(product, pa.table({"key": keys}), enrich.PRODUCTS),
        lambda keys: calls.map(best, pa.table({"key": keys}), BEST),
    )


def looked_up(events: DataFrame, make: Callable[[], tuple[Look, Look]], load: tuple[Load, Load]) -> DataFrame:
    """Enrich events with the lookup functions that ``make`` returns, for products and for categories.

    ``make`` is called once per task. ``load`` contains the functions that load missing keys.
    """

    def work(parts: Iterator[list[int]]) -> Iterator[pa.RecordBatch]:
        products, tops = make()
        for ids in parts:
            found = products(pa.array(ids, pa.int64()), load[0])
            there = found.filter(found.column("id").is_valid())
            wanted = there.filter(pa.array(enrich.kept(there.column("id").to_numpy())))
            if wanted.num_rows:
                best = tops(wanted.column("category").combine_chunks(), load[1])
                wanted = wanted.append_column("top", best.column("top"))
                yield from wanted.cast(enrich.ARROW).combine_chunks().to_batches()

    return enrich.over(events, work, ROWS)


def uncached(events: DataFrame, load: tuple[Load, Load]) -> DataFrame:
    """Enrich events without a cache, so that every query is sent to the database."""

    def direct(keys: Any, load: Load) -> pa.Table:
        return load(keys.cast(pa.int64()))

    return looked_up(events, lambda: (direct, direct), load)


def private(events: DataFrame, load: tuple[Load, Load], capacity: int, hits: dict[str, Accumulator[int]]) -> DataFrame:
    """Enrich events with two caches in each task. Each has ``capacity`` rows and evicts the least recently used first.

    ``hits`` contains the accumulators "id hits" and "category hits", which count the hits of all tasks.
    """
    return looked_up(
        events, lambda: (_Private(capacity, hits["id hits"]), _Private(capacity, hits["category hits"])), load
    )


def shared(events: DataFrame, load: tuple[Load, Load], caches: tuple[Cache, Cache]) -> DataFrame:
    """Enrich events with two caches that all tasks on the host share."""
    return looked_up(events, lambda: (caches[0].get_or_load, caches[1].get_or_load), load)


class _Private:
    """A cache in the process of one task. It uses the same table as the shared cache."""

    def __init__(self, capacity: int, hits: Accumulator[int]) -> None:
        self._rows, self._hits = LRUTable("private cache", capacity, None), hits

    def __call__(self, keys: Any, load: Load) -> pa.Table:
        codes, values = distinct(keys, "private cache", "keys")
        now = time.monotonic()
        here, found = self._rows.get(pa.chunked_array([values]), now)
        missing = values.filter(pa.array(~here))
        self._hits.add(len(codes) - len(missing))
        parts = [found] if found is not None else []
        if len(missing):
            parts.append(load(missing))
            self._rows.put(pa.chunked_array([missing]), parts[-1], now)
        order = np.empty(len(values), np.int64)
        order[np.concatenate([np.flatnonzero(here), np.flatnonzero(~here)])] = np.arange(len(values))
        return pa.concat_tables(parts).take(order[codes])


@contextlib.contextmanager
def rungs(
    session: SparkSession,
    dsn: str,
    events: DataFrame,
    capacities: tuple[int, ...],
    latency: float = 0.002,
    few: DataFrame | None = None,
    ttl: float | None = None,
) -> Iterator[dict[str, Rung]]:
    """Yield the rungs of the ladder, with each kind of cache in each of ``capacities``.

    The rung without a cache is slow and processes ``few`` (by default all of ``events``). A cache with a capacity below
    the number of events in ``few`` is nearly as slow. It also processes ``few`` if ``latency`` is not 0. All other
    rungs process ``events``, so their hits can be compared. If ``ttl`` is given, there is one more rung: a shared
    cache with the largest capacity whose rows are at most ``ttl`` seconds old. Each rung counts the fraction of
    lookups that were hits, separately for ids and for categories. Every run starts with empty caches.
    """
    few = events if few is None else few
    many, fewer = events.count(), few.count()
    with AsyncRuntime(session, in_flight=IN_FLIGHT) as calls, ConnectionPool(session, dsn, size=CONNECTIONS) as pool:
        load = loaders(calls, pool, latency)

        def over(capacity: int) -> tuple[DataFrame, int]:
            return (few, fewer) if latency and capacity < fewer else (events, many)

        def alone(capacity: int) -> RunResult:
            frame, count = over(capacity)
            hits = {name: session.sparkContext.accumulator(0) for name in ("id hits", "category hits")}
            answer = digest(private(frame, load, capacity, hits))
            return RunResult(answer, _shares(hits["id hits"].value, count, hits["category hits"].value, answer[0]))

        def together(capacity: int, ttl: float | None) -> RunResult:
            with Cache(session, capacity, ttl) as ids, Cache(session, capacity, ttl) as categories:
                answer = digest(shared(over(capacity)[0], load, (ids, categories)))
                said = metrics()
                counts = [_hits(said, cache) for cache in (ids, categories)]
            return RunResult(answer, _shares(*counts[0], *counts[1]))

        found = {"no cache": Rung(fewer, lambda: RunResult(digest(uncached(few, load)), _shares(0, fewer, 0, fewer)))}
        for capacity in capacities:
            count = over(capacity)[1]
            found[f"private, {capacity:,}"] = Rung(count, functools.partial(alone, capacity))
            found[f"shared, {capacity:,}"] = Rung(count, functools.partial(together, capacity, None))
        if ttl is not None:
            found[f"shared, at most {ttl:g} s old"] = Rung(many, functools.partial(together, max(capacities), ttl))
        yield found


def _shares(id_hits: int, ids: int, hits: int, categories: int) -> dict[str, float]:
    return {"id hits": id_hits / max(ids, 1), "category hits": hits / max(categories, 1)}


def _hits(said: pd.DataFrame, cache: Cache) -> tuple[int, int]:
    """Return the number of hits and the number of lookups of a cache, on all hosts together."""
    rows = said[said["handle"] == cache.name]
    return int(rows["hits"].sum()), int(rows["rows"].sum())
