"""Blocks of orders whose amounts encode digits. Each block is a Latin square of 6 users and 6 items.

User i and item j of a block meet in exactly one order. Its slot is (i + j) mod 6, so each user and each item has every
slot once. The order takes 8**slot units of its cold item at price 1000, and 1 to 20 units of one of 20 hot items at
price 1. The change of a balance is therefore a number in base 8: the digit of a slot shows how often that order took
effect, from -1 to 6 times. In an amount of money, the last three decimal digits are the sum of the hot lines, from -120
to 720, so they can be used to check the octal digits. The largest decodable change is 6 * (8**6 - 1) / 7 = 224,694
units of an item and 224,694,720 of a user's money, both below 2**31.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

SIDE = 6
BLOCK = SIDE * SIDE
"""The number of orders in a block."""
BASE = 8
UNITS: Longs = BASE ** np.arange(SIDE, dtype=np.int64)
"""The units of the cold item that an order takes, by slot."""
COLD_PRICE, HOT_PRICE = 1000, 1
HOT_ITEMS = 20
HOT_MOST = 20
LEAST, MOST = -1, 6
"""The smallest and the largest number of effects of one order that a balance can show."""
OFFSET = int(UNITS.sum())
"""Adding this to the change of a balance turns the digit LEAST into 0."""
STOCK = 2 * MOST * OFFSET
"""Initial stock of a cold item: twice the largest decodable change, so a doubled order is never refused."""
CREDIT = COLD_PRICE * STOCK + 2 * MOST * SIDE * HOT_MOST
"""Initial credit of a user: also twice the largest decodable change."""


def hot_units(seed: list[int], block: int) -> Longs:
    """Return the units (1 to 20) in the hot line of each order of a block, int64[36]. Blocks are drawn independently.

    The next slot of the same user never has exactly 8 times as many units. Otherwise, even the money could not
    distinguish 9 effects of one order from one effect of that order and one of the next.
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
    """The orders of several blocks as columns, 36 rows per block, in the order in which they are sent."""

    user: Longs
    """Index of the user among the users of all blocks, 6 per block."""
    item: Longs
    """Index of the cold item among the cold items of all blocks, 6 per block."""
    slot: Longs
    cold: Longs
    """Units of the cold item."""
    hot_item: Longs
    """Index of the hot item, 0 to 19."""
    hot: Longs
    """Units of the hot item."""

    @classmethod
    def draw(cls, seed: list[int], first: int, count: int) -> Blocks:
        """Draw the blocks ``first`` to ``first + count - 1`` for a seed, which is a list of numbers."""
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
        """The total cost of each order, int64[n]."""
        return COLD_PRICE * self.cold + HOT_PRICE * self.hot

    def __len__(self) -> int:
        """The number of orders."""
        return len(self.user)
