"""Writes pictures as SVG: functions for the few elements that are used, and `Picture`, which a notebook displays.

This does not need a browser or a drawing library. Text that comes from data is escaped here and nowhere else. A
character that XML does not allow is written as its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ..replay.texts import clean
from .palette import LEAST, colour, style
from .text import width

Point = tuple[float, float]


def number(value: float) -> str:
    """Format a coordinate with one decimal, or without it if it is 0."""
    return f"{value:.1f}".removesuffix(".0")


def text(
    at: Point,
    words: str,
    *,
    kind: str = "",
    size: float = LEAST,
    anchor: str = "start",
    tip: str = "",
    fill: str = "",
) -> str:
    """Return the SVG of a line of text with its baseline at ``at``.

    ``kind`` lists classes of the style sheet: b (bold), m (muted), i (italic), s (struck through), u (underlined) and
    mono. ``tip`` is a tooltip.
    """
    words = clean(words)
    if not words:
        return ""
    classes = kind.split()
    long = width(words, size, "b" in classes, "mono" in classes)
    given = f' class="{kind}"' if kind else ""
    looks = (f"font-size:{number(size)}px;" if size != LEAST else "") + (f"fill:{colour(fill)}" if fill else "")
    given += f' style="{looks}"' if looks else ""
    given += f' text-anchor="{anchor}"' if anchor != "start" else ""
    title = f"<title>{escape(clean(tip))}</title>" if tip and tip != words else ""
    return (
        f'<text x="{number(at[0])}" y="{number(at[1])}" textLength="{number(long)}" '
        f'lengthAdjust="spacingAndGlyphs"{given}>{escape(words)}{title}</text>'
    )


def rect(x: float, y: float, w: float, h: float, *, fill: str, stroke: str = "", radius: float = 0) -> str:
    """Return the SVG of a rectangle. Colours are names from the palette; ``fill`` can also be ``"none"``."""
    lines = f' stroke="{colour(stroke)}"' if stroke else ""
    inside = "none" if fill == "none" else colour(fill)
    corner = f' rx="{number(radius)}"' if radius else ""
    box = f'x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}"'
    return f'<rect {box}{corner} fill="{inside}"{lines}/>'


def line(points: Sequence[Point], stroke: str, *, wide: float = 1, dashes: str = "", radius: float = 0) -> str:
    """Return the SVG of a line through the points, with corners rounded by a radius of at most ``radius``."""
    path = f"M{number(points[0][0])} {number(points[0][1])}"
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        r = min(radius, _length(before, at) / 2, _length(at, after) / 2)
        start, end = _towards(at, before, r), _towards(at, after, r)
        path += (
            f"L{number(start[0])} {number(start[1])}Q{number(at[0])} {number(at[1])} {number(end[0])} {number(end[1])}"
        )
    path += f"L{number(points[-1][0])} {number(points[-1][1])}"
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{path}" fill="none" stroke="{colour(stroke)}" stroke-width="{number(wide)}"{dashed}/>'


def arrow(tip: Point, stroke: str, leftwards: bool = False) -> str:
    """Return the SVG of an arrowhead with its tip at ``tip``."""
    back = 6.0 if leftwards else -6.0
    x, y = tip
    return line([(x + back, y - 4), tip, (x + back, y + 4)], stroke)


def _length(a: Point, b: Point) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _towards(at: Point, other: Point, r: float) -> Point:
    long = _length(at, other) or 1.0
    return at[0] + (other[0] - at[0]) * r / long, at[1] + (other[1] - at[1]) * r / long


@dataclass(frozen=True)
class Drawing:
    """The content of an SVG, and its size in px."""

    width: float
    height: float
    body: str

    def svg(self, label: str, *, alone: bool, shown: str = "", theme: str | None = None) -> str:
        """Return the SVG element with ``label`` as its description and ``shown`` as additional classes.

        If ``alone`` is True, the element is a complete SVG file, in ``theme`` or, if that is None, the reader's theme.
        """
        space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
        w, h = number(self.width), number(self.height)
        return (
            f'<svg{space} class="ssl{shown}" role="img" aria-label="{escape(label, quote=True)}" '
            f'width="{w}" height="{h}" viewBox="0 0 {w} {h}">{f"<style>{style(theme)}</style>" if alone else ""}'
            f"{rect(0, 0, self.width, self.height, fill='page')}{self.body}</svg>"
        )


class Picture:
    """A picture that a notebook displays as HTML, as SVG or as text.

    ``drawings`` show the same picture, each narrower than the one before. HTML shows the first one that fits, and
    scrolls if none does. Text is never scaled.
    """

    def __init__(self, words: str, *drawings: Drawing) -> None:
        self.words = words
        self.drawings = [d for d, before in zip(drawings, (None, *drawings), strict=False) if _narrower(d, before)]

    @property
    def drawing(self) -> Drawing:
        """The widest drawing."""
        return self.drawings[0]

    def _repr_html_(self) -> str:
        box = ".ssl-box{overflow-x:auto;container-type:inline-size}.ssl-box svg{display:block}"
        shown = [d.svg(self._label, alone=False, shown=f" {self._name(d)}") for d in self.drawings]
        return f'<div class="ssl-box"><style>{style()}{box}{self._switch()}</style>{"".join(shown)}</div>'

    def _switch(self) -> str:
        """Return CSS that shows only the first drawing that fits into its container. It depends only on the widths."""
        out = []
        for at, drawing in enumerate(self.drawings):
            last = at + 1 == len(self.drawings)
            hidden = [f"(min-width:{number(self.drawings[at - 1].width)}px)"] if at else []
            hidden += [] if last else [f"(max-width:{number(drawing.width - 0.1)}px)"]
            out += [f"@container {rule}{{.ssl-box svg.{self._name(drawing)}{{display:none}}}}" for rule in hidden]
        return "".join(out)

    def _name(self, drawing: Drawing) -> str:
        """Return a CSS class that identifies the drawing and the widths of its alternatives."""
        widths = [number(d.width).replace(".", "-") for d in self.drawings]
        return f"s{'_'.join(widths)}n{self.drawings.index(drawing)}"

    @property
    def _label(self) -> str:
        return self.words.splitlines()[0] if self.words else "picture"

    def _repr_svg_(self) -> str:
        return self.drawing.svg(self._label, alone=True)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.words, "image/svg+xml": self._repr_svg_(), "text/html": self._repr_html_()}

    def save(self, path: str | Path) -> None:
        """Write the picture to an SVG file."""
        Path(path).write_text(self._repr_svg_(), encoding="utf-8")

    def __repr__(self) -> str:
        return self.words


def _narrower(drawing: Drawing, before: Drawing | None) -> bool:
    return before is None or drawing.width < before.width


__all__ = ["Drawing", "Picture", "Point", "arrow", "line", "number", "rect", "text"]
