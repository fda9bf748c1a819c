"""Messages between the bins of partial state, and between bins and the driver, as rows of the stream.

To a bin:

    GRAPH      a message of the partial graph: change, response, evict, upquery or touch
    LOOKUP     keys of a view that a caller reads
    COMMAND    evict, shed (evict the least recently used keys), abandon (open upqueries), or forget (all state)
    COMPACT    merge all runs

To the driver:

    OUT        rows of a view: the answer to a lookup, or an epoch's change
    UPQUERY    an upquery that has reached a base table
    EVICTED    keys that became holes
    REPORT     trace events and, under a budget, how much the bin stores

Each message has a head in JSON: the edge (``e``), the kind of message (``k``), the sender (``by`` and ``b``), the
sender's count of messages (``n``), the upquery's tag (``t``), the number of the operation (``c``), and the epoch in
which the upquery was first sent (``a``). Messages on an edge must be delivered in the order in which they were sent,
but Spark passes rows to a bin in any order. The receiver restores the order from ``by`` and ``n``.
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
from ...storage.encoding import Dictionary, Words
from ..rounds.message import BinMessage
from .nodes import types_of
from .placement import Placement

GRAPH = 1
LOOKUP, COMPACT, COMMAND = -1, -2, -4
OUT, UPQUERY, EVICTED, REPORT = 0, -5, -6, -7
_SIZE = struct.Struct("<q")


@dataclass
class DecodedMessage:
    """The head of a message and its payload: ``keys``, which are words int64[k, q], and the rows in ``delta``.

    A message without keys or without rows has None in their place.
    """

    head: Mapping[str, Any]
    keys: Words | None = None
    delta: Delta | None = None

    @property
    def order(self) -> tuple[str, list[int]]:
        """The sort key that puts a bin's messages, on each edge, into the order in which they were sent."""
        return self.head.get("by", ""), self.head.get("n", [0, 0])


def encode_message(
    to: tuple[int, int, int],
    head: Mapping[str, Any],
    strings: Dictionary,
    keys: Words | None = None,
    key_types: Iterable[Any] = (),
    delta: Delta | None = None,
    types: Iterable[Any] = (),
) -> BinMessage:
    """Encode a message whose address ``to`` is (stage, bin, channel)."""
    first = b"" if keys is None else wire.encode(list(keys), list(key_types), strings)
    second = b"" if delta is None else wire.pack(delta, list(types), strings)
    more = {} if keys is None else {"q": keys.shape[1]}
    stage, number, channel = to
    return BinMessage(stage, number, channel, json.dumps({**head, **more}), _SIZE.pack(len(first)) + first + second)


def decode_message(message: BinMessage, strings: Dictionary) -> DecodedMessage:
    """Decode a message that `encode_message` has encoded."""
    head = json.loads(message.what)
    (size,) = _SIZE.unpack_from(message.blob)
    first, second = message.blob[_SIZE.size : _SIZE.size + size], message.blob[_SIZE.size + size :]
    keys = None
    if "q" in head:
        # If the key has no columns, there are no words, so the number of keys is read from the head.
        keys = wire.decode(first, strings)
        keys = keys if len(keys) else np.empty((0, head["q"]), dtype=np.int64)
    return DecodedMessage(head, keys, wire.unpack(second, strings) if second else None)


def is_touch(message: BinMessage) -> bool:
    """Return whether a message does nothing but record that keys were used."""
    return '"k": "touch"' in message.what


def is_change(message: BinMessage) -> bool:
    """Return whether a message is an epoch's change to a view, and not the answer to a lookup."""
    return message.stage == 0 and message.channel == OUT and "id" not in json.loads(message.what)


def split_keys(keys: Words, types: Iterable[Any], bins: int, strings: Dictionary) -> Iterator[tuple[int, Words]]:
    """Split keys, words int64[k, q], by the bin that their hash selects. Yields (bin, keys) for each bin with keys."""
    numbers = wire.bin_of(keys, range(len(keys)), list(types), bins, strings)
    for number in np.unique(numbers):
        yield int(number), keys.compress(numbers == number, axis=1)


@dataclass
class BaseUpquery:
    """An upquery that a bin sent to a base table on ``edge``. It was first sent in epoch ``asked``."""

    edge: int
    bin: int
    tag: int
    asked: int
    clock: int
    keys: Words
    strings: Dictionary

    @staticmethod
    def of(message: BinMessage, strings: Dictionary) -> BaseUpquery:
        """Return the upquery that an UPQUERY message contains."""
        decoded = decode_message(message, strings)
        assert decoded.keys is not None
        head = decoded.head
        return BaseUpquery(head["e"], message.bin, head["t"], head["a"], head["c"], decoded.keys, strings)


def response_heads(upqueries: Iterable[BaseUpquery], placement: Placement, strings: Dictionary) -> list[BinMessage]:
    """Return the responses of base tables without rows. `response_rows` sends the rows with the same tags."""
    out = []
    for n, upquery in enumerate(upqueries):
        edge = placement.edges[upquery.edge]
        head = {"e": upquery.edge, "k": "response", "t": upquery.tag, "n": [0, n], "c": upquery.clock}
        to = (placement.stage_of[edge.target], upquery.bin, GRAPH)
        out.append(encode_message(to, head, strings, upquery.keys, types_of(edge.source.plan, edge.ask)))
    return out


def response_rows(
    upqueries: Iterable[BaseUpquery], rows: Delta, placement: Placement, bins: int, strings: Dictionary
) -> list[BinMessage]:
    """Return a message for each upquery, with the rows of a base table that match its keys and belong to its bin.

    Upqueries without such rows get no message. On Spark, this function runs in the tasks that read the base table.
    """
    out = []
    for upquery in upqueries:
        edge = placement.edges[upquery.edge]
        types = tuple(c.type for c in edge.source.plan.schema)
        asked = FilledKeys(types_of(edge.source.plan, edge.ask))
        asked.add(upquery.keys, strings, 0)
        wanted = asked.mask(rows.rows[list(edge.ask)], strings)
        wanted &= wire.bin_of(rows.rows, placement.route(edge), types, bins, strings) == upquery.bin
        if wanted.any():
            head = {"e": upquery.edge, "k": "rows", "t": upquery.tag, "c": upquery.clock}
            to = (placement.stage_of[edge.target], upquery.bin, GRAPH)
            out.append(encode_message(to, head, strings, delta=rows.take(wanted), types=types))
    return out
