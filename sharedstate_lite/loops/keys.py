"""Distinct rows, and sets of keys: sorted by a hash of the key, so that a key is found by binary search."""

from __future__ import annotations

from typing import Any

from .compiled import loop
from .search import lower


@loop("b1(const i8[:,:], i8, const i8[:,:], i8)")
def same_key(a: Any, i: int, b: Any, j: int) -> bool:
    """Return whether column i of ``a`` equals column j of ``b``."""
    for line in range(len(a)):
        if a[line, i] != b[line, j]:
            return False
    return True


@loop("i8(const i8[:,:], const i8[:], i8[::1], i8[::1], i8[::1])")
def number_rows(rows: Any, words: Any, order: Any, first: Any, number: Any) -> int:
    """Number the distinct rows in the order of their words, which are hashes; ``order`` sorts by word.

    Writes one row of each number to ``first``, and the number of each row to ``number``. Returns how many there are.
    """
    count = 0
    for at in range(len(order)):
        row, n = order[at], count - 1
        while n >= 0 and words[first[n]] == words[row] and not same_key(rows, first[n], rows, row):
            n -= 1
        if n < 0 or words[first[n]] != words[row]:
            n, count = count, count + 1
            first[n] = row
        number[row] = n
    return count


@loop("i8(const i8[:,:], i8[::1], const i8[:,:], i8[::1], i8[::1])")
def find_keys(keys: Any, words: Any, wanted: Any, asked: Any, out: Any) -> int:
    """Write the position of each wanted key in a set, or -1; ``asked`` are their words. Returns how many were found.

    The keys of a set are sorted by ``words``.
    """
    found = 0
    for i in range(len(asked)):
        at = lower(words, 0, len(words), asked[i])
        while at < len(words) and words[at] == asked[i] and not same_key(keys, at, wanted, i):
            at += 1
        if at == len(words) or words[at] != asked[i]:
            at = -1
        out[i] = at
        found += at >= 0
    return found


@loop("i8(const i8[:,:], i8[::1], i8[::1], const i8[:,:], i8[::1], i8[::1], i8, i8[:,::1], i8[::1], i8[::1])")
def add_keys(
    keys: Any, words: Any, used: Any, fresh: Any, asked: Any, order: Any, now: int, out: Any, to: Any, uses: Any
) -> int:
    """Write a set and the ``fresh`` keys that are not in it as a new set: its keys, its words and their last uses.

    ``order`` sorts the fresh keys by their words, ``asked``. Their last use is ``now``. Returns the size of the set.
    """
    count, old = 0, 0
    for at in range(len(order) + 1):
        while old < len(words) and (at == len(order) or words[old] <= asked[order[at]]):
            for line in range(len(keys)):
                out[line, count] = keys[line, old]
            to[count], uses[count] = words[old], used[old]
            count, old = count + 1, old + 1
        if at < len(order):
            key, there = order[at], count - 1
            while there >= 0 and to[there] == asked[key] and not same_key(out, there, fresh, key):
                there -= 1
            if there < 0 or to[there] != asked[key]:
                for line in range(len(keys)):
                    out[line, count] = fresh[line, key]
                to[count], uses[count] = asked[key], now
                count += 1
    return count
