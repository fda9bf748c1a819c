"""The DEBS Grand Challenge 2022: moving averages and breakouts of traded symbols, answered batch by batch over gRPC.

    with Challenger(batches(ticks)) as challenger:         # the organisers' side, in a process of its own
        run = by_mailbox(challenger.address, session)      # a solution: pulls batches, posts results
        challenger.record(run)                             # what it was told, and when

The organisers hand out batches of trades, one call each, and want two answers a batch:
Q1, two exponential moving averages of each symbol that the batch asks about, over
windows of five minutes; Q2, the last three times that one of them crossed the other.
See docs/worker.md, "The Grand Challenge", for what exactly.

    challenger.proto   the messages; challenger_pb2.py, .pyi are made from it (protoc.py)
    calls.py           the service's six calls, for both sides
    make_batches.py            trades to batches, with symbols that are asked about
    server.py          the challenger, a process; challenger.py starts and ends it, and has its records
    single.py          both queries in a single pass over messages: what every way must equal
    rows.py            messages as Arrow rows, and answers as messages
    market.py          both queries over Arrow rows, a column at a time
    run.py             a solution's outer half: batches pulled ahead, results posted
    here.py            its inner half in one thread
    mailbox.py         ... in Spark tasks that ask the driver
    stream.py          ... in a streaming query over files (files.py), or asked of the driver (source.py)
    compare.py         every way beside the others; bench/challenge.py prints it

Only a solution on Spark imports pyspark. Source: the call for solutions of DEBS 2022.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .challenger import Challenger, Record
    from .files import by_files
    from .mailbox import by_mailbox
    from .make_batches import batches
    from .market import Market
    from .single import answers
    from .single_thread import by_thread
    from .source import by_source

_HOME = {
    "Challenger": "challenger",
    "Market": "market",
    "Record": "challenger",
    "answers": "single",
    "batches": "make_batches",
    "by_files": "files",
    "by_mailbox": "mailbox",
    "by_source": "source",
    "by_thread": "single_thread",
}


def __getattr__(name: str) -> Any:
    # A task needs the market alone, and the challenger's process nothing of Spark. As in worker/: written out in each
    # package, since a module to share it would be one more that every such process has to import first.
    if name in _HOME:
        found = globals()[name] = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Challenger",
    "Market",
    "Record",
    "answers",
    "batches",
    "by_files",
    "by_mailbox",
    "by_source",
    "by_thread",
]
