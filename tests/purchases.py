"""Purchases through entities by HTTP: a program for Spark, what is bought, and what must hold at the end.

A purchase asks an item and then pays, without a transaction: it gives back by itself. Each purchase has its own key. A
request that ran twice would take and pay twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

SOURCE = """
from __future__ import annotations
from sharedstate_lite.entities import Program, Refused, entity, many

@entity
class Item:
    def __init__(self, item_id: str, stock: int, price: int):
        self.item_id, self.stock, self.price, self.sold = item_id, stock, price, 0
    def __key__(self):
        return self.item_id
    def take(self, n: int) -> int:
        if self.stock < n:
            raise Refused("out of stock")
        self.stock, self.sold = self.stock - n, self.sold + n
        return n * self.price
    def put(self, n: int):
        self.stock, self.sold = self.stock + n, self.sold - n
    def find(self):
        return {"stock": self.stock, "sold": self.sold}

@entity
class User:
    def __init__(self, user_id: str, balance: int):
        self.user_id, self.balance, self.paid, self.bought = user_id, balance, 0, []
    def __key__(self):
        return self.user_id
    def buy(self, item: Item, n: int):
        cost = item.take(n)
        if self.balance < cost:
            item.put(n)
            raise Refused("too expensive")
        self.balance, self.paid = self.balance - cost, self.paid + cost
        self.bought.append([item.key, n])
        return {"cost": cost}
    def find(self):
        return {"balance": self.balance, "paid": self.paid}

purchases = Program(Item, User, routes={
    "POST /items/{n:int}/{stock:int}/{price:int}": many("n", Item, lambda i, stock, price: (str(i), stock, price)),
    "POST /users/{n:int}/{balance:int}": many("n", User, lambda i, balance: (str(i), balance)),
    "POST /buy/{user}/{item}/{n:int}": User.buy,
    "GET /item/{item}": Item.find,
    "GET /user/{user}": User.find,
})
"""
ALONE_SOURCE = (
    SOURCE.replace("many\n", "many, transactional\n", 1)
    .replace("    def buy", "    @transactional\n    def buy")
    .replace("            item.put(n)\n", "")
)
"""The same with a transaction, which gives nothing back."""
ITEMS, STOCK, PRICE = 4, 8, 3
USERS, BALANCE = 5, 20
Purchase = tuple[str, str, int]
"""Who buys what, and how many."""


def drawn(seed: int, count: int) -> dict[str, Purchase]:
    """Purchases by their keys. Together they want more than there is, and more than the users have."""
    rng = Random(seed)
    return {
        f"key {seed}-{n}": (str(rng.randrange(USERS)), str(rng.randrange(ITEMS)), rng.randrange(1, 4))
        for n in range(count)
    }


def path_of(purchase: Purchase) -> str:
    """The path of the request."""
    return f"/buy/{purchase[0]}/{purchase[1]}/{purchase[2]}"


def wrong(wanted: Mapping[str, Purchase], said: Mapping[str, Any], state: Mapping[Any, Mapping[str, Any]]) -> list[str]:
    """What does not add up between the answers by key, (status, value) each, and the state at the end."""
    out = []
    bought: dict[str, list[list[Any]]] = {str(n): [] for n in range(USERS)}
    for key, (user, item, n) in wanted.items():
        if said[key] == (200, {"cost": n * PRICE}):
            bought[user].append([item, n])
        elif said[key] not in [(400, {"error": "out of stock"}), (400, {"error": "too expensive"})]:
            out.append(f"{key}: {said[key]}")
    for user, each in bought.items():
        me, paid = state["User", user], sum(n * PRICE for _, n in each)
        if sorted(me["bought"]) != sorted(each):
            out.append(f"user {user} has bought {me['bought']}, was told {each}")
        if (me["balance"], me["paid"]) != (BALANCE - paid, paid):
            out.append(f"user {user} has paid {me['paid']} and has {me['balance']}, was told {paid}")
    for item in map(str, range(ITEMS)):
        it, sold = state["Item", item], sum(n for each in bought.values() for name, n in each if name == item)
        if (it["stock"], it["sold"]) != (STOCK - sold, sold):
            out.append(f"item {item} has sold {it['sold']} and has {it['stock']}, and {sold} are bought")
    return out
