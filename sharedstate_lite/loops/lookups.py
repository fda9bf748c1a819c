"""Lookups in one batch: the rows of some keys, and the multiplicities of some rows."""

from __future__ import annotations

from typing import Any

from .compiled import loop
from .search import lower, same_row, upper


@loop("i8(i8[::1], i8, i8[::1], i8, i8[::1], i8[::1])")
def find(words: Any, n: int, wanted: Any, low_bits: int, starts: Any, stops: Any) -> int:
    """Write the range of rows whose sort words are in [word, word | low_bits] for each word of ``wanted``.

    Returns the number of rows in all ranges. ``words`` has n sort words. A word that is not smaller than the one before
    it is only searched after that one, so searching for sorted words walks through the batch once.
    """
    total, start, last = 0, 0, -(2**63)
    for i in range(len(wanted)):
        word = wanted[i]
        if word < last:
            start = lower(words, 0, start, word)
        else:
            stop, step = start, 1
            while stop < n and words[stop] < word:
                start, stop, step = stop + 1, stop + step, 2 * step
            start = lower(words, start, min(stop, n), word)
        stop = start
        while stop < n and words[stop] <= word | low_bits:
            stop += 1
            if stop - start == 8:
                stop = upper(words, stop, n, word | low_bits)
                break
        starts[i], stops[i] = start, stop
        total += stop - start
        last = word
    return total


@loop("i8(i8[:,::1], const i8[:,:], i8[::1], i8[::1], i8[::1], i8, i8, i8[::1], i8[:,::1], i8)")
def copy_matches(
    batch: Any,
    keys: Any,
    columns: Any,
    starts: Any,
    stops: Any,
    time_line: int,
    time: int,
    owner: Any,
    out: Any,
    m: int,
) -> int:
    """Copy the rows in each key's range that have this key, from row m of ``out`` on; ``owner`` gets its number.

    ``columns`` are the columns of the key. Rows later than ``time`` are left out if ``time_line`` is not 0. Returns the
    number of rows in ``out``.
    """
    for i in range(len(starts)):
        for row in range(starts[i], stops[i]):
            same = time_line == 0 or batch[time_line, row] <= time
            for at in range(len(columns)):
                same &= batch[1 + columns[at], row] == keys[at, i]
            if same:
                for line in range(len(out)):
                    out[line, m] = batch[line, row]
                owner[m] = i
                m += 1
    return m


@loop("i8(i8[:,::1], i8, i8[:,::1], i8, i8[::1])")
def stored(batch: Any, n: int, body: Any, columns: int, have: Any) -> int:
    """Add to ``have[i]`` how often a batch of n rows contains row i of ``body``, if this row is a retraction.

    Returns how many rows were found.
    """
    found = 0
    for i in range(len(have)):
        if body[1 + columns, i] < 0:
            row = lower(batch[0], 0, n, body[0, i])
            while row < n and batch[0, row] == body[0, i]:
                if same_row(batch, row, body, i, columns):
                    have[i] += batch[1 + columns, row]
                    found += 1
                row += 1
    return found


@loop("i8(i8[::1], const i8[:])")
def below_zero(have: Any, diffs: Any) -> int:
    """Return the first row whose retractions exceed how often it is stored, ``have``, or -1."""
    for i in range(len(have)):
        if diffs[i] < 0 and have[i] + diffs[i] < 0:
            return i
    return -1


@loop("i8(const i8[:], const i8[:], i8[::1], f8, i8[::1])")
def multiply(diffs: Any, found: Any, owner: Any, limit: float, out: Any) -> int:
    """Write the product of the diffs of each owner and of the row found for it.

    Returns -1 minus the first row whose product reaches ``limit`` in absolute value, or the number of rows.
    """
    for i in range(len(owner)):
        a, b = diffs[owner[i]], found[i]
        if (a > 1 or a < -1) and (b > 1 or b < -1) and abs(float(a)) * abs(float(b)) >= limit:
            return -1 - i
        out[i] = a * b
    return len(owner)
