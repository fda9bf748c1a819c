"""Draws the time axis of an arrangement: its batches, its since and upper frontiers, and its readers.

Each bar on the axis is a batch [lower, upper). A filled triangle marks since, a vertical line marks upper, and a circle
with a letter marks a reader's trace handle. Hollow and dashed marks show positions before the step.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..palette import colour
from ..svg import number, rect, text
from ..text import width
from .glyphs import shape, stroke

RADIUS = 8.0
INSET = 14.0


@dataclass(frozen=True)
class HandleMark:
    """A reader on the axis: its letter, its time, and its time before this step, or None if it is new."""

    letter: str
    time: int
    before: int | None
    held: bool = False


@dataclass(frozen=True)
class TimeAxis:
    """The time axis of an arrangement: since and upper, now and before this step, and the readers' marks.

    ``spans`` has a triple (lower, upper, fresh) for each batch.
    """

    spans: tuple[tuple[int, int, bool], ...]
    since: int
    upper: int
    since_before: int
    upper_before: int
    handles: tuple[HandleMark, ...]

    HEIGHT = 53.0
    PORT = 24.0
    """How far below the block's upper edge the edges to readers start, in px."""

    @property
    def width(self) -> float:
        """The smallest width, at which the labels of since and upper fit next to each other."""
        return width(f"since {self.since}") + width(f"upper {self.upper}") + 50

    def _x(self, time: float, left: float, wide: float) -> float:
        low = min([s[0] for s in self.spans], default=0)
        high = max(self.upper, low + 1)
        return left + wide * (min(max(time, low), high) - low) / (high - low)

    def draw(self, x: float, y: float, wide: float) -> str:
        """Return the SVG of the axis in a panel of width ``wide``, with the upper edge of the block at ``y``."""
        left, room, line = x + INSET, wide - 2 * INSET, y + self.PORT
        out = []
        for low, high, fresh in self.spans:
            a, b = self._x(low, left, room), self._x(high, left, room)
            out.append(rect(a + 0.5, line - 2, max(b - a - 1.5, 1), 4, fill="inserted" if fresh else "frame"))
        if not self.spans:
            out.append(rect(left, line - 1, room, 1, fill="hairline"))
        end = self._x(self.upper, left, room)
        out.append(stroke(f"M{number(end)} {number(line - 6)}V{number(line + 6)}", "ink", 2))
        out.append(self._since(left, room, line))
        out.append(self._pins(left, room, line))
        below = y + self.HEIGHT - 4
        label = f"since {self.since}"
        out.append(_triangle(x + PADDED, below - 4, True) + text((x + PADDED + 7, below), label, kind="m"))
        label = f"upper {self.upper}"
        out.append(text((x + wide - 8, below), label, kind="m", anchor="end"))
        bar = x + wide - 8 - width(label) - 6
        out.append(stroke(f"M{number(bar)} {number(below - 9)}V{number(below + 1)}", "ink", 2))
        return "".join(out)

    def _since(self, left: float, room: float, line: float) -> str:
        now, then = self._x(self.since, left, room), self._x(self.since_before, left, room)
        out = _triangle(now, line + 7, True)
        if self.since != self.since_before and abs(now - then) > 8:
            out += _triangle(then, line + 7, False)
            n = number
            path = f"M{n(then + 5)} {n(line + 8)}H{n(now - 5)}M{n(now - 9)} {n(line + 5)}l4 3l-4 3"
            out += stroke(path, "ink", 1)
        return out

    def _pins(self, left: float, room: float, line: float) -> str:
        """Return the SVG of the readers at their times. A reader that would overlap another moves to the left."""
        out: list[str] = []
        taken: list[float] = []
        pins = sorted(self.handles, key=lambda h: -h.time)
        shown = pins[: max(int(room // (2 * RADIUS + 1)), 1)]
        for handle in shown:
            at = self._x(handle.time, left, room)
            while any(abs(at - t) < 2 * RADIUS + 1 for t in taken):
                at -= 2 * RADIUS + 1
            if at < left - RADIUS:
                at = max(taken) + 2 * RADIUS + 1 if max(taken) + 2 * RADIUS < left + room else left
                if any(abs(at - t) < 2 * RADIUS + 1 for t in taken):
                    continue
            taken.append(at)
            was = None if handle.before is None else self._x(handle.before, left, room)
            if was is not None and handle.before != handle.time and all(abs(was - t) > 2 * RADIUS for t in taken):
                out.append(_circle(was, line - 13, "", ghost=True))
            out.append(_circle(at, line - 13, handle.letter))
        return "".join(out)


PADDED = 14.0


def _circle(x: float, y: float, letter: str, ghost: bool = False) -> str:
    fill = "none" if ghost else colour("handle-tint")
    dashes = ' stroke-dasharray="2 2"' if ghost else ""
    ring = (
        f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(RADIUS)}" fill="{fill}" '
        f'stroke="{colour("handle")}"{dashes}/>'
    )
    return ring + text((x, y + 4.5), letter, kind="b", anchor="middle", fill="handle")


def pin(x: float, y: float, letter: str) -> str:
    """Return the SVG of a reader's circle around (x, y), which is drawn next to the reader's title."""
    return _circle(x, y, letter)


def _triangle(x: float, y: float, filled: bool) -> str:
    path = f"M{number(x - 4)} {number(y + 4)}L{number(x)} {number(y - 3)}L{number(x + 4)} {number(y + 4)}Z"
    return shape(path, "ink" if filled else "page", "ink" if not filled else "")


__all__ = ["RADIUS", "TimeAxis", "HandleMark", "pin"]
