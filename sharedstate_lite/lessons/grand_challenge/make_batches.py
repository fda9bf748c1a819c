"""Splits trades into the challenger's batches, and adds to each batch the symbols that it asks about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .challenger_pb2 import Batch, Event

ASKED = (5, 19)
"""The smallest and largest number of symbols that a batch asks about, as in the organisers' data."""
COLUMNS = ("symbol", "security_type", "last_trade_price", "last_trade")
TYPES = (pa.string(), pa.int32(), pa.float32(), pa.timestamp("ns"))


def batches(ticks: pa.Table, size: int = 1_000, seed: int = 0, unpriced: float = 0.0) -> Iterator[Batch]:
    """Split the trades into batches of ``size`` events, and return an iterator over the batches.

    ``ticks`` has one row per trade, in order, with the columns symbol, security_type (0 is equity, 1 is index),
    last_trade_price and last_trade (a timestamp). Price and time can be NULL. A batch asks about 5 to 19 different
    symbols. A symbol with many trades is more likely to be chosen. A random fraction ``unpriced`` of the events loses
    its price. The same ``seed`` always yields the same batches.

    Raises Error if the table is empty, lacks a column or has a column of the wrong type, if a trade does not have a
    symbol, or if ``size`` is less than 1, ``unpriced`` is not between 0 and 1, or ``seed`` is negative.
    """
    missing = [name for name in COLUMNS if name not in ticks.column_names]
    if missing or not len(ticks):
        what = f"has no column {missing[0]}" if missing else "is empty"
        raise Error(f"batches: the table of trades {what}. It needs one row per trade, with {', '.join(COLUMNS)}.")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1 or not 0 <= unpriced <= 1:
        raise Error(f"batches: size={size} or unpriced={unpriced} is invalid. Use size >= 1 and 0 <= unpriced <= 1.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise Error(f"batches: seed={seed!r} is invalid. Pass an integer that is 0 or larger.")
    try:
        columns: list[Any] = [ticks.column(name).cast(kind) for name, kind in zip(COLUMNS, TYPES, strict=True)]
    except pa.ArrowException as error:
        raise Error(f"batches: a column of the table of trades has the wrong type ({error}).") from None
    if columns[0].null_count:
        raise Error(f"batches: {columns[0].null_count} trades do not have a symbol. Remove these rows.")
    ticks = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    return _batches(ticks, size, np.random.default_rng([seed, size]), unpriced)


def _batches(ticks: pa.Table, size: int, chance: np.random.Generator, unpriced: float) -> Iterator[Batch]:
    names = np.array(ticks.column("symbol").to_pylist(), dtype=object)
    different = sorted(set(names))
    kinds: list[Any] = [kind or 0 for kind in ticks.column("security_type").to_pylist()]
    prices = ticks.column("last_trade_price").to_numpy().copy()
    prices[chance.random(len(prices)) < unpriced] = 0
    timed = ticks.column("last_trade").is_valid().to_pylist()
    nanoseconds: Any = ticks.column("last_trade").cast(pa.int64())
    at = nanoseconds.fill_null(0).to_numpy()
    seconds, nanos = (part.tolist() for part in np.divmod(at, 1_000_000_000))
    for number, first in enumerate(range(0, len(names), size)):
        batch = Batch(seq_id=number, last=first + size >= len(names))
        wanted = int(chance.integers(ASKED[0], ASKED[1] + 1))
        drawn = names[chance.integers(0, len(names), 4 * wanted)]
        # If too few different symbols are drawn because a few have nearly all trades, add random others.
        asked = dict.fromkeys([*drawn, *chance.permutation(different)[:wanted]])
        batch.lookup_symbols.extend(list(asked)[:wanted])
        for row in range(first, min(first + size, len(names))):
            event = Event(symbol=names[row], security_type=kinds[row], last_trade_price=prices[row])
            if timed[row]:
                event.last_trade.seconds, event.last_trade.nanos = seconds[row], nanos[row]
            batch.events.append(event)
        yield batch
