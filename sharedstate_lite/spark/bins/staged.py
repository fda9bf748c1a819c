"""The shared dataflow in stages. If two stages need the same arrangement, each has its own copy.

A join must be in the same stage as the arrangements that it reads. This is impossible if two joins read the same
arrangement, one is above the other, and rows change their bin between them. The upper join then reads its own copy.
``apart`` contains the joins and reduces that need a copy, as digests of their nodes. `EngineSpec` finds them by trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dataflow.operators import Arrange, Operator
from ...dataflow.shared import Shared
from ...plan.nodes import Join, Node, Reduce, Scan, digest
from ...plan.view import View
from ...storage.arrangement import Arrangement
from ...storage.batch import Layout


class Staged(Shared):
    """The shared dataflow, with copies of the arrangements that the operators in ``apart`` read; see the module."""

    def __init__(
        self, views: Sequence[View], join: str = "auto", *, apart: frozenset[str] = frozenset(), **like: Any
    ) -> None:
        self.apart = apart
        self._own = False
        super().__init__(views, join, **like)

    def _join(self, node: Join, view: View) -> Operator:
        for below in node.inputs:
            self._build(below, view)
        self._own = digest(node) in self.apart
        try:
            return super()._join(node, view)
        finally:
            self._own = False

    def _reduce(self, node: Reduce, view: View) -> Operator:
        self._build(node.input, view)
        self._own = digest(node) in self.apart
        try:
            return super()._reduce(node, view)
        finally:
            self._own = False

    def _arranged(self, node: Node, key: tuple[int, ...]) -> Arrange | None:
        return None if self._own else super()._arranged(node, key)

    def _arrange(self, node: Node, key: tuple[int, ...], view: View, order: int | None) -> Arrange:
        if not (self._own and isinstance(node, Scan) and node.relation in self.bases):
            return super()._arrange(node, key, view, order)
        below = self._build(node, view)
        name = self._arrangement_name(node, key)
        made = Arrangement(name, Layout(tuple(c.type for c in node.schema), key, order), self.epoch + 1)
        return self._keep(Arrange(name, node, [below], self.dictionary, arrangement=made))

    def _identity(self, operator: Operator, arrangement: Arrangement) -> str:
        # Two copies of an arrangement differ only in their names.
        return arrangement.name
