"""The three relations of the tests of races, and their rows before a race begins."""

from __future__ import annotations

from typing import Any

RELATIONS = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
    "story": "id INT, author STRING",
}
BEFORE: dict[str, Any] = {
    "info": [(("a", "F"), 1), (("b", "F"), 1), (("c", "G"), 1)],
    "visit": [(("a", "x", 1), 1), (("b", "x", 5), 1), (("c", "y", 3), 1)],
    "story": [((7, "Elena"), 1), ((8, "Elena"), 1), ((9, "Talia"), 1)],
}
