"""Messages between the bins of partial state, and between bins and the driver, as rows of the stream.

To a bin:

    GRAPH      a message of the partial graph: change, response, evict or upquery
    LOOKUP     keys of a view that the caller reads
    COMMAND    evict (keys), abandon (open upqueries), or forget (all state)
    COMPACT    merge all runs

To the driver:

    OUT        rows of a view that an epoch changed
    ANSWER     rows of a view: the answer to a lookup
    UPQUERY    an upquery that has reached a base table
    EVICTED    keys that became holes
    REPORT     trace events

Each message has a head in JSON: the edge (``e``), the kind of message (``k``), the sender (``by`` and ``b``), the
number of the message among those of its sender in this round (``n``), the upquery's tag (``t``), and the epoch in which
the upquery was first sent (``a``). Messages on an edge must be delivered in the order in which they were sent, but
Spark passes rows to a bin in any order. The receiver restores the order from ``by`` and ``n``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...storage import wire
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from ..rounds.message import BinMessage

GRAPH = 1
LOOKUP, COMMAND = -1, -4
OUT, ANSWER, UPQUERY, EVICTED, REPORT = 0, -8, -5, -6, -7
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
    def order(self) -> tuple[str, int]:
        """The sort key that puts a bin's messages, on each edge, into the order in which they were sent."""
        return self.head.get("by", ""), self.head.get("n", 0)


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


def split_keys(keys: Words, types: Iterable[Any], bins: int, strings: Dictionary) -> Iterator[tuple[int, Words]]:
    """Split keys, words int64[k, q], by the bin that their hash selects. Yields (bin, keys) for each bin with keys."""
    numbers = wire.bin_of(keys, range(len(keys)), list(types), bins, strings)
    for number in np.unique(numbers):
        yield int(number), keys.compress(numbers == number, axis=1)
