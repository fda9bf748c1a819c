"""Create users, items and orders for a phase. Only those whose requests were all answered 2xx are used.

The record stores the acknowledged amounts, never amounts that were read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..orders import BLOCK, COLD_PRICE, HOT_ITEMS, HOT_PRICE, SIDE, Blocks
from ..orders.blocks import CREDIT, HOT_MOST, MOST, STOCK
from ..terms import NEVER_WRITTEN, RUNS, Entity, Kind
from ..wire.jobs import Longs, Result
from .answers import read_id
from .counter import Counter, Wave
from .routes import middle

Bools = NDArray[np.bool_]


@dataclass
class Stock:
    """The orders, users and items of some blocks, as rows of the record's tables."""

    orders: Longs
    users: Longs
    items: Longs
    seconds: float
    """The duration of the setup."""


def _done(result: Result) -> Bools:
    return np.asarray((result.status >= 200) & (result.status < 300))


def _create(counter: Counter, phase: str, kind: Kind, rows: Longs, middles: list[bytes], name: str) -> list[str]:
    """Create users, items or orders. Returns their ids; "" if an answer was not 2xx with an id."""
    answers = counter.insist(Wave(phase, "set-up", kind, rows, middles, bodies=True))
    made = _done(answers)
    return [(read_id(body, name) or "") if ok else "" for ok, body in zip(made, answers.bodies, strict=True)]


def new_users(counter: Counter, phase: str, block: Longs, credit: Longs) -> Longs:
    """Create users with credit. Returns their rows."""
    table = counter.record.users
    rows = table.append(phase=RUNS.index(phase), block=block, id=[""] * len(block), ready=0)
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    ids = _create(counter, phase, Kind.CREATE_USER, numbers, [b""] * len(numbers), "user_id")
    table["id"][rows] = ids
    _fund(counter, phase, Entity.USER, numbers, credit)
    return numbers


def new_items(counter: Counter, phase: str, block: Longs, price: Longs, stock: Longs) -> Longs:
    """Create items with stock. Returns their rows."""
    table = counter.record.items
    rows = table.append(phase=RUNS.index(phase), block=block, id=[""] * len(block), price=price, ready=0)
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    ids = _create(counter, phase, Kind.CREATE_ITEM, numbers, [middle(int(p)) for p in price], "item_id")
    table["id"][rows] = ids
    _fund(counter, phase, Entity.ITEM, numbers, stock)
    return numbers


def _fund(counter: Counter, phase: str, entity: Entity, rows: Longs, amount: Longs) -> None:
    """Add credit or stock. Users and items are ready only if they have an id and this request is answered 2xx."""
    table = counter.record.rows(entity)
    ids = table["id"][rows]
    known = np.array([bool(one) for one in ids], dtype=np.bool_)
    rows, amount = rows[known], amount[known]
    kind = Kind.ADD_FUNDS if entity == Entity.USER else Kind.ADD_STOCK
    middles = [middle(one, int(a)) for one, a in zip(ids[known], amount, strict=True)]
    answers = counter.insist(Wave(phase, "set-up", kind, rows, middles))
    good = _done(answers)
    table["ready"][rows] = good
    if good.any():
        counter.record.funds.append(kind=int(entity), subject=rows[good], amount=amount[good], at=answers.done[good])


def top_up(counter: Counter, phase: str, entity: Entity, rows: Longs, amount: Longs) -> None:
    """Add credit or stock to ready users or items. Those that do not get a 2xx answer are no longer judged."""
    _fund(counter, phase, entity, rows, amount)


