"""Streams, which read folders of Parquet files or streaming DataFrames and send changes of views to a sink.

A file is a round: each round has the next file of each source, and is one epoch. The sink is either a folder, in which
each file is written exactly once, or a function, which is called at least once per round.

>>> import tempfile
>>> import pyarrow as pa
>>> import pyarrow.parquet
>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> seen = []
>>> def sink(changes, batch):
...     seen.append((batch, changes["longest"].to_pandas()[["product", "top", "diff"]].values.tolist()))
>>> with tempfile.TemporaryDirectory() as visits, tempfile.TemporaryDirectory() as state:
...     pa.parquet.write_table(pa.table({"product": ["Potato"], "length": [60], "diff": [1]}), f"{visits}/1.parquet")
...     with ss.spark.stream(
...         "full", [longest], {"visit": visits}, sink, session=ss.spark.session(), checkpoint=state, bins=1
...     ) as job:
...         job.finish()
>>> seen
[(0, [['Potato', 60, 1]])]

Modules, from the bottom:

    sources    checks folders and DataFrames; writes the micro-batches of a DataFrame to files
    sink       writes the changes of a round to a folder, or passes them to a function
    stream     Stream: runs a round for each file, and gives its changes to the sink

Source: Armbrust et al., Structured Streaming, SIGMOD 2018.
"""
