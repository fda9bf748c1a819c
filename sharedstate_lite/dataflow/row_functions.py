"""Filters and maps applied to rows: to a change, and to the rows that a lookup found."""

from __future__ import annotations

import numpy as np

from ..errors import RowError
from ..kernels.expr import evaluate
from ..kernels.join import Matches, net
from ..plan.nodes import Filter, Map, Node
from ..storage.batch import Delta
from ..storage.encoding import Dictionary


def apply(node: Node, delta: Delta, strings: Dictionary) -> Delta:
    """A Filter or a Map applied to a change. Raises RowError if a row that does not cancel has no result."""
    if not len(delta.diffs):
        return Delta.empty(len(node.schema))
    one_owner = np.zeros(len(delta.diffs), dtype=np.intp)
    _, rows, diffs = apply_to_matches(node, (one_owner, delta.rows, delta.diffs[None, :]), strings)
    return Delta(rows, diffs[0])


def apply_to_matches(node: Node, found: Matches, strings: Dictionary) -> Matches:
    """A Filter or a Map applied to the rows of a lookup. Raises RowError as :func:`apply` does.

    Rows that cancel must not raise: a lookup finds a deleted row together with its retraction until the two are
    merged, and if both sides of a join change, also pairs that never existed together. Cancelling rows costs time,
    so they are removed only after an error.
    """
    owner, rows, diffs = found
    try:
        if isinstance(node, Filter):
            keep = np.flatnonzero(evaluate(node.predicate, rows, strings) == 1)
            return owner.take(keep), rows.take(keep, axis=1), diffs.take(keep, axis=1)
        assert isinstance(node, Map)
        return owner, np.stack([evaluate(e, rows, strings) for e in node.exprs]), diffs
    except RowError:
        types = tuple(c.type for c in node.inputs[0].schema)
        owner, rows, total = net(owner, rows, diffs[0], types, strings)
        if len(owner) == len(found[0]):
            raise
        return apply_to_matches(node, (owner, rows, total[None, :]), strings)
