"""Cut trades into the challenger's batches, each with the symbols that it asks about."""

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
    """The trades in batches of ``size``; a share ``unpriced`` of the events loses its price.

    ``ticks`` has one row for each trade, in order: symbol, security_type (0 equity, 1 index), last_trade_price,
    last_trade (timestamp). Price and time may be NULL. A batch asks about 5 to 19 different symbols, often about those
    with many trades. Raises Error for an empty table, a missing column or one of another type, a trade without a
    symbol, a ``size`` below 1, and an ``unpriced`` outside 0 to 1.
    """
    missing = [name for name in COLUMNS if name not in ticks.column_names]
    if missing or not len(ticks):
        what = f"has no column {missing[0]}" if missing else "is empty"
        raise Error(f"batches: the table of trades {what}. It needs one row for each trade, with {', '.join(COLUMNS)}.")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1 or not 0 <= unpriced <= 1:
        raise Error(f"batches: size={size}, unpriced={unpriced}. Pass a size of 1 or more, and unpriced from 0 to 1.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise Error(f"batches: seed={seed!r}. Pass an integer, 0 or more.")
    try:
        columns: list[Any] = [ticks.column(name).cast(kind) for name, kind in zip(COLUMNS, TYPES, strict=True)]
    except pa.ArrowException as error:
        raise Error(f"batches: the table of trades has a column of another type ({error}).") from None
    if columns[0].null_count:
        raise Error(f"batches: {columns[0].null_count} trades have no symbol. Leave them out.")
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
        # If a few symbols have nearly all trades, the others are drawn from all symbols.
        asked = dict.fromkeys([*drawn, *chance.permutation(different)[:wanted]])
        batch.lookup_symbols.extend(list(asked)[:wanted])
        for row in range(first, min(first + size, len(names))):
            event = Event(symbol=names[row], security_type=kinds[row], last_trade_price=prices[row])
            if timed[row]:
                event.last_trade.seconds, event.last_trade.nanos = seconds[row], nanos[row]
            batch.events.append(event)
        yield batch
