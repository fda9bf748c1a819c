"""Trades to the challenger's batches: cut by number, with symbols that each asks about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import Error
from .challenger_pb2 import Batch, Event

ASKED = (5, 19)
"""How many symbols a batch asks about, as in the organisers' data."""
COLUMNS = ("symbol", "security_type", "last_trade_price", "last_trade")
TYPES = (pa.string(), pa.int32(), pa.float32(), pa.timestamp("ns"))


def batches(ticks: pa.Table, size: int = 1_000, seed: int = 0, unpriced: float = 0.0) -> Iterator[Batch]:
    """The trades in batches of ``size``; ``unpriced`` is the share of events that lose their price.

    ``ticks`` has a trade a row, in the order in which they come: symbol, security_type (0 equity,
    1 index), last_trade_price, last_trade (timestamp). A batch asks about 5 to 19 different symbols,
    or all if there are fewer; one of many trades is asked about more often. Raises Error
    for a table that lacks a column or a row, or has one of another type, a trade without a symbol, a size below
    1, and a share that is none. A trade may lack its price, or its time.
    """
    missing = [name for name in COLUMNS if name not in ticks.column_names]
    if missing or not len(ticks):
        what = f"has no column {missing[0]}" if missing else "is empty"
        raise Error(f"batches: the table of trades {what}; it has a row a trade with {', '.join(COLUMNS)}")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1 or not 0 <= unpriced <= 1:
        raise Error(f"batches: size={size}, unpriced={unpriced}: a size is a whole number from 1, a share from 0 to 1")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise Error(f"batches: seed={seed!r}: it is a whole number from 0")
    try:
        columns: list[Any] = [ticks.column(name).cast(kind) for name, kind in zip(COLUMNS, TYPES, strict=True)]
    except pa.ArrowException as error:
        raise Error(f"batches: the table of trades has a column of another type ({error})") from None
    if columns[0].null_count:
        raise Error(f"batches: {columns[0].null_count} trades have no symbol; leave them out")
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
        # Where a few symbols have nearly all trades, the rest comes from all symbols alike.
        asked = dict.fromkeys([*drawn, *chance.permutation(different)[:wanted]])
        batch.lookup_symbols.extend(list(asked)[:wanted])
        for row in range(first, min(first + size, len(names))):
            event = Event(symbol=names[row], security_type=kinds[row], last_trade_price=prices[row])
            if timed[row]:
                event.last_trade.seconds, event.last_trade.nanos = seconds[row], nanos[row]
            batch.events.append(event)
        yield batch
