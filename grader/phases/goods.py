"""Set up orders that have their own users and items, crossed pairs of orders, or blocks of orders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..shop import Stock, Wave, stock_blocks
from ..shop.routes import middle
from ..shop.stocking import new_items, new_orders, new_users
from ..terms import Entity, Kind
from ..wire.jobs import Longs, Result
from .live import Live

SET_UPS, BETWEEN = 3, 1.0
"""How often a phase tries to set up its orders, and the seconds between tries, because a process may be restarting."""
AMPLE = 100
"""Ample credit or stock, as a multiple of what an order needs."""
OPEN = 1024
"""The maximum number of open connections."""


def full(count: int, value: int) -> Longs:
    """Return a column with ``count`` copies of a value."""
    return np.full(count, value, dtype=np.int64)


def among(many: Longs, few: Longs) -> Longs:
    """Insert a few orders among many, evenly spaced."""
    return np.insert(many, np.arange(len(few)) * len(many) // max(1, len(few)), few)


def own(
    live: Live,
    phase: str,
    count: int,
    *,
    credit: int = AMPLE,
    stock: int = AMPLE,
    same: bool = False,
    numbers: Longs | None = None,
) -> Longs:
    """Create orders with two lines each. Every order has its own user and items. Returns the rows of the orders.

    ``credit``, ``stock``: the amount as a multiple of what the order needs; 0: one unit less than it needs. ``same``:
    both lines have the same item, whose stock suffices for either line even if it is short. Otherwise, a short stock
    alternates between the first and the second line, so that a system must return the stock of an earlier line.
    ``numbers``: the numbers of the orders; None: the next numbers of the phase.
    """
    rng = np.random.default_rng([live.seed, len(live.record.orders)])
    first, second = rng.integers(1, 6, count), rng.integers(1, 6, count)
    price = rng.integers(2, 50, count)
    cost = (first + second) * price
    numbers = live.number(phase, count) if numbers is None else numbers
    users = new_users(live.counter, phase, numbers, cost * credit if credit else cost - 1)
    short = np.zeros(count, dtype=np.int64) if same else np.arange(count, dtype=np.int64) % 2
    need = first + second if same else first
    items = new_items(live.counter, phase, numbers, price, _stocked(need, stock, short == 0))
    others = items if same else new_items(live.counter, phase, numbers, price, _stocked(second, stock, short == 1))
    lines = [(items, first, price), (others, second, price)]
    return new_orders(live.counter, phase, numbers, users, full(count, -1), lines)


def _stocked(need: Longs, times: int, short: NDArray[np.bool_]) -> Longs:
    """Return ``times`` times the need as stock.

    If ``times`` is 0, the stock is one unit less than the need where ``short`` is true, and ample elsewhere.
    """
    return need * times if times else np.where(short, need - 1, need * AMPLE)


def short_items(live: Live, orders: Longs) -> Longs:
    """Return the row of the item whose stock is too small, for each order."""
    lines, stock = live.record.lines, live.record.initial(Entity.ITEM, live.counter.now())
    short = []
    for order in orders:
        mine = lines["order"] == order
        items, place = np.unique(lines["item"][mine], return_inverse=True)
        need = np.bincount(place, lines["quantity"][mine])
        short.append(int(items[stock[items] < need][0]))
    return np.array(short, dtype=np.int64)


def crossed(live: Live, phase: str, pairs: int) -> Longs:
    """Create pairs of orders with the same two items in opposite order, and a user for each. Returns their rows."""
    count = 2 * pairs
    numbers = live.number(phase, count)
    quantity, price = full(count, 1), full(count, 7)
    users = new_users(live.counter, phase, numbers, full(count, 14 * AMPLE))
    items = new_items(live.counter, phase, numbers, price, full(count, 2 * AMPLE)).reshape(pairs, 2)
    lines = [(np.repeat(items, 2, axis=0)[np.arange(count), side], quantity, price) for side in _sides(pairs)]
    return new_orders(live.counter, phase, numbers, users, full(count, -1), lines)


def _sides(pairs: int) -> tuple[Longs, Longs]:
    side = np.tile(np.array([0, 1], dtype=np.int64), pairs)
    return side, 1 - side


def stocked(live: Live, phase: str, first: int, count: int, hot: Longs) -> tuple[Stock, Longs, int]:
    """Create ``count`` blocks, starting with block ``first``. If no order could be set up, try the next blocks.

    Returns the blocks, the hot items of the phase, and the number of the next block.
    """
    for attempt in range(SET_UPS):
        if attempt:
            live.counter.wait(BETWEEN)
            hot = hot[:0]  # creating the hot items may have failed
        stock, hot = stock_blocks(live.counter, phase, live.seed, first, count, hot)
        first += count
        if live.record.orders["ready"][stock.orders].any():
            break
    return stock, hot, first


def ready(live: Live, orders: Longs) -> Longs:
    """Return those of the orders that are ready."""
    return np.asarray(orders[live.record.orders["ready"][orders] == 1])


def checkouts(
    live: Live, phase: str, name: str, orders: Longs, due: Longs | None = None, connections: int = 0, **flags: Any
) -> Wave:
    """Return a wave that checks out orders: at the times ``due``, or all at once.

    ``connections``: send them as a closed loop over so many connections; 0: do not. ``flags``: those of `Wave`.
    """
    ends = [middle(order) for order in live.record.orders["id"][orders]]
    if due is None and not connections:
        due = np.zeros(len(orders), dtype=np.int64)
    return Wave(phase, name, Kind.CHECKOUT, orders, ends, due, connections or OPEN, **flags)


def burst(live: Live, phase: str, name: str, orders: Longs, **how: Any) -> Result:
    """Check out orders, and wait for the answers. ``how``: as for `checkouts`."""
    return live.counter.send(checkouts(live, phase, name, orders, **how))
