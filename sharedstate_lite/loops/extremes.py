"""The largest values of groups, from the change of a group and from its stored rows.

Values are compared by their *ranks*, which are numbers in the order of the values; NULL has the smallest one. For the
smallest value of a group, the ranks are in the opposite order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .batches import order_code
from .compiled import loop

_NULL = -(2**63)


@loop("i8(i8[:], i8[:], i8[:], i8[:], i8[:], i8[::1], b1[::1], i8[::1], i8[::1], b1[::1], b1[::1])")
def extremes_after(
    ranks: Any,
    values: Any,
    diffs: Any,
    old_ranks: Any,
    old: Any,
    group: Any,
    there: Any,
    rank: Any,
    best: Any,
    exists: Any,
    unsure: Any,
) -> int:
    """Compute the best value of each group from its ``old`` one and from the values that were inserted and retracted.

    Writes its ``rank``, the value to ``best``, and to ``exists`` whether the group has rows. It is ``unsure`` if the
    old value, or a better one, was retracted and none that is at least as good was inserted, because other rows can
    still have the old value. Returns the number of groups that are unsure.
    """
    for g in range(len(best)):
        rank[g], best[g], exists[g], unsure[g] = _NULL, _NULL, False, False
    for row in range(len(values)):
        g = group[row]
        if diffs[row] > 0:
            exists[g] = True
            if ranks[row] > rank[g]:
                rank[g], best[g] = ranks[row], values[row]
        elif ranks[row] >= old_ranks[g]:
            unsure[g] = True
    count = 0
    for g in range(len(best)):
        if old_ranks[g] > rank[g]:
            rank[g], best[g] = old_ranks[g], old[g]
        else:
            unsure[g] &= not exists[g]
        exists[g] |= there[g]
        count += unsure[g]
    return count


@loop("i8(i8[::1], i8[:], i8[:], i8[:], i8[::1], i8[::1], i8[::1], i8, b1, i8[:,::1], i8[::1], b1[::1], b1[::1])")
def best_values(
    owner: Any,
    ranks: Any,
    values: Any,
    diffs: Any,
    edge: Any,
    ends: Any,
    order: Any,
    kind: int,
    least: bool,
    known: Any,
    best: Any,
    exists: Any,
    unsure: Any,
) -> int:
    """Write the best value of each owner, among those whose diffs add up to more than 0.

    ``edge`` is the best order code among the rows of an owner that were not read, or -1. The value is ``unsure`` if one
    of those rows can be better. ``ends`` has a 0 for each owner, and ``order`` is overwritten. Returns the number of
    owners that are unsure.
    """
    place, count = 0, 0
    for at in range(len(owner)):
        ends[owner[at]] += 1
    for g in range(len(ends)):
        size, ends[g] = ends[g], place
        place += size
    for at in range(len(owner)):  # afterwards, the rows of owner g are before ends[g]
        order[ends[owner[at]]] = at
        ends[owner[at]] += 1
    for g in range(len(ends)):
        start, stop, gap = ends[g - 1] if g > 0 else 0, ends[g], 1
        while gap < stop - start:
            gap = 3 * gap + 1
        while gap > 0:  # Shell's sort, the best row first
            for at in range(start + gap, stop):
                row, free = order[at], at
                while free >= start + gap and ranks[row] > ranks[order[free - gap]]:
                    order[free] = order[free - gap]
                    free -= gap
                order[free] = row
            gap //= 3
        total = 0
        while start < stop and total <= 0:
            rank, best[g], total = ranks[order[start]], values[order[start]], 0
            while start < stop and ranks[order[start]] == rank:
                total += diffs[order[start]]
                start += 1
        exists[g] = total > 0
        if total <= 0:
            best[g] = _NULL
        code = np.int64(order_code(best[g], kind, known))
        beyond = code < edge[g] if least else code > edge[g]
        unsure[g] = edge[g] != -1 and not (beyond and best[g] != _NULL)
        count += unsure[g]
    return count
