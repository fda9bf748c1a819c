"""Draws one operator in the stepper: its title and row count above its tables, or a plate without tables.

An `OperatorNode` contains what all steps share: the layouts of its tables, its ports and its size. `OperatorNode.draw`
draws the `NodeContent` of one step. Operators that store rows have filled panels, and the others have white ones. The
operator that acts has a thick frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from ...errors import Error
from ..palette import colour
from ..svg import clean, number, rect, text
from ..text import fit, width
from .table_blocks import PAD, TableBlock, TableLayout
from .time_axis import RADIUS, TimeAxis, pin

TITLE, SECOND = 19.0, 16.0
WORD = 17.0
APART = 8.0
"""The distance between two tables in one panel, in px."""


@dataclass(frozen=True)
class NodeContent:
    """What a node shows at one step: a block for each table, and the lines below them (``foot``).

    It also has the row count, the lines of a panel without tables (``words``), and whether the operator acts.
    """

    blocks: tuple[TableBlock | None, ...] = ()
    foot: tuple[str, ...] = ()
    count: str = ""
    words: tuple[str, ...] = ()
    acts: bool = False


@dataclass
class OperatorNode:
    """An operator's panel. ``words`` are its lines if it has no tables, and ``counts`` is its widest row count."""

    name: str
    title: str
    detail: str
    holds: bool
    letter: str = ""
    shapes: list[TableLayout] = field(default_factory=list)
    words: tuple[str, ...] = ()
    counts: str = ""
    foot: int = 0
    footing: float = 0.0
    inputs: int = 1
    two_ways: bool = False
    fold: bool = False
    """Whether the node is drawn as a plate, which shows its row count instead of its tables."""
    widest: float = 240.0
    pitch: float = 26.0
    """The distance between the ports of two inputs, in px."""

    @property
    def open(self) -> bool:
        """Whether the node shows tables."""
        return bool(self.shapes) and not self.fold

    @property
    def inside(self) -> tuple[str, ...]:
        """The widest lines that the panel shows if it does not show tables."""
        if self.fold and self.counts:
            return (self.counts,)
        return self.words

    @property
    def body(self) -> float:
        """The smallest width of the panel, not counting its title."""
        if self.open:
            return max([*(s.width for s in self.shapes), self.footing + 2 * PAD])
        return max([*(width(w) for w in self.inside), self.footing if not self.fold else 0, 24.0]) + 2 * PAD

    @property
    def _mark(self) -> float:
        return 2 * RADIUS + 5 if self.letter else 0.0

    @property
    def _counted(self) -> float:
        return width(self.counts) if self.open and self.counts else 0.0

    @property
    def width(self) -> float:
        """The smallest width that fits everything, with the title on two lines."""
        title = self._mark + width(self.title, 13, bold=True)
        detail = width(self.detail) if not self.fold else 0.0
        second = detail + (self._counted + 12 if self._counted else 0)
        return max(self.body, min(max(title, second), self.widest if self.open else self.widest * 0.6))

    def _two(self, wide: float) -> bool:
        if self.fold:
            return False
        parts = [self._mark + width(self.title, 13, bold=True)]
        parts += [w + 8 for w in (width(self.detail), self._counted) if w]
        return sum(parts) > wide and bool(self.detail or self._counted)

    def above(self, wide: float) -> float:
        """Return the height of the title if the panel is ``wide`` px wide."""
        return TITLE + (SECOND if self._two(wide) else 0)

    @property
    def height(self) -> float:
        """The height of the panel, not counting its title."""
        if self.open:
            inside = sum(s.height for s in self.shapes) + 4 + APART * (len(self.shapes) - 1)
            inside += WORD * self.foot + (6 if self.foot else 0)
        else:
            lines = len(self.inside) + (self.foot if not self.fold else 0)
            inside = WORD * max(lines, 1) + 6
        ports = self.pitch * (self.inputs - 1) + (40 if self.two_ways else 12)
        return max(inside, ports)

    def into(self, at: int) -> float:
        """Return how far input ``at`` is below the upper edge: at its table if each has one, else evenly spaced."""
        if self.inputs > 1 and self.open and len(self.shapes) == self.inputs and not any(s.axis for s in self.shapes):
            return self._table(at) + self.shapes[at].height / 2
        return self.height / 2 + self.pitch * (at - (self.inputs - 1) / 2)

    def out(self, table: int | None) -> float:
        """Return how far below the upper edge an edge leaves: at the middle, or at the time axis of ``table``."""
        if table is not None and self.open:
            caption = 18 if self.shapes[table].caption else 0
            return self._table(table) + caption + TimeAxis.PORT
        return self.height / 2

    def _table(self, at: int) -> float:
        return 2 + sum(s.height + APART for s in self.shapes[:at])

    def draw(self, content: NodeContent, x: float, y: float, wide: float) -> str:
        """Return the SVG of the panel, ``wide`` px wide. The upper left corner of its frame is at (x, y).

        Raises Error if the content does not have one block for each table.
        """
        if len(content.blocks) != len(self.shapes):
            raise Error(f"{self.name}: {len(content.blocks)} blocks for {len(self.shapes)} tables; pass one per table")
        out = [self._titles(content, x, y, wide), self._frame(content, x, y, wide)]
        if self.open:
            top = y + 2
            for n, (shape, block) in enumerate(zip(self.shapes, content.blocks, strict=True)):
                if n:
                    out.append(rect(x + 1, top - APART / 2, wide - 2, 1, fill="hairline"))
                out.append(shape.draw(block, x, top, wide))
                top += shape.height + APART
            if content.foot:
                out.append(rect(x + 1, top - APART + 2, wide - 2, 1, fill="hairline"))
            out += self._lines(content.foot, x, top - APART + 4, wide)
        else:
            words = ((content.count or self.counts,) if self.counts else self.words) if self.fold else self.words
            words = content.words if content.words and not self.fold else words
            lines = [*words, *(content.foot if not self.fold else ())]
            most = len(self.inside) + (self.foot if not self.fold else 0)
            high = WORD * max(most, len(lines))
            out += self._lines(lines, x, y + (self.height - high) / 2 - 0.5, wide)
        label = escape(clean(", ".join(p for p in (self.title, self.detail, content.count) if p)), quote=True)
        given = f'class="node" data-operator="{escape(clean(self.name), quote=True)}" role="group" aria-label="{label}"'
        return f'<g {given} tabindex="0">{"".join(out)}</g>'

    def _frame(self, content: NodeContent, x: float, y: float, wide: float) -> str:
        fill = "panel" if self.holds else "page"
        if not content.acts:
            return rect(x, y, wide, self.height, fill=fill, stroke="frame", radius=3)
        box = f'x="{number(x)}" y="{number(y)}" width="{number(wide)}" height="{number(self.height)}"'
        return f'<rect {box} rx="3" fill="{colour(fill)}" stroke="{colour("ink")}" stroke-width="2"/>'

    def _lines(self, lines: Sequence[str], x: float, y: float, wide: float) -> list[str]:
        out = []
        for n, words in enumerate(lines):
            kind = "b" if words.startswith("? ") else "m" if words[:1].isdigit() else "m i"
            shown = fit(words, wide - 2 * PAD, bold=kind == "b")
            out.append(text((x + PAD, y + 13 + WORD * n), shown, kind=kind, tip=words))
        return out

    def _titles(self, content: NodeContent, x: float, y: float, wide: float) -> str:
        room = wide - self._mark
        title, two = fit(self.title, room, 13, bold=True), self._two(wide)
        first = y - 6 - (SECOND if two else 0)
        out = [pin(x + RADIUS + 1, first - 4.5, self.letter)] if self.letter else []
        out.append(text((x + self._mark, first), title, kind="b", size=13, tip=self.title))
        left = x if two else x + self._mark + width(title, 13, bold=True) + 8
        count = content.count if self.open else ""
        detail = "" if self.fold else self.detail
        left_room = x + wide - left - (self._counted + 8 if self._counted else 0)
        if detail and left_room > 16:
            out.append(text((left, y - 6), fit(detail, left_room), kind="m", tip=detail))
        if count:
            out.append(text((x + wide, y - 6), count, kind="m", anchor="end"))
        return "".join(out)


__all__ = ["NodeContent", "OperatorNode"]
