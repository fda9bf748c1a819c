"""What travels between the bins of partial state: the core's messages as rows of a stream, each with its head.

    GRAPH    a message of the graph, to another bin: change, response, evict, upquery, touch
    ASK       a lookup: keys of a view that somebody reads
    COMMAND     evict, shed (keep a budget), forget, abandon: to a bin, from the driver
    and to the driver: OUT (a view's rows), UPQUERY (an upquery of a base table), EVICTED (keys that became holes), REPORT

A head is JSON: the edge's number, the kind, who sent it, its number there (an edge is
first in, first out, but Spark hands over the rows of a bin in any order), the upquery's
tag, the operation's number. :func:`answers` makes the responses of base tables; on Spark
it runs in the tasks that read them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...partial.filled_keys import FilledKeys
from ...storage import wire
from ...storage.batch import Delta
from ...storage.encoding import Strings, Words
from ..bins.messages import BinMessage
from .nodes import schema_of
from .placement import Placement

GRAPH = 1
ASK, COMPACT, COMMAND = -1, -2, -4
OUT, UPQUERY, EVICTED, REPORT = 0, -5, -6, -7
_SIZE = struct.Struct("<q")


@dataclass
class DecodedMessage:
    """A message that was opened. ``keys`` are words int64[k, q]; either payload may be missing."""

    head: Mapping[str, Any]
    keys: Words | None = None
    delta: Delta | None = None

    @property
    def order(self) -> tuple[str, list[int]]:
        """What letters are sorted by: on one edge, the order in which they were sent."""
        return self.head.get("by", ""), self.head.get("n", [0, 0])


def encode_message(
    to: tuple[int, int, int],
    head: Mapping[str, Any],
    strings: Strings,
    keys: Words | None = None,
    key_types: Iterable[Any] = (),
    delta: Delta | None = None,
    types: Iterable[Any] = (),
) -> BinMessage:
    """A message for (stage, bin, channel)."""
    first = b"" if keys is None else wire.encode(list(keys), list(key_types), strings)
    second = b"" if delta is None else wire.pack(delta, list(types), strings)
    more = {} if keys is None else {"q": keys.shape[1]}
    stage, where, channel = to
    return BinMessage(stage, where, channel, json.dumps({**head, **more}), _SIZE.pack(len(first)) + first + second)


def decode_message(message: BinMessage, strings: Strings) -> DecodedMessage:
    """What a message says."""
    head = json.loads(message.what)
    (size,) = _SIZE.unpack_from(message.blob)
    first, second = message.blob[_SIZE.size : _SIZE.size + size], message.blob[_SIZE.size + size :]
    keys = None
    if "q" in head:
        # A key of no columns has no words to carry its number.
        keys = wire.decode(first, strings)
        keys = keys if len(keys) else np.empty((0, head["q"]), dtype=np.int64)
    return DecodedMessage(head, keys, wire.unpack(second, strings) if second else None)


def split(keys: Words, types: Iterable[Any], bins: int, strings: Strings) -> Iterator[tuple[int, Words]]:
    """Keys by the bin of their own hash; bins without keys are left out."""
    where = wire.bin_of(keys, range(len(keys)), list(types), bins, strings)
    for number in np.unique(where):
        yield int(number), keys.compress(where == number, axis=1)


@dataclass
class BaseUpquery:
    """An upquery of a base table, as the driver has it: of one bin's ``edge``, under ``tag``."""

    edge: int
    bin: int
    tag: int
    asked: int
    clock: int
    keys: Words
    strings: Strings

    @staticmethod
    def of(message: BinMessage, strings: Strings) -> BaseUpquery:
        """Out of a UPQUERY message."""
        letter = decode_message(message, strings)
        assert letter.keys is not None
        head = letter.head
        return BaseUpquery(head["e"], message.bin, head["t"], head["a"], head["c"], letter.keys, strings)


def heads(asked: Iterable[BaseUpquery], places: Placement, strings: Strings, number: int) -> list[BinMessage]:
    """The responses to upqueries of base tables, without their rows; those come as further letters of the same tag."""
    out = []
    for n, each in enumerate(asked):
        edge = places.edges[each.edge]
        head = {"e": each.edge, "k": "response", "t": each.tag, "n": [number, n], "c": each.clock}
        to = (places.stage_of[edge.target], each.bin, GRAPH)
        out.append(encode_message(to, head, strings, each.keys, schema_of(edge.source.plan, edge.ask)))
    return out


def answers(
    asked: Iterable[BaseUpquery], rows: Delta, places: Placement, bins: int, strings: Strings
) -> list[BinMessage]:
    """Those of a base table's rows that each of some upqueries of it wants in its bin."""
    out = []
    for each in asked:
        edge = places.edges[each.edge]
        types = tuple(c.type for c in edge.source.plan.schema)
        known = FilledKeys(schema_of(edge.source.plan, edge.ask))
        known.add(each.keys, strings, 0)
        wanted = known.mask(rows.rows[list(edge.ask)], strings)
        wanted &= wire.bin_of(rows.rows, places.route(edge), types, bins, strings) == each.bin
        if wanted.any():
            head = {"e": each.edge, "k": "rows", "t": each.tag, "c": each.clock}
            to = (places.stage_of[edge.target], each.bin, GRAPH)
            out.append(encode_message(to, head, strings, delta=rows.take(wanted), types=types))
    return out


__all__ = [
    "ASK", "UPQUERY", "COMPACT", "EVICTED", "GRAPH", "REPORT", "COMMAND", "OUT",
    "BaseUpquery", "DecodedMessage", "answers", "heads", "encode_message", "split", "decode_message",
]  # fmt: skip
