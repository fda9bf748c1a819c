"""Which orders a seed means: blocks of 36 that name themselves in a wrong balance. Pure arithmetic."""

from .blocks import BLOCK, COLD_PRICE, HOT_ITEMS, HOT_PRICE, SIDE, UNITS, Blocks, hot_units

__all__ = ["BLOCK", "COLD_PRICE", "HOT_ITEMS", "HOT_PRICE", "SIDE", "UNITS", "Blocks", "hot_units"]
