"""Batch Spark SQL as a second oracle: a stream over the shop, at any size, against the same SQL over the same files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import sharedstate_lite as ss
from sharedstate_lite import data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SELECTS = {
    "result": "SELECT category, MAX(length) AS longest FROM info JOIN visit USING (product) GROUP BY category",
    "numbers": "SELECT category, COUNT(*) AS n, SUM(length) AS total, MIN(length) AS least, AVG(length) AS mean "
    "FROM info JOIN visit USING (product) GROUP BY category",
    "products": "SELECT i.product, category, MAX(length) AS longest, COUNT(user) AS n "
    "FROM info i LEFT JOIN visit v ON i.product = v.product GROUP BY i.product, category",
    "busy": "SELECT user, COUNT(*) AS n FROM visit WHERE length > 100 GROUP BY user HAVING COUNT(*) > 3",
}
SIZES: list[Any] = [
    pytest.param(
        "full",
        {"visits": 20_000, "products": 300, "users": 2_000, "categories": 20, "epochs": 3},
        id="full",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "shared", {"visits": 20_000, "products": 300, "users": 2_000, "categories": 20, "epochs": 3}, id="shared"
    ),
    pytest.param(
        "shared",
        {"visits": 10_000_000, "products": 100_000, "users": 1_000_000, "categories": 500, "epochs": 60},
        id="10-million",
        marks=pytest.mark.slow,
    ),
]


def net(frame: DataFrame) -> DataFrame:
    """The rows that remain of rows with diffs, each as often as its multiplicity."""
    columns = [f"`{c}`" for c in frame.columns if c not in ("diff", "time")]
    summed = frame.groupBy(*columns).agg({"diff": "sum"}).withColumnRenamed("sum(diff)", "copies").where("copies <> 0")
    often = "IF(copies < 0, raise_error('retracted more often than it was there'), CAST(copies AS INT))"
    return summed.selectExpr(*columns, f"explode(array_repeat(1, {often})) AS one").drop("one")


def ordered(frame: DataFrame) -> pd.DataFrame:
    """A small result as a sorted table with nullable types, so that widths of integers do not differ."""
    out = frame.toPandas().convert_dtypes()
    return out.sort_values(list(out.columns), na_position="last").reset_index(drop=True)


@pytest.mark.parametrize(("kind", "size"), SIZES)
def test_a_stream_is_what_batch_sql_says(
    spark: SparkSession, tmp_path: Path, record_property: Callable[[str, object], None], kind: str, size: dict[str, Any]
) -> None:
    """All changes of a stream, added up, are the rows that batch Spark SQL computes from all of its input."""
    shop, sink = tmp_path / "shop", tmp_path / "out"
    begun = time.perf_counter()
    data.make(shop, session=spark, **size)
    record_property("make, seconds", time.perf_counter() - begun)
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    views = [catalog.view(f"CREATE VIEW {name} AS {text}") for name, text in SELECTS.items()]
    named = {"info": shop / "info", "visit": shop / "visit"}
    begun = time.perf_counter()
    with ss.spark.stream(kind, views, named, sink, session=spark, checkpoint=tmp_path / "c") as job:
        job.finish()
        progress = job.progress()
    record_property("stream, seconds", time.perf_counter() - begun)
    record_property("rows", int(progress["rows"].sum()))
    after = progress.iloc[2:]
    record_property("rows a second after the second batch", float(after["rows"].sum() / after["seconds"].sum()))
    assert len(list(sink.glob("result/batch-*.parquet"))) <= size["epochs"]
    begun = time.perf_counter()
    for relation, folder in named.items():
        net(spark.read.option("recursiveFileLookup", "true").parquet(str(folder))).createOrReplaceTempView(relation)
    try:
        for name, text in SELECTS.items():
            made = ordered(net(spark.read.parquet(str(sink / name))))
            wanted = ordered(spark.sql(text))
            assert len(wanted), name
            pd.testing.assert_frame_equal(made, wanted, check_dtype=False, rtol=1e-9)
    finally:
        for relation in named:
            spark.catalog.dropTempView(relation)
    record_property("oracle, seconds", time.perf_counter() - begun)
