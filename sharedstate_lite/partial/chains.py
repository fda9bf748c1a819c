"""Chains of operators that are queried by the same key.

If a key is filled in one operator of a chain, it is also filled in all operators above it (rule 19).
"""

from __future__ import annotations

from ..storage.encoding import Words
from .join import JoinNode
from .nodes import BaseNode, PartialNode, ReaderNode, UnionNode


def same_key_above(node: PartialNode) -> PartialNode | None:
    """Return the operator directly above if it is queried by the same key, or None otherwise."""
    if isinstance(node, JoinNode):
        return None if node.route.rest else node.inputs[node.route.primary].source
    if isinstance(node, UnionNode | BaseNode):
        return None
    return node.inputs[0].source


def touch(reader: ReaderNode, keys: Words) -> None:
    """Record that keys were used, in the reader and in the operators above that are queried by the same key."""
    strings, clock = reader.flow.strings, reader.flow.clock
    node: PartialNode | None = reader
    while node is not None:
        if node.filled is not None:
            node.filled.touch(keys, strings, clock)
        above = same_key_above(node)
        if above is not None and isinstance(node, JoinNode):
            cache = node.cached[node.route.primary]
            if cache is not None:
                cache[2].touch(keys, strings, clock)
        node = above


def top_of_chain(reader: ReaderNode) -> PartialNode:
    """Return the highest operator of the reader's view whose state is keyed by the reader's key."""
    best: PartialNode = reader
    node: PartialNode | None = reader
    while node is not None and node.view == reader.view:
        best = node if node.filled is not None else best
        node = same_key_above(node)
    return best
