"""The rows that an operator emits, as blobs that travel to the bins of the next operator or to the driver.

Bins run at the same time, so the rows of an epoch arrive in any order. Each row has a *rank*, which says from which row
or timer it follows, and its position among the rows of its bin. Sorted by both, the rows are in the order in which one
process emits them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...plan.nodes import Column, Type
from ...storage.encoding import Dictionary, Words
from ..events import Emitted, Events, Schema
from ..stores.protocol import pack, unpack
from ..types import Scalar, Struct, assemble, relations, shred

_IDENTITY = (Column("@position", Type.BIGINT), Column("@time", Type.BIGINT))


def pack_rows(emitted: Emitted, index: Words, strings: Dictionary) -> bytes:
    """Encode the rows at the positions ``index``, int64[n], with their ranks and times.

    >>> from sharedstate_lite.managed.types import parse_fields
    >>> mine, schema = Dictionary(), parse_fields("plane STRING, delays LIST<INT>").fields
    >>> events = Events(schema, [["N1", "N2"], [[5], []]], np.array([0, 0]), mine)
    >>> blob = pack_rows(Emitted(events, [7, 4]), np.array([0, 1]), mine)
    >>> rows, ranks = sorted_rows([blob], schema, Dictionary())
    >>> rows.values(0), rows.values(1), ranks
    (['N2', 'N1'], [[], [5]], [(4, 1), (7, 0)])
    """
    events = emitted.events.take(index)
    identity = np.vstack([index, events.times])
    count = range(len(events.schema))
    if all(isinstance(kind, Scalar) for _, kind in events.schema):
        tables = {"rows": np.vstack([identity, np.ones_like(index), *(events.words(at) for at in count)])}
    else:
        names = [name for name, _ in events.schema]
        values = [dict(zip(names, row, strict=True)) for row in zip(*(events.values(at) for at in count), strict=True)]
        tables = shred(Struct(events.schema), "rows", identity, values, identity[:0], strings)
    head = json.dumps([emitted.ranks[at] for at in index.tolist()], default=str).encode()
    return struct.pack("<I", len(head)) + head + pack(tables, _relations(events.schema), strings)


def sorted_rows(blobs: Iterable[bytes], schema: Schema, strings: Dictionary) -> tuple[Events, list[tuple[Any, int]]]:
    """Decode the rows of an epoch and sort them. Returns them, and for each row its rank and position in its bin."""
    none: list[Any] = [np.empty(0, dtype=np.int64) if isinstance(kind, Scalar) else [] for _, kind in schema]
    parts = [Events(schema, none, np.empty(0, dtype=np.int64), strings)]
    ranks: list[Any] = []
    positions: list[int] = []
    for blob in blobs:
        size = struct.unpack_from("<I", blob)[0]
        tables = unpack(blob[4 + size :], _relations(schema), strings)
        at, times, _, *words = tables["rows"]
        columns: list[Any] = words
        if not all(isinstance(kind, Scalar) for _, kind in schema):
            rows = assemble(Struct(schema), "rows", tables, len(_IDENTITY), strings)
            columns = [[row[name] for row in rows] for name, _ in schema]
        parts.append(Events(schema, columns, times, strings))
        ranks += json.loads(blob[4 : 4 + size])
        positions += at.tolist()
    if all(isinstance(rank, int) for rank in ranks):
        index = np.lexsort((positions, ranks)) if ranks else np.arange(0)
    else:
        whole = [(full_rank(rank), position) for rank, position in zip(ranks, positions, strict=True)]
        index = np.array(sorted(range(len(whole)), key=whole.__getitem__))
    return Events.concat(parts).take(index), [(ranks[at], positions[at]) for at in index.tolist()]


def full_rank(rank: Any) -> Any:
    """Return a rank that can be compared with all others of its operator: p stands for [0, p]."""
    return [0, rank] if isinstance(rank, int) else rank


def _relations(schema: Schema) -> Any:
    return relations("rows", Struct(schema), _IDENTITY)
