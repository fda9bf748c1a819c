"""Generated market ticks in the schema of the DEBS Grand Challenge 2022, whose own data must not be redistributed.

Each row is a trade of a symbol, with the columns ``symbol`` STRING, ``security_type`` INT (0 for equities, 1 for
indices), ``last_trade_price`` FLOAT and ``last_trade`` TIMESTAMP (microseconds, without a time zone). Symbols follow a
Zipf distribution. A price oscillates around its symbol's mean with a period of hours, so moving averages cross. Time
increases with the row number, but a row can arrive up to ``jitter`` seconds late.

Source: Frischbier et al., "The DEBS 2022 Grand Challenge", DEBS 2022.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from . import limits, numbered
from .draws import Whole, Zipf, bits, key, uniform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SYMBOLS, MOST_SYMBOLS = 5_504, 1 << 32
FIRST = np.datetime64("2021-11-08T08:00:00", "us")
INDEX_SHARE = 16
"""One in this many symbols is an index."""
EXCHANGES = np.array(["FR", "NL", "ETR"])
SCHEMA = "symbol STRING, security_type INT, last_trade_price FLOAT, last_trade TIMESTAMP_NTZ"


def draw(
    numbers: Whole,
    seed: int = 0,
    symbols: int = SYMBOLS,
    per_second: float = 100.0,
    jitter: float = 5.0,
    skew: float = 1.0,
) -> dict[str, Any]:
    """Return the ticks with the row numbers ``numbers`` as columns.

    There are ``per_second`` ticks per second. Raises Error for a parameter outside its limits.
    """
    limits.whole("symbols", symbols, 1, MOST_SYMBOLS)
    limits.number("per_second", per_second, "a rate", 1e9, zero=False)
    limits.number("jitter", jitter, "a number of seconds", 1e9)
    limits.skew(skew)
    limits.seed(seed)
    which = Zipf(symbols, skew).draw(key(seed, 6), numbers)
    late = uniform(key(seed, 7), numbers) * jitter
    seconds = np.maximum(numbers / per_second - late, 0.0)
    return {
        "symbol": names(which, seed),
        "security_type": _is_index(which, seed).astype(np.int32),
        "last_trade_price": _price(which, seconds, numbers, seed),
        "last_trade": FIRST + (seconds * 1e6).astype("timedelta64[us]"),
    }


def names(which: Whole, seed: int = 0) -> Any:
    """Return the names of the symbols with the ranks ``which``, such as S0001.FR: an identifier and the exchange."""
    letters = np.char.mod("S%04d", which)
    where = EXCHANGES[(bits(key(seed, 8), which) % np.uint64(len(EXCHANGES))).astype(np.int64)]
    return np.char.add(np.where(_is_index(which, seed), np.char.add("I", letters), letters), np.char.add(".", where))


def _is_index(which: Whole, seed: int) -> Any:
    return bits(key(seed, 9), which) % np.uint64(INDEX_SHARE) == 0


def _price(which: Whole, seconds: Any, numbers: Whole, seed: int) -> Any:
    own = 10.0 + 490.0 * uniform(key(seed, 10), which)
    hours = 1.0 + 7.0 * uniform(key(seed, 11), which)
    wave = np.sin(seconds / (3600.0 * hours) * 2 * np.pi + 2 * np.pi * uniform(key(seed, 12), which))
    noise = uniform(key(seed, 13), numbers) - 0.5
    return np.round(own * (1.0 + 0.05 * wave + 0.002 * noise), 2).astype(np.float32)


def ticks(session: SparkSession, count: int, seed: int = 0, tasks: int | None = None, **more: Any) -> DataFrame:
    """Return ``count`` ticks as a DataFrame. The rows do not depend on ``tasks``. ``more`` is passed to `draw`."""
    draw(np.empty(0, np.int64), seed, **more)
    return numbered.frame(session, count, functools.partial(draw, seed=seed, **more), SCHEMA, tasks)


def table(count: int, seed: int = 0, **more: Any) -> pa.Table:
    """Return the same ticks as `ticks`, as an Arrow table and without Spark."""
    draw(np.empty(0, np.int64), seed, **more)
    return numbered.table(count, functools.partial(draw, seed=seed, **more))
