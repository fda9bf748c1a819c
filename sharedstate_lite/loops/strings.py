"""Strings and their codes: a hash table whose slots contain short strings, and the bytes of all strings one by one.

A string of at most 15 UTF-8 bytes is *packed* into two words: its bytes, and in the last byte its length plus 1. Two
short strings are equal if and only if their words are. The words of a longer string are a hash and its length, with 255
in the last byte, so its bytes are compared as well. The words of a null are 0.

Each slot of the table has three words: the two of a string, and its code plus 1, or 0 if the slot is free. A string is
in the first free slot from the one that its words select. If the string that was added last is removed, the table is
the same as before. ``known`` has three lines, with an element for each code: where the bytes of the string start in
``texts``, its hash, and its first 8 bytes as a number. String c ends where string c + 1 starts.

Source: open addressing with linear probing, Knuth, TAOCP vol. 3, section 6.4; Aumasson and Bernstein, SipHash, 2012.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import loop

MAX_BYTES = 15
"""The largest number of UTF-8 bytes that a slot of the table can contain."""
_NULL = -(2**63)
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_S13, _S16, _S17, _S21, _S32, _S43, _S47, _S48, _S51, _S56 = map(np.uint64, (13, 16, 17, 21, 32, 43, 47, 48, 51, 56))
_S27, _S30, _S31 = map(np.uint64, (27, 30, 31))
_MIX, _MIXED = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LONG, _END = np.uint64(255 << 56), np.uint64(255)
# The state of SipHash for the key 0123456789123456. The hashes are those of pandas.util.hash_array, because bins and
# checkpoints of earlier versions depend on them.
_V0, _V1, _V2, _V3 = (
    np.uint64(start ^ key)
    for start, key in (
        (0x736F6D6570736575, 0x3736353433323130),
        (0x646F72616E646F6D, 0x3635343332313938),
        (0x6C7967656E657261, 0x3736353433323130),
        (0x7465646279746573, 0x3635343332313938),
    )
)


@loop("u8(const u1[::1], i8, i8)")
def word_at(data: Any, start: int, count: int) -> Any:
    """Return up to 8 bytes from ``start`` on as a word, with the first byte in the lowest bits."""
    word = np.uint64(0)
    for at in range(min(count, 8)):
        word |= np.uint64(data[start + at]) << np.uint64(8 * at)
    return word


@loop("u8(const u1[::1], i8, i8)")
def first_bytes(data: Any, start: int, size: int) -> Any:
    """Return the first 8 bytes as a number that is larger for a larger string, with 0 for each missing byte."""
    number = np.uint64(0)
    for at in range(min(size, 8)):
        number |= np.uint64(data[start + at]) << np.uint64(56 - 8 * at)
    return number


@loop("u8(const u1[::1], i8, i8)")
def hash_bytes(data: Any, start: int, size: int) -> Any:
    """Return the hash of ``size`` bytes from ``start`` on: SipHash-2-4, then the finalizer of splitmix64.

    The upper half is folded into the lower half, as `hash_rows` folds the words of all other types.
    """
    a, b, c, d = _V0, _V1, _V2, _V3
    for block in range(size // 8 + 2):
        rest = size - 8 * block
        word, rounds = np.uint64(0), 4
        if rest >= 0:
            word, rounds = word_at(data, start + 8 * block, rest), 2
            if rest < 8:
                word |= np.uint64(size) << _S56
        else:
            c ^= _END
        d ^= word
        for _ in range(rounds):
            a += b
            c += d
            b = (b << _S13 | b >> _S51) ^ a
            d = (d << _S16 | d >> _S48) ^ c
            a = a << _S32 | a >> _S32
            c += b
            a += d
            b = (b << _S17 | b >> _S47) ^ c
            d = (d << _S21 | d >> _S43) ^ a
            c = c << _S32 | c >> _S32
        a ^= word
    a ^= b ^ c ^ d
    a = (a ^ a >> _S30) * _MIX
    a = (a ^ a >> _S27) * _MIXED
    a ^= a >> _S31
    return a ^ a >> _S32


@loop("i8(const i8[::1], const u1[::1], u8[:,::1])")
def pack(offsets: Any, data: Any, out: Any) -> int:
    """Write the two words of each string. String i consists of the bytes ``data[offsets[i]:offsets[i + 1]]``."""
    for i in range(len(out)):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        if size <= MAX_BYTES:
            out[i, 0] = word_at(data, start, size)
            out[i, 1] = word_at(data, start + 8, size - 8) | np.uint64(size + 1) << _S56
        else:
            out[i, 0] = hash_bytes(data, start, size)
            out[i, 1] = np.uint64(size) | _LONG
    return len(out)


@loop("i8(u8, u8, u8[:,::1], u8)")
def home_of(first: Any, second: Any, table: Any, mask: Any) -> int:
    """Return the slot that the words of a string select. ``mask`` keeps some bits of the hash."""
    x = (first ^ first >> _S32) * _A ^ (second ^ second >> _S32) * _B
    x ^= x >> _S32
    return int(np.int64(x * _A >> _S16 & mask) & (len(table) - 1))


@loop("i8(u8, u8, i8, u8[:,::1])")
def slot_of(first: Any, second: Any, slot: int, table: Any) -> int:
    """Return the first slot from ``slot`` on that contains these words or is free."""
    while table[slot, 2] != 0 and (table[slot, 0] != first or table[slot, 1] != second):
        slot = (slot + 1) & (len(table) - 1)
    return slot


@loop("i8(i8, const u1[::1], i8, u8[:,::1], i8[:,::1], u1[::1])")
def slot_of_long(slot: int, data: Any, start: int, table: Any, known: Any, texts: Any) -> int:
    """Return the first slot from ``slot`` on whose string has the same words and bytes, or a free one."""
    first, second = table[slot, 0], table[slot, 1]
    while table[slot, 2] != 0:
        other, at = known[0, np.int64(table[slot, 2]) - 1], 0
        while at < np.int64(second ^ _LONG) and data[start + at] == texts[other + at]:
            at += 1
        if at == np.int64(second ^ _LONG):
            break
        slot = slot_of(first, second, (slot + 1) & (len(table) - 1), table)
    return slot


@loop("i8(u8[:,::1], const i8[::1], const u1[::1], u8[:,::1], i8[:,::1], u1[::1], u8, i8[::1])")
def find_codes(packed: Any, offsets: Any, data: Any, table: Any, known: Any, texts: Any, mask: Any, out: Any) -> int:
    """Write the code of each string, or -1 if it is not in the table. Returns how many are not."""
    missing = 0
    for i in range(len(packed)):
        first, second = packed[i, 0], packed[i, 1]
        slot = slot_of(first, second, home_of(first, second, table, mask), table)
        if second >= _LONG:
            slot = slot_of_long(slot, data, offsets[i], table, known, texts)
        out[i] = np.int64(table[slot, 2]) - 1
        if second == 0:
            out[i] = _NULL
        missing += out[i] == -1
    return missing


@loop("i8(const u8[::1], u8[:,::1], u8)")
def code_of(words: Any, table: Any, mask: Any) -> int:
    """Return the code of a short string, whose two words these are, or -1 if it is not in the table."""
    slot = home_of(words[0], words[1], table, mask)
    return int(np.int64(table[slot_of(words[0], words[1], slot, table), 2]) - 1)


@loop("i8(u8[:,::1], const i8[::1], const u1[::1], i8, u8[:,::1], i8[:,::1], u1[::1], i8[::1], u8, i8[::1])")
def add_strings(
    packed: Any,
    offsets: Any,
    data: Any,
    start: int,
    table: Any,
    known: Any,
    texts: Any,
    count: Any,
    mask: Any,
    out: Any,
) -> int:
    """Add the strings with the code -1 from row ``start`` on, and write their codes.

    ``count[0]`` is the number of strings. Returns the number of rows, or -1 minus the row of a string for which there
    is no room. Nothing is lost if Python is interrupted: a string counts before it is in the table.
    """
    for i in range(start, len(packed)):
        if out[i] == -1:
            first, second, begin = packed[i, 0], packed[i, 1], offsets[i]
            slot = slot_of(first, second, home_of(first, second, table, mask), table)
            if second >= _LONG:
                slot = slot_of_long(slot, data, begin, table, known, texts)
            if table[slot, 2] == 0:
                code, size = count[0], offsets[i + 1] - begin
                end = known[0, code]
                if code + 2 > known.shape[1] or end + size > len(texts):
                    return -1 - i
                for at in range(size):
                    texts[end + at] = data[begin + at]
                known[0, code + 1] = end + size
                known[1, code] = np.int64(hash_bytes(data, begin, size))
                known[2, code] = np.int64(first_bytes(data, begin, size))
                count[0] = code + 1
                table[slot, 0], table[slot, 1] = first, second
                table[slot, 2] = np.uint64(code + 1)
            out[i] = np.int64(table[slot, 2]) - 1
    return len(packed)


@loop("i8(const i8[::1], u1[::1], i8, i8)")
def starts_within(starts: Any, texts: Any, first: int, stop: int) -> int:
    """Return the first of the strings ``first`` to ``stop`` that starts inside a character of UTF-8, or -1."""
    for code in range(first, stop):
        if starts[code + 1] > starts[code] and texts[starts[code]] & 0xC0 == 0x80:
            return code
    return -1


@loop("i8(u8[:,::1], u8[:,::1], u8)")
def fill(packed: Any, table: Any, mask: Any) -> int:
    """Put all strings, whose words are ``packed``, into an empty table in the order of their codes."""
    for code in range(len(packed)):
        slot = home_of(packed[code, 0], packed[code, 1], table, mask)
        while table[slot, 2] != 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot, 0], table[slot, 1], table[slot, 2] = packed[code, 0], packed[code, 1], np.uint64(code + 1)
    return len(packed)


@loop("i8(u8[:,::1], u8[:,::1], i8[::1], u8)")
def remove(packed: Any, table: Any, count: Any, mask: Any) -> int:
    """Remove the strings that were added last, whose words are ``packed``, the newest first. Returns how many."""
    first = count[0] - len(packed)
    while count[0] > first:
        code = count[0] - 1
        slot = home_of(packed[code - first, 0], packed[code - first, 1], table, mask)
        while table[slot, 2] != 0 and table[slot, 2] != np.uint64(code + 1):
            slot = (slot + 1) & (len(table) - 1)
        for word in range(3):
            table[slot, 2 - word] = 0
        count[0] = code
    return len(packed)


@loop("i8(const i8[:], i8[:,::1], i8[::1])")
def measure(codes: Any, known: Any, offsets: Any) -> int:
    """Write the offsets of the strings of some codes, one after the other. Returns how many are NULL, without bytes."""
    offsets[0], nulls = 0, 0
    for i in range(len(codes)):
        offsets[i + 1] = offsets[i]
        if codes[i] >= 0:
            offsets[i + 1] += known[0, codes[i] + 1] - known[0, codes[i]]
        else:
            nulls += 1
    return nulls


@loop("i8(const i8[:], i8[:,::1], u1[::1], i8[::1], u1[::1])")
def copy_texts(codes: Any, known: Any, texts: Any, offsets: Any, out: Any) -> int:
    """Copy the bytes of the strings of some codes to the offsets that `measure` wrote."""
    for i in range(len(codes)):
        for at in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + at] = texts[known[0, codes[i]] + at]
    return len(codes)


@loop("b1(i8, i8, i8[:,::1], u1[::1])")
def text_before(a: int, b: int, known: Any, texts: Any) -> bool:
    """Return whether string a comes before string b: by their bytes, which is the order of their code points.

    NULL comes before all strings.
    """
    if a < 0 or b < 0 or a == b:
        return a < 0 <= b
    start, other = known[0, a], known[0, b]
    size, length = known[0, a + 1] - start, known[0, b + 1] - other
    for at in range(min(size, length)):
        if texts[start + at] != texts[other + at]:
            return bool(texts[start + at] < texts[other + at])
    return bool(size < length)


@loop("i8(const i8[:], i8[::1], i8[:,::1], u1[::1], i8[::1], i8[::1])")
def rank_texts(codes: Any, order: Any, known: Any, texts: Any, ranks: Any, kinds: Any) -> int:
    """Number the different strings in their order. Writes the rank of each string, and the code of each rank.

    ``order`` sorts the strings by their first 8 bytes, with NULL beside the string with code 0. It is then sorted by
    all bytes (Shell's sort). The rank of NULL is not written. Returns how many ranks there are.
    """
    start, n, count = 0, len(order), 0
    while start < n:
        stop = start + 1
        while stop < n and known[2, max(codes[order[stop]], 0)] == known[2, max(codes[order[start]], 0)]:
            stop += 1
        gap = 1
        while gap < stop - start:
            gap = 3 * gap + 1
        while gap > 0:
            for at in range(start + gap, stop):
                row, free = order[at], at
                while free >= start + gap and text_before(codes[row], codes[order[free - gap]], known, texts):
                    order[free] = order[free - gap]
                    free -= gap
                order[free] = row
            gap //= 3
        start = stop
    for at in range(n):
        code = codes[order[at]]
        if code >= 0:
            if count == 0 or kinds[count - 1] != code:
                kinds[count] = code
                count += 1
            ranks[order[at]] = count - 1
    return count
