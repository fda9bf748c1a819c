"""Short strings packed into two words, and a hash table from packed strings to codes.

Each slot of the table has three words: the two of a string, and its code plus 1, or 0 if the slot is free. The number
of slots is a power of two, and a string is in the first free slot from the one that its hash selects.

Source: open addressing with linear probing, Knuth, TAOCP vol. 3, section 6.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import loop

MAX_BYTES = 15
"""The largest number of UTF-8 bytes that a packed string can have."""
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_S16, _S32, _S56 = np.uint64(16), np.uint64(32), np.uint64(56)


@loop("i8(const i8[::1], const u1[::1], u8[:,::1])")
def pack(offsets: Any, data: Any, out: Any) -> int:
    """Write the words of each string: its bytes, and in the last byte its length plus 1, or 0 if it is too long.

    String i consists of the bytes ``data[offsets[i]:offsets[i + 1]]``.
    """
    for i in range(len(out)):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        first, second = np.uint64(0), np.uint64(0)
        for at in range(min(size, 8)):
            first |= np.uint64(data[start + at]) << np.uint64(8 * at)
        for at in range(8, min(size, MAX_BYTES)):
            second |= np.uint64(data[start + at]) << np.uint64(8 * (at - 8))
        if size <= MAX_BYTES:
            second |= np.uint64(size + 1) << _S56
        out[i, 0], out[i, 1] = first, second
    return len(out)


@loop("i8(u8, u8, u8[:,::1], u8)")
def slot_of(first: Any, second: Any, table: Any, mask: Any) -> int:
    """Return the slot of a packed string, or the free slot to put it in. ``mask`` keeps some bits of its hash."""
    x = (first ^ first >> _S32) * _A ^ (second ^ second >> _S32) * _B
    x ^= x >> _S32
    last = len(table) - 1
    slot = np.int64(x * _A >> _S16 & mask) & last
    while table[slot, 2] != 0 and (table[slot, 0] != first or table[slot, 1] != second):
        slot = (slot + 1) & last
    return int(slot)


@loop("i8(u8[:,::1], u8[:,::1], u8, i8[::1])")
def probe(packed: Any, table: Any, mask: Any, out: Any) -> int:
    """Write the code of each string, or -1 if it is not in the table. Returns how many are not."""
    missing = 0
    for i in range(len(packed)):
        out[i] = np.int64(table[slot_of(packed[i, 0], packed[i, 1], table, mask), 2]) - 1
        missing += out[i] < 0
    return missing


@loop("i8(u8[:,::1], i8[::1], i8[::1], u8[:,::1], u8)")
def add_strings(packed: Any, chosen: Any, codes: Any, table: Any, mask: Any) -> int:
    """Put the strings at the positions ``chosen`` into the table, with their codes. Returns how many are new.

    Strings that are too long, and those that the table already contains, are left out. The table must have room.
    """
    new = 0
    for at in range(len(chosen)):
        first, second = packed[chosen[at], 0], packed[chosen[at], 1]
        if second >> _S56 != 0:
            slot = slot_of(first, second, table, mask)
            if table[slot, 2] == 0:
                table[slot, 0], table[slot, 1], table[slot, 2] = first, second, np.uint64(codes[at] + 1)
                new += 1
    return new
