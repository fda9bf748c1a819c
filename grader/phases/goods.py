"""Orders that are no blocks: each with its own user and its own items, or sharing one on purpose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..shop import Stock, stock_blocks
from ..shop.routes import middle
from ..shop.stocking import new_items, new_orders, new_users
from ..terms import Entity
from ..wire.jobs import Longs
from .live import Live

SET_UPS, BETWEEN = 3, 1.0
"""How often a phase tries to set up what it cannot do without, and seconds between: a process may just be away."""
AMPLE = 100
"""How many times over an order's user and items could pay for it."""


def full(count: int, value: int) -> Longs:
    """A column of one value."""
    return np.full(count, value, dtype=np.int64)


def among(many: Longs, few: Longs) -> Longs:
    """A few orders evenly among many."""
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
    """Orders of two lines, each with its own user and items; their rows.

    ``credit`` and ``stock``: how many times over there is enough (0: one unit too little). ``same``: both lines
    have the same item. Where stock is short it is short on the first line of one order and the second of the next, as
    what is taken for a line before must be given back; of the same item there is enough for each line by itself.
    ``numbers``: theirs, the phase's next if not given.
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
    """So many times what is needed; 0: one unit too little where it is to be short."""
    return need * times if times else np.where(short, need - 1, need * AMPLE)


def short_items(live: Live, orders: Longs) -> Longs:
    """The item of each order of which there is not enough for it."""
    lines, stock = live.record.lines, live.record.initial(Entity.ITEM, live.counter.now())
    found = []
    for order in orders:
        mine = lines["order"] == order
        items, place = np.unique(lines["item"][mine], return_inverse=True)
        need = np.bincount(place, lines["quantity"][mine])
        found.append(int(items[stock[items] < need][0]))
    return np.array(found, dtype=np.int64)


def crossed(live: Live, phase: str, pairs: int) -> Longs:
    """Pairs of orders with the same two items in opposite order, each order with its own user; their rows."""
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
    """So many blocks, from ``first`` on, with the hot items of a phase; the number of the next.

    Where not one order of them could be set up, others in their place, as everywhere.
    """
    for attempt in range(SET_UPS):
        if attempt:
            live.counter.wait(BETWEEN)
            hot = hot[:0]  # they may be what failed
        stock, hot = stock_blocks(live.counter, phase, live.seed, first, count, hot)
        first += count
        if live.record.orders["ready"][stock.orders].any():
            break
    return stock, hot, first


def ready(live: Live, orders: Longs) -> tuple[Longs, list[bytes]]:
    """Those of the orders whose set-up went well, and the ends of their checkouts' paths."""
    table = live.record.orders
    usable = orders[table["ready"][orders] == 1]
    return usable, [middle(one) for one in table["id"][usable]]