def top_up_at_once(counter: Counter, wave: Wave, amount: Longs) -> None:
    """Send a wave that contains top-ups of ready users and items. ``amount``: the amount in each request.

    Users and items whose top-up has an unknown effect (5xx or no answer) are no longer judged.
    """
    record, kinds = counter.record, wave.kinds
    assert kinds is not None
    answers = counter.send(wave)
    nothing = (answers.status >= 400) & (answers.status < 500) | np.isin(answers.status, NEVER_WRITTEN)
    for entity, kind in ((Entity.USER, Kind.ADD_FUNDS), (Entity.ITEM, Kind.ADD_STOCK)):
        mine = kinds == kind
        good = mine & _done(answers)
        record.rows(entity)["ready"][wave.subject[mine & ~good & ~nothing]] = 0
        if good.any():
            record.funds.append(
                kind=int(entity), subject=wave.subject[good], amount=amount[good], at=answers.done[good]
            )


def new_orders(
    counter: Counter, phase: str, number: Longs, user: Longs, slot: Longs, lines: list[tuple[Longs, Longs, Longs]]
) -> Longs:
    """Create orders with lines. Returns their rows.

    ``lines``: for each line, the item row, the quantity and the price, each as a column over the orders. An order is
    not ready if its user or one of its items is not ready, or if one of its requests was not answered 2xx.
    """
    record = counter.record
    cost = sum((quantity * price for _, quantity, price in lines), np.zeros(len(user), dtype=np.int64))
    table = record.orders
    rows = table.append(
        phase=RUNS.index(phase), number=number, user=user, slot=slot, id=[""] * len(user), cost=cost, ready=0
    )
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    usable = record.users["ready"][user] == 1
    for item, quantity, price in lines:
        record.lines.append(order=numbers, item=item, quantity=quantity, price=price)
        usable &= record.items["ready"][item] == 1
    at = np.flatnonzero(usable)
    user_ids, item_ids = record.users["id"], record.items["id"]
    ids = _create(counter, phase, Kind.CREATE_ORDER, numbers[at], [middle(user_ids[u]) for u in user[at]], "order_id")
    table["id"][numbers[at]] = ids
    good = np.zeros(len(user), dtype=np.bool_)
    good[at] = [bool(one) for one in ids]
    for item, quantity, _ in lines:
        at = np.flatnonzero(good)
        order_ids = table["id"][numbers[at]]
        middles = [middle(o, item_ids[i], int(q)) for o, i, q in zip(order_ids, item[at], quantity[at], strict=True)]
        answers = counter.insist(Wave(phase, "set-up", Kind.ADD_ITEM, numbers[at], middles))
        good[at] = _done(answers)
    table["ready"][numbers] = good
    return numbers


def stock_blocks(counter: Counter, phase: str, seed: int, first: int, count: int, hot: Longs) -> tuple[Stock, Longs]:
    """Create the blocks ``first`` to ``first + count - 1``, and the hot items if ``hot`` is empty. Returns both."""
    began = counter.now()
    blocks = Blocks.draw([seed, RUNS.index(phase)], first, count)
    if not len(hot):
        # More than all orders of a run could take if each of them took effect 6 times.
        ample = np.full(HOT_ITEMS, MOST * HOT_MOST * 2_000_000, dtype=np.int64)
        hot = new_items(counter, phase, np.full(HOT_ITEMS, -1), np.full(HOT_ITEMS, HOT_PRICE), ample)
    of = np.repeat(np.arange(first, first + count, dtype=np.int64), SIDE)
    users = new_users(counter, phase, of, np.full(len(of), CREDIT))
    items = new_items(counter, phase, of, np.full(len(of), COLD_PRICE), np.full(len(of), STOCK))
    number = np.arange(first * BLOCK, (first + count) * BLOCK, dtype=np.int64)
    prices = np.full(len(number), COLD_PRICE), np.full(len(number), HOT_PRICE)
    lines = [(items[blocks.item], blocks.cold, prices[0]), (hot[blocks.hot_item], blocks.hot, prices[1])]
    orders = new_orders(counter, phase, number, users[blocks.user], blocks.slot, lines)
    return Stock(orders, users, items, (counter.now() - began) / 1e9), hot
