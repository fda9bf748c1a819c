"""Converts messages to Arrow rows, and answers to messages.

A batch is a table with the schema ``ROWS``. It contains the events of the batch in order, and then the symbols that the
batch asks about, as rows without a time. Answers are a table with the schema ``ANSWERS``, which has one row for each of
these symbols. ``position`` is the symbol's position in the batch's list of symbols. :func:`slices` divides a batch by
symbol into one table per part.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from .challenger_pb2 import Batch, CrossoverEvent, Indicator, ResultQ1, ResultQ2

NANO = 1_000_000_000
FURTHEST = 9_000_000_000
"""The limit of times, in seconds before or after 1970. It is about 285 years, the range of nanoseconds in 64 bits."""
_ROWS: list[Any] = [
    pa.field("batch", pa.int64()),
    pa.field("position", pa.int32()),
    pa.field("symbol", pa.string()),
    pa.field("security", pa.int32()),
    pa.field("price", pa.float32()),
    pa.field("at", pa.int64()),
]
ROWS = pa.schema(_ROWS)
"""The schema of a batch.

``at`` is the time of an event in nanoseconds since 1970. It is NULL in a row for a symbol that the batch asks about,
where ``position`` is the symbol's position in the batch's list of symbols. The price is NaN if an event does not have a
time, or if its time is outside the limit.
"""
CROSSED = pa.list_(pa.struct([("at", pa.int64()), ("security", pa.int32()), ("signal", pa.int8())]))
_ANSWERS: list[Any] = [
    pa.field("batch", pa.int64()),
    pa.field("position", pa.int32()),
    pa.field("symbol", pa.string()),
    pa.field("ema_38", pa.float64()),
    pa.field("ema_100", pa.float64()),
    pa.field("crossed", CROSSED),
]
ANSWERS = pa.schema(_ANSWERS)


def rows(batch: Batch) -> pa.Table:
    """Convert a batch to rows: its events, and then the symbols that it asks about."""
    events, asked = batch.events, list(batch.lookup_symbols)
    count, asking = len(events), len(asked)
    trades = [event.last_trade for event in events]
    price = np.array([event.last_trade_price for event in events], np.float32)
    seconds = np.array([trade.seconds for trade in trades], np.int64)
    beyond = np.abs(seconds) >= FURTHEST
    price[beyond] = np.nan
    at = np.where(beyond, 0, seconds) * NANO
    at += np.array([trade.nanos for trade in trades], np.int64)
    # HasField() is slow, so call it only if the time of some event is 0.
    if (at == 0).any():
        price[[not event.HasField("last_trade") for event in events]] = np.nan
    nothing = np.zeros(asking)
    columns: list[Any] = [
        pa.array(np.full(count + asking, batch.seq_id, np.int64)),
        pa.array(np.concatenate([np.arange(count), np.arange(asking)]).astype(np.int32)),
        pa.array([*(event.symbol for event in events), *asked], pa.string()),
        # Unknown enum values are 32-bit integers.
        pa.array(np.array([*(event.security_type for event in events), *nothing], np.int32)),
        pa.array(np.concatenate([price, nothing]).astype(np.float32)),
        pa.array(np.concatenate([at, nothing]).astype(np.int64), mask=np.arange(count + asking) >= count),
    ]
    return pa.table(columns, schema=ROWS)


@lru_cache(maxsize=1 << 16)
def part(symbol: str, parts: int) -> int:
    """Return the part that a symbol belongs to, from 0 to ``parts`` - 1. The result is the same in every process."""
    return zlib.crc32(symbol.encode()) % parts


def slices(table: pa.Table, parts: int) -> list[pa.Table]:
    """Divide a table by the part of each row's symbol. Returns one table per part, with the rows in order."""
    if parts == 1:
        return [table]
    where = np.array([part(symbol, parts) for symbol in table.column("symbol").to_pylist()], np.int64)
    return [table.filter(pa.array(where == number)) for number in range(parts)]


def results(benchmark: int, number: int, answers: Iterable[dict[str, Any]]) -> tuple[ResultQ1, ResultQ2]:
    """Build the messages of both answers to one batch, from rows of ``ANSWERS`` in any order."""
    first = ResultQ1(benchmark_id=benchmark, batch_seq_id=number)
    second = ResultQ2(benchmark_id=benchmark, batch_seq_id=number)
    lines = sorted(answers, key=lambda line: line["position"])
    first.indicators.extend(
        Indicator(symbol=line["symbol"], ema_38=line["ema_38"], ema_100=line["ema_100"]) for line in lines
    )
    second.crossover_events.extend(chain.from_iterable(map(_crossovers, lines)))
    return first, second


def _crossovers(line: dict[str, Any]) -> list[CrossoverEvent]:
    out = []
    for crossed in line["crossed"]:
        event = CrossoverEvent(symbol=line["symbol"])
        event.ts.seconds, event.ts.nanos = divmod(crossed["at"], NANO)
        event.security_type, event.signal_type = crossed["security"], crossed["signal"]
        out.append(event)
    return out
