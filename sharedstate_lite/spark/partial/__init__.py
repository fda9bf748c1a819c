"""Partial state in bins: the dataflow of `sharedstate_lite.partial` on Spark, sharded by key.

Each operator belongs to one stage and has a copy in each bin (see `sharedstate_lite.spark.bins`). Within a micro-batch,
changes and responses go down through the stages. Upqueries go up, so they are written to the input of the next
micro-batch. Every micro-batch is a *round*. Base tables are outside the bins, in Parquet files, and the
driver answers the upqueries that reach them.

The engine serves one caller at a time. Several callers, a budget and late views are in one process only.

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
    upquery_codec   encodes open upqueries as JSON, to store them between micro-batches
    bin             PartialBin: one bin of one stage
    base            BaseTables: Parquet files that the driver reads with DuckDB
    state           filled keys and state as tables, of a running engine or of a checkpoint
    engine          PartialSparkEngine: a SparkEngine whose calls run rounds until no message is left

Source: Noria (Gjengset et al., OSDI 2018), and its sharding (Gjengset's thesis, 2021, chapter 5).
"""
