"""Phase 6: different orders at rates that rise until the system cannot follow, and then narrow down the limit.

A rate is held if 99% are done, with a p99 of at most a second from the due time. The judging half decides that from the
history; here it only selects the next rate. One audit follows all steps.
"""

from __future__ import annotations

import numpy as np

from ..orders import BLOCK
from ..shop import Wave
from ..terms import GOODPUT, SLOWEST_MS, SPEED_ENDED, Kind
from .goods import stocked
from .live import Live
from .load import OPEN, bursts, checkouts
from .settle import settle

PHASE = "speed"
_FIRST, _FACTOR = 100.0, 2.5
"""Checkouts a second of the first step (a fourth of the probe's rate if that is more), and the factor between steps.
10,000 are five steps away."""
_FEW = 4
"""The fewest checkouts of a step."""
_NEAR = 1.2
"""The search ends when a held rate and one that was not differ by at most this factor."""
_STEP = {True: 1.0, False: 4.0}
"""Seconds of a step in a quick run and in a full one."""
_SHARE = 0.75
"""The share of the phase's time for the steps. The rest is for reading everything back."""


def run(live: Live) -> None:
    """Run the phase."""
    counter, notes, seconds = live.counter, live.notes(PHASE), live.seconds[PHASE]
    began, first, hot = live.clock(), 0, np.zeros(0, dtype=np.int64)
    known = float(live.record.about.get("probe", {}).get("sustained_per_s", 0.0))
    rate, cost, held, lost = max(_FIRST, known / 4), 0.0, 0.0, np.inf
    if known:
        # For a slow system twice its rate is too much already, and ends sooner than more.
        rate = min(rate, 2 * known)
    steps = notes.setdefault("steps", [])
    while True:
        step, left = _STEP[seconds < 30], seconds * _SHARE - (live.clock() - began)
        # The highest rate whose setup and step fit into the time that is left.
        most = (left / step - 1) / cost if steps else rate
        if most < rate and most < held * _NEAR:
            notes["ended"] = "no time was left for another step"
            break
        rate = min(rate, most)
        count = max(2 if rate > BLOCK else 1, round(rate * step / BLOCK))
        stock, hot, first = stocked(live, PHASE, first, count, hot)
        cost = stock.seconds / len(stock.orders)
        subjects, middles = checkouts(live, stock)
        if not len(subjects):
            notes["stopped"] = "no order could be set up"
            break
        live.say(f"speed: {rate:,.0f} a second")
        due = bursts(len(subjects), rate)
        if rate < BLOCK:
            # A whole block at once would be more than a second of load.
            few = max(_FEW, round(rate * step))
            subjects, middles = subjects[:few], middles[:few]
            due = (np.arange(len(subjects)) * 1e9 / rate).astype(np.int64)
        before = live.supervisor.cpu() if live.supervisor else 0.0
        answers = counter.send(
            Wave(PHASE, f"step {rate:.0f}", Kind.CHECKOUT, subjects, middles, due=due, connections=OPEN)
        )
        after = live.supervisor.cpu() if live.supervisor else 0.0
        took = max(1e-3, (int(answers.done.max()) - int(answers.due[0])) / 1e9)
        steps.append(
            {"wave": len(live.record.waves) - 1, "rate": round(rate), "cores": round((after - before) / took, 2)}
        )
        good = (answers.status >= 200) & (answers.status < 300)
        p99 = float(np.percentile((answers.done - answers.due)[good] / 1e6, 99)) if good.any() else np.inf
        if good.mean() >= GOODPUT and p99 <= SLOWEST_MS:
            held = max(held, rate)
        else:
            lost = min(lost, rate)
        if lost / max(held, 1.0) <= _NEAR or lost < 2:
            notes["ended"] = SPEED_ENDED
            break
        rate = held * _FACTOR if np.isinf(lost) else lost / 3 if not held else float(np.sqrt(held * lost))
    live.say("speed: reading everything back")
    settle(live, PHASE, "audit")
