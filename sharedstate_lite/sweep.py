"""Forgetting the strings that no row uses any more.

Codes are never reused, so a dictionary only grows; compaction exchanges it for one with
what is still in use. Batches keep their order: it goes by the texts, not by the codes.
"""

from __future__ import annotations

from collections.abc import Iterable

from .arrangement import Arrangement
from .operators import Dictionary
from .plan import Type
from .words import Words


def sweep(names: Dictionary, arrangements: Iterable[Arrangement], elsewhere: Iterable[Words]) -> Words | None:
    """Exchange the dictionary; ``elsewhere`` are codes held outside arrangements.

    Returns the map old code -> new code (-1: forgotten), None where all are in use.
    """
    arrangements = list(arrangements)
    used = [
        b.body[1 + i] for a in arrangements for b in a.runs for i, t in enumerate(a.layout.types) if t is Type.STRING
    ]
    fresh, moved = names.strings.keep([*used, *elsewhere])
    if len(fresh) == len(names.strings):
        # The codes are the same then, and the room that forgotten ones once took is given back.
        names.strings = fresh
        return None
    for arrangement in arrangements:
        arrangement.recode(moved)
    names.strings = fresh
    return moved
