"""Enrichment from PostgreSQL: for each event its product, and for some of them the best of the product's category.

An event is an id. Q1 asks for the product of that id; events whose id leaves a remainder
below 57 when divided by 101 are kept; for those, Q2 asks for the five most looked-at products
of the same category. Every rung asks both for every event: none is saved but by a cache that says so.
Source: the workload of Renoir's use cases 3, 4 and 6 (DEBS 2024).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ...worker import ConnectionPool

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
"""The rows that PostgreSQL answers to a query, for each of its parameters."""


def kept(id: Any) -> Any:
    """Whether the second question is asked for an event; for one id, or for an array of them."""
    return id % OF < KEPT


def enriched(ids: Sequence[int], ask: Ask) -> pa.RecordBatch:
    """The events of a batch that are kept, with their answers; one whose product is not there is dropped."""
    products = [rows[0] for rows in ask(PRODUCT, ids) if rows]
    wanted = [row for row in products if kept(row[0])]
    best = ask(TOP, [row[2] for row in wanted])
    rows = [(*row, [one for (one,) in top]) for row, top in zip(wanted, best, strict=True)]
    return batch(rows)


def batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of id, name, category and top."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(ARROW)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def over(events: DataFrame, work: Callable[[Iterator[list[int]]], Iterator[pa.RecordBatch]], rows: int) -> DataFrame:
    """``work`` over the ids of each partition, ``rows`` of them at a time at most."""

    def parts(batches: Iterator[pa.RecordBatch]) -> Iterator[list[int]]:
        for batch in batches:
            ids: list[int] = batch.column(0).to_numpy().tolist()
            yield from (ids[at : at + rows] for at in range(0, len(ids), rows))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work(parts(batches))

    return events.select("id").mapInArrow(run, SCHEMA)


def nothing(events: DataFrame, rows: int = 1_000) -> DataFrame:
    """The same job without a question: what the rungs take less of is subtracted."""
    return over(events, lambda parts: (batch([(id, "", 0, []) for id in ids if kept(id)]) for ids in parts), rows)


async def one(pool: ConnectionPool, id: int, latency: float) -> dict[str, Any]:
    """Both questions for one event, in a coroutine of a runtime, each after ``latency`` seconds; see :func:`told`."""
    await asyncio.sleep(latency)
    found = await pool.fetch(PRODUCT, [id])
    if not found or not kept(id):
        return {"id": None, "name": None, "category": None, "top": None}
    await asyncio.sleep(latency)
    best = await pool.fetch(TOP, [found[0]["category"]])
    return {**found[0], "top": [row["id"] for row in best]}


def told(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Answers of :func:`one` without those that were not kept."""
    return iter(table.filter(table.column("id").is_valid()).to_batches())
