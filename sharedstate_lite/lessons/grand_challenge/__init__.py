"""The DEBS Grand Challenge 2022: moving averages and breakouts of traded symbols, answered batch by batch over gRPC.

The *challenger* (the organisers' server) hands out batches of trades, one for each call. A solution posts two answers
to each batch. Q1: two exponential moving averages, over windows of five minutes, of each symbol that the batch asks
about. Q2: the last three times that one average crossed the other. docs/worker.md has the details.

>>> import pyarrow as pa
>>> from sharedstate_lite.lessons.grand_challenge import Challenger, answers, batches, by_thread
>>> count = 100                                                        # one trade a minute, of 2 symbols
>>> ticks = pa.table({
...     "symbol": ["A", "B"] * (count // 2),
...     "security_type": [0] * count,
...     "last_trade_price": [10.0 + n % 7 for n in range(count)],
...     "last_trade": pa.array([60 * n for n in range(count)], pa.timestamp("s")),
... })
>>> with Challenger(batches(ticks, size=20)) as challenger:            # a server, in a process of its own
...     record = challenger.record(by_thread(challenger.address))
>>> record.batches, record.missing
(5, 0)
>>> record.answers == list(answers(batches(ticks, size=20), 1))        # as the single pass over the events
True

Modules, from the bottom:

    challenger.proto   the messages; protoc generates challenger_pb2 from it
    calls              the six calls of the service, for both sides
    make_batches       trades to batches, with the symbols that each asks about
    server             the challenger's process; challenger: starts and ends it, and reads its records
    single             both queries in a single pass over the events: the reference for all ways
    rows               messages as Arrow rows, and answers as messages
    market             both queries over Arrow rows, a column at a time
    run                the client of a solution: pulls batches ahead, posts answers
    single_thread      solves it in one thread
    mailbox            ... in Spark tasks that ask the driver
    stream             ... in a streaming query, over files (files) or asking the driver (source)
    compare            all ways side by side

Source: the call for solutions of DEBS 2022.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...system.lazy import lazy_name

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
    # Lazy: a task needs only the market, and the challenger's process needs no Spark.
    return lazy_name(__name__, _HOME, name)


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
