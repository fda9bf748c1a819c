"""The program of the talk, as a dataflow without transactions runs it: what it answers, and what it loses."""

from __future__ import annotations

from typing import Any

import pytest
from carriers import cell

from sharedstate_lite.entities import EntityWarning, PlainStore, Program, Reference, Refused
from sharedstate_lite.entities.bins import AskMessage, EntityBin, rounds

SEED = """
from __future__ import annotations

@Entity
class User:
    def __init__(self, username: str):
        self.username: str = username
        self.balance: int = 1

    def __key__(self):
        return self.username

    @transactional
    def buy_item(self, amount: int, item: Item) -> bool:
        total_price = amount * item.price

        if self.balance < total_price:
            return False

        # Decrease the stock.
        available_stock = item.update_stock(-amount)

        if not available_stock:
            item.update_stock(amount)
            return False

        self.balance -= total_price

@Entity
class Item:
    def __init__(self, item_name: str, price: int):
        self.item_id: str = item_name
        self.stock: int = 0
        self.price: int = price

    def __key__(self):
        return self.item_id

    def update_stock(self, amount: int) -> bool:
        self.stock += amount
        return self.stock >= 0
"""
"""Asterios Katsifodimos, "Dataflow Engines for Scalable Cloud Applications: a Maslow's Hammer or Natural Outcome?"."""

Purchase = tuple[str, int, str]


def program(source: str = SEED) -> Program:
    """The program; its method can end without an answer, which is a warning."""
    scope = cell(source)
    with pytest.warns(EntityWarning, match="NoReturn: User.buy_item"):
        return Program(scope["User"], scope["Item"])


def bought(
    users: dict[str, int], items: dict[str, tuple[int, int]], purchases: list[Purchase], source: str = SEED
) -> tuple[list[Any], dict[str, int], dict[str, int]]:
    """Send purchases at once to 8 bins: the answers, the balances and the stocks after them.

    ``users`` have balances, ``items`` stocks and prices.
    """
    compiled = program(source)
    bins = [EntityBin(compiled, number, 8) for number in range(8)]
    states = {("User", name): {"username": name, "balance": balance} for name, balance in users.items()}
    for name, (stock, price) in items.items():
        states["Item", name] = {"item_id": name, "stock": stock, "price": price}
    created = [
        AskMessage(n, Reference(cls, key), "__init__", (key,) if cls == "User" else (key, state["price"]), None)
        for n, ((cls, key), state) in enumerate(states.items())
    ]
    made = rounds(bins, created)[0]
    assert [made[n] for n in range(len(states))] == [Reference(*name) for name in states]
    for bin in bins:
        for name in bin.state:
            bin.state[name].update(states[name])
    requests = [
        AskMessage(n, Reference("User", user), "buy_item", (amount, Reference("Item", item)), None)
        for n, (user, amount, item) in enumerate(purchases)
    ]
    answers, _ = rounds(bins, requests)
    after = {name: state for bin in bins for name, state in bin.state.items()}
    balances = {name: after["User", name]["balance"] for name in users}
    return [answers[n] for n in range(len(purchases))], balances, {name: after["Item", name]["stock"] for name in items}


BOUGHT: dict[str, tuple[Any, ...]] = {
    "a purchase that succeeds answers None": ({"a": 10}, {"x": (5, 2)}, [("a", 1, "x")], [None], {"a": 8}, {"x": 4}),
    "two purchases at once both see 10, and each takes 10": (
        {"a": 10}, {"x": (5, 10), "y": (5, 10)}, [("a", 1, "x"), ("a", 1, "y")],
        [None, None], {"a": -10}, {"x": 4, "y": 4},
    ),
    "the first takes the stock below 0, so the second is refused as well": (
        {"a": 99, "b": 99}, {"x": (5, 1)}, [("a", 10, "x"), ("b", 3, "x")],
        [False, False], {"a": 99, "b": 99}, {"x": 5},
    ),
    "a request that is sent twice buys twice":
        ({"a": 10}, {"x": (5, 2)}, [("a", 1, "x")] * 2, [None, None], {"a": 6}, {"x": 3}),
}  # fmt: skip
"""Users, items and purchases at once; then the answers, balances and stocks."""


@pytest.mark.parametrize("case", BOUGHT)
def test_purchases_at_once(case: str) -> None:
    """What the program loses without transactions."""
    users, items, purchases, *expected = BOUGHT[case]
    assert [*bought(users, items, purchases)] == expected


def test_one_after_the_other_sells_three() -> None:
    """The plain carrier runs the same two purchases one after the other: 3 are sold."""
    store = PlainStore(program())
    for user in ("a", "b"):
        store.create("User", user)
        store.tables["User"][user].balance = 100
    store.create("Item", "x", 1)
    store.call(Reference("Item", "x"), "update_stock", 5)
    wanted = [("a", 10), ("b", 3)]
    replies = [store.call(Reference("User", user), "buy_item", n, Reference("Item", "x")) for user, n in wanted]
    assert [reply.value for reply in replies] == [False, None]
    assert store.state(Reference("Item", "x"))["stock"] == 2


def test_an_exception_keeps_the_stock() -> None:
    """An exception after the stock was taken: the user pays nothing, and the item has less."""
    source = SEED.replace("        self.balance -= total_price", "        self.balance -= total_price // 0")
    answers, balances, stocks = bought({"a": 10}, {"x": (5, 2)}, [("a", 1, "x")], source)
    assert isinstance(answers[0], ZeroDivisionError) and (balances, stocks) == ({"a": 10}, {"x": 4})


def test_an_unknown_item() -> None:
    """Who asks an entity that does not exist is refused."""
    answers, balances, _ = bought({"a": 10}, {"x": (5, 2)}, [("a", 1, "y")])
    assert isinstance(answers[0], Refused) and str(answers[0]) == "Item y is unknown" and balances == {"a": 10}
