"""Texts of values, counts and titles, and how much of a table is listed, as pictures and tables show them.

>>> from sharedstate_lite.replay.texts import counted, shown, titled
>>> shown(None), shown(2.5), shown(""), counted(1200, "row"), titled("max(length)")
('NULL', '2.5', "''", '1,200 rows', 'MAX(length)')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

LISTED = 8
"""The largest number of rows, groups and keys of a table that are listed: those with a mark, then the first ones."""
BAG = 4
"""The number of values of MAX or MIN that are listed for a group, besides those with a mark."""

_T = TypeVar("_T")
_FUNCTION = re.compile(r"\b(max|min|sum|count|avg)\(")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(words: str) -> str:
    """Return a text on one line. Line breaks, tabs and characters that XML does not allow are escaped."""
    shown = words.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return _ILLEGAL.sub(lambda found: f"\\x{ord(found[0]):02x}", shown)


def shown(value: Any) -> str:
    """Return the text of a value in a cell: NULL for a missing value, and quotes around a blank string."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    words = clean(str(value))
    return words if words.strip() else f"'{words}'"


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 row``, ``2 rows``, ``1,200 rows``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def titled(title: str) -> str:
    """Return an operator's title with its aggregate functions in capitals."""
    return _FUNCTION.sub(lambda found: found[0].upper(), title)


def few(every: Sequence[_T], marked: Callable[[_T], bool]) -> list[_T]:
    """Return at most `LISTED` elements in their order: those that are marked, then the first ones."""
    if len(every) <= LISTED:
        return list(every)
    first = sorted(range(len(every)), key=lambda at: (not marked(every[at]), at))[:LISTED]
    return [every[at] for at in sorted(first)]
