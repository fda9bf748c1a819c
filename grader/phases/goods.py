"""Orders that are no blocks: each with its own user and its own items, or sharing one on purpose."""

from __future__ import annotations

import numpy as np

from ..shop.routes import middle
from ..shop.stocking import new_items, new_orders, new_users
from ..wire.jobs import Longs
from .live import Live

AMPLE = 100
"""How many times over an order's user and items could pay for it."""


def full(count: int, value: int) -> Longs:
    """A column of one value."""
    return np.full(count, value, dtype=np.int64)


def own(live: Live, phase: str, count: int, *, credit: int = AMPLE, stock: int = AMPLE, same: bool = False) -> Longs:
    """Orders of two lines, each with its own user and items; their rows.

    ``credit`` and ``stock``: how many times over there is enough (0: one unit too little). ``same``: both lines
    have the same item.
    """
    rng = np.random.default_rng([live.seed, len(live.record.orders)])
    first, second = rng.integers(1, 6, count), rng.integers(1, 6, count)
    price = rng.integers(2, 50, count)
    cost = (first + second) * price
    numbers = live.number(phase, count)
    users = new_users(live.counter, phase, numbers, cost * credit if credit else cost - 1)
    need = first + second if same else first
    items = new_items(live.counter, phase, numbers, price, need * stock if stock else need - 1)
    others = items if same else new_items(live.counter, phase, numbers, price, second * AMPLE)
    lines = [(items, first, price), (others, second, price)]
    return new_orders(live.counter, phase, numbers, users, full(count, -1), lines)


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


def ready(live: Live, orders: Longs) -> tuple[Longs, list[bytes]]:
    """Those of the orders whose set-up went well, and the ends of their checkouts' paths."""
    table = live.record.orders
    usable = orders[table["ready"][orders] == 1]
    return usable, [middle(one) for one in table["id"][usable]]
