"""The example of the assignment: products and their visits, and the longest visit of each category."""

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
"""(relation, row) pairs, one message each. ``length`` is in seconds."""
CATEGORIES = ("Fruit", "Vegetable")
ASKED = "Vegetable"
"""The key that is read under partial state before the last message."""
