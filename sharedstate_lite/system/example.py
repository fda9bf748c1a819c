"""The assignment's example: products, visits to them, and the longest visit in each category."""

from __future__ import annotations

from typing import Any

SCHEMA = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
SQL = """CREATE VIEW result AS
SELECT category, MAX(length) AS max_length
FROM info JOIN visit USING (product)
GROUP BY category"""
MESSAGES: list[tuple[str, tuple[Any, ...]]] = [
    ("info", ("Apple", "Fruit")),
    ("info", ("Banana", "Fruit")),
    ("info", ("Carrot", "Vegetable")),
    ("info", ("Potato", "Vegetable")),
    ("visit", ("Apple", "Alice", 10)),
    ("visit", ("Apple", "Bob", 20)),
    ("visit", ("Carrot", "Bob", 50)),
    ("visit", ("Banana", "Alice", 40)),
    ("visit", ("Potato", "Eve", 60)),
]
"""The example's messages, each a (relation, row) pair. The length of a visit is in seconds."""
CATEGORIES = ("Fruit", "Vegetable")
ASKED = "Vegetable"
"""The key that the demos read under partial state before they send the last message."""
