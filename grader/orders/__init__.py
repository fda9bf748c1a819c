"""Draws the orders for a seed, in blocks of 36. Their amounts show which order made a balance wrong."""

from .blocks import BLOCK, COLD_PRICE, HOT_ITEMS, HOT_PRICE, SIDE, UNITS, Blocks, hot_units

__all__ = ["BLOCK", "COLD_PRICE", "HOT_ITEMS", "HOT_PRICE", "SIDE", "UNITS", "Blocks", "hot_units"]
