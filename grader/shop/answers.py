"""Parse untrusted JSON bodies. Only values of exactly the agreed type are accepted.

Ids can also be numbers. `paid` can also be 0 or 1, so that this wrong form fails only the contract phase, not every
phase that reads orders.
"""

from __future__ import annotations

import json
from typing import Any

LONGEST_ID = 200
"""The maximum number of characters in an id. A UUID has 36."""
_MOST = 1 << 62


def fields(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; {} if the body is not a JSON object."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def as_id(value: Any) -> str | None:
    """Return a JSON value as an id; None if it is no valid id."""
    if type(value) is int:
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable() else None


def as_amount(value: Any) -> int | None:
    """Return a JSON value as an integer; None if it is no integer, or has 63 bits or more."""
    return value if type(value) is int and abs(value) < _MOST else None


def read_id(body: bytes, name: str) -> str | None:
    """Return the id in the field ``name`` of a body; None if there is no valid id."""
    return as_id(fields(body).get(name))


def read_amount(body: bytes, name: str) -> int | None:
    """Return the integer in the field ``name`` of a body; None if there is no valid integer."""
    return as_amount(fields(body).get(name))


def read_paid(body: bytes) -> int | None:
    """Return the field `paid` of a body as 0 or 1; None if it is missing or invalid."""
    value = fields(body).get("paid")
    return int(value) if type(value) in (bool, int) and value in (0, 1) else None
