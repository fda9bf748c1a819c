"""Numbers that depend on a secret, for the keys and values of hidden checks.

    SECRET = "public"
    KEYS = drawn(f"{SECRET} keys", 3, 10, 99)        # three different numbers from 10 to 99

The masters of the labs are public. `lab build --secret FILE` therefore replaces the text "public" in this line, in the
bundle only, so that hidden checks use numbers that students cannot look up.
"""

from __future__ import annotations

import hashlib
import itertools


def drawn(seed: str, n: int, low: int, high: int) -> list[int]:
    """Return ``n`` different numbers from ``low`` to ``high``, in no order. Equal seeds give equal numbers.

    The numbers do not depend on the version of Python. Raises ValueError if there are fewer than ``n`` numbers.

    >>> drawn("public keys", 3, 10, 99)
    [38, 45, 43]
    """
    size, found = high - low + 1, dict[int, None]()
    if not 0 <= n <= size:
        raise ValueError(f"there are {max(0, size)} numbers from {low} to {high}; {n} different ones were asked for")
    for count in itertools.count():
        if len(found) == n:
            return list(found)
        found[low + int.from_bytes(hashlib.sha256(f"{seed} {count}".encode()).digest()) % size] = None
    raise AssertionError
