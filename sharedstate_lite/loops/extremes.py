"""The largest or smallest values of groups, from the change of a group and from its stored rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .batches import DOUBLE, TEXT, order_code
from .compiled import loop
from .strings import text_before

_NULL = -(2**63)
_POSITIVE = 2**63 - 1


@loop("b1(i8, i8, i8, b1, i8[:,::1], u1[::1])")
def better(a: int, b: int, kind: int, least: bool, known: Any, texts: Any) -> bool:
    """Return whether value a is larger than value b, or smaller if ``least``. Every value is better than NULL.

    ``kind`` says what the two words are. ``known`` and ``texts`` are those of the dictionary.
    """
    if a == b or a == _NULL or b == _NULL:
        return b == _NULL and a != b
    if kind == TEXT:
        return bool(text_before(a, b, known, texts) if least else text_before(b, a, known, texts))
    if kind == DOUBLE:
        a ^= _POSITIVE if a < 0 else 0
        b ^= _POSITIVE if b < 0 else 0
    return a < b if least else a > b


@loop("i8(i8[:], i8[:], i8[:], i8[::1], b1[::1], i8, b1, i8[:,::1], u1[::1], i8[::1], b1[::1], b1[::1])")
def extremes_after(
    values: Any,
    diffs: Any,
    old: Any,
    group: Any,
    there: Any,
    kind: int,
    least: bool,
    known: Any,
    texts: Any,
    best: Any,
    exists: Any,
    unsure: Any,
) -> int:
    """Compute the extreme value of each group from its old one and from the values that were inserted and retracted.

    Writes it to ``best``, and to ``exists`` whether the group has rows. It is ``unsure`` if the old value, or a better
    one, was retracted and none that is at least as good was inserted, because other rows can still have the old value.
    Returns the number of groups that are unsure.
    """
    for g in range(len(best)):
        best[g], exists[g], unsure[g] = _NULL, False, False
    for row in range(len(values)):
        g = group[row]
        if diffs[row] > 0:
            exists[g] = True
            if better(values[row], best[g], kind, least, known, texts):
                best[g] = values[row]
        elif not better(old[g], values[row], kind, least, known, texts):
            unsure[g] = True
    count = 0
    for g in range(len(best)):
        if better(old[g], best[g], kind, least, known, texts):
            best[g] = old[g]
        else:
            unsure[g] &= not exists[g]
        exists[g] |= there[g]
        count += unsure[g]
    return count


@loop("i8(i8[::1], i8[:], i8[:], i8[::1], i8[::1], i8, b1, i8[:,::1], u1[::1], i8[::1], b1[::1], b1[::1])")
def best_values(
    owner: Any,
    values: Any,
    diffs: Any,
    edge: Any,
    order: Any,
    kind: int,
    least: bool,
    known: Any,
    texts: Any,
    best: Any,
    exists: Any,
    unsure: Any,
) -> int:
    """Write the best value of each owner, among those whose diffs add up to more than 0.

    ``edge`` is the best order code among the rows of an owner that were not read, or -1. The value is ``unsure`` if one
    of those rows can be better. ``order`` is overwritten. Returns the number of owners that are unsure.
    """
    n, gap, start, count = len(order), 1, 0, 0
    for at in range(n):
        order[at] = at
    while gap < n:
        gap = 3 * gap + 1
    while gap > 0:  # Shell's sort, by owner and then from the best value to the worst
        for at in range(gap, n):
            row, free = order[at], at
            while free >= gap and owner[row] <= owner[order[free - gap]]:
                other = order[free - gap]
                if owner[row] == owner[other] and not better(values[row], values[other], kind, least, known, texts):
                    break
                order[free] = other
                free -= gap
            order[free] = row
        gap //= 3
    while start < n:
        who, value, total = owner[order[start]], values[order[start]], 0
        while start < n and owner[order[start]] == who and values[order[start]] == value:
            total += diffs[order[start]]
            start += 1
        if total > 0 and not exists[who]:
            best[who], exists[who] = value, True
    for i in range(len(edge)):
        code = np.int64(order_code(best[i], kind, known))
        beyond = code < edge[i] if least else code > edge[i]
        unsure[i] = edge[i] != -1 and not (beyond and best[i] != _NULL)
        count += unsure[i]
    return count
