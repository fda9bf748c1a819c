"""The marks of the stepper: small shapes that show what happened to a row, and the bars next to the row.

They are drawn as lines, so they look the same with every font: + for inserted, − for deleted, a ring for looked up, a
cross for dropped, a box for changed, and a bar across a line for a barrier.
"""

from __future__ import annotations

from math import dist

from ..palette import colour
from ..svg import Point, number, rect

TONES = {"inserted": "inserted", "deleted": "deleted", "looked": "handle"}
"""The colour of each mark."""


def stroke(path: str, tone: str, wide: float = 2, *, dashes: str = "") -> str:
    """Return the SVG of an open path."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{path}" fill="none" stroke="{colour(tone)}" stroke-width="{number(wide)}"{dashed}/>'


def shape(path: str, fill: str, tone: str = "", wide: float = 1, *, dashes: str = "") -> str:
    """Return the SVG of a closed, filled path."""
    inside = "none" if fill == "none" else colour(fill)
    edge = f' stroke="{colour(tone)}" stroke-width="{number(wide)}"' if tone else ""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{path}" fill="{inside}"{edge}{dashed} stroke-linejoin="round"/>'


def plus(x: float, y: float, arm: float = 4) -> str:
    """Return the SVG of the mark for an inserted row: a plus around (x, y)."""
    n = number
    return stroke(f"M{n(x - arm)} {n(y)}H{n(x + arm)}M{n(x)} {n(y - arm)}V{n(y + arm)}", "inserted")


def minus(x: float, y: float, arm: float = 4) -> str:
    """Return the SVG of the mark for a deleted row: a minus around (x, y)."""
    return stroke(f"M{number(x - arm)} {number(y)}H{number(x + arm)}", "deleted")


def ring(x: float, y: float, radius: float = 3.2) -> str:
    """Return the SVG of the mark for a row that was looked up: a ring around (x, y)."""
    return (
        f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="none" '
        f'stroke="{colour("handle")}" stroke-width="1.6"/>'
    )


def disc(x: float, y: float, radius: float, fill: str = "ink") -> str:
    """Return the SVG of the mark for an event: a circle around (x, y)."""
    where = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
    return f'<circle {where} fill="{colour(fill)}" stroke="{colour("ink")}" stroke-width="1.6"/>'


def cross(x: float, y: float, arm: float = 4) -> str:
    """Return the SVG of the mark for a dropped message: a cross around (x, y)."""
    n = number
    path = f"M{n(x - arm)} {n(y - arm)}L{n(x + arm)} {n(y + arm)}M{n(x - arm)} {n(y + arm)}L{n(x + arm)} {n(y - arm)}"
    return stroke(path, "deleted")


def barrier(at: Point, towards: Point, arm: float = 7) -> str:
    """Return the SVG of a barrier: a bar around ``at``, across the line that leads on to ``towards``."""
    (x, y), n = at, number
    far = dist(at, towards) or 1.0
    dx, dy = (towards[1] - y) / far * arm, (x - towards[0]) / far * arm
    return stroke(f"M{n(x - dx)} {n(y - dy)}L{n(x + dx)} {n(y + dy)}", "ink", 4.5)


def mark(kind: str, x: float, y: float) -> str:
    """Return the SVG of a mark around (x, y), or an empty string if the mark has no shape."""
    return {"inserted": plus, "deleted": minus, "looked": ring}[kind](x, y) if kind in TONES else ""


def band(kind: str, x: float, y: float, wide: float, high: float) -> str:
    """Return the SVG behind a row that changed in this step: a tint, and a bar that is dashed for a deleted row."""
    if kind not in ("inserted", "deleted"):
        return ""
    n = number
    bar = stroke(f"M{n(x + 1.5)} {n(y)}V{n(y + high)}", kind, 3, dashes="" if kind == "inserted" else "4 3")
    hatch = hatched(x + 3, y, wide - 3, high) if kind == "deleted" else ""
    return rect(x, y, wide, high, fill=f"{kind}-tint") + hatch + bar


def hatched(x: float, y: float, wide: float, high: float) -> str:
    """Return the SVG of slanted lines over a deleted row, faint enough that the row can be read."""
    n, path, at = number, "", x + 4
    while at < x + wide:
        path += f"M{n(at)} {n(y)}L{n(max(at - high, x))} {n(y + min(high, at - x))}"
        at += 9
    return f'<g opacity="0.22">{stroke(path, "deleted", 1)}</g>'


def badge(letter: str) -> str:
    """Return the first letter or digit of a reader's name in upper case, or ``?`` if there is none."""
    return next((c.upper() for c in letter if c.isalnum()), "?")
