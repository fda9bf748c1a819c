"""The orders of a seed, in blocks of 36 whose amounts identify an order in a wrong balance. Pure arithmetic."""

from .blocks import BLOCK, COLD_PRICE, HOT_ITEMS, HOT_PRICE, SIDE, UNITS, Blocks, hot_units

__all__ = ["BLOCK", "COLD_PRICE", "HOT_ITEMS", "HOT_PRICE", "SIDE", "UNITS", "Blocks", "hot_units"]
