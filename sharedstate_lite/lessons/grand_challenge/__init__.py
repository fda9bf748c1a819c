"""The DEBS Grand Challenge 2022: moving averages and breakouts of traded symbols, answered batch by batch over gRPC.

The *challenger* (the organisers' server) returns a batch of trades for each call. A solution posts two answers to
each batch. The answer to Q1 has two exponential moving averages, over windows of five minutes, for each symbol that the
batch asks about. The answer to Q2 has the last three times that one average crossed the other. For details, see
docs/worker.md.

>>> import pyarrow as pa
>>> from sharedstate_lite.lessons.grand_challenge import Challenger, answers, batches, by_thread
>>> count = 100                                                        # one trade per minute, in 2 symbols
>>> ticks = pa.table({
...     "symbol": ["A", "B"] * (count // 2),
...     "security_type": [0] * count,
...     "last_trade_price": [10.0 + n % 7 for n in range(count)],
...     "last_trade": pa.array([60 * n for n in range(count)], pa.timestamp("s")),
... })
>>> with Challenger(batches(ticks, size=20)) as challenger:            # a server in a separate process
...     record = challenger.record(by_thread(challenger.address))
>>> record.batches, record.missing
(5, 0)
>>> record.answers == list(answers(batches(ticks, size=20), 1))        # equal to the reference
True

Modules, from the bottom:

    challenger.proto   the messages
    protoc             generates challenger_pb2 from challenger.proto
    calls              the six calls of the service, for client and server
    make_batches       turns trades into batches, with the symbols that each batch asks about
    server             the challenger's process
    challenger         starts and stops the challenger's process, and reads its records
    single             the reference: both queries in a single pass over the events
    rows               converts messages to Arrow rows, and answers to messages
    market             both queries over Arrow rows, one column at a time
    run                the client of a solution, which pulls batches ahead and posts answers
    single_thread      solves the challenge in one thread
    mailbox            solves it in Spark tasks that send requests to the driver
    stream             the parts that both solutions with a streaming query have in common
    files              solves it in a streaming query that reads and writes files
    source             solves it in a streaming query whose readers send requests to the driver
    compare            runs all solutions and compares them

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
    # Import lazily, because a task needs only the market, and the challenger's process does not need Spark.
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
