"""Applying filters and maps to rows, which can be a change or the result of a lookup."""

from __future__ import annotations

import numpy as np

from ..errors import RowError
from ..kernels.expr import evaluate
from ..kernels.join import Matches, net
from ..plan.nodes import Col, Filter, Map, Node
from ..storage.batch import Delta
from ..storage.encoding import Dictionary


def apply(node: Node, delta: Delta, strings: Dictionary) -> Delta:
    """Apply a Filter or a Map to a change. Raises RowError if evaluation fails for a row that does not cancel."""
    if not len(delta.diffs):
        return Delta.empty(len(node.schema))
    if isinstance(node, Map) and all(isinstance(e, Col) for e in node.exprs):
        return Delta(delta.rows[[e.index for e in node.exprs if isinstance(e, Col)]], delta.diffs)
    one_owner = np.zeros(len(delta.diffs), dtype=np.intp)
    _, rows, diffs = apply_to_matches(node, (one_owner, delta.rows, delta.diffs[None, :]), strings)
    return Delta(rows, diffs[0])


def apply_to_matches(node: Node, found: Matches, strings: Dictionary) -> Matches:
    """Apply a Filter or a Map to the rows that a lookup found. Raises RowError in the same cases as :func:`apply`.

    Rows that cancel must not raise. A lookup finds a deleted row together with its retraction until the two are merged.
    If both sides of a join change, a lookup can also find pairs of rows that never existed at the same time. Finding
    the rows that cancel takes time, so they are removed only after an error.
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
