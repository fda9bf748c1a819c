"""A limit on the size of partial state: the least recently used keys are evicted.

The size is what ``state()`` shows beside the base tables, in rows or bytes. Recent use is counted in operations. For
one key the operator nearest to the base tables is evicted first, because eviction goes down from there.
"""

from __future__ import annotations

import numpy as np

from ..errors import ViewError, is_integer, shorten
from .filled_keys import FilledKeys
from .join import JoinNode
from .nodes import PartialNode, Services


class Budget:
    """At most ``rows`` rows and ``bytes`` bytes; None is no limit."""

    def __init__(self, rows: int | None, size: int | None) -> None:
        for name, value in (("max_rows", rows), ("max_bytes", size)):
            if value is not None and (not is_integer(value) or value < 0):
                raise ViewError(f"{name}={shorten(value)}: a budget is an integer, 0 or more")
        # numpy integers would not go into a checkpoint's JSON.
        self.rows, self.bytes = (None if value is None else int(value) for value in (rows, size))

    @property
    def set(self) -> bool:
        """Whether there is a limit."""
        return self.rows is not None or self.bytes is not None

    def excess(self, flow: Services) -> float:
        """The share of the state above the budget; 0.0 within it."""
        own = [p for p in flow.state_parts() if not p.base]
        rows = sum(p.arrangement.rows for p in own)
        size = sum(p.arrangement.nbytes + p.extra for p in own)
        return self.share_over(rows, size)

    def share_over(self, rows: int, size: int) -> float:
        """The share of ``rows`` rows and ``size`` bytes that is over the budget; 0.0 within it."""
        bounds = ((rows, self.rows), (size, self.bytes))
        over = (1 - bound / used for used, bound in bounds if bound is not None and used > bound)
        return max(over, default=0.0)

    def keep(self, flow: Services) -> None:
        """Evict until the state is within the budget."""
        if self.excess(flow) > 0:
            self._merge(flow)
        while (over := self.excess(flow)) > 0:
            if not self._evict(flow, over):
                return
            self._merge(flow)

    def _merge(self, flow: Services) -> None:
        # Rows that cancel count until they are merged, so merge before evicting.
        for part in flow.state_parts():
            if not part.base:
                part.arrangement.compact()

    def _evict(self, flow: Services, share: float) -> bool:
        """Evict the least recently used keys: about ``share`` of all, at least one. Returns whether there were any."""
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
    """The non-empty sets of filled keys of a node, each with its side of the join (0 for other operators)."""
    if isinstance(node, JoinNode):
        return [(side, cache[2]) for side, cache in enumerate(node.cached) if cache is not None and len(cache[2])]
    return [(0, node.filled)] if node.filled is not None and len(node.filled) else []
