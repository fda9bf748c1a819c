"""Skewed ids: the events of the deduplication and enrichment experiments.

Row n has one column, ``id`` BIGINT: an exponentially distributed number of mean
``mean``, cut to a whole one of at least 1, modulo ``below``. With ten million rows and the
defaults about 136,000 ids are distinct, so that 98.6% of the rows repeat one.
Source: the workload of De Martini and Margara, "Safe Shared State in Dataflow
Systems", DEBS 2024.
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
"""Up to here floating point has all whole numbers."""
SCHEMA = "id BIGINT"


def draw(numbers: Whole, seed: int = 0, mean: float = MEAN, below: int = BELOW) -> dict[str, Whole]:
    """The ids of these rows; int64[n]. Raises Error for a mean or a bound that leaves no id."""
    limits.number("mean", mean, "an average", MOST, zero=False)
    limits.whole("below", below, 2, MOST)
    limits.seed(seed)
    whole = np.maximum(-mean * np.log1p(-uniform(key(seed, 1), numbers)), 1.0).astype(np.int64)
    return {"id": whole % below}


def ids(
    session: SparkSession, count: int, seed: int = 0, mean: float = MEAN, below: int = BELOW, tasks: int | None = None
) -> DataFrame:
    """``count`` rows as a DataFrame, a function of the seed alone. Raises Error as :func:`draw` does."""
    draw(np.empty(0, np.int64), seed, mean, below)
    made = functools.partial(draw, seed=seed, mean=mean, below=below)
    return numbered.frame(session, count, made, SCHEMA, tasks)


def table(count: int, seed: int = 0, mean: float = MEAN, below: int = BELOW) -> pa.Table:
    """The same rows in this process."""
    return numbered.table(count, functools.partial(draw, seed=seed, mean=mean, below=below))
