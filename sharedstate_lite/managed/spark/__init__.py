"""Operators with managed state on Spark: the classes that run in one process, for rows in a folder of Parquet files.

Each operator of the chain is one `transformWithState` operator of one streaming query. Its groups are *bins* of
keys. A bin is an operator on a worker as in one process, with its store in columns, and each run of the columns is a
blob in Spark's state store. Each input file is one epoch and one micro-batch.

Spark's own watermark and timers are not used. The driver reads the times of a file before it logs the file, and logs
the watermark with it. A micro-batch that is run again after a crash therefore has the same rows, times and timers.

>>> import tempfile
>>> from datetime import datetime
>>> from pathlib import Path
>>> import pyarrow as pa
>>> import pyarrow.parquet
>>> import sharedstate_lite as ss
>>> from sharedstate_lite import managed as m
>>> class Longest(m.Operator):
...     out = "product STRING, was INT, now INT"
...     top = m.Value("INT", default=0)
...     def row(self, key, row, out):
...         if row["length"] > self.top.get():
...             out(key, self.top.get(), row["length"])
...             self.top.set(row["length"])
>>> visits = m.source("visit", "product STRING, length INT", key="product")
>>> with tempfile.TemporaryDirectory() as folder:
...     given, out, state = (Path(folder) / name for name in ("visits", "out", "state"))
...     given.mkdir()
...     pa.parquet.write_table(pa.table({"product": ["Potato", "Apple"], "length": [60, 20]}), given / "1.parquet")
...     with m.spark.run(
...         Longest(), visits, {"visit": given}, out, checkpoint=state, bins=2, session=ss.spark.session()
...     ) as job:
...         print(job.run_available(), job.read("top", "Potato"), job.emitted().values.tolist())
1 60 [['Potato', 0, 60], ['Apple', 0, 20]]

Modules, from the bottom:

    rows    rows that operators emit, as blobs between bins
    bin     one bin of one operator, without Spark
    log     what the driver decides before a micro-batch: files, watermarks, owners of bins; without Spark
    job     the driver: runs the query, delivers what is emitted, reads state

Source: Spark 4's transformWithState; Hoffmann et al., Megaphone, VLDB 2019 (bins that move while rows arrive).
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {"ManagedJob": "job", "run": "job"}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
