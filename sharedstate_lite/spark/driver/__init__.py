"""The engine on Spark as the driver sees it: calls become messages for the bins, checkpoints are copied and read.

The driver stores no rows. It sends each epoch as a file to one streaming query, and the state stays in Spark's state
store. So the tables of a checkpoint can be read while an engine runs, after it was closed, and after ``kill -9``.

>>> import tempfile
>>> import sharedstate_lite as ss
>>> catalog = ss.Catalog(visit="product STRING, length INT")
>>> longest = catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
>>> with tempfile.TemporaryDirectory() as folder:
...     with ss.spark.engine("full", [longest], ss.spark.session(), checkpoint=folder, bins=1) as engine:
...         changes = engine.step({"visit": [(("Potato", 50), +1), (("Potato", 60), +1)]})
...     print(ss.spark.batches(folder)[["batch", "kind", "epoch"]].values.tolist())
...     print(ss.spark.state(folder, "longest").values.tolist())
[[0, 'epoch', 1]]
[['Potato', 60, 1]]

Modules, from the bottom:

    driver            EngineDriver: the protocol of the engines as messages; needs no Spark
    checkpoint_copy   copies of a checkpoint, verified before each use
    store             StateReader: state and changes from Spark's state store, as tables
    rescaling         another number of partitions for a stopped query
    explain           Spark's plan, one row for each stateful operator
    change_views      other views over the same base tables
    engine            SparkEngine: EngineDriver over one streaming query

Source: the state reader is Spark's ``statestore`` data source (Spark 4). A checkpoint is consistent because state and
input are committed together, micro-batch by micro-batch (Armbrust et al., Structured Streaming, SIGMOD 2018).
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {"EngineDriver": "driver", "SparkEngine": "engine", "StateReader": "store"}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
