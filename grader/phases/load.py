"""Phase 3: check out different orders at a steady rate, in an open loop.

First, a probe sends closed loops of growing size until one of them lasts a second. It measures the rate that the system
sustains, and the cost of setup and reads. Then orders are sent in bursts of one block, so that even at a low rate,
orders with the same user or item are in progress at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..orders import BLOCK
from ..record.notes import Load
from ..shop import snapshot
from ..shop.counter import CLOSED
from ..terms import SHED, done
from ..wire.jobs import Longs
from .goods import burst, checkouts, ready, stocked
from .live import Live
from .settle import settle

PHASE = "load"
_FEW = 8
"""The number of connections for sending shed requests again."""
_SHARE = 0.4
"""The share of the phase's time for setup and two snapshots."""


def bursts(count: int, rate: float) -> Longs:
    """Return the due times of ``count`` orders in nanoseconds: one block at a time, ``rate`` orders per second."""
    return (np.arange(count, dtype=np.int64) // BLOCK * (BLOCK * 1e9 / rate)).astype(np.int64)


def again(live: Live, status: NDArray[np.int16], shed: Longs) -> Longs:
    """Return the shed requests to send again.

    Some are never sent again. If the system executed a checkout although it answered 429, the audit notices this only
    if no later checkout pays the order. These are half of the orders that the required success rate does not need.
    """
    spare = int(done(status).sum() + len(shed) - live.limits.success * len(status)) // 2
    return np.sort(np.random.default_rng([live.seed, len(shed)]).permutation(shed)[max(0, spare) :])


@dataclass
class _Probe:
    """What the probe has found: the next block, the hot items, the sustained rate, and the seconds of an order."""

    blocks: int
    hot: Longs
    sustained: float = 0.0
    cost: float = 1e-3


def run(live: Live) -> None:
    """Run the phase."""
    notes, seconds = live.notes(Load), live.seconds[PHASE]
    began = live.clock()
    probe = _probe(live, seconds * 0.3)
    # If no checkout was acknowledged, any rate shows the failure soon.
    top, sustained = float(live.limits.top_rate), probe.sustained
    rate = float(live.rate) or (max(1.0, min(top, sustained / 2)) if sustained else float(BLOCK))
    left = max(3.0, seconds - (live.clock() - began))
    # The time for sending and the time for setup and reads both limit the number of orders.
    least = 2 if rate * left > BLOCK else 1
    count = max(least, int(min(rate * (1 - _SHARE) * left, _SHARE * left / probe.cost)) // BLOCK)
    live.record.about["probe"] = {"sustained_per_s": round(sustained, 1), "order_s": round(probe.cost, 6)}
    notes.rate, notes.orders = round(rate, 1), count * BLOCK
    if not notes.stopped:
        _send(live, probe, count, rate)
    live.say("load: reading everything back")
    settle(live, PHASE, "audit")


def _probe(live: Live, most: float) -> _Probe:
    """Measure the sustained rate by closed loops of growing size, in about ``most`` seconds."""
    live.say("load: measuring the sustained rate")
    began, size, probe = live.clock(), 2, _Probe(0, np.zeros(0, dtype=np.int64))
    while True:
        stock, probe.hot, probe.blocks = stocked(live, PHASE, probe.blocks, size, probe.hot)
        orders = ready(live, stock.orders)
        if not len(orders):
            live.notes(Load).stopped = "no order could be set up"
            break
        before = live.clock()
        wave = checkouts(live, PHASE, "probe", orders, connections=CLOSED, counts=False)
        answers = live.counter.insist(wave, 2 * live.limits.probe)
        took = live.clock() - before
        probe.sustained = int(done(answers.status).sum()) / took
        probe.cost = stock.seconds / len(stock.orders)
        spent = live.clock() - began
        if took >= 1.0 or spent + 2 * (took + stock.seconds) > most or spent > 4 * live.limits.probe:
            break
        size *= 2
    before = live.clock()
    snapshot(live.counter, PHASE, "how long reading takes")
    probe.cost += 2 * (live.clock() - before) / max(1, len(live.record.orders))
    return probe


def _send(live: Live, probe: _Probe, count: int, rate: float) -> None:
    """Send the checkouts of ``count`` blocks at a rate, and most of those that are shed again."""
    live.say(f"load: setting up {count * BLOCK:,} orders")
    stock, _, _ = stocked(live, PHASE, probe.blocks, count, probe.hot)
    orders = ready(live, stock.orders)
    live.say(f"load: {len(orders):,} checkouts at {rate:,.0f} per second")
    answers = burst(live, PHASE, "load", orders, due=bursts(len(orders), rate))
    shed = np.flatnonzero(np.isin(answers.status, SHED))
    if len(shed):
        shed = again(live, answers.status, shed)
        live.say(f"load: sending {len(shed):,} shed requests again")
        how: dict[str, Any] = {"connections": _FEW, "attempt": 2, "counts": False, "again": True}
        live.counter.insist(checkouts(live, PHASE, "what was shed", orders[shed], **how), live.limits.convergence)
