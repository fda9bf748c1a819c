"""Panels: each shows one operator of a graph, with its title above and its state inside.

The panel of an operator that stores rows is filled; the panel of one that does not is white. A panel computes its own
size and the positions of its inputs. The caller sets how much of each table is drawn (`table.Limits`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .svg import rect, text
from .table import PAD, DrawnTable, counted
from .text import fit, width

TITLE = 19
SECOND = 16
NOTHING = "no state"
ONE_WAY, TWO_WAYS = 18.0, 52.0
"""The distance between two inputs, in px. A line of text fits above each edge. With `TWO_WAYS`, for an operator that
sends upqueries, another line fits below it."""


@dataclass(frozen=True)
class Panel:
    """What is drawn for one operator. ``rows`` is None if the operator does not store state."""

    name: str
    title: str
    detail: str
    rows: int | None
    tables: list[DrawnTable] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """Lines of text that are drawn if there are no tables."""
    inputs: int = 1
    widest: float = 230.0
    """The largest width, in px, to which the title can widen the panel."""
    ports: float = ONE_WAY

    @property
    def count(self) -> str:
        """The row count as text, or an empty string if the panel has no state or does not draw its tables."""
        return counted(self.rows, "row") if self.rows is not None and self.tables else ""

    @property
    def body(self) -> float:
        """The smallest width of the panel, not counting its title."""
        inside = [t.width for t in self.tables] + [width(w) + 2 * PAD for w in self.words]
        return max([40.0, *inside])

    @property
    def width(self) -> float:
        """The smallest width that fits the tables, and the title on two lines."""
        second = width(self.detail) + (width(self.count) + 12 if self.count else 0)
        titles = max(width(self.title, 13, bold=True), second)
        return max(self.body, min(titles, self.widest))

    def two(self, wide: float) -> bool:
        """Return whether the title needs two lines if the panel is ``wide`` px wide."""
        parts = [width(self.title, 13, bold=True), *(width(w) + 8 for w in (self.detail, self.count) if w)]
        return sum(parts) > wide

    def above(self, wide: float) -> float:
        """Return the height of the title if the panel is ``wide`` px wide."""
        return TITLE + (SECOND if self.two(wide) else 0)

    @property
    def height(self) -> float:
        """The height of the panel, not counting its title."""
        if self.tables:
            inside = sum(t.height for t in self.tables) + 6 + 7 * (len(self.tables) - 1)
        else:
            inside = 18.0 * len(self.words) + 10
        return max(inside, self.ports * self.inputs + (18 if self.inputs > 1 else -10))

    def port(self, number: int) -> float:
        """Return how far input ``number`` is below the upper edge: at its table if each has one, else evenly spaced."""
        if self.inputs > 1 and len(self.tables) == self.inputs:
            y = 3.0
            for table in self.tables[:number]:
                y += table.height + 7
            return y + self.tables[number].height / 2
        return self.height / 2 + self.ports * (number - (self.inputs - 1) / 2)

    def draw(self, x: float, y: float, wide: float) -> str:
        """Return the SVG of the panel, ``wide`` px wide, with the upper left corner of its frame at (x, y)."""
        filled = "panel" if self.rows is not None else "page"
        out = [self._titles(x, y, wide), rect(x, y, wide, self.height, fill=filled, stroke="frame", radius=3)]
        top = y + 3
        for number, table in enumerate(self.tables):
            if number:
                out.append(rect(x + 1, top + 3, wide - 2, 1, fill="hairline"))
                top += 7
            out.append(table.draw(x, top, wide))
            top += table.height
        first = y + (self.height - 18 * len(self.words)) / 2 + 13
        for number, words in enumerate(self.words if not self.tables else []):
            kind = "m i" if words == NOTHING else "m"
            out.append(text((x + PAD, first + 18 * number), fit(words, wide - 2 * PAD), kind=kind, tip=words))
        return "".join(out)

    def _titles(self, x: float, y: float, wide: float) -> str:
        title, two = fit(self.title, wide, 13, bold=True), self.two(wide)
        first = y - 6 - (SECOND if two else 0)
        left = x if two else x + width(title, 13, bold=True) + 8
        room = x + wide - left - (width(self.count) + 8 if self.count else 0)
        return (
            text((x, first), title, kind="b", size=13, tip=self.title)
            + text((left, y - 6), fit(self.detail, room), kind="m", tip=self.detail)
            + text((x + wide, y - 6), self.count, kind="m", anchor="end")
        )


def folded(panel: Panel) -> Panel:
    """Return the panel with its row count in place of the tables."""
    if not panel.tables:
        return panel
    words = counted(panel.rows or 0, "row")
    return replace(panel, tables=[], words=[words])


__all__ = ["NOTHING", "ONE_WAY", "TWO_WAYS", "Panel", "folded"]
