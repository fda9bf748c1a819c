"""Fits a diagram to a width. If there is not enough room, its parts shrink in this order until it fits:

1. Messages show one value per line, gap by gap from the right.
2. Tables use their narrow form.
3. Messages shrink to numbers, except for those that move, wait, or were dropped in this step.
4. Columns fold to plates, starting with the column farthest from the acting operator.
5. Operators that are not neighbours of the acting one are summarized as ``upstream`` and ``downstream``, views last.

The first two measures apply to all steps, so nothing moves between steps. The others depend on the current step.

If the diagram is too tall, the tallest table in the tallest column loses lines, down to 4 and then to 2. After that,
the panels of operators that are not acting fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from ..layout import Link, columns
from ..table import counted
from .chips import EdgeMessage
from .diagram import Diagram, DiagramEdge, Lane
from .diagram_layout import CLOSED, DiagramLayout
from .nodes import OperatorNode
from .table_blocks import NARROW, ROOMY, ROW, TIGHT, StepperLimits, TableLayout

MARGIN = 12.0
TALLEST = 312.0
SLACK = 8.0
"""The height kept free for messages that extend above or below the panels, in px."""
RULED = 356.0
"""The largest height of a diagram with time axes, in px. Each axis is as high as three rows."""


@dataclass(frozen=True)
class Fit:
    """A layout, the limits of its tables, and the node that shows each operator."""

    layout: DiagramLayout
    limits: StepperLimits
    drawn: Mapping[str, str]
    """The name of the node that shows each operator. It differs from the operator's name for summarized operators."""


