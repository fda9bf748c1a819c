"""Binary search in sorted words, and comparisons of rows of two matrices."""

from __future__ import annotations

from typing import Any

from .compiled import loop


@loop("i8(i8[::1], i8, i8, i8)")
def lower(words: Any, start: int, stop: int, word: int) -> int:
    """Return the first position in [start, stop) whose word is at least ``word``, or ``stop``."""
    while start < stop:
        middle = (start + stop) >> 1
        if words[middle] < word:
            start = middle + 1
        else:
            stop = middle
    return start


@loop("i8(i8[::1], i8, i8, i8)")
def lower_near(words: Any, start: int, stop: int, word: int) -> int:
    """Return the same as `lower`. It is faster if the position is near ``start``."""
    end, step = start, 1
    while end < stop and words[end] < word:
        start, end, step = end + 1, end + step, 2 * step
    return int(lower(words, start, min(end, stop), word))


@loop("b1(i8[:,::1], i8, i8[:,::1], i8, i8)")
def same_row(a: Any, i: int, b: Any, j: int, lines: int) -> bool:
    """Return whether row i of ``a`` equals row j of ``b`` in the lines 1 to ``lines``."""
    for line in range(1, lines + 1):
        if a[line, i] != b[line, j]:
            return False
    return True


@loop("i8(const i8[:], i8, i8, i8)")
def outside(words: Any, low: int, high: int, excluded: int) -> int:
    """Return the position of the first word that is not in [low, high], or that is ``excluded``, or -1."""
    for at in range(len(words)):
        if words[at] < low or words[at] > high or words[at] == excluded:
            return at
    return -1
