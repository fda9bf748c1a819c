"""Lookups in one batch: the rows of some keys, and the multiplicities of some rows."""

from __future__ import annotations

from typing import Any

from .compiled import loop
from .search import lower, lower_near, same_row

_LARGEST = 2**63 - 1


ALL = 2**62
"""The number of rows to read of each key, if all are wanted."""


@loop(
    "i8(i8[:,::1], i8, i8[::1], i8, const i8[:,:], i8[::1], i8, i8, i8, b1, i8[::1], i8, i8[::1], i8[::1], i8[:,::1])"
)
def look_up(
    batch: Any,
    n: int,
    wanted: Any,
    low_bits: int,
    keys: Any,
    columns: Any,
    time_line: int,
    time: int,
    most: int,
    least: bool,
    edge: Any,
    first: int,
    count: Any,
    owner: Any,
    out: Any,
) -> int:
    """Copy the rows of a batch of n rows that have one of the keys from ``first`` on; ``owner`` gets the key's number.

    The sort words of a row with key i are in [wanted[i], wanted[i] | low_bits], and its ``columns`` equal those of the
    key. Rows later than ``time`` are left out if ``time_line`` is not 0.

    At most ``most`` rows in the range of each key are read: those with the largest words, or the smallest ones if
    ``least``. If rows are left, ``edge`` of this key becomes the best order code among them and its old value. The old
    value is -1 if no row was left before.

    ``out`` has ``count[0]`` rows. Returns the number of keys, or -1 minus a key for whose rows there is no room.
    """
    words, start, last = batch[0], 0, -(2**63)
    for i in range(first, len(wanted)):
        # Searching for sorted words walks through the batch once.
        word = wanted[i]
        start = lower_near(words, start, n, word) if word >= last else lower(words, 0, start, word)
        last, begin = word, start
        stop = n if word | low_bits == _LARGEST else lower_near(words, start, n, (word | low_bits) + 1)
        if stop - begin > most:
            cut = begin + most if least else stop - most - 1
            code = words[cut] & 0xFFFFFFFF
            if edge[i] == -1 or (code < edge[i] if least else code > edge[i]):
                edge[i] = code
            begin, stop = (begin, cut) if least else (cut + 1, stop)
        if count[0] + stop - begin > len(owner):
            return -1 - i
        for row in range(begin, stop):
            same = time_line == 0 or batch[time_line, row] <= time
            for at in range(len(columns)):
                same &= batch[1 + columns[at], row] == keys[at, i]
            if same:
                for line in range(len(out)):
                    out[line, count[0]] = batch[line, row]
                owner[count[0]] = i
                count[0] += 1
    return len(wanted)


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
