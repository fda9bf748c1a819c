"""Draws messages on their edges as chips, which point in the direction of the message and have a badge for its kind.

A filled badge means that the message is sent in this step. A black outline means that it waits on its edge, and a grey
outline means that it was received in an earlier step of the current input message. A dropped message has a dashed
outline, struck-through values and a cross at its tip. A -U/+U pair moves as one message. The badge ``?`` is for an
upquery, and ``=`` is for its response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..palette import colour
from ..svg import number, rect, text
from ..text import fit, width
from .glyphs import cross, shape

TIP, TALL, HEAD, LINE = 6.0, 22.0, 18.0, 15.0
LABEL = 15.0
"""The height of a chip's label, which is above or below the chip, in px."""
CELL, WIDEST = 96.0, 230.0
LINES = 4
TONES = {"+1": "inserted", "+I": "inserted", "+U": "inserted", "−1": "deleted", "−U": "deleted", "−D": "deleted"}
NOW, WAITS, PAST, DROPPED = "now", "waits", "past", "dropped"


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

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The values, one per line, cut to the height of a chip."""
        if len(self.values) > LINES:
            return (*self.values[: LINES - 1], f"+{len(self.values) - LINES + 1} values")
        return self.values

    def size(self, stacked: bool) -> tuple[float, float]:
        """Return the width and the height of the chip. If ``stacked`` is True, it shows one value per line."""
        if not self.badge:
            return width(self.words, bold=True) + 11 + TIP, TALL
        badge = width(self.badge, bold=True) + 10
        if stacked:
            inside = max([badge, *(min(width(v, bold=True), CELL) + 8 for v in self.lines)])
            return inside + TIP, HEAD + LINE * len(self.lines) + 4
        return badge + (width(self.words, bold=True) + 10 if self.words else 0) + TIP, TALL

    def draw(
        self, x: float, y: float, wide: float, status: str, back: bool, stacked: bool, crossed: bool = True
    ) -> str:
        """Return the SVG of the chip with its upper left corner at (x, y). If ``back`` is True, it points left.

        ``crossed`` says whether a dropped message has a cross at its tip.
        """
        high = self.size(stacked)[1]
        edge = self.tone if status == NOW else "ink" if status == WAITS else "frame"
        out = [
            shape(
                _outline(x, y, wide, high, back, stacked),
                "page",
                edge,
                1.8 if status == NOW else 1,
                dashes="4 3" if status == DROPPED else "",
            )
        ]
        draw = self._bare if not self.badge else self._stacked if stacked else self._flat
        out.append(draw(x, y, wide, status, back))
        if status == DROPPED and crossed:
            out.append(cross(x - 2 if back else x + wide + 2, y + high / 2))
        return "".join(out)

    def _bare(self, x: float, y: float, wide: float, status: str, back: bool) -> str:
        """Return the SVG of a batch that is read by reference: its span, without its rows."""
        high = _outline(x, y, wide, TALL, back, False)
        out = shape(high, self.tone) if status == NOW else ""
        kind = {NOW: "b", WAITS: "", PAST: "m", DROPPED: "m s"}[status]
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
        body = {NOW: "b", WAITS: "", PAST: "m", DROPPED: "m s"}[status]
        out.append(text((left + badge + 5, y + 15), self.words, kind=body))
        return "".join(out)

    def _stacked(self, x: float, y: float, wide: float, status: str, back: bool) -> str:
        left = x + (TIP if back else 0)
        room = wide - TIP
        out = []
        if status == NOW:
            out.append(rect(left, y, room, HEAD, fill=self.tone))
        else:
            out.append(rect(left, y + HEAD - 0.5, room, 1, fill="frame"))
        kind = "b" if status in (NOW, WAITS) else "b m"
        fill = "badge" if status == NOW else ""
        out.append(text((left + room / 2, y + 13), self.badge, kind=kind, anchor="middle", fill=fill))
        body = {NOW: "b", WAITS: "", PAST: "m", DROPPED: "m s"}[status]
        for n, value in enumerate(self.lines):
            shown = fit(value, min(room - 6, CELL), bold=True)
            at = (left + room / 2, y + HEAD + 13 + LINE * n)
            out.append(text(at, shown, kind=body, anchor="middle", tip=value))
        return "".join(out)


def _badge(x: float, y: float, wide: float, back: bool) -> str:
    n = number
    if not back:
        return f"M{n(x)} {n(y)}H{n(x + wide)}V{n(y + TALL)}H{n(x)}Z"
    return f"M{n(x)} {n(y + TALL / 2)}L{n(x + TIP)} {n(y)}H{n(x + TIP + wide)}V{n(y + TALL)}H{n(x + TIP)}Z"


def _outline(x: float, y: float, wide: float, high: float, back: bool, stacked: bool) -> str:
    n = number
    if back:
        return f"M{n(x)} {n(y + high / 2)}L{n(x + TIP)} {n(y)}H{n(x + wide)}V{n(y + high)}H{n(x + TIP)}Z"
    return (
        f"M{n(x)} {n(y)}H{n(x + wide - TIP)}L{n(x + wide)} {n(y + high / 2)}L{n(x + wide - TIP)} {n(y + high)}H{n(x)}Z"
    )


@dataclass(frozen=True)
class EdgeMessage:
    """The message that one lane shows at one step: one chip, or a pair of chips that move together."""

    chips: tuple[Chip, ...]
    status: str
    step: int
    word: str = ""
    """Additional text next to the step number, such as "dropped at the hole"."""
    fresh: bool = False
    """Whether the message was dropped in this step."""

    @property
    def whole(self) -> bool:
        """Whether it is drawn in full even if other messages shrink: it moves, waits, or was dropped in this step."""
        return self.fresh or self.status in (NOW, WAITS)

    def label(self, short: bool) -> str:
        """Return the label, such as ``step 27`` or ``step 27, now``. If ``short`` is True, it omits the word step."""
        number_ = str(self.step) if short else f"step {self.step}"
        return f"{number_}, now" if self.status == NOW else number_

    def size(self, stacked: bool) -> tuple[float, float]:
        """Return the width and the height of the chips, without the label."""
        sizes = [c.size(stacked) for c in self.chips]
        return max(w for w, _ in sizes), sum(h for _, h in sizes) + 4 * (len(sizes) - 1)

    def draw(self, x: float, y: float, back: bool, stacked: bool, *, moves: bool = False) -> str:
        """Return the SVG of the chips with their upper left corner at (x, y). ``moves`` animates them."""
        wide = self.size(stacked)[0]
        out = []
        for chip in self.chips:
            out.append(chip.draw(x, y, wide, self.status, back, stacked))
            y += chip.size(stacked)[1] + 4
        moving = f" moves{' back' if back else ''}" if moves else ""
        return f'<g class="load{moving}">{"".join(out)}</g>'


def badges(kinds: Sequence[str]) -> str:
    """Return one badge for several rows: their common badge, or ± if their badges differ."""
    found = set(kinds)
    return found.pop() if len(found) == 1 else "±"


__all__ = ["DROPPED", "LABEL", "NOW", "PAST", "WAITS", "Chip", "EdgeMessage", "badges", "colour"]
