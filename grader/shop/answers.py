"""Bodies, read without trust: JSON with a cap, values only of exactly the type that was agreed.

Liberal where the assignment is: ids may be numbers, `paid` may be 0 or 1.
"""

from __future__ import annotations

import json
from typing import Any

LONGEST_ID = 200
"""Characters: a UUID has 36."""
_MOST = 1 << 62


def fields(body: bytes) -> dict[str, Any]:
    """The object that a body is; empty if it is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_id(body: bytes, name: str) -> str | None:
    """An id that a create call gave."""
    value = fields(body).get(name)
    if type(value) is int:
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable() else None


def read_amount(body: bytes, name: str) -> int | None:
    """A whole number."""
    value = fields(body).get(name)
    return value if type(value) is int and abs(value) < _MOST else None


def read_paid(body: bytes) -> int | None:
    """Whether an order says that it is paid: 0 or 1."""
    value = fields(body).get("paid")
    return int(value) if type(value) in (bool, int) and value in (0, 1) else None
