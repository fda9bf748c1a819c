"""Phase 3: check out different orders at a steady rate, in an open loop.

First, a probe sends closed loops of growing size until one of them lasts a second. It measures the rate that the system
sustains, and the cost of setup and reads. Then orders are sent in bursts of one block, so that even at a low rate,
orders with the same user or item are in progress at the same time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..orders import BLOCK
from ..shop import Stock, Wave, snapshot
from ..shop.routes import middle
from ..terms import SHED, SHED_AGAIN, Kind
from ..wire.jobs import Longs
from .goods import stocked
from .live import Live
from .settle import settle

PHASE = "load"
OPEN = 1024
"""The maximum number of open connections."""
_FEW = 8
"""The number of connections for sending shed requests again."""
_SHARE = 0.4
"""The share of the phase's time for setup and two snapshots."""


def bursts(count: int, rate: float) -> Longs:
    """Return the due times of ``count`` orders in nanoseconds: one block at a time, ``rate`` orders per second."""
    return (np.arange(count, dtype=np.int64) // BLOCK * (BLOCK * 1e9 / rate)).astype(np.int64)


def checkouts(live: Live, stock: Stock) -> tuple[Longs, list[bytes]]:
    """Return the ready orders of some blocks, and the last part of the path of each checkout."""
    table = live.record.orders
    ready = stock.orders[table["ready"][stock.orders] == 1]
    return ready, [middle(one) for one in table["id"][ready]]


def again(live: Live, status: NDArray[np.int16], shed: Longs) -> Longs:
    """Return the shed requests to send again.

    Some are never sent again. If the system executed a checkout although it answered 429, the audit notices this only
    if no later checkout pays the order. These are half of the orders that the required success rate does not need.
    """
    done = int(((status >= 200) & (status < 300)).sum())
    spare = int(done + len(shed) - live.limits.success * len(status)) // 2
    return np.sort(np.random.default_rng([live.seed, len(shed)]).permutation(shed)[max(0, spare) :])


def run(live: Live) -> None:
    """Run the phase."""
    counter, notes, seconds = live.counter, live.notes(PHASE), live.seconds[PHASE]
    began, blocks, hot = live.clock(), 0, np.zeros(0, dtype=np.int64)
    live.say("load: measuring the sustained rate")
    size, sustained, cost = 2, 0.0, 1e-3
    while True:
        stock, hot, blocks = stocked(live, PHASE, blocks, size, hot)
        subjects, middles = checkouts(live, stock)
        if not len(subjects):
            notes["stopped"] = "no order could be set up"
            break
        before = live.clock()
        answers = counter.insist(Wave(PHASE, "probe", Kind.CHECKOUT, subjects, middles), 2 * live.limits.probe)
        took = live.clock() - before
        done = int(((answers.status >= 200) & (answers.status < 300)).sum())
        sustained, cost = done / took, stock.seconds / len(stock.orders)
        spent = live.clock() - began
        if took >= 1.0 or spent + 2 * (took + stock.seconds) > seconds * 0.3 or spent > 4 * live.limits.probe:
            break
        size *= 2
    before = live.clock()
    snapshot(counter, PHASE, "how long reading takes")
    cost += 2 * (live.clock() - before) / max(1, len(live.record.orders))
    top = float(live.limits.top_rate)
    # If no checkout was acknowledged, any rate shows the failure soon.
    rate = float(live.rate) or (max(1.0, min(top, sustained / 2)) if sustained else float(BLOCK))
    left = max(3.0, seconds - (live.clock() - began))
    # The time for sending and the time for setup and reads both limit the number of orders.
    least = 2 if rate * left > BLOCK else 1
    count = max(least, int(min(rate * (1 - _SHARE) * left, _SHARE * left / cost)) // BLOCK)
    live.record.about["probe"] = {"sustained_per_s": round(sustained, 1), "order_s": round(cost, 6)}
    notes["rate"], notes["orders"] = round(rate, 1), count * BLOCK
    if "stopped" not in notes:
        live.say(f"load: setting up {count * BLOCK:,} orders")
        stock, hot, _ = stocked(live, PHASE, blocks, count, hot)
        subjects, middles = checkouts(live, stock)
        live.say(f"load: {len(subjects):,} checkouts at {rate:,.0f} per second")
        due = bursts(len(subjects), rate)
        answers = counter.send(Wave(PHASE, "load", Kind.CHECKOUT, subjects, middles, due=due, connections=OPEN))
        shed = np.flatnonzero(np.isin(answers.status, SHED))
        if len(shed):
            shed = again(live, answers.status, shed)
            live.say(f"load: sending {len(shed):,} shed requests again")
            ends = [middles[at] for at in shed]
            wave = Wave(PHASE, SHED_AGAIN, Kind.CHECKOUT, subjects[shed], ends, connections=_FEW, attempt=2)
            counter.insist(wave, live.limits.convergence)
    live.say("load: reading everything back")
    settle(live, PHASE, "audit")
