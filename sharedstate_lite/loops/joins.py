"""The join of a change with a batch: two nested loops over rows with the same key."""

from __future__ import annotations

from typing import Any

from .compiled import loop
from .search import lower, lower_near

_NULL = -(2**63)


@loop("i8(i8[:,::1], i8, i8[::1], const i8[:,:], const i8[:], i8[:,::1], i8, i8, f8, b1, i8, i8[::1], i8[:,::1])")
def join(
    batch: Any,
    n: int,
    wanted: Any,
    rows: Any,
    diffs: Any,
    equal: Any,
    time_line: int,
    time: int,
    limit: float,
    last: bool,
    first: int,
    count: Any,
    out: Any,
) -> int:
    """Join the rows of a change, from ``first`` on, with the rows of a batch of n rows, and multiply their diffs.

    The sort words of the partners of row i have the upper half of ``wanted[i]``. Column ``equal[0, j]`` of the row and
    column ``equal[1, j]`` of its partner must be equal and not NULL. Rows of the batch that are later than ``time`` are
    left out if ``time_line`` is not 0.

    ``out`` has ``count[0]`` joined rows: the columns of the change, those of the partner, and the product. If ``last``,
    the columns of the change come after those of the partner. ``count[1]`` counts the products that reach ``limit`` in
    absolute value. Returns the number of rows of the change, or -1 minus a row for whose partners there is no room.
    """
    words, start, own, others = batch[0], 0, len(rows), len(out) - 1 - len(rows)
    mine, theirs = (others, 0) if last else (0, own)
    for i in range(first, len(wanted)):
        begin, nulls = count[0], False
        for at in range(equal.shape[1]):
            nulls |= rows[equal[0, at], i] == _NULL
        # Searching for sorted words walks through the batch once.
        near = start == 0 or words[start - 1] < wanted[i]
        start = lower_near(words, start, n, wanted[i]) if near else lower(words, 0, start, wanted[i])
        row = n if nulls else start
        while row < n and words[row] >> 32 == wanted[i] >> 32:
            same = time_line == 0 or batch[time_line, row] <= time
            for at in range(equal.shape[1]):
                same &= rows[equal[0, at], i] == batch[1 + equal[1, at], row]
            if same:
                if count[0] == out.shape[1]:
                    count[0] = begin
                    return -1 - i
                for line in range(own):
                    out[mine + line, count[0]] = rows[line, i]
                for line in range(others):
                    out[theirs + line, count[0]] = batch[1 + line, row]
                a, b = diffs[i], batch[1 + others, row]
                count[1] += (a > 1 or a < -1) and (b > 1 or b < -1) and abs(float(a)) * abs(float(b)) >= limit
                out[own + others, count[0]] = a * b
                count[0] += 1
            row += 1
    return len(wanted)
