"""A limit on the size of partial state, which is enforced by evicting the least recently used keys.

The size is the number of rows or bytes that ``state()`` shows for the cached answers. The last use of a
key is the number of an operation. If the same operation last used keys in several operators, the operator nearest to
the base tables evicts its keys first, because evictions propagate down from there.
"""

from __future__ import annotations

import numpy as np

from ..engine.state_tables import CACHED
from ..errors import ViewError, is_integer, shorten
from .filled_keys import FilledKeys
from .join import JoinNode
from .nodes import PartialNode, Services


class Budget:
    """A limit of ``rows`` rows and ``size`` bytes. None means that there is no such limit."""

    def __init__(self, rows: int | None, size: int | None) -> None:
        for name, value in (("max_rows", rows), ("max_bytes", size)):
            if value is not None and (not is_integer(value) or value < 0):
                raise ViewError(f"{name}={shorten(value)} is not valid; a budget must be an integer of at least 0")
        # NumPy integers are converted, because they cannot be written to a checkpoint's JSON.
        self.rows, self.bytes = (None if value is None else int(value) for value in (rows, size))

    @property
    def set(self) -> bool:
        """Whether there is a limit."""
        return self.rows is not None or self.bytes is not None

    def excess(self, flow: Services) -> float:
        """Return the fraction of the state that exceeds the budget, or 0.0 if the state is within the budget."""
        own = [p for p in flow.state_parts() if CACHED in p.bill]
        rows = sum(p.arrangement.rows for p in own)
        size = sum(p.arrangement.nbytes + p.extra for p in own)
        bounds = ((rows, self.rows), (size, self.bytes))
        over = (1 - bound / used for used, bound in bounds if bound is not None and used > bound)
        return max(over, default=0.0)

    def keep(self, flow: Services) -> None:
        """Evict keys until the state is within the budget."""
        if self.excess(flow) > 0:
            self._merge(flow)
        while (over := self.excess(flow)) > 0:
            if not self._evict(flow, over):
                return
            self._merge(flow)

    def _merge(self, flow: Services) -> None:
        # Rows that cancel are counted until they are merged, so merge them before evicting keys.
        for part in flow.state_parts():
            if CACHED in part.bill:
                part.arrangement.compact()

    def _evict(self, flow: Services, share: float) -> bool:
        """Evict the least recently used keys: a fraction ``share / 2`` of all keys, but at least one.

        Returns False if there are no keys to evict.
        """
        holders = [(node, side, filled) for node in flow.nodes.values() for side, filled in filled_keys_of(node)]
        used = np.concatenate([f.used for _, _, f in holders]) if holders else np.empty(0, dtype=np.int64)
        if not len(used):
            return False
        count = max(1, int(len(used) * share * 0.5))
        limit = int(np.partition(used, count - 1)[count - 1])
        left = count
        for node, side, filled in holders:
            old = np.flatnonzero(filled.used <= limit)[:left]
            if len(old):
                keys = filled.keys.take(old, axis=1)
                left -= len(old)
                if isinstance(node, JoinNode):
                    node.evict_side(side, keys)
                else:
                    node.evict(keys)
                flow.settle(node)
                flow.drain()
            if left <= 0:
                break
        return True


def filled_keys_of(node: PartialNode) -> list[tuple[int, FilledKeys]]:
    """Return the non-empty sets of filled keys of a node, each with its side of the join (0 for other operators)."""
    if isinstance(node, JoinNode):
        return [(side, cache[2]) for side, cache in enumerate(node.cached) if cache is not None and len(cache[2])]
    return [(0, node.filled)] if node.filled is not None and len(node.filled) else []
