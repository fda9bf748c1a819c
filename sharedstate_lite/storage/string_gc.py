"""Garbage collection of the string dictionary.

Codes are never reused, so a dictionary only grows until compaction replaces it by one with the strings still in use.
Batches stay sorted, because their order depends on the strings and not on the codes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..plan.nodes import Type
from .arrangement import Arrangement
from .encoding import DictionaryRef, Words


def sweep(dictionary: DictionaryRef, arrangements: Iterable[Arrangement], elsewhere: Iterable[Words]) -> Words | None:
    """Replace the dictionary by one with only the strings in use, and recode the arrangements.

    ``elsewhere`` lists codes that are stored outside arrangements. Returns the map old code to new code, -1 for removed
    ones, so that the caller can recode these. Returns None if every string is in use and no code changed.
    """
    arrangements = list(arrangements)
    used = [
        b.body[1 + i] for a in arrangements for b in a.runs for i, t in enumerate(a.layout.types) if t is Type.STRING
    ]
    fresh, moved = dictionary.strings.keep([*used, *elsewhere])
    if len(fresh) == len(dictionary.strings):
        # Replaced all the same: the new one has no unused capacity.
        dictionary.strings = fresh
        return None
    for arrangement in arrangements:
        arrangement.recode(moved)
    dictionary.strings = fresh
    return moved


def truncate(dictionary: DictionaryRef, length: int, shown: bool) -> None:
    """Remove the strings from ``length`` on. If ``shown``, rows outside the engine may still use them."""
    if shown and len(dictionary.strings) > length:
        # Those rows refer to the old Strings, so the engine continues with a copy.
        dictionary.strings, _ = dictionary.strings.keep([np.arange(length)])
    dictionary.strings.truncate(length)
