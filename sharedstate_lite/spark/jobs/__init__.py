"""Streaming jobs: views over folders of Parquet files or streaming DataFrames, with their changes to a sink.

A job is a query whose input Spark reads itself. Each micro-batch is one epoch, and a folder is read one file per
micro-batch. The sink is a folder, in which each file is written exactly once, or a function, which is called at least
once per batch.

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

    sources    folders and DataFrames as messages to the bins; the files of a pending batch
    sink       a batch's changes to a folder or a function
    failures   which error ends a job
    job        Job: start, watch, retry, finish

Source: Armbrust et al., Structured Streaming, SIGMOD 2018.
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {"Job": "job"}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
