"""Rows for which an expression raises a RowError, such as an overflow or text that cannot be cast.

Every engine rejects such a row when it is inserted. But a view that is installed later can find such rows in the base
tables, because partial state does not compute anything when a view is installed. The key of such a row cannot be read:
the read raises the RowError, so the key stays a hole in all operators below the expression. Changes of this key must
not raise, because these operators would drop them anyway (rule 17).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..dataflow.row_functions import apply, apply_to_matches
from ..errors import RowError
from ..kernels.join import Matches, net
from ..plan.nodes import Node
from ..storage.batch import Delta
from ..storage.encoding import Dictionary
from .filled_keys import FilledKeys, Mask

Positions = npt.NDArray[np.intp]


def failing(run: Callable[[Positions], object], count: int) -> Mask:
    """Return which of the positions 0 to ``count - 1`` raise RowError, as bool[count].

    ``run`` is called with an array of positions, and raises RowError if one of them fails.
    """
    out = np.zeros(count, dtype=bool)
    parts = [np.arange(count)] if count else []
    while parts:
        part = parts.pop()
        try:
            run(part)
        except RowError:
            if len(part) == 1:
                out[part] = True
            else:
                parts += np.array_split(part, 2)
    return out


def without_failing_keys(node: Node, delta: Delta, columns: tuple[int, ...], strings: Dictionary) -> Delta:
    """Consolidate a change, and leave out the failing rows of each key that contained a failing row before the change.

    ``columns`` are the columns of the key. A key contained such a row before if the change retracts one.
    """
    types = tuple(c.type for c in node.inputs[0].schema)
    owner = np.zeros(len(delta.diffs), dtype=np.intp)
    _, rows, diffs = net(owner, delta.rows, delta.diffs, types, strings)
    delta = Delta(rows, diffs)
    bad = failing(lambda at: apply(node, delta.take(at), strings), len(diffs))
    keys = FilledKeys(tuple(types[i] for i in columns))
    keys.add(rows[list(columns)].compress(bad & (diffs < 0), axis=1), strings, 0)
    return delta.take(~(bad & keys.mask(rows[list(columns)], strings)))


def apply_to_good_matches(node: Node, found: Matches, strings: Dictionary) -> Matches:
    """Apply a Filter or a Map to the rows that a lookup found, and leave out the rows for which this raises RowError.

    See :func:`~..dataflow.row_functions.apply_to_matches`.
    """

    def take(at: Positions | Mask) -> Matches:
        return owner[at], rows[:, at], diffs[:, at]

    owner, rows, diffs = found
    try:
        return apply_to_matches(node, found, strings)
    except RowError:
        bad = failing(lambda at: apply_to_matches(node, take(at), strings), len(owner))
        return apply_to_matches(node, take(~bad), strings)
