"""Draws messages as chips, which point in the direction of the message and have a badge for its kind.

A filled badge means that the message was taken. A black outline means that it is in flight. A dropped message has a
dashed outline and struck-through values. The badge ``?`` is for an upquery, and ``=`` is for its response.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..svg import number, rect, text
from ..text import fit, width
from .glyphs import shape

TIP, TALL = 6.0, 22.0
CELL, WIDEST = 96.0, 230.0
TONES = {"+1": "inserted", "+I": "inserted", "+U": "inserted", "−1": "deleted", "−U": "deleted", "−D": "deleted"}
NOW, WAITS, DROPPED = "now", "waits", "dropped"


@dataclass(frozen=True)
class Chip:
    """The badge of a message, and the values of its row or the number of its rows.

    A chip without a badge shows the span of a batch that a reader reads through its trace handle.
    """

    badge: str
    values: tuple[str, ...]

    @property
    def tone(self) -> str:
        """The name of the badge's colour."""
        if self.badge in ("?", "="):
            return "upquery"
        if not self.badge:
            return "handle"
        return TONES.get(self.badge, "deleted" if self.badge.startswith("−") else "inserted")

    @cached_property
    def words(self) -> str:
        """The values on one line, cut to the width of a chip."""
        shown, used = [], 0.0
        for n, value in enumerate(self.values):
            each = fit(value, CELL, bold=True)
            used += width(each, bold=True) + 7
            if used > WIDEST and n:
                shown.append(f"+{len(self.values) - n}")
                break
            shown.append(each)
        return "  ".join(shown)

    @property
    def wide(self) -> float:
        """The width of the chip in px. It is `TALL` px high."""
        if not self.badge:
            return width(self.words, bold=True) + 11 + TIP
        return width(self.badge, bold=True) + 10 + (width(self.words, bold=True) + 10 if self.words else 0) + TIP

    def draw(self, x: float, y: float, wide: float, status: str, back: bool) -> str:
        """Return the SVG of the chip with its upper left corner at (x, y). If ``back`` is True, it points left."""
        edge = self.tone if status == NOW else "ink" if status == WAITS else "frame"
        outline = _outline(x, y, wide, back)
        dashes = "4 3" if status == DROPPED else ""
        draw = self._flat if self.badge else self._bare
        return shape(outline, "page", edge, 1.8 if status == NOW else 1, dashes=dashes) + draw(x, y, wide, status, back)

    def _bare(self, x: float, y: float, wide: float, status: str, back: bool) -> str:
        """Return the SVG of a batch that is read by reference: its span, without its rows."""
        out = shape(_outline(x, y, wide, back), self.tone) if status == NOW else ""
        kind = {NOW: "b", WAITS: "", DROPPED: "m s"}[status]
        fill = "badge" if status == NOW else ""
        return out + text((x + 6 + (TIP if back else 0), y + 15), self.words, kind=kind, fill=fill)

    def _flat(self, x: float, y: float, wide: float, status: str, back: bool) -> str:
        badge = width(self.badge, bold=True) + 10
        left = x + (TIP if back else 0)
        out = []
        if status == NOW:
            out.append(shape(_badge(x, y, badge, back), self.tone))
        else:
            out.append(rect(left + badge - 0.5, y + 0.5, 1, TALL - 1, fill="frame"))
        fill = "badge" if status == NOW else ""
        kind = "b" if status in (NOW, WAITS) else "b m"
        out.append(text((left + badge / 2, y + 15), self.badge, kind=kind, anchor="middle", fill=fill))
        body = {NOW: "b", WAITS: "", DROPPED: "m s"}[status]
        out.append(text((left + badge + 5, y + 15), self.words, kind=body))
        return "".join(out)


def _badge(x: float, y: float, wide: float, back: bool) -> str:
    n = number
    if not back:
        return f"M{n(x)} {n(y)}H{n(x + wide)}V{n(y + TALL)}H{n(x)}Z"
    return f"M{n(x)} {n(y + TALL / 2)}L{n(x + TIP)} {n(y)}H{n(x + TIP + wide)}V{n(y + TALL)}H{n(x + TIP)}Z"


def _outline(x: float, y: float, wide: float, back: bool) -> str:
    n, middle, low = number, number(y + TALL / 2), number(y + TALL)
    if back:
        return f"M{n(x)} {middle}L{n(x + TIP)} {n(y)}H{n(x + wide)}V{low}H{n(x + TIP)}Z"
    return f"M{n(x)} {n(y)}H{n(x + wide - TIP)}L{n(x + wide)} {middle}L{n(x + wide - TIP)} {low}H{n(x)}Z"


__all__ = ["DROPPED", "NOW", "TALL", "WAITS", "Chip"]
