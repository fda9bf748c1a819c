"""Phase 2: repeat checkouts concurrently and later, retry refused orders after a top-up, and top up during checkouts.

Every order has its own user and items, so a wrong balance identifies one order. Only the orders of a crossed pair share
their two items. Before the top-ups, the phase waits for a clean audit, because a top-up could hide an earlier effect.
At the end of the run, all paid orders are checked out again.
"""

from __future__ import annotations

import numpy as np

from ..audit import OK, outcomes
from ..shop import Wave
from ..shop.routes import middle
from ..shop.stocking import top_up, top_up_at_once
from ..terms import Entity, Kind
from ..wire.jobs import Longs
from .goods import BETWEEN, OPEN, SET_UPS, burst, crossed, full, own, ready, short_items
from .live import Live
from .settle import settle, still_clean

PHASE = "duplicates"
AT_ONCE = 40
"""Concurrent checkouts of one order."""
_SHARE = 0.35
"""The share of the phase's time for the setup. The concurrent checkouts get the same share."""
_LEAST, _LEAST_REFUSED, _MOST = 2, 4, 24
"""The minimum number of orders of each kind, the minimum of the kinds that are refused first, and the maximum of all
kinds. Orders that are refused first reveal answers that are cached for too long, so their minimum is higher."""
_GIFTS = 3
"""The number of top-ups of each user and each item during a checkout."""
_LEFT = 4
"""One in this many refused orders is not sent again after its top-up. It must stay unpaid."""


def _send(
    live: Live, name: str, orders: Longs, times: int, attempt: int, gap: int = 0, may_refuse: bool = False
) -> None:
    """Send each order's checkout ``times`` times concurrently, with ``gap`` nanoseconds between orders."""
    usable = ready(live, orders)
    if len(usable):
        due = np.repeat(np.arange(len(usable), dtype=np.int64) * gap, times)
        burst(live, PHASE, name, np.repeat(usable, times), due=due, attempt=attempt, may_refuse=may_refuse)


def _topped_up_meanwhile(live: Live, orders: Longs) -> None:
    """Check out orders while their users and items are topped up. Neither change may overwrite the other."""
    record, lines = live.record, live.record.lines
    kinds, subjects, middles = list[Kind](), list[int](), list[bytes]()
    for order in ready(live, orders).tolist():
        gifts = [(Kind.ADD_FUNDS, int(record.orders["user"][order]), "users")]
        gifts += [(Kind.ADD_STOCK, int(item), "items") for item in lines["item"][lines["order"] == order]]
        for turn in range(_GIFTS):
            for gift, row, table in gifts:
                kinds.append(gift)
                subjects.append(row)
                middles.append(middle(record.tables[table]["id"][row], 1))
            if turn == _GIFTS // 2:
                kinds.append(Kind.CHECKOUT)
                subjects.append(order)
                middles.append(middle(record.orders["id"][order]))
    if not kinds:
        return
    kind, subject = np.array(kinds, dtype=np.int64), np.array(subjects, dtype=np.int64)
    none = np.zeros(len(kind), dtype=np.int64)
    name = "while they are topped up"
    wave = Wave(PHASE, name, Kind.CHECKOUT, subject, middles, due=none, connections=OPEN, kinds=kind)
    top_up_at_once(live.counter, wave, full(len(kind), 1))


def run(live: Live) -> None:
    """Run the phase."""
    live.say("duplicates: setting up orders")
    live.at_the_end.insert(0, lambda: once_more(live))  # before the contract's reads
    notes = live.about(PHASE)
    for _ in range(SET_UPS):
        began = live.clock()
        many = ready(live, own(live, PHASE, 8))
        if len(many):
            break
        live.counter.wait(BETWEEN)
    else:
        notes.orders, notes.stopped = 0, "no order could be set up"
        return
    each = max(1e-4, (live.clock() - began) / 8)
    live.say(f"duplicates: {AT_ONCE} concurrent checkouts of one order")
    began = live.clock()
    _send(live, "at once", many[:1], AT_ONCE, 1)
    took = max(1e-4, (live.clock() - began) / AT_ONCE)
    # A slow system gets fewer orders. There are seven kinds, and most orders are sent ten times.
    most = int(_SHARE * live.seconds[PHASE] / max(each, 10 * took) / 7)
    size = max(_LEAST, min(_MOST, most))
    many = many[: 1 + min(len(many) - 1, int(_SHARE * live.seconds[PHASE] / took / AT_ONCE))]
    late, twice = own(live, PHASE, size), own(live, PHASE, size, same=True)
    refused = max(_LEAST_REFUSED, size)
    poor, scarce = own(live, PHASE, refused, credit=0), own(live, PHASE, refused, stock=0)
    scarce = np.concatenate([scarce, own(live, PHASE, size, stock=0, same=True)])
    pairs, rising = crossed(live, PHASE, size // 2), own(live, PHASE, size)
    notes.orders = int(sum(map(len, (many, late, twice, poor, scarce, pairs, rising))))
    _send(live, "at once", many[1:], AT_ONCE, 1)
    _send(live, "crossed", pairs, 2, 1)
    _topped_up_meanwhile(live, rising)
    _send(live, "first", np.concatenate([late, twice]), 1, 1, gap=2_000_000)
    _send(live, "short", np.concatenate([poor, scarce]), 2, 1, gap=2_000_000, may_refuse=True)
    _send(live, "again", np.concatenate([late, twice]), 3, 2)
    live.say("duplicates: audit before the top-ups")
    if not settle(live, PHASE, "audit before top-ups"):
        return
    table = live.record.orders
    poor, scarce = ready(live, poor), ready(live, scarce)
    top_up(live.counter, PHASE, Entity.USER, table["user"][poor], table["cost"][poor])
    items = short_items(live, scarce)
    top_up(live.counter, PHASE, Entity.ITEM, items, np.full(len(items), 10, dtype=np.int64))
    # If a top-up was not acknowledged, the order may be refused again.
    poor = poor[live.record.users["ready"][table["user"][poor]] == 1]
    scarce = scarce[live.record.items["ready"][items] == 1]
    live.say("duplicates: retrying refused orders and repeating paid ones")
    # Some orders are not sent again, so they must stay unpaid.
    again = [orders[np.arange(len(orders)) % _LEFT != _LEFT - 1] for orders in (poor, scarce)]
    _send(live, "after top-up", np.concatenate(again), 4, 2)
    _send(live, "late", np.concatenate([many, late, pairs]), 2, 3)
    settle(live, PHASE, "audit")


def once_more(live: Live) -> None:
    """Check out all paid orders again at the end of the run. A system that no longer remembers them charges again.

    Does nothing unless the phase has settled and a new snapshot is clean. The phase is then judged by the snapshots
    after these checkouts.
    """
    taken = [shot for shot in live.record.snapshots_taken if shot["phase"] == PHASE]
    if not taken or not taken[-1]["accepted"] or not still_clean(live, PHASE):
        return
    live.say("duplicates: checking out all paid orders again")
    record = live.record
    sent = record.checkouts()
    done = outcomes(len(record.orders), record.history["subject"][sent], record.history["status"][sent]) == OK
    mine = record.orders["phase"] == PHASE
    _send(live, "at the end", np.flatnonzero(done & mine).astype(np.int64), 1, 4)
    settle(live, PHASE, "audit at the end")
