"""The reference solution, which computes both queries in a single pass over the events, in plain Python.

It has only the messages in common with the other solutions. The rules are as follows; docs/worker.md explains them.

- A window is five minutes of event time, aligned to the clock. Its close is the price of its last trade by timestamp.
  If several trades have the same timestamp, the last one to arrive is used.
- A trade in a later window closes the symbol's open window. For j = 38 and 100, closing it updates an average:
  EMA = close * 2/(1+j) + EMA * (1 - 2/(1+j)), starting at 0. Windows without trades are skipped.
- When a window is closed, there is a crossover if EMA 38 rises above EMA 100 (Buy) or falls below it (Sell). Its
  time is the end of the window.
- A trade in a closed or skipped window is dropped. An event is not a trade if its price is 0, NaN or infinite, if it
  does not have a time, or if its time is more than 285 years before or after 1970.
- A batch is answered after all of its events have been processed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .challenger_pb2 import Batch, CrossoverEvent, Event, Indicator, ResultQ1, ResultQ2

WINDOW = 5 * 60
NANO = 1_000_000_000
FURTHEST = 9_000_000_000


@dataclass
class Symbol:
    """The state of one symbol: its open window, its averages, and its crossovers from oldest to newest."""

    security: int
    window: int
    at: int
    close: float
    ema_38: float = 0.0
    ema_100: float = 0.0
    crossed: list[tuple[int, int]] = field(default_factory=list)

    def end(self) -> None:
        """Close the open window: update both averages, and record a crossover if there is one."""
        before = self.ema_38, self.ema_100
        self.ema_38 = self.close * (2 / (1 + 38)) + self.ema_38 * (1 - 2 / (1 + 38))
        self.ema_100 = self.close * (2 / (1 + 100)) + self.ema_100 * (1 - 2 / (1 + 100))
        seconds = (self.window + 1) * WINDOW
        if self.ema_38 > self.ema_100 and before[0] <= before[1]:
            self.crossed.append((seconds, CrossoverEvent.Buy))
        elif self.ema_38 < self.ema_100 and before[0] >= before[1]:
            self.crossed.append((seconds, CrossoverEvent.Sell))


def answers(batches: Iterable[Batch], benchmark: int = 0) -> Iterator[tuple[ResultQ1, ResultQ2]]:
    """Yield both answers to each batch, in order."""
    symbols: dict[str, Symbol] = {}
    for batch in batches:
        for event in batch.events:
            take(symbols, event)
        first = ResultQ1(benchmark_id=benchmark, batch_seq_id=batch.seq_id)
        second = ResultQ2(benchmark_id=benchmark, batch_seq_id=batch.seq_id)
        for name in batch.lookup_symbols:
            symbol = symbols.get(name)
            if symbol is None:
                first.indicators.append(Indicator(symbol=name))
                continue
            first.indicators.append(Indicator(symbol=name, ema_38=symbol.ema_38, ema_100=symbol.ema_100))
            for seconds, signal in symbol.crossed[-3:]:
                crossover = CrossoverEvent(symbol=name)
                crossover.ts.seconds = seconds
                crossover.security_type, crossover.signal_type = symbol.security, signal  # type: ignore[assignment]
                second.crossover_events.append(crossover)
        yield first, second


def take(symbols: dict[str, Symbol], event: Event) -> None:
    """Process one event, and update the state of its symbol."""
    price = event.last_trade_price
    if not event.HasField("last_trade") or price == 0 or not math.isfinite(price):
        return
    if abs(event.last_trade.seconds) >= FURTHEST:
        return
    at = event.last_trade.seconds * NANO + event.last_trade.nanos
    window = at // (WINDOW * NANO)
    symbol = symbols.get(event.symbol)
    if symbol is None:
        symbols[event.symbol] = Symbol(event.security_type, window, at, price)
        return
    if window > symbol.window:
        symbol.end()
        symbol.window, symbol.at, symbol.close = window, at, price
    elif window == symbol.window and at >= symbol.at:
        symbol.at, symbol.close = at, price
