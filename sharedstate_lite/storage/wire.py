"""Rows between processes, and in a state store: columns of words as one small blob, strings as text.

A code of a dictionary means nothing in another process, so a blob carries the texts of
its STRING columns, each once, as Arrow lays them out. Every other line is written in
the fewest whole bytes that its values take, counted from its least; NULL is the number
below that. A run's sort words are left out: they are hashes of texts, the same
everywhere, and cost less to compute again than to carry.

    4 bytes     0, or how many bytes follow once the rest is decompressed (zstd)
    4 bytes     how long the head is
    head        JSON: rows, and for each line its width, least word and, of strings, its texts' size
    lines       one after the other

:func:`ship` makes messages of a delta. :func:`bin_of` says where a row belongs: the
columns' hashes are added up, so that the order in which two sides of a join name their
columns makes no difference.
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
from .encoding import NULL, Strings, Words

_WIDTHS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}
_HIGH = np.uint64(32)
_PLAIN = bytes(4)

COMPRESS_FROM = 1 << 12
"""Bytes from which a blob is compressed: it then takes half of them, and every process on its way a copy of half."""


def encode(lines: Sequence[Words], types: Sequence[Type], strings: Strings) -> bytes:
    """Lines int64[n], of which the first are columns of ``types`` and the rest plain numbers, as a blob."""
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


def decode(blob: bytes, strings: Strings) -> Words:
    """The lines of a blob as int64[k, n], with the codes of ``strings``."""
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
    """Add a line's bytes; returns its width and its least word."""
    null = line == NULL
    some = line[~null] if null.any() else line
    least = int(some.min()) if len(some) else 0
    span = int(some.max()) - least + 1 if len(some) else 0
    width = next((w for w in (1, 2, 4) if span < 1 << (8 * w)), 8)
    if width < 8:
        line = np.where(null, 0, line - (least - 1)) if len(some) < len(line) else line - (least - 1)
    parts.append(line.astype(_WIDTHS[width]).tobytes())
    return [width, least]


def _texts(codes: Words, strings: Strings) -> tuple[Words, bytes, bytes]:
    """Numbers of texts from 0, NULL kept, and the texts: offsets int32[m + 1], UTF-8."""
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


def pack(delta: Delta, types: Sequence[Type], strings: Strings) -> bytes:
    """A delta as a blob: its columns, then its diffs."""
    return encode([*delta.rows, delta.diffs], types, strings)


def unpack(blob: bytes, strings: Strings) -> Delta:
    """A delta from its blob."""
    lines = decode(blob, strings)
    return Delta(lines[:-1], lines[-1])


def bin_of(
    rows: Words, columns: Sequence[int], types: Sequence[Type], bins: int, strings: Strings
) -> npt.NDArray[np.int64]:
    """The bin of each row of int64[k, n]; without columns, which is a global aggregate, the first."""
    if not columns or bins == 1:
        return np.zeros(rows.shape[1], dtype=np.int64)
    total = np.zeros(rows.shape[1], dtype=np.uint64)
    for column in columns:
        total += hash_rows(np.ascontiguousarray(rows[column])[None, :], (types[column],), strings)
    # The high half: what a batch is sorted by is a hash too, and its low bits may be an order.
    return ((total >> _HIGH) % np.uint64(bins)).astype(np.int64)


def split(
    delta: Delta, columns: Sequence[int], types: Sequence[Type], bins: int, strings: Strings
) -> list[tuple[int, Delta]]:
    """A delta by bin; bins without rows are left out."""
    if not len(delta.diffs):
        return []
    where = bin_of(delta.rows, columns, types, bins, strings)
    if bins == 1 or not columns:
        return [(0, delta)]
    order = np.argsort(where, kind="stable")
    ends = np.cumsum(np.bincount(where, minlength=bins))
    parts = np.split(order, ends[:-1])
    return [(number, delta.take(part)) for number, part in enumerate(parts) if len(part)]
