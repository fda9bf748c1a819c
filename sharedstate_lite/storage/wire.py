"""The wire format: rows serialized to bytes, for another process or a state store, and the bin of each row.

A blob contains each distinct string of a STRING column once, because codes have no meaning in another process. The
column's line contains indexes of these strings. All lines are stored as unsigned integers of 1, 2 or 4 bytes if their
values fit, and as int64 otherwise. The unsigned integer is 0 for NULL. For any other value, it is the difference from
the line's smallest value, plus 1. Sort words are not stored, because the receiver can compute them.

    4 bytes     0 if the rest is not compressed, otherwise its size after decompression (zstd)
    4 bytes     the size of the header
    header      JSON: the number of rows, and for each line its width in bytes and its smallest word; for the line of
                a STRING column also the sizes of its string offsets and of its UTF-8 bytes
    lines       one after the other; a STRING column's line is followed by its strings as in Arrow (offsets, UTF-8)

Stages on Spark partition rows by key into *bins*. `bin_of` adds up the hashes of the key columns, so it does not matter
if the two sides of a join list these columns in different orders.

>>> import numpy as np
>>> from sharedstate_lite.plan import Type
>>> mine, theirs = Dictionary(), Dictionary()
>>> rows = Delta(np.array([mine.codes(["Potato", "Apple", "Potato"]), [60, 20, 50]]), np.array([1, 1, -1]))
>>> types = (Type.STRING, Type.INT)
>>> received = unpack(pack(rows, types, mine), theirs)
>>> list(zip(theirs.to_list(received.rows[0]), received.rows[1].tolist(), received.diffs.tolist()))
[('Potato', 60, 1), ('Apple', 20, 1), ('Potato', 50, -1)]
>>> bin_of(rows.rows, (0,), types, 8, mine).tolist() == bin_of(received.rows, (0,), types, 8, theirs).tolist()
True
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..plan.nodes import Type
from .batch import Delta, hash_rows
from .encoding import NULL, Dictionary, Words

_WIDTHS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}
_HIGH = np.uint64(32)
_PLAIN = bytes(4)

COMPRESS_FROM = 1 << 12
"""Blobs of at least this many bytes are compressed. This halves the bytes that every process on the way must copy."""


def encode(lines: Sequence[Words], types: Sequence[Type], strings: Dictionary) -> bytes:
    """Encode lines, each int64[n], as a blob. The first lines are columns of ``types``; the rest are plain numbers."""
    heads: list[list[int]] = []
    parts: list[bytes] = []
    for at, line in enumerate(lines):
        if at < len(types) and types[at] is Type.STRING:
            line, offsets, text = _texts(line, strings)
            heads.append([*_packed(line, parts), len(offsets), len(text)])
            parts += [offsets, text]
        else:
            heads.append(_packed(line, parts))
    head = json.dumps([len(lines[0]) if lines else 0, heads], separators=(",", ":")).encode()
    plain = b"".join([struct.pack("<I", len(head)), head, *parts])
    if not COMPRESS_FROM <= len(plain) < 1 << 32:
        return _PLAIN + plain
    return struct.pack("<I", len(plain)) + bytes(pa.compress(plain, codec="zstd", asbytes=True))


def decode(blob: bytes, strings: Dictionary) -> Words:
    """Decode a blob into its lines, int64[k, n]. Strings are added to ``strings`` and replaced with their codes."""
    whole = struct.unpack_from("<I", blob)[0]
    blob = bytes(pa.decompress(memoryview(blob)[4:], whole, codec="zstd", asbytes=True)) if whole else blob[4:]
    size = struct.unpack_from("<I", blob)[0]
    rows, heads = json.loads(blob[4 : 4 + size])
    out = np.empty((len(heads), rows), dtype=np.int64)
    at = 4 + size
    for line, (width, least, *texts) in zip(out, heads, strict=True):
        stored = np.frombuffer(blob, dtype=_WIDTHS[width], count=rows, offset=at)
        at += width * rows
        if width == 8:
            line[:] = stored
        else:
            line[:] = stored
            line += least - 1
            line[stored == 0] = NULL
        if texts:
            offsets, text = (pa.py_buffer(blob[a : a + n]) for a, n in ((at, texts[0]), (at + texts[0], texts[1])))
            at += sum(texts)
            codes = strings.column(pa.StringArray.from_buffers(texts[0] // 4 - 1, offsets, text))
            if len(codes):
                line[:] = np.where(line == NULL, NULL, codes.take(np.maximum(line, 0)))
    return out


def _packed(line: Words, parts: list[bytes]) -> list[int]:
    """Append the bytes of a line to ``parts``. Return the number of bytes per value, and the line's smallest word."""
    null = line == NULL
    some = line[~null] if null.any() else line
    least = int(some.min()) if len(some) else 0
    span = int(some.max()) - least + 1 if len(some) else 0
    width = next((w for w in (1, 2, 4) if span < 1 << (8 * w)), 8)
    if width < 8:
        line = np.where(null, 0, line - (least - 1)) if len(some) < len(line) else line - (least - 1)
    parts.append(line.astype(_WIDTHS[width]).tobytes())
    return [width, least]


