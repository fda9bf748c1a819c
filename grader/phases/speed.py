"""Phase 6: check out different orders at rising rates until the system cannot keep up, then narrow down the limit.

A rate is held if 99% of the checkouts are done, with a p99 latency of at most one second from the due time. The judging
half decides this from the history. This phase checks it only to select the next rate. One audit follows all steps.
"""

from __future__ import annotations

import numpy as np

from ..orders import BLOCK
from ..record.notes import Speed, Step
from ..terms import GOODPUT, SLOWEST_MS, done
from .goods import burst, ready, stocked
from .live import Live
from .load import bursts
from .settle import settle

PHASE = "speed"
_FIRST, _FACTOR = 100.0, 2.5
"""Checkouts per second in the first step, and the factor between steps. The first step uses a quarter of the probe's
rate if that is more. A rate of 10,000 is five steps away from 100."""
_FEW = 4
"""The minimum number of checkouts in a step."""
_NEAR = 1.2
"""The search ends when the highest rate that was held and the lowest that was not differ by at most this factor."""
_STEP = {True: 1.0, False: 4.0}
"""The duration of a step in seconds, in a quick run (True) and in a full run (False)."""
_SHARE = 0.75
"""The share of the phase's time for the steps. The rest is for reading everything back."""


def run(live: Live) -> None:
    """Run the phase."""
    notes, seconds = live.notes(Speed), live.seconds[PHASE]
    began, first, hot = live.clock(), 0, np.zeros(0, dtype=np.int64)
    known = float(live.record.about.get("probe", {}).get("sustained_per_s", 0.0))
    rate, cost, held, lost = max(_FIRST, known / 4), 0.0, 0.0, np.inf
    if known:
        # Twice its own rate is already too much for a slow system, and such a step ends sooner than a faster one.
        rate = min(rate, 2 * known)
    while True:
        step, left = _STEP[seconds < 30], seconds * _SHARE - (live.clock() - began)
        # The highest rate for which both setup and step fit into the remaining time.
        most = (left / step - 1) / cost if notes.steps else rate
        if most < rate and most < held * _NEAR:
            notes.ended = "no time was left for another step"
            break
        rate = min(rate, most)
        count = max(2 if rate > BLOCK else 1, round(rate * step / BLOCK))
        stock, hot, first = stocked(live, PHASE, first, count, hot)
        cost = stock.seconds / len(stock.orders)
        orders = ready(live, stock.orders)
        if not len(orders):
            notes.stopped = "no order could be set up"
            break
        live.say(f"speed: {rate:,.0f} checkouts per second")
        due = bursts(len(orders), rate)
        if rate < BLOCK:
            # One block at once would be more than a second of load.
            orders = orders[: max(_FEW, round(rate * step))]
            due = (np.arange(len(orders)) * 1e9 / rate).astype(np.int64)
        before = live.supervisor.cpu() if live.supervisor else 0.0
        answers = burst(live, PHASE, f"step {rate:.0f}", orders, due=due)
        after = live.supervisor.cpu() if live.supervisor else 0.0
        took = max(1e-3, (int(answers.done.max()) - int(answers.due[0])) / 1e9)
        notes.steps.append(Step(len(live.record.waves) - 1, round(rate), round((after - before) / took, 2)))
        good = done(answers.status)
        p99 = float(np.percentile((answers.done - answers.due)[good] / 1e6, 99)) if good.any() else np.inf
        if good.mean() >= GOODPUT and p99 <= SLOWEST_MS:
            held = max(held, rate)
        else:
            lost = min(lost, rate)
        if lost / max(held, 1.0) <= _NEAR or lost < 2:
            notes.ended, notes.limit_found = "a rate that is not held was found", True
            break
        rate = held * _FACTOR if np.isinf(lost) else lost / 3 if not held else float(np.sqrt(held * lost))
    live.say("speed: reading everything back")
    settle(live, PHASE, "audit")
