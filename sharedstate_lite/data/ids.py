"""Skewed ids: the events for the experiments on deduplication and enrichment.

Each row has one column, ``id`` BIGINT. It is an exponentially distributed number with the mean ``mean``, rounded down
to a whole number (at least 1), modulo ``below``. With the defaults, ten million rows have about 136,000 distinct ids,
so 98.6% of the rows repeat an earlier id.

>>> from sharedstate_lite.data import ids
>>> ids.table(5)["id"].to_pylist()
[16829, 4062, 19621, 12154, 93226]

Source: the workload of De Martini and Margara, "Safe Shared State in Dataflow Systems", DEBS 2024.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from . import limits, numbered
from .draws import Whole, key, uniform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEAN, BELOW = 20_000.0, 1_000_000
MOST = 1 << 53
"""The largest ``mean`` and ``below``. A float64 can represent every whole number up to this one."""
SCHEMA = "id BIGINT"


def draw(numbers: Whole, seed: int = 0, mean: float = MEAN, below: int = BELOW) -> dict[str, Whole]:
    """Return the ids with the row numbers ``numbers``, int64[n]. Raises Error for a parameter outside its limits."""
    limits.number("mean", mean, "an average", MOST, zero=False)
    limits.whole("below", below, 2, MOST)
    limits.seed(seed)
    whole = np.maximum(-mean * np.log1p(-uniform(key(seed, 1), numbers)), 1.0).astype(np.int64)
    return {"id": whole % below}


def ids(
    session: SparkSession, count: int, seed: int = 0, mean: float = MEAN, below: int = BELOW, tasks: int | None = None
) -> DataFrame:
    """Return ``count`` ids as a DataFrame. The rows do not depend on ``tasks``.

    Raises Error in the same cases as `draw`.
    """
    draw(np.empty(0, np.int64), seed, mean, below)
    made = functools.partial(draw, seed=seed, mean=mean, below=below)
    return numbered.frame(session, count, made, SCHEMA, tasks)


def table(count: int, seed: int = 0, mean: float = MEAN, below: int = BELOW) -> pa.Table:
    """Return the same ids as `ids`, as an Arrow table and without Spark."""
    return numbered.table(count, functools.partial(draw, seed=seed, mean=mean, below=below))
