"""Parse untrusted bodies: JSON, and only values of exactly the agreed type.

As the assignment allows, ids may be numbers and `paid` may be 0 or 1.
"""

from __future__ import annotations

import json
from typing import Any

LONGEST_ID = 200
"""The most characters of an id. A UUID has 36."""
_MOST = 1 << 62


def fields(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; {} if it is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_id(body: bytes, name: str) -> str | None:
    """The id in a body; None if it has none."""
    value = fields(body).get(name)
    if type(value) is int:
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable() else None


def read_amount(body: bytes, name: str) -> int | None:
    """The whole number in a body; None if it has none."""
    value = fields(body).get(name)
    return value if type(value) is int and abs(value) < _MOST else None


def read_paid(body: bytes) -> int | None:
    """The field `paid` as 0 or 1; None if it is missing."""
    value = fields(body).get("paid")
    return int(value) if type(value) in (bool, int) and value in (0, 1) else None
