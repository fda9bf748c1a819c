"""Enriches events from PostgreSQL with their product and with the top products of the product's category.

An event is a product id. The query Q1 looks up the product. Events with ``id % 101 < 57`` are kept. For these, the
query Q2 looks up the five products of the category with the most hits. Without a cache, every rung sends Q1 for every
event and Q2 for every kept event.

Source: the workload of Renoir's use cases 3, 4 and 6 (DEBS 2024).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sharedstate_lite.worker import ConnectionPool

PRODUCT = "SELECT id, name, category FROM product WHERE id = %s"
TOP = "SELECT id FROM product WHERE category = %s ORDER BY hits DESC, id LIMIT 5"
OF, KEPT = 101, 57
SCHEMA = "id BIGINT, name STRING, category INT, top ARRAY<BIGINT>"
_FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.int64()),
    pa.field("name", pa.string()),
    pa.field("category", pa.int32()),
]
PRODUCTS = pa.schema(_FIELDS)
ARROW: pa.Schema = PRODUCTS.append(pa.field("top", pa.list_(pa.int64())))
Ask = Callable[[str, Sequence[int]], "list[list[tuple[Any, ...]]]"]
"""A function that runs a query once for each parameter, and returns the rows of each answer."""


def kept(id: Any) -> Any:
    """Return True if Q2 is sent for an event. Takes one id or an array of ids."""
    return id % OF < KEPT


def enriched(ids: Sequence[int], ask: Ask) -> pa.RecordBatch:
    """Return the kept events of a batch with the answers to both queries. Events without a product are dropped."""
    products = [rows[0] for rows in ask(PRODUCT, ids) if rows]
    wanted = [row for row in products if kept(row[0])]
    best = ask(TOP, [row[2] for row in wanted])
    rows = [(*row, [one for (one,) in top]) for row, top in zip(wanted, best, strict=True)]
    return batch(rows)


def batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Convert rows (id, name, category, top) to a record batch."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(ARROW)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def over(events: DataFrame, work: Callable[[Iterator[list[int]]], Iterator[pa.RecordBatch]], rows: int) -> DataFrame:
    """Apply ``work`` to the ids of each partition, at most ``rows`` at a time."""

    def parts(batches: Iterator[pa.RecordBatch]) -> Iterator[list[int]]:
        for batch in batches:
            ids: list[int] = batch.column(0).to_numpy().tolist()
            yield from (ids[at : at + rows] for at in range(0, len(ids), rows))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work(parts(batches))

    return events.select("id").mapInArrow(run, SCHEMA)


def nothing(events: DataFrame, rows: int = 1_000) -> DataFrame:
    """Run the same job without queries. This is the empty run, whose time is subtracted from other runs."""
    return over(events, lambda parts: (batch([(id, "", 0, []) for id in ids if kept(id)]) for ids in parts), rows)


async def one(pool: ConnectionPool, id: int, latency: float) -> dict[str, Any]:
    """Run both queries for one event in a coroutine in the runtime, each after ``latency`` seconds.

    All values of the result are None if the event is dropped.
    """
    await asyncio.sleep(latency)
    found = await pool.fetch(PRODUCT, [id])
    if not found or not kept(id):
        return {"id": None, "name": None, "category": None, "top": None}
    await asyncio.sleep(latency)
    best = await pool.fetch(TOP, [found[0]["category"]])
    return {**found[0], "top": [row["id"] for row in best]}


def told(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Return the results of :func:`one` as record batches, without events that were dropped."""
    return iter(table.filter(table.column("id").is_valid()).to_batches())
