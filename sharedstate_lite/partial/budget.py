"""A bound on what partial state may hold: the least recently used keys become holes.

Counts what ``state()`` reports beside the base tables, in rows or bytes. "Recently used"
is by number of operations. Within one key the operator nearest the base goes first,
because what hangs on it goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import ViewError, is_integer, shorten
from .join import JoinNode

if TYPE_CHECKING:
    from .filled_keys import FilledKeys
    from .nodes import PartialNode, Services


class Budget:
    """At most ``rows`` rows and ``bytes`` bytes; None is no bound."""

    def __init__(self, rows: int | None, size: int | None) -> None:
        for name, value in (("max_rows", rows), ("max_bytes", size)):
            if value is not None and (not is_integer(value) or value < 0):
                raise ViewError(f"{name}={shorten(value)}: a budget is a whole number, 0 or more")
        # Python's own numbers, whatever was given: a checkpoint writes them as JSON.
        self.rows, self.bytes = (None if value is None else int(value) for value in (rows, size))

    @property
    def set(self) -> bool:
        """Whether there is a bound."""
        return self.rows is not None or self.bytes is not None

    def excess(self, flow: Services) -> float:
        """The share of what is held that is too much; 0.0 within the budget."""
        own = [h for h in flow.state_parts() if not h.base]
        rows = sum(h.arrangement.rows for h in own)
        size = sum(h.arrangement.nbytes + h.extra for h in own)
        return self.share_over(rows, size)

    def share_over(self, rows: int, size: int) -> float:
        """The share of ``rows`` rows and ``size`` bytes that is over the budget; 0.0 within it."""
        bounds = ((rows, self.rows), (size, self.bytes))
        over = (1 - bound / used for used, bound in bounds if bound is not None and used > bound)
        return max(over, default=0.0)

    def keep(self, flow: Services) -> None:
        """Evict until what is held is within the budget."""
        if self.excess(flow) > 0:
            self._merge(flow)
        while (over := self.excess(flow)) > 0:
            if not self._evict(flow, over):
                return
            self._merge(flow)

    def _merge(self, flow: Services) -> None:
        # Rows that cancel count until they are merged away; merge first, evict then.
        for held in flow.state_parts():
            if not held.base:
                held.arrangement.compact()

    def _evict(self, flow: Services, share: float) -> bool:
        """Make the oldest keys holes: about ``share`` of them, at least one."""
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
    """The sets of filled keys of a node that are not empty, each with the side of the join that it is of."""
    if isinstance(node, JoinNode):
        return [(side, held[2]) for side, held in enumerate(node.cached) if held is not None and len(held[2])]
    return [(0, node.filled)] if node.filled is not None and len(node.filled) else []
