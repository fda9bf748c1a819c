"""Checkouts as entities: two programs, three sets of orders, and what each protocol does with them.

>>> table = protocols(block(), bins=8)
>>> [row.sold for row in table if row.protocol != "saga"]                    # 36 orders for goods that are in stock
[36, 36, 36, 36]
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..entities import AskMessage, EntityBin, Epochs, Locks, Program, Reference, Refused, entity, rounds, transactional
from ..entities.bins import Name, bin_of


@entity
class Item:
    """Goods of one kind."""

    def __init__(self, item_id: str, stock: int):
        self.item_id, self.stock = item_id, stock

    def __key__(self):  # type: ignore[no-untyped-def]
        return self.item_id

    def take(self, n: int) -> None:
        """Take n from the stock, or refuse."""
        if self.stock < n:
            raise Refused("out of stock")
        self.stock -= n

    def put(self, n: int) -> None:
        """Add n to the stock."""
        self.stock += n


@entity
class Buyer:
    """Who pays."""

    def __init__(self, user_id: str, credit: int):
        self.user_id, self.credit = user_id, credit

    def __key__(self):  # type: ignore[no-untyped-def]
        return self.user_id

    def pay(self, n: int) -> None:
        """Pay n, or refuse."""
        if self.credit < n:
            raise Refused("out of credit")
        self.credit -= n


@entity
class Order:
    """What a user wants; ``lines`` are items and how many of each."""

    def __init__(self, order_id: str, user: Buyer, lines: list[tuple[Item, int]], cost: int):
        self.order_id, self.user, self.lines, self.cost, self.paid = order_id, user, lines, cost, False

    def __key__(self):  # type: ignore[no-untyped-def]
        return self.order_id

    @transactional
    def checkout(self) -> bool:
        """Take all items and pay. What fails undoes all, so the method gives nothing back by hand."""
        if self.paid:
            return True
        for item, n in self.lines:
            item.take(n)
        self.user.pay(self.cost)
        self.paid = True
        return True

    def saga(self) -> bool:
        """The same without a transaction: what was taken is put back if a later step is refused."""
        if self.paid:
            return True
        taken = []
        try:
            for item, n in self.lines:
                item.take(n)
                taken.append((item, n))
            self.user.pay(self.cost)
        except Refused:
            for item, n in taken:
                item.put(n)
            return False
        self.paid = True
        return True


class Orders(NamedTuple):
    """Users by credit, items by stock, and orders in the order of their arrival: user, lines, cost."""

    users: dict[str, int]
    items: dict[str, int]
    orders: list[tuple[str, list[tuple[str, int]], int]]


def block() -> Orders:
    """Return the 36 checkouts that the grader sends at once: six users, each with six orders of a popular item and one
    of 20 others. Everything is in stock."""
    rng = random.Random(7)
    orders = [(f"u{i}", [(f"c{j}", 1), (f"h{rng.randrange(20)}", 1)], 20) for i in range(6) for j in range(6)]
    rng.shuffle(orders)
    items = [f"c{i}" for i in range(6)] + [f"h{i}" for i in range(20)]
    return Orders({f"u{i}": 10**6 for i in range(6)}, dict.fromkeys(items, 10**6), orders)


def apart() -> Orders:
    """Return 36 checkouts of as many users, each with two of 400 items. Few of them meet. Everything is in stock."""
    rng = random.Random(7)
    items = [f"i{n}" for n in range(400)]
    orders = [(f"u{n}", [(name, 1) for name in rng.sample(items, 2)], 20) for n in range(36)]
    return Orders({f"u{n}": 10**6 for n in range(36)}, dict.fromkeys(items, 10**6), orders)


def scarce(count: int = 2_000, kinds: int = 100) -> Orders:
    """Return orders of two items each. The stock and the credit are three quarters of what they want together."""
    rng = random.Random(7)
    names = [str(n) for n in range(kinds)]
    orders = [
        (rng.choice(names), [(name, rng.randrange(1, 4)) for name in rng.sample(names, 2)], 20) for _ in range(count)
    ]
    return Orders(dict.fromkeys(names, 15 * count // kinds), dict.fromkeys(names, 3 * count // kinds), orders)


class ProtocolRow(NamedTuple):
    """What one protocol did with the orders.

    ``rounds``: of messages between bins; None for one place. ``messages``: those that bins get; None for one place.
    ``again``: how many transactions ran a second time or more. ``busiest``: the share of the transactions that ran at
    the busiest place. ``equal``: answers and states are those of the orders one after the other, in the order of their
    arrival; ``reported``: in the order that the protocol reports; None for a protocol that reports none.
    """

    protocol: str
    rounds: int | None
    messages: int | None
    sold: int
    again: int
    busiest: float
    equal: bool
    reported: bool | None


Entities = dict[Name, dict[str, Any]]


def serial(orders: Orders, order: Sequence[int]) -> tuple[int, Entities]:
    """Return how many orders are sold, one after the other, and the entities after it. Python dicts, no entities."""
    stock, credit = dict(orders.items), dict(orders.users)
    paid = set()
    for number in order:
        user, lines, cost = orders.orders[number]
        if credit[user] >= cost and all(stock[name] >= n for name, n in lines):
            credit[user] -= cost
            for name, n in lines:
                stock[name] -= n
            paid.add(number)
    states: Entities = {("Item", name): {"item_id": name, "stock": n} for name, n in stock.items()}
    states |= {("Buyer", name): {"user_id": name, "credit": n} for name, n in credit.items()}
    states |= {("Order", str(number)): {"paid": number in paid} for number in range(len(orders.orders))}
    return len(paid), states


def protocols(orders: Orders, bins: int = 8) -> list[ProtocolRow]:
    """Send all orders at once through each protocol. Return one row a protocol.

    >>> {row.protocol: row.sold for row in protocols(scarce(60, 12))}
    {'serial': 32, 'saga': 25, 'locks': 34, 'epochs, retried': 32, 'gathering': 32}
    """
    count = len(orders.orders)
    arrival = range(count)
    sold, expected = serial(orders, arrival)
    table = [ProtocolRow("serial", None, None, sold, 0, 1.0, True, True)]
    fronts: dict[str, Callable[[Program], Any]] = {
        "saga": lambda program: _Plain(program, bins),
        "locks": lambda program: Locks(program, bins),
        "epochs, retried": lambda program: Epochs(program, bins, gather=False),
        "gathering": lambda program: Epochs(program, bins),
    }
    for name, make in fronts.items():
        front = make(Program(Item, Buyer, Order))
        front.run(_created(orders))
        before, counted, front.order = front.rounds, _messages(front), []
        asked = [
            AskMessage(n, Reference("Order", str(n)), "saga" if name == "saga" else "checkout", (), None)
            for n in arrival
        ]
        answers = front.run(asked)
        after = _shown(front.state())
        places = Counter(bin_of(message.who, bins) for message in asked)
        busiest = max(getattr(front, "gathered", 0), *places.values()) / count
        again = {"locks": "deaths", "epochs, retried": "deferrals", "gathering": "gathered"}.get(name)
        reported = after == serial(orders, front.order)[1] if name != "saga" else None
        table.append(
            ProtocolRow(
                name,
                front.rounds - before,
                _messages(front) - counted,
                sum(answer is True for answer in answers.values()),
                getattr(front, again) if again else 0,
                busiest,
                after == expected,
                reported,
            )
        )
    return table


def _messages(front: Any) -> int:
    """The messages that the bins of a front have got."""
    received: int = sum(bin.received for bin in front.bins)
    return received + int(front.told)


def _created(orders: Orders) -> list[AskMessage]:
    """The requests that create users, items and orders."""
    made: list[tuple[str, str, tuple[Any, ...]]] = [("Buyer", name, (name, n)) for name, n in orders.users.items()]
    made += [("Item", name, (name, n)) for name, n in orders.items.items()]
    for number, (user, lines, cost) in enumerate(orders.orders):
        wanted = [(Reference("Item", name), n) for name, n in lines]
        made.append(("Order", str(number), (str(number), Reference("Buyer", user), wanted, cost)))
    return [AskMessage(n, Reference(cls, key), "__init__", args, None) for n, (cls, key, args) in enumerate(made)]


def _shown(states: Entities) -> Entities:
    """What `serial` knows of entities."""
    return {name: {"paid": s["paid"]} if name[0] == "Order" else s for name, s in states.items()}


class _Plain:
    """Bins without transactions, with the interface of the other fronts."""

    def __init__(self, program: Program, bins: int) -> None:
        self.bins = [EntityBin(program, number, bins) for number in range(bins)]
        self.rounds, self.told, self.order = 0, 0, list[int]()

    def run(self, requests: Sequence[AskMessage]) -> dict[int, Any]:
        answers, count = rounds(self.bins, requests)
        self.rounds += count
        return answers

    def state(self) -> Entities:
        return {name: state for bin in self.bins for name, state in bin.state.items()}
