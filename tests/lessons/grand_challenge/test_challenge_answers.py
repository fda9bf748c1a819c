"""The single pass against values computed by hand, and the market against the single pass."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ticksdrawn import WINDOW, expected, streams

from sharedstate_lite.errors import Error
from sharedstate_lite.lessons.grand_challenge import Market
from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import Batch
from sharedstate_lite.lessons.grand_challenge.rows import results, rows, slices


def told(*trades: tuple[float, float]) -> tuple[float, float, list[tuple[int, int]]]:
    """The averages and crossovers of one symbol after each trade (seconds, price), one in each batch."""
    batches = []
    for number, (at, price) in enumerate(trades):
        batch = Batch(seq_id=number, lookup_symbols=["A"])
        event = batch.events.add(symbol="A", last_trade_price=price)
        event.last_trade.seconds, event.last_trade.nanos = divmod(round(at * 10**9), 10**9)
        batches.append(batch)
    first, second = expected(batches)[-1]
    (indicator,) = first.indicators
    return indicator.ema_38, indicator.ema_100, [(c.ts.seconds, c.signal_type) for c in second.crossover_events]


BUY, SELL = 0, 1


@pytest.mark.parametrize(
    ("trades", "close"),
    [
        ([(0, 100.0)], None),
        ([(0, 100.0), (299.9, 200.0)], None),
        ([(0, 100.0), (300, 200.0)], 100.0),
        ([(0, 100.0), (299, 200.0), (300, 1.0)], 200.0),
        ([(299, 200.0), (0, 100.0), (300, 1.0)], 200.0),
        ([(5, 200.0), (5, 100.0), (300, 1.0)], 100.0),
        ([(5, 200.0), (9, 0.0), (300, 1.0)], 200.0),
        ([(0, 200.0), (3000, 1.0), (600, 999.0)], 200.0),
    ],
    ids=[
        "an open window is not asked",
        "a window ends before its fifth minute",
        "the next window's first instant closes it",
        "the last trade counts",
        "the last by its timestamp",
        "of equal timestamps the one that came last",
        "an event without a price is no trade",
        "windows without trades are passed over, and one that was is closed",
    ],
)
def test_the_first_window(trades: list[tuple[float, float]], close: float | None) -> None:
    """One closed window gives close * 2/39 and close * 2/101, and a Buy at its end; before, both are 0."""
    ema_38, ema_100, crossed = told(*trades)
    if close is None:
        assert (ema_38, ema_100, crossed) == (0.0, 0.0, [])
        return
    assert (ema_38, ema_100) == (pytest.approx(close * 2 / 39), pytest.approx(close * 2 / 101))
    assert crossed == [(WINDOW, BUY)]


def test_the_second_window_counts_on() -> None:
    """EMA = close * 2/(1+j) + previous EMA * (1 - 2/(1+j))."""
    ema_38, ema_100, _ = told((0, 39.0), (300, 78.0), (600, 1.0))
    assert ema_38 == pytest.approx(4.0 + 2.0 * 37 / 39)
    assert ema_100 == pytest.approx(78 * 2 / 101 + 39 * 2 / 101 * 99 / 101)


def test_the_last_three_crossovers_are_told() -> None:
    """Sell when EMA 38 falls below EMA 100, Buy when it rises above; only the last three are kept."""
    prices = [10.0] + [-10.0] * 3 + [10.0] * 3 + [-30.0] * 3 + [1.0]
    _, _, crossed = told(*((WINDOW * n, price) for n, price in enumerate(prices)))
    ends, signals = zip(*crossed, strict=True)
    assert signals == (SELL, BUY, SELL)
    assert list(ends) == sorted(ends) and ends[0] > WINDOW


def by_market(batches: list[Batch], parts: int, lost: int) -> Any:
    """The market's answers with the symbols in parts; after batch ``lost`` a new market continues from the state."""
    markets = [Market() for _ in range(parts)]
    out = []
    for number, batch in enumerate(batches):
        cut = slices(rows(batch), parts)
        table = pa.concat_tables(market.step(part) for market, part in zip(markets, cut, strict=True))
        out.append(results(0, number, table.to_pylist()))
        if number == lost:
            markets = [Market(market.state()) for market in markets]
    return out


@given(batches=streams, parts=st.integers(1, 3), lost=st.integers(0, 7))
def test_the_market_equals_the_single_pass(batches: list[Batch], parts: int, lost: int) -> None:
    """The market equals the single pass for any batches, any number of parts, and a restart from its state."""
    assert by_market(batches, parts, lost) == expected(batches)


@given(batches=streams)
def test_several_batches_at_once_are_several_batches(batches: list[Batch]) -> None:
    """One step over all batches gives the answers of one step for each."""
    one, all_ = Market(), Market()
    each = pa.concat_tables(one.step(rows(batch)) for batch in batches)
    assert all_.step(pa.concat_tables(rows(batch) for batch in batches)) == each
    assert (all_.dropped, all_.empty, all_.state()) == (one.dropped, one.empty, one.state())


def test_made_trades_drop_and_cross(handed_out: list[Batch]) -> None:
    """The trades of these tests include late ones, some without a price, Buys and Sells."""
    market = Market()
    for batch in handed_out:
        market.step(rows(batch))
    signals = {c.signal_type for _, second in expected(handed_out) for c in second.crossover_events}
    assert market.dropped > 100 and market.empty > 100 and signals == {BUY, SELL}
    assert all(5 <= len(batch.lookup_symbols) <= 19 for batch in handed_out)


def test_a_market_takes_its_own_state_only() -> None:
    """A market refuses a table that is not a result of state()."""
    with pytest.raises(Error, match="columns of state"):
        Market(pa.table({"a": [1]}))
