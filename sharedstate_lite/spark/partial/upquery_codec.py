"""Encoding open upqueries as JSON, so that a bin can store them between two micro-batches.

Until an upquery is answered, the operators that it has passed keep its keys, the parts of the answer that have
arrived, and changes that wait for a join key. When the response arrives, the bin may run in a different worker, which
then reads these from the store.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...partial.join import JoinUpquery
from ...partial.nodes import LinearNode, PartialEdge, PartialNode, UnionNode, UnionUpquery
from ...partial.reduce import ReduceNode, ReduceUpquery
from ...plan.nodes import Type
from ...storage import wire
from ...storage.batch import Delta
from ...storage.encoding import Dictionary, Words
from .nodes import RemoteEdge, StatefulJoinNode, types_of

FindEdge = Callable[[int, int | None], PartialEdge]
"""(number of an edge, sending bin, or None for this bin) -> the edge on which an upquery arrived."""


class UpqueryCodec:
    """Encodes the open upqueries of operators as JSON values, and decodes them."""

    def __init__(self, strings: Dictionary, find_edge: FindEdge) -> None:
        self.strings, self.find_edge = strings, find_edge

    def write(self, node: PartialNode) -> Any:
        """Return the open upqueries of an operator as a value for JSON, or None if it does not have any."""
        keys = types_of(node.plan, node.ask)
        rows = tuple(c.type for c in node.plan.schema)
        if isinstance(node, LinearNode):
            return {tag: _edge(edge) for tag, edge in node.askers.items()} or None
        if isinstance(node, UnionNode):
            return self._open(node, keys, lambda q: [[self._encode_delta(x, rows) for x in q.answers], q.tags]) or None
        if isinstance(node, ReduceNode):
            upqueries = self._open(node, keys, lambda _: [])
            rereads = [[self.encode_words(k, keys), self._encode_delta(before, rows)] for k, before in node.rereads]
            return [upqueries, rereads] if upqueries or rereads else None
        if isinstance(node, StatefulJoinNode):
            sides = [tuple(c.type for c in below.schema) for below in node.plan.inputs]
            primary, other = sides[node.route.primary], sides[1 - node.route.primary]

            def parts(q: JoinUpquery) -> list[Any]:
                covered = None if q.covered is None else self.encode_words(q.covered, node.types)
                return [q.tags, self._encode_delta(q.primary, primary), self._encode_delta(q.other, other), covered]

            upqueries = self._open(node, keys, parts)
            if upqueries or len(node.late.diffs) or node.wanted.shape[1]:
                return [upqueries, self._encode_delta(node.late, primary), self.encode_words(node.wanted, node.types)]
        return None

    def read(self, node: PartialNode, value: Any) -> None:
        """Set the open upqueries of an operator to those in ``value``, which `write` returned. None removes all."""
        if isinstance(node, LinearNode):
            node.askers = {int(tag): self.find_edge(*edge) for tag, edge in (value or {}).items()}
        elif isinstance(node, UnionNode):
            node.open_upqueries = self._opened(
                UnionUpquery, value or {}, lambda answers, tags: ([*map(self._decode_delta, answers)], _numbers(tags))
            )
        elif isinstance(node, ReduceNode):
            upqueries, rereads = value or ({}, [])
            node.open_upqueries = self._opened(ReduceUpquery, upqueries, lambda: ())
            node.rereads = [(self.decode_words(keys), self._decode_delta(before)) for keys, before in rereads]
        elif isinstance(node, StatefulJoinNode):
            upqueries, late, wanted = value or ({}, None, None)

            def parts(tags: Any, primary: Any, other: Any, covered: Any) -> tuple[Any, ...]:
                words = None if covered is None else self.decode_words(covered)
                return _numbers(tags), self._decode_delta(primary), self._decode_delta(other), words

            node.open_upqueries = self._opened(JoinUpquery, upqueries, parts)
            node.late = Delta.empty(len(node.late.rows)) if late is None else self._decode_delta(late)
            node.wanted = node.wanted[:, :0] if wanted is None else self.decode_words(wanted)

    def _open(self, node: Any, keys: Sequence[Type], more: Callable[[Any], list[Any]]) -> dict[int, Any]:
        """Encode the open upqueries of a node: what all of them have, and ``more`` of each."""
        return {
            tag: [_edge(q.edge), self.encode_words(q.keys, keys), q.asked, *more(q)]
            for tag, q in node.open_upqueries.items()
        }

    def _opened(self, make: Callable[..., Any], value: Mapping[str, Any], more: Callable[..., Any]) -> dict[int, Any]:
        """Decode what `_open` has encoded."""
        return {
            int(tag): make(self.find_edge(*edge), self.decode_words(keys), asked, *more(*rest))
            for tag, (edge, keys, asked, *rest) in value.items()
        }

    def encode_words(self, words: Words, types: Sequence[Type]) -> list[Any]:
        """Encode words int64[k, q] as [q, text]. The text contains the strings themselves instead of their codes."""
        return [words.shape[1], base64.b64encode(wire.encode(list(words), types, self.strings)).decode()]

    def decode_words(self, value: list[Any]) -> Words:
        """Decode words that `encode_words` has encoded."""
        words = wire.decode(base64.b64decode(value[1]), self.strings)
        return words if len(words) else np.empty((0, value[0]), dtype=np.int64)

    def _encode_delta(self, delta: Delta | None, types: Sequence[Type]) -> list[Any] | None:
        return None if delta is None else self.encode_words(np.concatenate([delta.rows, delta.diffs[None]]), types)

    def _decode_delta(self, value: list[Any] | None) -> Any:
        if value is None:
            return None
        words = self.decode_words(value)
        return Delta(words[:-1], words[-1])


def _edge(edge: PartialEdge) -> list[int | None]:
    return [edge.number, edge.bin if isinstance(edge, RemoteEdge) else None]


def _numbers(tags: dict[str, int]) -> dict[int, int]:
    return {int(tag): slot for tag, slot in tags.items()}
