"""Partial state in bins: the dataflow of `sharedstate_lite.partial` on Spark, sharded by key.

Each operator belongs to one stage and has a copy in each bin (see `sharedstate_lite.spark.bins`). Within a micro-batch,
changes and responses go down through the stages. Upqueries go up, so they are written to the input of the next
micro-batch. Each such micro-batch is called a *round*. Base tables are outside the bins, in Parquet files or in
PostgreSQL, and Spark's tasks answer the upqueries that reach them.

>>> import sharedstate_lite as ss
>>> from sharedstate_lite.spark.partial.placement import place
>>> catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, length INT")
>>> longest = catalog.view(
...     "CREATE VIEW longest AS SELECT category, MAX(length) AS top "
...     "FROM info JOIN visit USING (product) GROUP BY category"
... )
>>> placement = place([longest], "auto", {})
>>> for stage in range(placement.stages + 1):
...     print(stage, [node.name for node in placement.at(stage)])
0 ['info', 'visit']
1 ['longest.join1']
2 ['longest.map1', 'longest.group1', 'longest']

Stage 0 is the driver. The join runs in the bin of the product, and the aggregate in the bin of the category. The edge
between them therefore crosses bins, and an upquery from the aggregate goes to the join in all bins.

Modules, from the bottom:

    nodes           BinGraph, and the operators for edges that cross bins; its join can wait for a missing key
    placement       the stage of each operator, and the bin of each row
    messages        messages of the graph, lookups and commands as rows of the stream
    keys            decodes filled keys from the state store
    upquery_codec   encodes open upqueries as JSON, to store them between micro-batches
    bin             PartialBin: one bin of one stage
    base            BaseTables: the interface of the base tables
    base_spark      base tables that Spark's tasks read; base_parquet and base_postgres store the rows
    scheduler       lets the lookups and epochs of several callers share the micro-batches of one query
    driver          PartialDriver: implements the engine interface with messages to the bins; does not need Spark
    engine          PartialSparkEngine: a PartialDriver that runs one streaming query
    state           reads filled keys and base tables from a checkpoint
    job             a stream that reads epochs from sources while callers look up keys
    jdbc            reads PostgreSQL tables as DataFrames, and writes DataFrames to tables

Source: Noria (Gjengset et al., OSDI 2018), and its sharding (Gjengset's thesis, 2021, chapter 5).
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {
    "PartialJob": "job",
    "PartialSparkEngine": "engine",
    "Placement": "placement",
    "Postgres": "base_postgres",
    "place": "placement",
}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
