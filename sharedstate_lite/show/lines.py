"""Lines over two axes, drawn without a browser.

Each line ends in its name where there is room beside the plot; where there is none, or
where all lines end in one point, their marks and names stand above the plot. Names keep a
line's height apart (:func:`spread`), and a thin line leads to a name that had to move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .axes import Axis, written
from .heights import isotonic
from .palette import colour
from .series import Series
from .svg import Drawing, Picture, Point, line, rect, text
from .svg import number as px
from .text import fit, width, wrap

Place = Callable[[float, float], Point]
"""Where values of x and y stand in the picture."""
ROOMS = (800.0, 480.0)
MARGIN, HEIGHT = 14.0, 230.0
LINE = 16.0
NAMES = 150.0
"""Px for the names beside the plot, at most."""
FEW = 40
"""Up to so many points each one has its mark."""


@dataclass(frozen=True)
class Lines:
    """A chart of lines: ``note`` says what a reader has to know of how it was drawn, ``words`` all of it in text."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    note: str = ""
    words: str = ""
    beside: bool = True
    """Whether names may stand at the ends of the lines."""


def drawn(lines: Lines) -> Picture:
    """The chart as a picture, for wide and for narrow pages."""
    return Picture(lines.words or lines.title, *(_draw(lines, room) for room in ROOMS))


def nothing(title: str, why: str) -> Picture:
    """A chart without data: its title, and a plain word."""
    drawings = []
    for room in ROOMS:
        body = text((MARGIN, 22), fit(title, room - 2 * MARGIN, 14, True), kind="b", size=14, tip=title)
        body += rect(0, 33, room, 1, fill="hairline") + text((MARGIN, 58), why, kind="m", size=13)
        drawings.append(Drawing(room, 76, body))
    return Picture(f"{title}\n  {why}", *drawings)


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Heights in the same order, at least ``apart`` from each other, within low and high, as near as may be."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    moved = isotonic([wanted[i] - k * apart for k, i in enumerate(order)], [1.0] * len(order))
    last = high - apart * (len(order) - 1)
    out = [0.0] * len(wanted)
    for k, i in enumerate(order):
        out[i] = min(max(moved[k], low), max(low, last)) + k * apart
    return out


def _draw(lines: Lines, room: float) -> Drawing:
    names = max((width(s.name, 13, True) for s in lines.series), default=0)
    beside = lines.beside and room >= ROOMS[0] and names <= NAMES
    body = [text((MARGIN, 22), fit(lines.title, room - 2 * MARGIN, 14, True), kind="b", size=14, tip=lines.title)]
    body.append(rect(0, 33, room, 1, fill="hairline"))
    y = 52.0
    if not beside and len(lines.series) > 1:
        keys, y = _keys(lines.series, y, room)
        body.append(keys)
    body.append(text((MARGIN, y), fit(lines.y.label, room - 2 * MARGIN), kind="m"))
    top = y + 14
    bottom = top + HEIGHT
    heights = lines.y.ticks(7)
    left = MARGIN + max(width(written(v)) for v in heights) + 8
    right = room - MARGIN - (names + 26 if beside and len(lines.series) > 1 else 16)
    body.append(_grid(lines, heights, left, right, top, bottom))

    def place(x: float, y: float) -> Point:
        return left + lines.x.share(x) * (right - left), bottom - lines.y.share(y) * (bottom - top)

    for series in lines.series:
        body.append(_line(series, place))
    if beside and len(lines.series) > 1:
        body.append(_names(lines.series, place, right, top, bottom))
    y = bottom + 58
    for words in wrap(lines.note, room - 2 * MARGIN, 4) if lines.note else []:
        body.append(text((MARGIN, y), words, kind="m"))
        y += LINE
    return Drawing(room, y - (4 if lines.note else 10), "".join(body))


