"""A recording fitted to a width: what gives way first where there is not room for everything.

In this order, until it fits: messages show one value a line, gap by gap from the right;
tables take their narrow form; the trail closes to numbers; columns fold to plates, those
farthest from the operator that acts first, right before left; at last what is beyond its
neighbours becomes ``upstream`` and ``downstream``. Never the view. The first two hold
for all steps, so nothing moves from step to step; what comes after follows the message.

Too high: the tallest table of the tallest column gives up lines, down to 4, then to 2;
then panels fold that do not act.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from .blocks import ROW, Shape
from .chips import Load
from .groups import gathered
from .nodes import Node
from .script import Lane, Script, Way
from .stage import CLOSED, Stage
from .tables import NARROW, ROOMY, TIGHT, Limits

MARGIN = 12.0
TALLEST = 312.0
SLACK = 8.0
"""Px kept for messages that reach above or below the panels."""
RULED = 356.0
"""Where panels have rulers: each takes the place of three rows, and two tables stand above each other."""


@dataclass(frozen=True)
class Fit:
    """A stage, the limits that its tables are drawn within, and the name that each operator is drawn under."""

    stage: Stage
    limits: Limits
    drawn: Mapping[str, str]
    """RecordedOperator -> node, for those that are gathered under another name."""


class Fitting:
    """The stages of a recording at one outer width in px."""

    def __init__(
        self, script: Script, width: float, tallest: float | None = None, folded: frozenset[str] = frozenset()
    ) -> None:
        self.script, self.width, self.closed = script, width, folded
        self.tallest = tallest or (RULED if any(w.table is not None for w in script.ways) else TALLEST)
        self.room = width - 2 * MARGIN
        self._nodes: dict[Limits, dict[str, Node]] = {}
        self._acting: dict[tuple[str, frozenset[Lane]], Fit] = {}
        self.common = self._common()

    def at(self, number: int) -> Fit:
        """The stage of a step."""
        if self.common:
            return self.common
        loads = self.script.loads(number)
        return self.acting(self._actor(number), frozenset(k for k, v in loads.items() if v.whole))

    def _actor(self, number: int) -> str:
        """The operator that acts at a step, or did last before it."""
        steps = self.script.recording.steps
        for n in range(number, 0, -1):
            if steps[n - 1].operator in self.script.operators:
                return steps[n - 1].operator
        return next((o.name for o in self.script.operators.values()), "")

    # --- heights ------------------------------------------------------------------

    def fresh(self, limits: Limits) -> dict[str, Node]:
        """Nodes with all the lines that they can use."""
        if limits not in self._nodes:
            self._nodes[limits] = self.script.nodes(limits)
        return {
            n: replace(node, shapes=[copy(s) for s in node.shapes], fold=n in self.closed)
            for n, node in self._nodes[limits].items()
        }

    def lowered(
        self,
        nodes: dict[str, Node],
        stacked: int,
        waiting: frozenset[Lane] | None = None,
        actor: str = "",
        ways: list[Way] | None = None,
        sizes: Mapping[Lane, list[Load]] | None = None,
        short: bool = False,
    ) -> Stage:
        """The stage, with lines taken away until it is low enough, as far as that goes."""
        ways = self.script.ways if ways is None else ways
        sizes = self.script.sizes if sizes is None else sizes

        def build() -> Stage:
            return Stage(
                nodes, ways, sizes, stacked=stacked, waiting=waiting, short=short, tallest=self.tallest - SLACK
            )

        stage = build()
        while (over := stage.height - self.tallest) > 0:
            for change, undo in _ways_to_be_low(stage, nodes, over, actor):
                change()
                tried = build()
                if tried.height < stage.height - 0.5:
                    stage = tried
                    break
                undo()
            else:
                break
        return stage

    # --- widths -------------------------------------------------------------------

    def _common(self) -> Fit | None:
        """The roomiest stage for all steps without folding for width, if there is one."""
        same = {n: n for n in self.script.operators}
        whole = Stage(self.fresh(ROOMY), self.script.ways, self.script.sizes)
        self.columns, gaps = whole.placed.columns, len(whole.gaps)
        ways = [(ROOMY, stacked) for stacked in range(gaps + 1)]
        ways += [(NARROW, stacked) for stacked in sorted({0, gaps // 2, gaps})]
        for limits, stacked in ways:
            stage = self._low(self.fresh(limits), stacked, None, short=limits.tight)
            if stage is not None:
                stage.settle(self.room)
                return Fit(stage, limits, same)
        return None

    def _fits(self, stage: Stage) -> bool:
        return stage.width <= self.room and stage.height <= self.tallest

    def acting(self, actor: str, waiting: frozenset[Lane]) -> Fit:
        """The stage while an operator acts and messages wait, other columns folded as far as need be."""
        key = actor, waiting
        if key not in self._acting:
            fit = self._folded(actor, waiting)
            fit.stage.settle(self.room)
            self._acting[key] = fit
        return self._acting[key]

    def _folded(self, actor: str, waiting: frozenset[Lane]) -> Fit:
        same = {n: n for n in self.script.operators}
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
            nodes, ways, sizes, drawn = gathered(self.script, self._without(limits, [*others, *folded]), actor, fewer)
            stage = self.lowered(nodes, gaps, waiting, actor, ways, sizes)
            if self._fits(stage):
                break
        return Fit(stage, limits, drawn)

    def _ways_to_be_few(self, actor: str) -> Iterator[tuple[int, Limits, list[str]]]:
        for fewer in range(3):
            yield from ((fewer, limits, []) for limits in (NARROW, TIGHT))
        yield 2, TIGHT, [actor]

    def _low(
        self,
        nodes: dict[str, Node],
        stacked: int,
        waiting: frozenset[Lane] | None,
        actor: str = "",
        short: bool = False,
    ) -> Stage | None:
        """The stage, low enough, if it is narrow enough; what cannot be is not even laid out."""
        least = sum(max(nodes[n].width for n in column) for column in self.columns) + CLOSED * (len(self.columns) - 1)
        if least > self.room:
            return None
        ways, sizes = self.script.ways, self.script.sizes
        if Stage(nodes, ways, sizes, stacked=stacked, waiting=waiting, short=short).width > self.room:
            return None
        stage = self.lowered(nodes, stacked, waiting, actor, short=short)
        return stage if self._fits(stage) else None

    def _opened(
        self, stage: Stage, far: list[int], columns: list[list[str]], limits: Limits, stacked: int, actor: str
    ) -> Stage:
        """The stage with those columns open again that turn out to have room, the nearest first."""
        folded = list(far)
        for c in reversed(far[:-1]):
            fewer = [k for k in folded if k != c]
            nodes = self._without(limits, [n for k in fewer for n in columns[k]])
            tried = self._low(nodes, stacked, stage.waiting, actor)
            if tried is not None:
                stage, folded = tried, fewer
        return stage

    def _without(self, limits: Limits, folded: Sequence[str]) -> dict[str, Node]:
        """Nodes, some of them folded to plates."""
        nodes = self.fresh(limits)
        for name in folded:
            nodes[name].fold = True
        return nodes


Act = Callable[[], None]


def _ways_to_be_low(stage: Stage, nodes: dict[str, Node], over: float, actor: str) -> Iterator[tuple[Act, Act]]:
    """What might make a stage lower, best first, each with its way back: lines of tables, then whole panels."""

    def tall(column: list[str]) -> float:
        return sum(nodes[n].height + nodes[n].above(1e9) + 14 for n in column)

    columns = sorted(stage.placed.columns, key=tall, reverse=True)
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


def _setting(thing: Shape | Node, name: str, new: float, old: float) -> tuple[Act, Act]:
    return lambda: setattr(thing, name, new), lambda: setattr(thing, name, old)


__all__ = ["MARGIN", "TALLEST", "Fit", "Fitting"]
