"""Phase 4: offer stock, and later credit, that suffices for exactly K of the orders.

All orders are checked out at once. After that, every unpaid order is tried again, one at a time, until a pass sells
none. If more than K orders are paid, the system has oversold; if fewer are, it has lost stock or credit. Then a top-up
is made, and the same is repeated.
"""

from __future__ import annotations

import numpy as np

from ..record.notes import Round, Scarcity
from ..shop.stocking import new_items, new_orders, new_users, top_up
from ..terms import Entity
from ..wire.jobs import Longs
from .goods import BETWEEN, SET_UPS, burst, full, own, ready
from .live import Live
from .settle import drain, settle

PHASE = "scarcity"
_MOST, _TIMES = 20, 3
"""The largest K, and the number of orders as a multiple of K."""
_AT_LEAST = 2
"""The minimum number of orders that must be set up, as a multiple of K. Some setup requests may fail."""
_LEAST = 4
"""The smallest K. The top-up is for half of K, which is still more than one order."""
_TRIED = 4 * _TIMES - 5
"""The number of refused orders that are tried again, as a multiple of K: 2 K before the top-up and 1.5 K after it, for
stock and for credit."""
_SHARE = 0.6
"""The share of the phase's time for trying refused orders again."""
_PRICE = 10
_PASSES = 8
"""The maximum number of passes over the unpaid orders. A right system needs two passes, and the second one sells none.
A system that sheds load may sell some in every pass."""


def _enough(live: Live) -> int:
    """Return K. It is smaller for a slow system, because refused orders are tried again one at a time."""
    usable = ready(live, own(live, PHASE, 1))
    if not len(usable):
        return _MOST
    before = live.clock()
    burst(live, PHASE, "how long one takes", usable, connections=1)
    each = _TRIED * max(1e-3, live.clock() - before)
    return int(max(_LEAST, min(_MOST, _SHARE * live.seconds[PHASE] / each)))


def _by_stock(live: Live, enough: int) -> tuple[Longs, Entity, Longs]:
    """Create orders for one item, whose stock suffices for ``enough`` of them.

    Returns the orders, and the entity and the row to top up.
    """
    count = enough * _TIMES
    numbers = live.number(PHASE, count)
    users = new_users(live.counter, PHASE, numbers, full(count, 10 * _PRICE))
    item = new_items(live.counter, PHASE, numbers[:1], full(1, _PRICE), full(1, enough))
    lines = [(np.repeat(item, count), full(count, 1), full(count, _PRICE))]
    return new_orders(live.counter, PHASE, numbers, users, full(count, -1), lines), Entity.ITEM, item


def _by_credit(live: Live, enough: int) -> tuple[Longs, Entity, Longs]:
    """Create orders of one user, whose credit suffices for ``enough`` of them. Returns the same as `_by_stock`."""
    count = enough * _TIMES
    numbers = live.number(PHASE, count)
    user = new_users(live.counter, PHASE, numbers[:1], full(1, enough * _PRICE))
    items = new_items(live.counter, PHASE, numbers, full(count, _PRICE), full(count, 10))
    lines = [(items, full(count, 1), full(count, _PRICE))]
    return new_orders(live.counter, PHASE, numbers, np.repeat(user, count), full(count, -1), lines), Entity.USER, user


def run(live: Live) -> None:
    """Run the phase."""
    enough = _enough(live)
    for by, make in (("stock", _by_stock), ("credit", _by_credit)):
        live.say(f"scarcity: {enough * _TIMES} orders, {by} for {enough}")
        began = live.clock()
        for _ in range(SET_UPS):
            orders, entity, row = make(live, enough)
            usable = ready(live, orders)
            if len(usable) >= _AT_LEAST * enough:
                break
            live.counter.wait(BETWEEN)
        else:
            live.notes(Scarcity).stopped = f"{len(orders) - len(usable)} of {len(orders)} orders could not be set up"
            return
        burst(live, PHASE, f"short of {by}", usable, may_refuse=True)
        if not _sell_out(live, by, usable, enough):
            return
        more = enough // 2
        unit = 1 if entity == Entity.ITEM else _PRICE
        top_up(live.counter, PHASE, entity, row, full(1, more * unit))
        if not live.record.rows(entity)["ready"][row].all():
            continue  # the top-up was not acknowledged
        burst(live, PHASE, f"short of {by}", usable, attempt=2, may_refuse=True)
        if not _sell_out(live, by, usable, enough + more):
            return
        if live.clock() - began > live.seconds[PHASE] / 2:
            enough = max(_LEAST, enough // 4)  # the system has become slower


def _sell_out(live: Live, by: str, orders: Longs, enough: int) -> bool:
    """Try the unpaid orders one at a time until a pass sells none.

    Returns whether the snapshots settled and exactly ``enough`` orders are paid.
    """
    record, before = live.record, -1
    for number in range(_PASSES):
        shot = drain(live, PHASE, f"short of {by}")
        rows, _, paid = shot.read[Entity.ORDER]
        unpaid = orders[np.isin(orders, rows[paid == 0])]
        sold = len(orders) - len(unpaid)
        if sold in (before, len(orders)) or sold > enough:
            break
        before = sold
        usable = ready(live, unpaid)
        burst(live, PHASE, f"short of {by}", usable, connections=1, attempt=3 + number, may_refuse=True)
    good = settle(live, PHASE, f"short of {by}")
    snapshot = len(record.snapshots_taken) - 1
    live.notes(Scarcity).rounds.append(Round(by, enough, (int(orders[0]), int(orders[-1])), snapshot))
    return good and sold == enough