def _grid(lines: Lines, heights: Sequence[float], left: float, right: float, top: float, bottom: float) -> str:
    out = []
    for value in heights:
        y = bottom - lines.y.share(value) * (bottom - top)
        out.append(rect(left, y - 0.5, right - left, 1, fill="hairline"))
        out.append(text((left - 6, y + 4), written(value), kind="m", anchor="end"))
    out.append(rect(left, bottom - 0.5, right - left, 1, fill="frame"))
    most = 10
    ticks = lines.x.ticks(most)
    while most > 2 and _crowded(ticks, lines.x, right - left):
        most -= 1
        ticks = lines.x.ticks(most)
    for value in ticks:
        x = left + lines.x.share(value) * (right - left)
        out.append(rect(x - 0.5, bottom, 1, 5, fill="frame"))
        out.append(text((x, bottom + 18), written(value), kind="m", anchor="middle"))
    label = fit(lines.x.label, right - left)
    out.append(text((left + (right - left) / 2, bottom + 36), label, kind="m", anchor="middle"))
    return "".join(out)


def _crowded(ticks: Sequence[float], axis: Axis, wide: float) -> bool:
    places = [(axis.share(v) * wide, width(written(v)) / 2) for v in ticks]
    return any(a + ha + 10 > b - hb for (a, ha), (b, hb) in zip(places, places[1:], strict=False))


def _line(series: Series, place: Place) -> str:
    at = [place(x, y) for x, y in zip(series.x, series.y, strict=True)]
    out = []
    if series.upper:
        above = [place(x, y) for x, y in zip(series.x, series.upper, strict=True)]
        out.append(line(above, series.hue, dashes="2 3") if len(above) > 1 else "")
    if len(at) > 1:
        out.append(line(at, series.hue, wide=2))
    some = at if len(at) <= FEW else at[len(at) // 6 :: max(1, len(at) // 3)]
    out += [mark(series.mark, p, series.hue) for p in some]
    return "".join(out)


def mark(kind: str, at: Point, hue: str) -> str:
    """A small shape in a series' colour."""
    x, y = at
    ink = colour(hue)
    if kind in ("circle", "ring"):
        inside = ink if kind == "circle" else colour("page")
        return f'<circle cx="{px(x)}" cy="{px(y)}" r="3.5" fill="{inside}" stroke="{ink}" stroke-width="1.5"/>'
    shapes: dict[str, list[Point]] = {
        "square": [(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)],
        "diamond": [(0, -5), (5, 0), (0, 5), (-5, 0)],
        "triangle": [(0, -4.5), (4.5, 3.5), (-4.5, 3.5)],
        "cross": [(-4, -1.2), (4, -1.2), (4, 1.2), (-4, 1.2), (-1.2, 1.2), (-1.2, -4), (1.2, -4), (1.2, 4), (-1.2, 4)],
    }
    corners = "L".join(f"{px(x + dx)} {px(y + dy)}" for dx, dy in shapes[kind])
    return f'<path d="M{corners}Z" fill="{ink}"/>'


def _names(series: Sequence[Series], place: Place, right: float, top: float, bottom: float) -> str:
    ends = [place(s.x[-1], s.y[-1]) for s in series]
    heights = spread([y for _, y in ends], LINE, top + 4, bottom - 4)
    out = []
    for one, (x, y), at in zip(series, ends, heights, strict=True):
        if abs(at - y) > 2 or right - x > 8:
            out.append(line([(x + 6, y), (right + 10, at)], "frame", wide=0.75))
        out.append(text((right + 14, at + 4), one.name, kind="b", size=13, fill=one.hue, tip=one.name))
    return "".join(out)


def _keys(series: Sequence[Series], y: float, room: float) -> tuple[str, float]:
    """Marks and names in as many lines as they need, and the height below them."""
    out, x = "", MARGIN
    for one in series:
        name = fit(one.name, room - 2 * MARGIN - 20, 13, True)
        long = 20 + width(name, 13, True)
        if x > MARGIN and x + long > room - MARGIN:
            x, y = MARGIN, y + 20
        out += mark(one.mark, (x + 6, y - 4), one.hue)
        out += text((x + 18, y), name, kind="b", size=13, fill=one.hue, tip=one.name)
        x += long + 18
    return out, y + 24
