"""A split program does what its classes do: as plain Python, on the plain carrier, and in blocks."""

from __future__ import annotations

import random

from carriers import Split, cell

from sharedstate_lite.entities import PlainStore, Program, Reference, Refused

SHOP = """
from __future__ import annotations
@entity
class User:
    def __init__(self, name: str, balance: int):
        self.name, self.balance = name, balance
    def __key__(self):
        return self.name
    @transactional
    def buy_all(self, items: list[Item], n: int) -> int:
        got = 0
        for item in items:
            if item.stock < n and item.price > 0:
                continue
            try:
                item.take(n)
            except Refused:
                break
            if self.balance - n * item.price < 0:
                item.update_stock(n)
            else:
                self.balance -= n * item.price
                got += n
        return got + sum(q for q in [0] * len(items))
@entity
class Item:
    def __init__(self, name: str, price: int, stock: int):
        self.name, self.price, self.stock = name, price, stock
    def __key__(self):
        return self.name
    def update_stock(self, amount: int) -> bool:
        self.stock += amount
        return self.stock >= 0
    def take(self, n: int):
        if self.stock < n:
            raise Refused("out of stock")
        self.stock -= n
"""


def test_random_calls() -> None:
    """No result and no state of 2,000 random calls differs between the plain carrier and the blocks."""
    scope = cell(SHOP)
    program = Program(scope["User"], scope["Item"])
    for seed in range(500):
        rng = random.Random(seed)
        plain, split = PlainStore(program), Split(program)
        for i in range(3):
            plain.create("Item", f"i{i}", price := rng.randrange(4), stock := rng.randrange(5))
            split.request(Reference("Item", f"i{i}"), "__init__", f"i{i}", price, stock)
        plain.create("User", "u", balance := rng.randrange(12))
        split.request(Reference("User", "u"), "__init__", "u", balance)
        for _ in range(4):
            items = [Reference("Item", f"i{rng.randrange(4)}") for _ in range(3)]
            given = Reference("User", "u"), "buy_all", items, rng.randrange(1, 4)
            one, other = plain.call(*given), split.request(*given)
            assert isinstance(other, Refused) if one.status == 400 else one.value == other
            assert all(plain.state(Reference(*name)) == state for name, state in split.state.items())
