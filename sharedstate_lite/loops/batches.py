"""Hashes of rows, sort words and consolidation: how a batch is made (see ``storage/batch.py`` for its format)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import loop


def _odd(i: int) -> int:
    """Return the i-th number of a sequence of odd constants, from splitmix64 (Steele et al., OOPSLA 2014)."""
    mask = (1 << 64) - 1
    z = (i + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return (z ^ z >> 31) | 1


_ODD = np.array([_odd(i) for i in range(65)], dtype=np.uint64)
_FINAL, _S32, _S29 = np.uint64(_odd(99)), np.uint64(32), np.uint64(29)
_LOW, _HIGH = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF << 32)
_NONE = np.uint64(0)
_NULL = -(2**63)
_POSITIVE = 2**63 - 1
NUMBER, TEXT, DOUBLE = 0, 1, 2
"""What the words of a column are: whole numbers, codes of strings, or the bits of float64."""


@loop("i8(const i8[:,:], i8[::1], i8[::1], i8[:,::1], u8, i8[::1])")
def hash_rows(rows: Any, columns: Any, kinds: Any, known: Any, mask: Any, out: Any) -> int:
    """Write the 64-bit hash of each row over some columns. ``known`` is that of the dictionary."""
    n = len(out)
    for i in range(n):
        out[i] = 0
    for at in range(len(columns)):
        column, odd, text = columns[at], _ODD[at], kinds[columns[at]] == TEXT
        for i in range(n):
            word = rows[column, i]
            if text:
                x = np.uint64(known[1, word]) if word >= 0 else _NONE
            else:
                # Doubles often differ only in their high bits, which the multiplication would discard.
                x = np.uint64(word)
                x ^= x >> _S32
            out[i] = np.int64(np.uint64(out[i]) + x * odd)
    for i in range(n):
        h = np.uint64(out[i])
        h ^= h >> _S29
        h *= _FINAL
        out[i] = np.int64((h ^ h >> _S32) & mask)
    return n


@loop("u8(i8, i8, i8[:,::1])")
def order_code(word: int, kind: int, known: Any) -> Any:
    """Return a 32-bit code that is monotone in the value of a word. Only NULL has code 0."""
    if word == _NULL:
        return _NONE
    if kind == TEXT:
        code = np.uint64(known[2, word]) >> _S32
    else:
        # Conversion to float64 preserves the order of integers, and small integers still get different codes.
        bits = word if kind == DOUBLE else np.float64(word).view(np.int64)
        if bits < 0:
            bits ^= _POSITIVE
        code = np.uint64((bits >> 32) + (1 << 31))
    return code if code > _NONE else np.uint64(1)


@loop("i8(const i8[::1], i8, i8[:,::1], u8[::1])")
def order_codes(words: Any, kind: int, known: Any, out: Any) -> int:
    """Write the order code of each word to ``out``."""
    for i in range(len(words)):
        out[i] = order_code(words[i], kind, known)
    return len(words)


@loop("i8(const i8[:,:], const i8[:,:], i8[::1], i8[::1], i8[::1], i8, i8[:,::1], u8, i8[:,::1])")
def add_words(
    rows: Any, diffs: Any, key: Any, every: Any, kinds: Any, order: int, known: Any, mask: Any, out: Any
) -> int:
    """Write rows and diffs as an unsorted body: line 0 has the sort words, of a key's hash and 32 low bits.

    The low bits are an order code of column ``order``, or a hash of the columns ``every`` if ``order`` is negative, or
    more of the key's hash if there are none in ``every``.
    """
    columns, n = len(rows), rows.shape[1]
    hash_rows(rows, key, kinds, known, mask, out[0])
    if order >= 0:
        for i in range(n):
            low = order_code(rows[order, i], kinds[order], known)
            out[0, i] = np.int64((np.uint64(out[0, i]) & _HIGH) | low)
    elif len(every) > 0:
        # The line of the first column is not written yet.
        hash_rows(rows, every, kinds, known, mask, out[1])
        for i in range(n):
            out[0, i] = np.int64((np.uint64(out[0, i]) & _HIGH) | (np.uint64(out[1, i]) & _LOW))
    for line in range(columns):
        for i in range(n):
            out[1 + line, i] = rows[line, i]
    for line in range(len(diffs)):
        for i in range(n):
            out[1 + columns + line, i] = diffs[line, i]
    return int(n)


@loop("i8(i8[::1], i8[:,::1], i8[::1], i8[::1])")
def sort_words(words: Any, counts: Any, order: Any, other: Any) -> int:
    """Write the order that sorts words (radix sort, from the last of 8 bytes to the first).

    ``counts`` has 256 zeros for each byte, and ``other``, as long as ``order``, is overwritten. A byte that is equal in
    all words is skipped. Returns the number of words.
    """
    n, result = len(words), order
    for i in range(n):
        order[i] = i
        for byte in range(8):
            counts[byte, (words[i] ^ _NULL) >> 8 * byte & 255] += 1
    for byte in range(8):
        if n > 0 and counts[byte, (words[0] ^ _NULL) >> 8 * byte & 255] < n:
            place = 0
            for value in range(256):
                size = counts[byte, value]
                counts[byte, value] = place
                place += size
            for at in range(n):
                value = (words[order[at]] ^ _NULL) >> 8 * byte & 255
                other[counts[byte, value]] = order[at]
                counts[byte, value] += 1
            order, other = other, order
    for at in range(n):
        result[at] = order[at]
    return int(n)


@loop("b1(i8[:,::1], i8, i8, i8, i8)")
def before(body: Any, i: int, j: int, columns: int, width: int) -> bool:
    """Return whether row i comes before row j, which has the same sort word: by time, then from the last column on."""
    for line in range(len(body) - 1, columns + width, -1):
        if body[line, i] != body[line, j]:
            return bool(body[line, i] < body[line, j])
    for line in range(columns, 0, -1):
        if body[line, i] != body[line, j]:
            return bool(body[line, i] < body[line, j])
    return False


@loop("i8(i8[:,::1], i8[::1], i8, i8, i8, i8)")
def sort_block(body: Any, order: Any, start: int, stop: int, columns: int, width: int) -> int:
    """Sort order[start:stop], which are rows with equal sort words, by times and columns (Shell's sort)."""
    gap = 1
    while gap < stop - start:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(start + gap, stop):
            row, free = order[at], at
            while free >= start + gap and before(body, row, order[free - gap], columns, width):
                order[free] = order[free - gap]
                free -= gap
            order[free] = row
        gap //= 3
    return stop - start


@loop("i8(i8[:,::1], i8[::1], i8, i8, i8[:,::1], i8)")
def consolidate(body: Any, order: Any, columns: int, width: int, out: Any, filled: int) -> int:
    """Add up the diffs of rows with equal columns and times, and drop rows whose diffs add up to 0.

    ``order`` sorts the rows by sort word; it is overwritten. The rows that remain are written to ``out`` from row
    ``filled`` on. Returns the number of rows in ``out``.
    """
    n, m, start = len(order), filled, 0
    while start < n:
        stop = start + 1
        while stop < n and body[0, order[stop]] == body[0, order[start]]:
            stop += 1
        if stop - start > 1:
            sort_block(body, order, start, stop, columns, width)
        at = start
        while at < stop:
            row, live = order[at], False
            end = at + 1
            while end < stop and not before(body, row, order[end], columns, width):
                end += 1
            for line in range(1 + columns, 1 + columns + width):
                total = body[line, row]
                for other in range(at + 1, end):
                    total += body[line, order[other]]
                out[line, m] = total
                live |= total != 0
            if live:
                order[m - filled] = row
                m += 1
            at = end
        start = stop
    for line in range(len(body)):
        if line <= columns or line > columns + width:
            for at in range(m - filled):
                out[line, filled + at] = body[line, order[at]]
    return m
