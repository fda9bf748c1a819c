"""Garbage collection of the string dictionary.

Codes are never reused, so a dictionary only grows, until compaction replaces it with one that contains only the strings
still in use. Batches stay sorted, because their order depends on the strings and not on the codes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..plan.nodes import Type
from .arrangement import Arrangement
from .encoding import DictionaryRef, Words


def sweep(dictionary: DictionaryRef, arrangements: Iterable[Arrangement], elsewhere: Iterable[Words]) -> Words | None:
    """Replace the dictionary with one that contains only the strings in use, and recode the arrangements.

    ``elsewhere`` contains the codes that are stored outside the arrangements. The caller must recode them with the
    array that this function returns. It maps each old code to its new code, or to -1 if the code was removed. If every
    string is in use, codes do not change, and the function returns None.
    """
    arrangements = list(arrangements)
    used = [
        b.body[1 + i] for a in arrangements for b in a.runs for i, t in enumerate(a.layout.types) if t is Type.STRING
    ]
    fresh, moved = dictionary.strings.keep([*used, *elsewhere])
    if len(fresh) == len(dictionary.strings):
        # Use the new dictionary even so, because it does not have any unused capacity.
        dictionary.strings = fresh
        return None
    for arrangement in arrangements:
        arrangement.recode(moved)
    dictionary.strings = fresh
    return moved


def truncate(dictionary: DictionaryRef, length: int, shown: bool) -> None:
    """Remove the strings whose codes are at least ``length``.

    If ``shown`` is true, rows outside the engine may still use these strings.
    """
    if shown and len(dictionary.strings) > length:
        # Those rows refer to the old dictionary, which must not change, so the engine continues with a copy.
        dictionary.strings, _ = dictionary.strings.keep([np.arange(length)])
    dictionary.strings.truncate(length)
