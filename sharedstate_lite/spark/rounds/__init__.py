"""Rounds: bins of state in one streaming query. Everything of the kit that keeps state on Spark runs in rounds.

A *bin* keeps the state of some keys. It receives messages and sends messages (`Bin`). A *round* is one micro-batch: the
driver sends messages to bins, bins of one stage send messages to bins of a later stage or to the driver, and all of
this is committed together. `Query` runs the rounds of one query, whose files are in one folder. Views, partial state,
operators with managed state, and entities are each a kind of bin, and a driver that decides which rounds to run.

The driver writes the messages of a round as one file to an *inbox*. The inbox has a log with a checksum for each file,
so the kit can report a lost or changed file. Spark alone would read a lost file as an empty one.

>>> import tempfile
>>> from pathlib import Path
>>> from sharedstate_lite.spark.rounds import BinMessage, Inbox, RoundKind
>>> with tempfile.TemporaryDirectory() as folder:
...     inbox = Inbox(Path(folder), began=0)
...     inbox.prepare()
...     number = inbox.put([BinMessage(1, 0, 1, "", b"rows")], RoundKind.EPOCH, 1)
...     (inbox.path / "00000000.parquet").unlink()
...     inbox.check(committed=0)
Traceback (most recent call last):
    ...
sharedstate_lite.errors.CheckpointError: ...00000000.parquet: the input file of epoch 1 is lost, ...

Modules, from the bottom:

    message         BinMessage, and the interfaces that a bin's worker implements
    bin             Bin and Recipe: what runs in rounds, and how a worker builds it; Rounds: what runs them
    strings         the string dictionary of a worker
    runs            RunsBin: a bin whose state is arrangements, as runs in a store
    keys            grouping keys that spread bins evenly over partitions
    inbox           Inbox: the files that a query reads, and their log
    input_files     files of a folder as rounds: which ones wait, and their second names
    errors          finds the kit's errors in the text of Spark's exceptions; retries Spark jobs
    rpc             calls to other workers on the same host
    worker          the bins that a worker keeps in memory, and running one of them
    operator        the stateful operator of each stage, which loads the kit only in processes that receive rows
    written_paths   corrects the absolute paths in Spark's files after they were moved
    reader          StateReader: reads heads and runs from Spark's state store
    query           Query: starts, runs micro-batches, voids the refused ones, and stops
    local           LocalRounds: the same rounds in this process, without Spark
    home            the file that says whose folder this is

Source: Hoffmann et al., Megaphone, VLDB 2019, for bins; Armbrust et al., Structured Streaming, SIGMOD 2018;
``transformWithState`` in Spark 4.
"""

from __future__ import annotations

from typing import Any

from ...system.lazy import lazy_name

_HOME = {
    "Bin": "bin",
    "BinMessage": "message",
    "Inbox": "inbox",
    "InboxEntry": "inbox",
    "LazyProcessor": "operator",
    "LocalRounds": "local",
    "Query": "query",
    "Recipe": "bin",
    "RoundKind": "inbox",
    "RunsBin": "runs",
    "StateReader": "reader",
}


def __getattr__(name: str) -> Any:
    return lazy_name(__name__, _HOME, name)
