"""Connections, calls in flight and caches: every rung gives DuckDB's answer and the right counts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import duckdb
import pytest
from goods import CATEGORIES, PRODUCTS

from bench.usecases import asynchronous, caching, connections, enrich
from sharedstate_lite import postgres
from sharedstate_lite import worker as w
from sharedstate_lite.data import ids, products
from sharedstate_lite.lessons.usecases import ladder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY, SOME, FEW = 1_500, 400, 60
SKEW = {"mean": 200.0, "below": PRODUCTS + 300}
"""Some ids have no product."""


def events(spark: SparkSession, count: int) -> DataFrame:
    """``count`` events in two tasks."""
    return ids.ids(spark, count, tasks=2, **SKEW).repartition(2).cache()


@functools.cache
def expected(spark: SparkSession, count: int) -> ladder.Answer:
    """The digest of DuckDB's answer to the same events."""
    event, product = ids.table(count, **SKEW), products.table(PRODUCTS, categories=CATEGORIES)
    best = """SELECT category, list(id ORDER BY hits DESC, id)[:5] AS top FROM product GROUP BY category"""
    query = f"""SELECT id, name, category, top FROM event JOIN product USING (id)
                JOIN ({best}) USING (category) WHERE id % 101 < 57"""
    with duckdb.connect() as connection:
        connection.register("event", event)
        connection.register("product", product)
        answer = connection.sql(query).to_arrow_table()
    assert 0 < answer.num_rows < count
    return ladder.digest(spark.createDataFrame(answer))


@pytest.fixture(scope="module")
def few(spark: SparkSession) -> DataFrame:
    """Events for slow rungs."""
    return events(spark, FEW)


@pytest.fixture(scope="module")
def many(spark: SparkSession) -> DataFrame:
    """Events for fast rungs."""
    return events(spark, MANY)


def held(spark: SparkSession, steps: list[ladder.RungResult]) -> dict[str, ladder.RungResult]:
    """The results by name; checks that each answer is DuckDB's."""
    for step in steps:
        assert step.answer == expected(spark, step.events), step.name
    assert ladder.same(steps)
    return {step.name: step for step in steps}


def test_connections(spark: SparkSession, server: postgres.Server, many: DataFrame, few: DataFrame) -> None:
    """Connections opened: one per query, partition or process; for the pool at most its size."""
    with connections.rungs(spark, server.dsn, many, few, size=3) as rungs:
        steps = held(spark, ladder.climb(rungs, warm=0))
        again = ladder.climb({"again": rungs["per process, pipelined"]}, warm=0)
    opened = {name: step.counts["connections"] for name, step in steps.items()}
    asked = FEW + sum(id < PRODUCTS and id % 101 < 57 for id in ids.table(FEW, **SKEW).column("id").to_pylist())
    assert opened["connect per query"] == asked and opened["per partition"] == 2
    assert opened["per process"] <= 2 and opened["per process, pipelined"] <= 2 and 1 <= opened["one pool"] <= 3
    assert again[0].counts["connections"] <= 2 - opened["per process, pipelined"]
    # This rung has other events, so it has an empty run of its own.
    empty = rungs["connect per query"].empty
    assert empty is not None and empty() == ladder.digest(enrich.nothing(few))


def test_calls_in_flight(spark: SparkSession, server: postgres.Server, few: DataFrame) -> None:
    """For any number of calls in flight the answers are equal, and at most the pool's connections are busy."""
    some = events(spark, SOME)
    with asynchronous.rungs(spark, server.dsn, some, latency=0.001, few=few) as rungs:
        steps = held(spark, ladder.climb(rungs, warm=0))
    busy = {name: step.counts.get("connections at once", 0) for name, step in steps.items()}
    assert busy["asyncio, 1"] == 1 and busy["asyncio, 4"] <= 4 and busy["synchronous"] <= 2
    assert 4 < busy["asyncio, 64"] <= asynchronous.CONNECTIONS and busy["threads"] <= asynchronous.CONNECTIONS


def test_caches(spark: SparkSession, server: postgres.Server, many: DataFrame, few: DataFrame) -> None:
    """A shared cache has more hits than one for each task, and a large one more than a small one."""
    with caching.rungs(spark, server.dsn, many, (64, 5_000), 0.0, few, ttl=1e-9) as rungs:
        steps = held(spark, ladder.climb(rungs, warm=0))
    hits = {name: step.counts["id hits"] for name, step in steps.items()}
    assert hits["no cache"] == 0 and steps["no cache"].counts["category hits"] == 0
    found = ids.table(MANY, **SKEW).column("id")
    assert hits["shared, 5,000"] == pytest.approx(1 - len(found.unique()) / MANY)
    assert hits["private, 5,000"] < hits["shared, 5,000"] and hits["shared, 64"] < hits["shared, 5,000"]
    assert steps["shared, 5,000"].counts["category hits"] > 0.9
    # With a ttl of one nanosecond the next batch loads the row again.
    assert hits["shared, at most 1e-09 s old"] < hits["shared, 5,000"]


@pytest.mark.parametrize(("latency", "events"), [(0.0, MANY), (0.002, FEW)])
def test_a_small_cache_has_few_events_only_where_questions_wait(
    spark: SparkSession, server: postgres.Server, many: DataFrame, few: DataFrame, latency: float, events: int
) -> None:
    """Small and large caches run over the same events, unless the queries have latency."""
    with caching.rungs(spark, server.dsn, many, (FEW // 2, 5_000), latency, few) as rungs:
        small = [rungs[f"{kind}, {FEW // 2}"].events for kind in ("private", "shared")]
        assert small == [events, events] and rungs["shared, 5,000"].events == MANY and rungs["no cache"].events == FEW


def test_a_ttl_bounds_how_old_an_answer_is(spark: SparkSession, server: postgres.Server) -> None:
    """Without a ttl a cache returns the old row; after its ttl it loads again."""
    with (
        w.AsyncRuntime(spark) as calls,
        w.ConnectionPool(spark, server, size=2) as pool,
        w.Cache(spark, 10) as ever,
        w.Cache(spark, 10, ttl=1e-9) as bounded,
    ):
        load, _ = caching.loaders(calls, pool, 0.0)

        def names() -> list[str]:
            return [cache.get_or_load([7], load).column("name")[0].as_py() for cache in (ever, bounded)]

        assert names() == ["product 7"] * 2
        with server.connect() as connection:
            connection.execute("UPDATE product SET name = 'another' WHERE id = 7")
            connection.commit()
        assert names() == ["product 7", "another"]
        with server.connect() as connection:
            connection.execute("UPDATE product SET name = 'product 7' WHERE id = 7")
            connection.commit()
