"""Products and their categories, as a DataFrame and in PostgreSQL.

``product`` has id BIGINT 0 .. n - 1, name TEXT, category INT and hits BIGINT, the number of views, which follows a
power law. ``category`` has id INT and name TEXT. `load` writes both to a server, with the indexes for lookups by id and
by (category, hits).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sharedstate_lite import postgres
from sharedstate_lite.postgres.rows import connected
from sharedstate_lite.spark.partial.jdbc import write

from . import limits, numbered
from .draws import Whole, below, key, uniform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PRODUCTS, CATEGORIES, MOST_CATEGORIES = 1_000_000, 100, 1_000_000
MOST_HITS = 1_000_000_000
SCHEMA = "id BIGINT, name STRING, category INT, hits BIGINT"


def draw(numbers: Whole, seed: int = 0, categories: int = CATEGORIES) -> dict[str, Any]:
    """The columns of these row numbers. Raises Error for fewer than one category."""
    limits.whole("categories", categories, 1, MOST_CATEGORIES)
    limits.seed(seed)
    hits = np.minimum((1.0 - uniform(key(seed, 3), numbers)) ** -1.25, MOST_HITS).astype(np.int64)
    return {
        "id": numbers,
        "name": np.char.add("product ", numbers.astype(np.str_)),
        "category": below(categories, key(seed, 2), numbers).astype(np.int32),
        "hits": hits,
    }


def products(
    session: SparkSession,
    count: int = PRODUCTS,
    seed: int = 0,
    categories: int = CATEGORIES,
    tasks: int | None = None,
) -> DataFrame:
    """``count`` products as a DataFrame, the same for any ``tasks``."""
    draw(np.empty(0, np.int64), seed, categories)
    return numbered.frame(session, count, functools.partial(draw, seed=seed, categories=categories), SCHEMA, tasks)


def table(count: int, seed: int = 0, categories: int = CATEGORIES) -> pa.Table:
    """The same products as an Arrow table, without Spark."""
    return numbered.table(count, functools.partial(draw, seed=seed, categories=categories))


def names(categories: int = CATEGORIES) -> pa.Table:
    """The table of categories. Raises Error for fewer than one."""
    limits.whole("categories", categories, 1, MOST_CATEGORIES)
    numbers = np.arange(categories, dtype=np.int32)
    return pa.table({"id": pa.array(numbers), "name": pa.array(np.char.add("category ", numbers.astype(np.str_)))})


def load(
    session: SparkSession,
    server: postgres.Server | str,
    count: int = PRODUCTS,
    seed: int = 0,
    categories: int = CATEGORIES,
) -> int:
    """Write ``product`` and ``category`` to a PostgreSQL server, each task its rows. Returns the number of products.

    Tables of these names are replaced. Raises Error if the server refuses; the table of products is then the old one or
    the complete new one.
    """
    postgres.write(server, "category", names(categories), replace=True, key=["id"])
    written = write(products(session, count, seed, categories), server, "product", replace=True)
    with connected(server) as connection:
        connection.execute("ALTER TABLE product ADD PRIMARY KEY (id)")
        connection.execute("CREATE INDEX ON product (category, hits DESC, id)")
    return written