def _texts(codes: Words, strings: Dictionary) -> tuple[Words, bytes, bytes]:
    """Number the m distinct strings of a line from 0.

    Returns the line with these numbers instead of codes, the offsets of the strings, int32[m + 1], and their UTF-8
    bytes.
    """
    null = codes == NULL
    some = codes[~null] if (nulls := bool(null.any())) else codes
    if len(strings) <= 8 * len(codes):
        flags = np.zeros(len(strings), dtype=bool)
        flags[some] = True
        used = np.flatnonzero(flags)
        place = np.empty(len(strings), dtype=np.int64)
        place[used] = np.arange(len(used))
        number = place.take(some)
    else:
        used = np.unique(some)
        number = np.searchsorted(used, some)
    if nulls:
        whole = np.full(len(codes), NULL)
        whole[~null] = number
        number = whole
    _, offsets, text = strings.to_arrow(used).buffers()
    ends = b"\0" * 4 if offsets is None else bytes(memoryview(offsets)[: 4 * (len(used) + 1)])
    last = struct.unpack_from("<i", ends, len(ends) - 4)[0]
    return number, ends, b"" if text is None else bytes(memoryview(text)[:last])


def pack(delta: Delta, types: Sequence[Type], strings: Dictionary) -> bytes:
    """Encode a delta as a blob. ``types`` are the types of its columns."""
    return encode([*delta.rows, delta.diffs], types, strings)


def unpack(blob: bytes, strings: Dictionary) -> Delta:
    """Decode a delta that `pack` encoded. Strings are added to ``strings`` and replaced with their codes."""
    lines = decode(blob, strings)
    return Delta(lines[:-1], lines[-1])


def bin_of(
    rows: Words, columns: Sequence[int], types: Sequence[Type], bins: int, strings: Dictionary
) -> npt.NDArray[np.int64]:
    """Return the bin of each row of int64[k, n], from 0 to ``bins - 1``, by the hash of its values in ``columns``.

    If ``columns`` is empty, all rows are in bin 0.
    """
    if not columns or bins == 1:
        return np.zeros(rows.shape[1], dtype=np.int64)
    total = np.zeros(rows.shape[1], dtype=np.uint64)
    for column in columns:
        total += hash_rows(np.ascontiguousarray(rows[column])[None, :], (types[column],), strings)
    # Use the upper half of the hash, as in a sort word.
    return ((total >> _HIGH) % np.uint64(bins)).astype(np.int64)


def split(
    delta: Delta, columns: Sequence[int], types: Sequence[Type], bins: int, strings: Dictionary
) -> list[tuple[int, Delta]]:
    """Split a delta by `bin_of` into (bin, delta) pairs. Empty bins are left out."""
    if not len(delta.diffs):
        return []
    where = bin_of(delta.rows, columns, types, bins, strings)
    if bins == 1 or not columns:
        return [(0, delta)]
    order = np.argsort(where, kind="stable")
    ends = np.cumsum(np.bincount(where, minlength=bins))
    parts = np.split(order, ends[:-1])
    return [(number, delta.take(part)) for number, part in enumerate(parts) if len(part)]
