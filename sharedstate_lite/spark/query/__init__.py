"""One streaming query of Structured Streaming: its input folder, its stateful operators, and its output.

The driver writes each micro-batch as one file to an *inbox* that the query reads. The stages process the file, and a
foreachBatch sink in the driver receives the output of the last stage. The inbox has a log with a checksum for each
file, so the kit can report a lost or changed file. Spark alone would read a lost file as an empty one.

>>> import tempfile
>>> from pathlib import Path
>>> from sharedstate_lite.spark.bins import BinMessage
>>> from sharedstate_lite.spark.query import Inbox
>>> with tempfile.TemporaryDirectory() as folder:
...     inbox = Inbox(Path(folder), began=0)
...     inbox.prepare()
...     number = inbox.put([BinMessage(1, 0, 1, "", b"rows")], "epoch", 1)
...     (inbox.path / "00000000.parquet").unlink()
...     inbox.check(committed=0)
Traceback (most recent call last):
    ...
sharedstate_lite.errors.CheckpointError: ...00000000.parquet: the input file of epoch 1 is lost ...

Modules, from the bottom:

    inbox            Inbox: the files that a query reads, and their log
    errors           finds the kit's errors in the text of Spark's exceptions; retries Spark jobs
    lazy_processor   LazyProcessor: a stateful operator that loads the kit only in processes that receive rows
    processor        StageProcessor: the operator of one stage
    query            Query: starts, runs micro-batches, voids the refused ones, and stops

Source: Armbrust et al., Structured Streaming, SIGMOD 2018; ``transformWithStateInPandas`` in Spark 4.
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {
    "Inbox": "inbox",
    "InboxEntry": "inbox",
    "LazyProcessor": "lazy_processor",
    "Query": "query",
    "StageProcessor": "processor",
}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
