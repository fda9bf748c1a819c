"""Create users, items and orders for a phase. Only those whose requests were all answered 2xx are used.

The record stores the acknowledged amounts, never amounts that were read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..orders import BLOCK, COLD_PRICE, HOT_ITEMS, HOT_PRICE, SIDE, Blocks
from ..orders.blocks import CREDIT, HOT_MOST, MOST, STOCK
from ..terms import Entity, Kind, denied, done
from ..wire.jobs import Longs
from .answers import read_id
from .counter import Counter, Wave
from .routes import middle


@dataclass
class Stock:
    """The orders, users and items of some blocks, as rows of the record's tables."""

    orders: Longs
    users: Longs
    items: Longs
    seconds: float
    """The duration of the setup."""


def _create(counter: Counter, phase: str, kind: Kind, rows: Longs, middles: list[bytes], name: str) -> list[str]:
    """Create users, items or orders. Returns their ids; "" if an answer was not 2xx with an id."""
    answers = counter.insist(Wave(phase, "set-up", kind, rows, middles, bodies=True))
    made = done(answers.status)
    return [(read_id(body, name) or "") if ok else "" for ok, body in zip(made, answers.bodies, strict=True)]


def new_users(counter: Counter, phase: str, block: Longs, credit: Longs) -> Longs:
    """Create users with credit. Returns their rows."""
    rows = counter.record.users.append(phase=phase, block=block, id=[""] * len(block), ready=0)
    return _new(counter, phase, Entity.USER, rows, [b""] * len(block), credit)


def new_items(counter: Counter, phase: str, block: Longs, price: Longs, stock: Longs) -> Longs:
    """Create items with stock. Returns their rows."""
    rows = counter.record.items.append(phase=phase, block=block, id=[""] * len(block), price=price, ready=0)
    return _new(counter, phase, Entity.ITEM, rows, [middle(int(each)) for each in price], stock)


def _new(counter: Counter, phase: str, entity: Entity, rows: slice, middles: list[bytes], amount: Longs) -> Longs:
    """Create the users or items of some rows, and add credit or stock to them. Returns the rows."""
    kind, name = (Kind.CREATE_USER, "user_id") if entity == Entity.USER else (Kind.CREATE_ITEM, "item_id")
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    counter.record.rows(entity)["id"][rows] = _create(counter, phase, kind, numbers, middles, name)
    top_up(counter, phase, entity, numbers, amount)
    return numbers


def top_up(counter: Counter, phase: str, entity: Entity, rows: Longs, amount: Longs) -> None:
    """Add credit or stock to users or items that have an id.

    They are ready if this is answered 2xx. Those that get another answer are not judged, or no longer.
    """
    table = counter.record.rows(entity)
    ids = table["id"][rows]
    known = np.array([bool(each) for each in ids], dtype=np.bool_)
    rows, amount = rows[known], amount[known]
    kind = Kind.ADD_FUNDS if entity == Entity.USER else Kind.ADD_STOCK
    middles = [middle(each, int(units)) for each, units in zip(ids[known], amount, strict=True)]
    answers = counter.insist(Wave(phase, "set-up", kind, rows, middles))
    good = done(answers.status)
    table["ready"][rows] = good
    if good.any():
        counter.record.funds.append(kind=int(entity), subject=rows[good], amount=amount[good], at=answers.done[good])


def top_up_at_once(counter: Counter, wave: Wave, amount: Longs) -> None:
    """Send a wave that contains top-ups of ready users and items. ``amount``: the amount in each request.

    Users and items whose top-up has an unknown effect (5xx or no answer) are no longer judged.
    """
    record, kinds = counter.record, wave.kinds
    assert kinds is not None
    answers = counter.send(wave)
    nothing = denied(answers.status)
    for entity, kind in ((Entity.USER, Kind.ADD_FUNDS), (Entity.ITEM, Kind.ADD_STOCK)):
        mine = kinds == kind
        good = mine & done(answers.status)
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
    rows = table.append(phase=phase, number=number, user=user, slot=slot, id=[""] * len(user), cost=cost, ready=0)
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
        good[at] = done(answers.status)
    table["ready"][numbers] = good
    return numbers


def stock_blocks(counter: Counter, phase: str, seed: int, first: int, count: int, hot: Longs) -> tuple[Stock, Longs]:
    """Create the blocks ``first`` to ``first + count - 1``, and the hot items if ``hot`` is empty. Returns both."""
    began = counter.now()
    blocks = Blocks.draw([seed, *phase.encode()], first, count)
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
