"""Blocks of orders whose amounts are digits: a Latin square of 6 users and 6 items.

User i and item j of a block meet in one order, whose slot is (i + j) mod 6, so each user and each item has each slot
once. The order takes 8**slot units of its cold item at price 1000, and 1 to 20 units of one of 20 hot items at price
1. The change of a balance is then a number in base 8: the digit of a slot shows how often that order took effect, from
-1 to 6 times. The last three decimal digits of money are the sum of the hot lines, -120 to 720, which checks the octal
digits. The largest decodable change is 6 * (8**6 - 1) / 7 = 224,694 units of an item and 224,694,720 of a user's
money, below 2**31.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

SIDE = 6
BLOCK = SIDE * SIDE
"""Orders in a block."""
BASE = 8
UNITS: Longs = BASE ** np.arange(SIDE, dtype=np.int64)
"""Units of the cold item, by slot."""
COLD_PRICE, HOT_PRICE = 1000, 1
HOT_ITEMS = 20
HOT_MOST = 20
LEAST, MOST = -1, 6
"""The range of effects of an order that a balance can show."""
OFFSET = int(UNITS.sum())
"""Added to a balance's change, it turns the digit LEAST into 0."""
STOCK = 2 * MOST * OFFSET
"""Initial stock of a cold item: twice the largest decodable change, so that no doubled order is refused."""
CREDIT = COLD_PRICE * STOCK + 2 * MOST * SIDE * HOT_MOST
"""Initial credit of a user, likewise."""


def hot_units(seed: list[int], block: int) -> Longs:
    """Units (1 to 20) of the hot line of each order of a block, int64[36]. Any block can be drawn by itself.

    The next slot of the same user never has 8 times as many units. Otherwise 9 effects of one order would look like one
    effect of it and one of the next, in money too.
    """
    rng = np.random.default_rng([*seed, 1, block])
    units = np.zeros(BLOCK, dtype=np.int64)
    for user in range(SIDE):
        before = 0
        for slot in range(SIDE):
            drawn = int(rng.integers(1, HOT_MOST + 1))
            while drawn == BASE * before:
                drawn = int(rng.integers(1, HOT_MOST + 1))
            units[user * SIDE + (slot - user) % SIDE] = before = drawn
    return units


@dataclass(frozen=True)
class Blocks:
    """Blocks as columns over their orders, 36 for each block, in the order of sending."""

    user: Longs
    """Index among the blocks' users, 6 for each block."""
    item: Longs
    """Index among the blocks' cold items, 6 for each block."""
    slot: Longs
    cold: Longs
    """Units of the cold item."""
    hot_item: Longs
    """0 to 19."""
    hot: Longs
    """Units of the hot item."""

    @classmethod
    def draw(cls, seed: list[int], first: int, count: int) -> Blocks:
        """Draw the blocks first to first + count - 1 of a seed, which is a list of numbers."""
        user, item = np.divmod(np.arange(BLOCK, dtype=np.int64), SIDE)
        slot = (user + item) % SIDE
        parts = []
        for block in range(first, first + count):
            rng = np.random.default_rng([*seed, 2, block])
            sequence = rng.permutation(BLOCK)
            hot_item = rng.integers(0, HOT_ITEMS, BLOCK)
            base = (block - first) * SIDE
            rows = (user + base, item + base, slot, UNITS[slot], hot_item, hot_units(seed, block))
            parts.append(np.stack(rows)[:, sequence])
        columns = np.concatenate(parts, axis=1) if parts else np.zeros((6, 0), dtype=np.int64)
        return cls(*(np.ascontiguousarray(column) for column in columns))

    @property
    def cost(self) -> Longs:
        """The cost of each order."""
        return COLD_PRICE * self.cold + HOT_PRICE * self.hot

    def __len__(self) -> int:
        """Orders."""
        return len(self.user)
