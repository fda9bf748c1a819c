"""Forgetting the strings that no row uses any more, or that a refused call had brought.

Codes are never reused, so a dictionary only grows; compaction exchanges it for one with
what is still in use. Batches keep their order: it goes by the texts, not by the codes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..plan.nodes import Type
from .arrangement import Arrangement
from .encoding import Dictionary, Words


def sweep(dictionary: Dictionary, arrangements: Iterable[Arrangement], elsewhere: Iterable[Words]) -> Words | None:
    """Exchange the dictionary; ``elsewhere`` are codes held outside arrangements.

    Returns the map old code -> new code (-1: forgotten), None where all are in use.
    """
    arrangements = list(arrangements)
    used = [
        b.body[1 + i] for a in arrangements for b in a.runs for i, t in enumerate(a.layout.types) if t is Type.STRING
    ]
    fresh, moved = dictionary.strings.keep([*used, *elsewhere])
    if len(fresh) == len(dictionary.strings):
        # The codes are the same then, and the room that forgotten ones once took is given back.
        dictionary.strings = fresh
        return None
    for arrangement in arrangements:
        arrangement.recode(moved)
    dictionary.strings = fresh
    return moved


def truncate(dictionary: Dictionary, length: int, shown: bool) -> None:
    """Drop the strings from ``length`` on; ``shown`` says that rows which are kept elsewhere may hold them."""
    if shown and len(dictionary.strings) > length:
        # Those rows keep the dictionary that they are of, and the engine goes on with a copy of its own part.
        dictionary.strings, _ = dictionary.strings.keep([np.arange(length)])
    dictionary.strings.truncate(length)
