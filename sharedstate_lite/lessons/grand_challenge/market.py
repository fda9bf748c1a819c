"""Computes both queries over Arrow rows, one column at a time, so that a batch needs only a few array operations.

The rules are those of :mod:`.single`. Each symbol has one row in a structured array, which contains the last trade of
its open window, both averages, and the last three crossovers. A batch is processed in three steps:

1. For each symbol, the last trade of its open window is put in front of its new trades, which stay in order of arrival.
   A trade is dropped if an earlier one is in a later window, which means that its window is below the running maximum.
2. The remaining trades are grouped by (symbol, window). The close of each group is its last trade, by timestamp and
   then by arrival.
3. The last window of each symbol stays open, and the others are closed. First, the first window of every symbol is
   closed in one array operation, then the second, and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import Error
from .rows import ANSWERS, CROSSED

WINDOW = 5 * 60 * 1_000_000_000
"""The length of a window in nanoseconds."""
WEIGHTS = np.array([2 / (1 + 38), 2 / (1 + 100)])
"""The weight of a new close in each of the two averages."""
KEPT = 3
"""The number of crossovers that are kept per symbol."""
BUY, SELL, NONE = 0, 1, -1
_LINE = np.dtype(
    [
        ("security", np.int32),
        ("open", np.int64),
        ("at", np.int64),
        ("price", np.float64),
        ("ema", np.float64, 2),
        ("crossed", np.int64, KEPT),
        ("signal", np.int8, KEPT),
    ]
)
_FIELDS: list[Any] = [pa.field("symbol", pa.string()), pa.field("line", pa.binary(_LINE.itemsize))]
_STATE = pa.schema(_FIELDS)


class Market:
    """The state of some symbols.

    ``dropped`` is the number of trades that arrived too late. ``empty`` is the number of events that are not trades.
    """

    def __init__(self, state: pa.Table | None = None) -> None:
        """Start without symbols, or from a table that ``state()`` returned. Raises Error for any other table."""
        self.dropped = self.empty = 0
        self._number: dict[str, int] = {}
        self._lines = np.zeros(1, _LINE)
        if state is not None:
            if not state.schema.equals(_STATE):
                raise Error(
                    f"Market: the columns {', '.join(state.column_names)} are not the columns of state(). "
                    "Pass a table that state() returned."
                )
            symbols: list[Any] = state.column("symbol").to_pylist()
            lines: list[Any] = state.column("line").to_pylist()
            self._number = {symbol: n for n, symbol in enumerate(symbols)}
            # One additional row is used for lookups of unknown symbols.
            self._lines = np.frombuffer(b"".join([*lines, bytes(_LINE.itemsize)]), _LINE).copy()

    def state(self) -> pa.Table:
        """Return the complete state that later answers depend on, as a table with one row per symbol."""
        count, size = len(self._number), _LINE.itemsize
        held = self._lines[:count].tobytes()
        lines = [held[at : at + size] for at in range(0, count * size, size)]
        return pa.table({"symbol": list(self._number), "line": pa.array(lines, _STATE.field("line").type)}, _STATE)

    def step(self, rows: pa.Table) -> pa.Table:
        """Process the rows of one or more batches in order, and return their answers."""
        numbers = rows.column("batch").to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
        if not len(rows):
            return ANSWERS.empty_table()
        return pa.concat_tables(self._batch(rows.slice(a, b - a)) for a, b in zip(cuts, cuts[1:], strict=False))

    def _batch(self, rows: pa.Table) -> pa.Table:
        asks = pc.is_null(rows.column("at"))
        self._trade(rows.filter(pc.invert(asks)))
        return self._answer(rows.filter(asks))

    def _trade(self, events: pa.Table) -> None:
        price = events.column("price").to_numpy().astype(np.float64)
        priced = np.isfinite(price) & (price != 0)
        self.empty += int(len(price) - priced.sum())
        if not priced.any():
            return
        events, price = events.filter(pa.array(priced)), price[priced]
        at = events.column("at").to_numpy()
        who, fresh = self._who(events)
        held = np.setdiff1d(who, fresh)
        lines = self._lines[held]
        who, window = np.concatenate([held, who]), np.concatenate([lines["open"], at // WINDOW])
        at, price = np.concatenate([lines["at"], at]), np.concatenate([lines["price"], price])

        order = np.argsort(who, kind="stable")
        _, symbol = np.unique(who[order], return_inverse=True)
        windows, rank = np.unique(window[order], return_inverse=True)
        place = symbol * len(windows) + rank
        counts = place == np.maximum.accumulate(place)
        self.dropped += int(len(counts) - counts.sum())
        order, place = order[counts], place[counts]

        # Both sorts are stable, so equal trades keep their order of arrival.
        sequence = np.lexsort((at[order], place))
        order, place = order[sequence], place[sequence]
        close = order[np.append(place[1:] != place[:-1], True)]
        who, window, at, price = who[close], window[close], at[close], price[close]
        last = np.append(who[1:] != who[:-1], True)
        self._close(who[~last], window[~last], price[~last])
        self._lines["open"][who[last]] = window[last]
        self._lines["at"][who[last]], self._lines["price"][who[last]] = at[last], price[last]

    def _who(self, events: pa.Table) -> tuple[Any, Any]:
        """Return the row number of each event's symbol, and the row numbers of new symbols."""
        coded = events.column("symbol").combine_chunks().dictionary_encode()
        codes = coded.indices.to_numpy()
        known = len(self._number)
        symbols: list[Any] = coded.dictionary.to_pylist()
        lines = np.array([self._number.setdefault(symbol, len(self._number)) for symbol in symbols])
        fresh = np.arange(known, len(self._number))
        if len(self._lines) < len(self._number):
            self._lines = np.concatenate([self._lines, np.zeros(len(self._number), _LINE)])
        self._lines["signal"][fresh] = NONE
        _, first = np.unique(codes, return_index=True)
        new = lines >= known
        self._lines["security"][lines[new]] = events.column("security").to_numpy()[first][new]
        return lines[codes], fresh

    def _close(self, who: Any, window: Any, price: Any) -> None:
        """Close windows. The arguments are sorted by symbol and then by window."""
        begins = np.append(True, who[1:] != who[:-1]) if len(who) else np.zeros(0, bool)
        first = np.flatnonzero(begins)
        turn = np.arange(len(who)) - np.repeat(first, np.diff(np.append(first, len(who))))
        for each in range(int(turn.max(initial=-1)) + 1):
            now = turn == each
            self._close_one(who[now], window[now], price[now])

    def _close_one(self, who: Any, window: Any, price: Any) -> None:
        before = self._lines["ema"][who]
        ema = price[:, None] * WEIGHTS + before * (1 - WEIGHTS)
        self._lines["ema"][who] = ema
        buy = (ema[:, 0] > ema[:, 1]) & (before[:, 0] <= before[:, 1])
        sell = (ema[:, 0] < ema[:, 1]) & (before[:, 0] >= before[:, 1])
        crossed = buy | sell
        these = who[crossed]
        for name, value in (("crossed", (window[crossed] + 1) * WINDOW), ("signal", np.where(buy, BUY, SELL)[crossed])):
            kept = self._lines[name]
            kept[these] = np.column_stack([kept[these, 1:], value])

    def _answer(self, asked: pa.Table) -> pa.Table:
        symbols: list[Any] = asked.column("symbol").to_pylist()
        where = np.array([self._number.get(symbol, -1) for symbol in symbols], np.int64)
        lines = np.where(where >= 0, where, 0)
        ema = np.where((where >= 0)[:, None], self._lines["ema"][lines], 0.0)
        there = (self._lines["signal"][lines] != NONE) & (where >= 0)[:, None]
        crossed = pa.StructArray.from_arrays(
            [
                pa.array(self._lines["crossed"][lines][there]),
                pa.array(np.repeat(self._lines["security"][lines], there.sum(axis=1))),
                pa.array(self._lines["signal"][lines][there]),
            ],
            fields=list(CROSSED.value_type),
        )
        starts = np.append(0, np.cumsum(there.sum(axis=1))).astype(np.int32)
        columns: list[Any] = [asked.column(name) for name in ("batch", "position", "symbol")]
        columns += [pa.array(ema[:, 0]), pa.array(ema[:, 1])]
        columns.append(pa.ListArray.from_arrays(pa.array(starts, pa.int32()), crossed).cast(CROSSED))
        return pa.table(columns, schema=ANSWERS)
