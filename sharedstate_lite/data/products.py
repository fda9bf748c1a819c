"""Products and their categories, as a DataFrame and in PostgreSQL.

The table ``product`` has the columns id BIGINT (0 .. n - 1), name TEXT, category INT and hits BIGINT. ``hits`` is the
number of views, and follows a power law. The table ``category`` has the columns id INT and name TEXT. `load` writes
both tables to a server and creates the indexes for lookups by id and by (category, hits).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from .. import postgres
from ..postgres.rows import connected
from ..spark.postgres import write
from . import limits, numbered
from .draws import Whole, below, key, uniform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PRODUCTS, CATEGORIES, MOST_CATEGORIES = 1_000_000, 100, 1_000_000
MOST_HITS = 1_000_000_000
SCHEMA = "id BIGINT, name STRING, category INT, hits BIGINT"


def draw(numbers: Whole, seed: int = 0, categories: int = CATEGORIES) -> dict[str, Any]:
    """Return the products with the row numbers ``numbers`` as columns. Raises Error for fewer than one category."""
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
    """Return ``count`` products as a DataFrame. The rows do not depend on ``tasks``."""
    draw(np.empty(0, np.int64), seed, categories)
    return numbered.frame(session, count, functools.partial(draw, seed=seed, categories=categories), SCHEMA, tasks)


def table(count: int, seed: int = 0, categories: int = CATEGORIES) -> pa.Table:
    """Return the same products as `products`, as an Arrow table and without Spark."""
    return numbered.table(count, functools.partial(draw, seed=seed, categories=categories))


def names(categories: int = CATEGORIES) -> pa.Table:
    """Return the table of categories, with the columns id and name. Raises Error for fewer than one category."""
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
    """Write the tables ``product`` and ``category`` to a PostgreSQL server. Returns the number of products.

    Each Spark task writes its own rows. Existing tables with these names are replaced. Raises Error if the server
    rejects a statement. The table ``product`` is then either the old one or the complete new one.
    """
    postgres.write(server, "category", names(categories), replace=True, key=["id"])
    written = write(products(session, count, seed, categories), server, "product", replace=True)
    with connected(server) as connection:
        connection.execute("ALTER TABLE product ADD PRIMARY KEY (id)")
        connection.execute("CREATE INDEX ON product (category, hits DESC, id)")
    return written