class Fitting:
    """The layouts of a recording at one outer width in px."""

    def __init__(
        self, diagram: Diagram, width: float, tallest: float | None = None, folded: frozenset[str] = frozenset()
    ) -> None:
        self.diagram, self.width, self.closed = diagram, width, folded
        self.tallest = tallest or (RULED if any(w.table is not None for w in diagram.edges) else TALLEST)
        self.room = width - 2 * MARGIN
        self._nodes: dict[StepperLimits, dict[str, OperatorNode]] = {}
        self._acting: dict[tuple[str, frozenset[Lane]], Fit] = {}
        self.common = self._common()

    def at(self, number: int) -> Fit:
        """Return the layout for a step."""
        if self.common:
            return self.common
        messages = self.diagram.messages(number)
        return self.acting(self._actor(number), frozenset(k for k, v in messages.items() if v.whole))

    def _actor(self, number: int) -> str:
        """Return the operator that acts at a step, or the last one that acted before it."""
        steps = self.diagram.recording.steps
        for n in range(number, 0, -1):
            if steps[n - 1].operator in self.diagram.operators:
                return steps[n - 1].operator
        return next((o.name for o in self.diagram.operators.values()), "")

    # --- heights ------------------------------------------------------------------

    def fresh(self, limits: StepperLimits) -> dict[str, OperatorNode]:
        """Return new nodes with as many lines as they can use."""
        if limits not in self._nodes:
            self._nodes[limits] = self.diagram.nodes(limits)
        return {
            n: replace(node, shapes=[copy(s) for s in node.shapes], fold=n in self.closed)
            for n, node in self._nodes[limits].items()
        }

    def lowered(
        self,
        nodes: dict[str, OperatorNode],
        stacked: int,
        waiting: frozenset[Lane] | None = None,
        actor: str = "",
        edges: list[DiagramEdge] | None = None,
        sizes: Mapping[Lane, list[EdgeMessage]] | None = None,
        short: bool = False,
    ) -> DiagramLayout:
        """Return the layout, with lines removed and panels folded until it is low enough or nothing more helps."""
        edges = self.diagram.edges if edges is None else edges
        sizes = self.diagram.sizes if sizes is None else sizes

        def build() -> DiagramLayout:
            return DiagramLayout(
                nodes, edges, sizes, stacked=stacked, waiting=waiting, short=short, tallest=self.tallest - SLACK
            )

        layout = build()
        while (over := layout.height - self.tallest) > 0:
            for change, undo in _ways_to_be_low(layout, nodes, over, actor):
                change()
                tried = build()
                if tried.height < layout.height - 0.5:
                    layout = tried
                    break
                undo()
            else:
                break
        return layout

    # --- widths -------------------------------------------------------------------

    def _common(self) -> Fit | None:
        """Return the roomiest layout that fits all steps without folding columns, or None if there is none."""
        same = {n: n for n in self.diagram.operators}
        whole = DiagramLayout(self.fresh(ROOMY), self.diagram.edges, self.diagram.sizes)
        self.columns, gaps = whole.placed.columns, len(whole.gaps)
        edges = [(ROOMY, stacked) for stacked in range(gaps + 1)]
        edges += [(NARROW, stacked) for stacked in sorted({0, gaps // 2, gaps})]
        for limits, stacked in edges:
            layout = self._low(self.fresh(limits), stacked, None, short=limits.tight)
            if layout is not None:
                layout.settle(self.room)
                return Fit(layout, limits, same)
        return None

    def _fits(self, layout: DiagramLayout) -> bool:
        return layout.width <= self.room and layout.height <= self.tallest

    def acting(self, actor: str, waiting: frozenset[Lane]) -> Fit:
        """Return the layout for steps at which ``actor`` acts and messages on the ``waiting`` lanes wait.

        Other columns are folded as far as necessary.
        """
        key = actor, waiting
        if key not in self._acting:
            fit = self._folded(actor, waiting)
            fit.layout.settle(self.room)
            self._acting[key] = fit
        return self._acting[key]

    def _folded(self, actor: str, waiting: frozenset[Lane]) -> Fit:
        same = {n: n for n in self.diagram.operators}
        gaps, columns = max(len(self.columns) - 1, 0), self.columns
        here = next((c for c, column in enumerate(columns) if actor in column), 0)
        far = sorted((c for c in range(len(columns)) if c != here), key=lambda c: (-abs(c - here), -c))
        for count in range(len(far) + 1):
            for stacked in (0, gaps):
                nodes = self._without(NARROW, [n for c in far[:count] for n in columns[c]])
                low = self._low(nodes, stacked, waiting, actor)
                if low is not None:
                    return Fit(self._opened(low, far[:count], columns, NARROW, stacked, actor), NARROW, same)
        others = [n for c in far for n in columns[c]]
        for fewer, limits, folded in self._ways_to_be_few(actor):
            nodes, edges, sizes, drawn = gathered(self.diagram, self._without(limits, [*others, *folded]), actor, fewer)
            layout = self.lowered(nodes, gaps, waiting, actor, edges, sizes)
            if self._fits(layout):
                break
        return Fit(layout, limits, drawn)

    def _ways_to_be_few(self, actor: str) -> Iterator[tuple[int, StepperLimits, list[str]]]:
        for fewer in range(3):
            yield from ((fewer, limits, []) for limits in (NARROW, TIGHT))
        yield 2, TIGHT, [actor]

    def _low(
        self,
        nodes: dict[str, OperatorNode],
        stacked: int,
        waiting: frozenset[Lane] | None,
        actor: str = "",
        short: bool = False,
    ) -> DiagramLayout | None:
        """Return the layout if it is low and narrow enough, otherwise None.

        A layout that cannot be narrow enough is not computed.
        """
        least = sum(max(nodes[n].width for n in column) for column in self.columns) + CLOSED * (len(self.columns) - 1)
        if least > self.room:
            return None
        edges, sizes = self.diagram.edges, self.diagram.sizes
        if DiagramLayout(nodes, edges, sizes, stacked=stacked, waiting=waiting, short=short).width > self.room:
            return None
        layout = self.lowered(nodes, stacked, waiting, actor, short=short)
        return layout if self._fits(layout) else None

    def _opened(
        self,
        layout: DiagramLayout,
        far: list[int],
        columns: list[list[str]],
        limits: StepperLimits,
        stacked: int,
        actor: str,
    ) -> DiagramLayout:
        """Return the layout with folded columns opened again if there is room for them after all, nearest first."""
        folded = list(far)
        for c in reversed(far[:-1]):
            fewer = [k for k in folded if k != c]
            nodes = self._without(limits, [n for k in fewer for n in columns[k]])
            tried = self._low(nodes, stacked, layout.waiting, actor)
            if tried is not None:
                layout, folded = tried, fewer
        return layout

    def _without(self, limits: StepperLimits, folded: Sequence[str]) -> dict[str, OperatorNode]:
        """Return new nodes, of which those in ``folded`` are folded to plates."""
        nodes = self.fresh(limits)
        for name in folded:
            nodes[name].fold = True
        return nodes


Act = Callable[[], None]


def _ways_to_be_low(
    layout: DiagramLayout, nodes: dict[str, OperatorNode], over: float, actor: str
) -> Iterator[tuple[Act, Act]]:
    """Yield changes that can make a layout lower, best first, each with a function that undoes it.

    The first changes remove lines from tables, and the last ones fold panels.
    """

    def tall(column: list[str]) -> float:
        return sum(nodes[n].height + nodes[n].above(1e9) + 14 for n in column)

    columns = sorted(layout.placed.columns, key=tall, reverse=True)
    for least in (4, 2):
        for column in columns:
            shapes = [s for n in column if nodes[n].open for s in nodes[n].shapes]
            shapes = [s for s in shapes if min(s.lines, s.capacity) > least]
            for shape in sorted(shapes, key=lambda s: -s.height)[:2]:
                lines = min(shape.lines, shape.capacity)
                less = max(least, lines - max(int(over / ROW / len(shapes)), 1))
                yield _setting(shape, "capacity", less, shape.capacity)
    for column in columns:
        open_ = [nodes[n] for n in column if nodes[n].open and n != actor]
        for node in sorted(open_, key=lambda n: -n.height):
            yield _setting(node, "fold", True, False)


def _setting(thing: TableLayout | OperatorNode, name: str, new: float, old: float) -> tuple[Act, Act]:
    return lambda: setattr(thing, name, new), lambda: setattr(thing, name, old)


UP, DOWN = "(upstream)", "(downstream)"


def gathered(
    diagram: Diagram, nodes: dict[str, OperatorNode], actor: str, fewer: int = 0
) -> tuple[dict[str, OperatorNode], list[DiagramEdge], dict[Lane, list[EdgeMessage]], dict[str, str]]:
    """Return fewer nodes, their edges and messages, and the node that shows each operator.

    The acting operator is always kept. If ``fewer`` is 0, its neighbours and the views are kept too; if it is 1, only
    the views are. A choice that would form a cycle is skipped.
    """
    after = _reached(diagram.edges, actor)
    next_to = {w.source for w in diagram.edges if w.target == actor} | {
        w.target for w in diagram.edges if w.source == actor
    }
    views = {o.name for o in diagram.operators.values() if o.kind == "view"}
    for kept in ({actor} | next_to | views, {actor} | views, {actor})[fewer:]:
        drawn = {n: n if n in kept else DOWN if n in after else UP for n in nodes}
        ends = {(drawn[w.source], drawn[w.target]) for w in diagram.edges}
        links = [Link(a, b, 0, 0) for a, b in sorted(ends) if a != b]
        try:
            columns(list(dict.fromkeys(drawn.values())), links)
        except ValueError:
            continue
        break
    few = {n: node for n, node in nodes.items() if drawn[n] == n}
    for name in (UP, DOWN):
        inside = [n for n in nodes if drawn[n] == name]
        if len(inside) == 1:
            few[inside[0]], drawn[inside[0]] = nodes[inside[0]], inside[0]
        elif inside:
            few[name] = _summary(diagram, name, inside)
    return *_joined(diagram, few, drawn), drawn


def _joined(
    diagram: Diagram, few: dict[str, OperatorNode], drawn: dict[str, str]
) -> tuple[dict[str, OperatorNode], list[DiagramEdge], dict[Lane, list[EdgeMessage]]]:
    """Return the remaining nodes, the edges between them, and the messages on these edges by lane.

    Parallel edges are merged. Edges keep their numbers.
    """
    edges: list[DiagramEdge] = []
    sizes: dict[Lane, list[EdgeMessage]] = {}
    seen: set[tuple[str, str]] = set()
    for number, edge in enumerate(diagram.edges):
        a, b = drawn[edge.source], drawn[edge.target]
        if a == b or (a, b) in seen:
            # A placeholder, so that the other edges keep their numbers.
            edges.append(DiagramEdge("", "", edge.read, edge.two, None))
            continue
        seen.add((a, b))
        edges.append(DiagramEdge(a, b, edge.read, edge.two, edge.table if a == edge.source else None))
        sizes |= {lane: messages for lane, messages in diagram.sizes.items() if lane[0] == number}
    into = Counter(w.target for w in edges if w.target)
    for name, node in few.items():
        node.inputs = max(into[name], 1)
    return few, edges, sizes


def _reached(edges: Sequence[DiagramEdge], start: str) -> set[str]:
    """Return the operators downstream of an operator."""
    found: set[str] = set()
    open_ = [start]
    while open_:
        at = open_.pop()
        new = {w.target for w in edges if w.source == at} - found
        found |= new
        open_ += new
    return found


def _summary(diagram: Diagram, name: str, inside: Sequence[str]) -> OperatorNode:
    kinds = Counter(diagram.operators[n].kind for n in inside)
    sources, views = kinds["source"], kinds["view"]
    others = len(inside) - sources - views
    words = [counted(k, w) for k, w in ((sources, "source"), (others, "operator"), (views, "view")) if k]
    held = any(diagram.operators[n].tables for n in inside)
    return OperatorNode(name, name.strip("()"), "", holds=held, words=tuple(words), inputs=1)
