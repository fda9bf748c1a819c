"""A piece of state as a table with marks, drawn in a place that the whole history shares.

A :class:`Block` is one table at one step; a :class:`Shape` is what all steps of it need:
column widths measured with the boldest mark, lines at most, words below. A block is drawn
into its shape, so nothing moves from step to step. What has no room is counted, marked
rows last: ``195 more rows``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..svg import rect, text
from ..table import CAPTION, HEADER, counted
from ..text import width
from .fields import Cell, Field, Hole, columns_width
from .glyphs import band, mark
from .ruler import Axis

MOST = 8
"""Rows that a table shows."""
PAD, GUTTER, BETWEEN, SPREAD = 7.0, 12.0, 12.0, 22.0
ROW, SLAB_ROW, SLAB_GAP = 18.0, 16.0, 5.0
NOTHING = "no rows"


@dataclass(frozen=True)
class Line:
    """A row: its fields, one a column, the last one over all that are left; its mark, and whether it is of this step.

    ``slab`` is the span of the batch that it lies in, for arrangements.
    """

    fields: tuple[Field, ...]
    mark: str = ""
    now: bool = False
    slab: str = ""
    under: Field | None = None
    """Stands below the row, over all columns: a bag, in the narrow form."""
    marked: bool = False
    """Whether it is to be seen before others: marked, or with a changed field."""


@dataclass(frozen=True)
class Block:
    """One table at one step; ``more`` rows of it are not among the lines."""

    head: tuple[str, ...]
    right: tuple[bool, ...]
    lines: tuple[Line, ...]
    more: int = 0
    unit: str = "row"
    caption: str = ""
    notes: tuple[str, ...] = ()
    axis: Axis | None = None
    tight: bool = False
    """The first of two columns goes without its name where that is wider than its values."""

    def cut(self, most: int) -> tuple[tuple[Line, ...], str]:
        """At most ``most`` lines and words for the rest, which take the place of one: marked rows go last."""
        total = len(self.lines) + self.more
        if total <= most and not self.more:
            return self.lines, ""
        room = max(most - 1, 0)
        first = [n for n, line in enumerate(self.lines) if line.marked]
        others = [n for n, line in enumerate(self.lines) if not line.marked]
        kept = sorted([*first, *others][:room])
        hidden = total - len(kept)
        what = f"more {self.unit}" if kept else self.unit
        return tuple(self.lines[n] for n in kept), counted(hidden, what)

    @property
    def least(self) -> int:
        """The lines that it would need to show everything."""
        return len(self.lines) + (1 if self.more else 0)


@dataclass
class Shape:
    """What every step of one table needs; grown block by block, then frozen by whoever lays it out."""

    head: tuple[str, ...] = ()
    right: tuple[bool, ...] = ()
    widths: list[float] = field(default_factory=list)
    caption: str = ""
    lines: int = 0
    notes: int = 0
    below: float = 0.0
    slabs: int = 0
    label: float = 0.0
    axis: bool = False
    ruler: float = 0.0
    unit: str = "row"
    gutter: float = 0.0
    row: float = ROW
    capacity: int = MOST

    def grow(self, block: Block) -> None:
        """Make room for a block."""
        if not self.head:
            self.head, self.right, self.widths = block.head, block.right, [width(h) for h in block.head]
            if block.axis is not None:
                self.widths = [0.0] * len(block.head)  # a ruler stands where the names would
            elif block.tight and len(block.head) == 2:
                self.widths[0] = 0.0
        self.right = tuple(a and b for a, b in zip(self.right, block.right, strict=False))
        self.caption = max(self.caption, block.caption, key=width)
        self.lines = max(self.lines, min(block.least, MOST))
        self.unit = block.unit
        self.notes = max(self.notes, len(block.notes))
        below = [NOTHING, *block.notes]
        if block.least > 2:
            below.append(counted(len(block.lines) + block.more, f"more {block.unit}"))
        self.below = max(self.below, *(width(n) for n in below))
        self.axis = self.axis or block.axis is not None
        self.ruler = max(self.ruler, block.axis.width if block.axis is not None else 0.0)
        spans = dict.fromkeys(line.slab for line in block.lines if line.slab)
        self.slabs = max(self.slabs, len(spans))
        self.label = max([self.label, *(width(s, mono=True) for s in spans)])
        for line in block.lines:
            if line.mark:
                self.gutter = GUTTER
            if line.under is not None:
                self.row = 2 * ROW
                self.below = max(self.below, line.under.width)
            alone = line.fields[:-1] if len(line.fields) < len(self.head) else line.fields
            for n, each in enumerate(alone):
                self.widths[n] = max(self.widths[n], each.width)
            if len(line.fields) < len(self.head):
                left = columns_width(self.widths[: len(alone)], self._between)
                self.below = max(self.below, left + self._between + line.fields[-1].width)

    def suits(self, block: Block) -> bool:
        """Whether a block that it was not grown by has room in it."""
        grown = replace(self, widths=list(self.widths))
        grown.grow(block)
        return (grown.widths, grown.label, grown.gutter, grown.row, grown.ruler) == (
            self.widths,
            self.label,
            self.gutter,
            self.row,
            self.ruler,
        ) and grown.below <= max(self.below, self.width - 2 * PAD - self._before())

    def _before(self) -> float:
        """Px before the first column."""
        return (self.label + 10 if self.axis else 0) + self.gutter

    @property
    def _between(self) -> float:
        return 9.0 if self.axis else BETWEEN

    @property
    def width(self) -> float:
        """The least width of the block."""
        body = self._before() + columns_width(self.widths, self._between)
        body = max(body, self._before() + self.below, width(self.caption))
        return max(body + 2 * PAD, self.ruler)

    def height_of(self, capacity: int) -> float:
        """The height with room for ``capacity`` lines."""
        return (
            (CAPTION if self.caption else 0)
            + (Axis.HEIGHT if self.axis else HEADER)
            + min(max(self.lines, 1), capacity) * (SLAB_ROW if self.axis else self.row)
            + (SLAB_GAP * min(self.slabs, capacity) + 2 if self.axis else 0)
            + 17 * self.notes
            + 5
        )

    @property
    def height(self) -> float:
        """The height with the capacity that it has."""
        return self.height_of(self.capacity)

    def lefts(self, x: float, wide: float) -> list[float]:
        """The left of each column in a block at x of that width: spare room goes between them."""
        spare = wide - 2 * PAD - self._before() - columns_width(self.widths, self._between)
        step = max(min(spare / max(len(self.widths) - 1, 1), SPREAD), 0.0) if len(self.widths) > 1 else 0.0
        at, out = x + PAD + self._before(), []
        for w in self.widths:
            out.append(at)
            at += w + self._between + step
        return out

    def draw(self, block: Block | None, x: float, y: float, wide: float) -> str:
        """The block with its upper left corner at (x, y), in a panel of that width."""
        out = []
        if self.caption:
            out.append(text((x + PAD, y + 14), block.caption if block else self.caption, kind="m"))
            y += CAPTION
        lefts = self.lefts(x, wide)
        if self.axis:
            if block is not None and block.axis is not None:
                out.append(block.axis.draw(x, y, wide))
            y += Axis.HEIGHT
        else:
            out.append(self._heads(lefts, x, y, wide))
            y += HEADER
        if block is None:
            return "".join(out)
        lines, more = block.cut(min(max(self.lines, 1), self.capacity))
        y = self._slabs(lines, x, y, wide, lefts, out) if self.axis else self._rows(lines, x, y, wide, lefts, out)
        quiet = not lines and not more and not block.notes
        for note in [*([more] if more else []), *([NOTHING] if quiet else []), *block.notes]:
            out.append(text((lefts[0] if lefts else x + PAD, y + 13), note, kind="m i"))
            y += 17
        return "".join(out)

    def _heads(self, lefts: Sequence[float], x: float, y: float, wide: float) -> str:
        out = [rect(x + PAD, y + HEADER - 1, wide - 2 * PAD, 1, fill="hairline")]
        for left, w, name, right in zip(lefts, self.widths, self.head, self.right, strict=True):
            if width(name) > w + 0.5:
                continue
            at = (left + w, y + 14) if right else (left, y + 14)
            out.append(text(at, name, kind="m", anchor="end" if right else "start"))
        return "".join(out)

    def _rows(
        self, lines: Sequence[Line], x: float, y: float, wide: float, lefts: Sequence[float], out: list[str]
    ) -> float:
        for line in lines:
            if line.now:
                out.append(band(line.mark, x + 1, y + 0.5, wide - 2, self.row - 1))
            out.append(mark(line.mark, x + 3 + GUTTER / 2, y + 9))
            out.append(self._fields(line, y, x + wide - PAD, lefts))
            if line.under is not None:
                out.append(line.under.draw(lefts[0], y + ROW - 1, x + wide - PAD - lefts[0], False))
            y += self.row
        return y

    def _slabs(
        self, lines: Sequence[Line], x: float, y: float, wide: float, lefts: Sequence[float], out: list[str]
    ) -> float:
        """The batches, each a slab with its span at the left; the rows of one batch stand together."""
        at = 0
        while at < len(lines):
            label = lines[at].slab
            end = at
            while end < len(lines) and lines[end].slab == label:
                end += 1
            high = SLAB_ROW * (end - at) + 1
            out.append(rect(x + 4, y, wide - 8, high + 1, fill="page", stroke="hairline", radius=2))
            out.append(text((x + PAD + 2, y + 12), label, kind="m mono"))
            out.append(rect(x + PAD + self.label + 7, y + 2, 1, high - 3, fill="hairline"))
            for line in lines[at:end]:
                if line.now:
                    out.append(band(line.mark, x + 5 + self.label + 11, y + 1, wide - self.label - 21, SLAB_ROW - 1))
                out.append(mark(line.mark, x + PAD + self.label + 9 + GUTTER / 2, y + 8.5))
                out.append(self._fields(line, y - 1, x + wide - PAD, lefts))
                y += SLAB_ROW
            y += SLAB_GAP
            at = end
        return y

    def _fields(self, line: Line, y: float, end: float, lefts: Sequence[float]) -> str:
        out = []
        spans = len(line.fields) < len(self.head)
        for n, each in enumerate(line.fields):
            last = spans and n == len(line.fields) - 1
            w = max(end - lefts[n], 0) if last else self.widths[n]
            shown = _looked(each, line) if not isinstance(each, Hole) else each
            out.append(shown.draw(lefts[n], y, w, self.right[n] and not last))
        return "".join(out)


def _looked(each: Field, line: Line) -> Field:
    """A plain value in the look of its row's mark: bold when new, struck when it goes, underlined when looked up."""
    if not isinstance(each, Cell) or each.look:
        return each
    if line.mark == "inserted":
        return replace(each, look="b" if line.now else "")
    if line.mark == "deleted":
        return replace(each, look="m s")
    return replace(each, look="u") if line.mark == "looked" else each


__all__ = ["BETWEEN", "GUTTER", "MOST", "NOTHING", "PAD", "ROW", "Block", "Line", "Shape"]
