"""What the sharing experiments read: ids, products, graphs, ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sharedstate_lite.data import graphs, ids, numbered, products, ticks
from sharedstate_lite.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = numbered.PIECE + 1_000


@pytest.mark.parametrize("tasks", [1, 3])
def test_spark_makes_the_same_rows(spark: SparkSession, tasks: int) -> None:
    """However many tasks make them, the rows are those of one process, in their order; another seed has others."""
    nodes, few = 5_000, {"symbols": 50}
    made: list[tuple[Any, pa.Table]] = [
        (ids.ids(spark, COUNT, seed=3, tasks=tasks), ids.table(COUNT, seed=3)),
        (products.products(spark, COUNT, seed=3, tasks=tasks), products.table(COUNT, seed=3)),
        (graphs.edges(spark, nodes, COUNT, seed=3, tasks=tasks), graphs.table(nodes, COUNT, seed=3)),
        (ticks.ticks(spark, COUNT, seed=3, tasks=tasks, **few), ticks.table(COUNT, seed=3, symbols=50)),
    ]
    for frame, table in made:
        assert frame.toArrow().cast(table.schema).equals(table) and table.num_rows == COUNT
    assert not ids.table(COUNT, seed=4).equals(made[0][1])


def test_ids_are_as_skewed_as_they_say() -> None:
    """Ids are exponential with the mean, from 1 on, below the bound; ten million have some 136,000 different ones."""
    found = ids.table(1_000_000).column("id").to_numpy()
    assert found.min() == 1 and found.max() < 1_000_000 and abs(found.mean() / ids.MEAN - 1) < 0.01
    likely = np.exp(-np.arange(1, 400_000) / ids.MEAN) * (1 - np.exp(-1 / ids.MEAN))
    expected = [(1 - (1 - likely) ** n).sum() for n in (1_000_000, 10_000_000)]
    assert abs(len(np.unique(found)) / expected[0] - 1) < 0.01 and 135_000 < expected[1] < 137_000


@pytest.mark.parametrize("islands", [1, 7])
def test_a_graph_has_a_tail_and_no_sinks(islands: int) -> None:
    """Every node has an edge that leaves it, none leads to itself or to another island, and few nodes have most."""
    nodes, count = 3_000, 60_000
    table = graphs.table(nodes, count, islands)
    source, target = (table.column(name).to_numpy() for name in ("source", "target"))
    assert (np.unique(source) == np.arange(nodes)).all() and target.min() >= 0 and target.max() < nodes
    assert (source != target).all() and (source % islands == target % islands).all()
    degrees = np.sort(np.bincount(target, minlength=nodes))[::-1]
    assert degrees[: nodes // 100].sum() > 0.1 * count > 3 * degrees[-nodes // 10 :].sum()


def test_ticks_are_as_they_say() -> None:
    """Time goes forward but for the jitter, a symbol keeps name, kind and price, and few symbols have most events."""
    found = ticks.table(50_000, symbols=300, jitter=2.0).to_pandas()
    back = found["last_trade"].diff().min().total_seconds()
    assert -2.0 <= back < 0 and found["symbol"].nunique() <= 300
    by = found.groupby("symbol")
    assert (by["security_type"].nunique() == 1).all() and set(found["security_type"]) == {0, 1}
    assert ((by["last_trade_price"].max() / by["last_trade_price"].min()) < 1.2).all()
    assert by.size().max() > 0.1 * len(found)


def test_products_reach_postgres(spark: SparkSession) -> None:
    """The tables in the server are those of the generator, loaded again as often as one likes, with both indexes."""
    from sharedstate_lite import postgres

    with postgres.Server() as server:
        for seed in (1, 2):
            assert products.load(spark, server, 5_000, seed, categories=10) == 5_000
        with server.connect() as connection:
            rows = connection.execute("SELECT id, name, category, hits FROM product ORDER BY id").fetchall()
            named = connection.execute("SELECT count(*) FROM category").fetchall()
            indexed = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'product'").fetchall()
    assert rows == [tuple(row.values()) for row in products.table(5_000, 2, categories=10).to_pylist()]
    assert named == [(10,)] and len(indexed) == 2


def test_what_cannot_be_made_is_refused() -> None:
    """Each error names the number that is wrong, and what it may be."""
    attempts: list[tuple[Callable[[], object], str]] = [
        (lambda: ids.table(-1), "count=-1: it must be a whole number from 0"),
        (lambda: ids.table(1, mean=0), "mean=0: it must be an average above 0"),
        (lambda: ids.table(1, mean=float("inf")), "mean=inf: it must be an average above 0"),
        (lambda: ids.table(1, below=2.5), "below=2.5: it must be a whole number from 2"),
        (lambda: ids.table(1, seed=0.5), "seed=0.5: it must be a whole number"),
        (lambda: products.table(1, categories=0), "categories=0: it must be a whole number from 1"),
        (lambda: products.names(0), "categories=0"),
        (
            lambda: numbered.frame(None, 1, lambda numbers: {}, "id BIGINT", tasks=0),
            "tasks=0: it must be a whole number",
        ),
        (lambda: graphs.table(10, 5), "count=5, nodes=10: every node has an outgoing edge"),
        (lambda: graphs.table(10, 20, islands=6), "an island needs at least two nodes"),
        (lambda: graphs.table(10, "20"), "count='20': it must be a whole number"),
        # Neither may be drawn from: such a draw would be rejected forever.
        (lambda: graphs.table(10, 20, skew=-1), "skew=-1: it must be an exponent from 0 to 10"),
        (lambda: graphs.table(10, 20, skew=float("nan")), "skew=nan: it must be an exponent from 0 to 10"),
        (lambda: ticks.table(1, skew=10**400), "it must be an exponent from 0 to 10"),
        (lambda: ticks.table(1, symbols=0), "symbols=0"),
        (lambda: ticks.table(1, per_second=0), "per_second=0: it must be a rate above 0"),
        (lambda: ticks.table(1, jitter="1"), "jitter='1': it must be a number of seconds from 0"),
    ]
    for wrong, said in attempts:
        with pytest.raises(Error, match=said):
            wrong()


def test_no_rows_are_rows_too() -> None:
    """Nothing of everything is an empty table with the columns and types of the others."""
    for made, some in [
        (ids.table(0), ids.table(1)),
        (products.table(0), products.table(1)),
        (ticks.table(0), ticks.table(1)),
    ]:
        assert made.num_rows == 0 and made.schema == some.schema
