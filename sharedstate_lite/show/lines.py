"""Line charts with two axes, as a picture and as a plotly figure.

If there is room next to the plot, each line's name is at the end of the line. If there is not, or if all lines end at
the same point, the marks and names are above the plot. `spread` keeps names at least one line of text apart. If that
moves a name, a thin line connects it with the end of its line. A long series is thinned: each bucket of consecutive
points is replaced by its median and its 99th percentile, which are drawn as two lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .axes import Axis, written
from .chart import GRID, MARGIN, ROOMS, TONES, heading, layout
from .layout import isotonic
from .palette import colour
from .svg import Drawing, Picture, Point, line, rect, text
from .svg import number as px
from .text import fit, width, wrap

Place = Callable[[float, float], Point]
"""A function that maps the x and y of a value to its point in the picture."""
HEIGHT = 230.0
LINE = 16.0
NAMES = 150.0
"""The largest width of the names next to the plot, in px."""
FEW = 40
"""Lines with at most this many points have a mark at each point."""
BUCKETS = 120
"""The largest number of points in a line. Longer series are thinned."""
SYMBOLS = {
    "circle": "circle",
    "square": "square",
    "diamond": "diamond",
    "triangle": "triangle-up",
    "cross": "cross",
    "ring": "circle-open",
}
DASHES = {
    "circle": "solid",
    "square": "dash",
    "diamond": "longdash",
    "triangle": "dashdot",
    "cross": "solid",
    "ring": "longdashdot",
}
"""The dash style that replaces each mark on lines that have too many points for marks."""


@dataclass(frozen=True)
class Series:
    """One line: its points, colour and mark. ``upper`` contains the 99th percentiles if the line was thinned."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    hue: str
    mark: str
    upper: tuple[float, ...] = ()


@dataclass(frozen=True)
class Lines:
    """The data of a line chart. ``note`` explains how it was drawn; ``words`` is the complete chart as text."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    note: str = ""
    words: str = ""
    beside: bool = True
    """Whether names can be placed at the ends of the lines."""
    height: float = HEIGHT
    """The height of the plot in the picture, in px."""


def thinned(x: Any, y: Any, most: int = BUCKETS) -> tuple[list[float], list[float], list[float], int]:
    """Return the x, the median and the 99th percentile of each bucket, and the size of the largest bucket.

    A series of at most ``most`` points is returned unchanged, without percentiles and with a bucket size of 1.
    """
    if len(y) <= most:
        return x.tolist(), y.tolist(), [], 1
    cuts = np.linspace(0, len(y), most + 1).round().astype(int)
    parts = [slice(a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    middle = [float(np.median(y[p])) for p in parts]
    upper = [float(np.percentile(y[p], 99)) for p in parts]
    return [float(np.mean(x[p])) for p in parts], middle, upper, math.ceil(len(y) / most)


def figure(lines: Lines) -> Any:
    """Return the chart as a plotly figure. The 99th percentile of a thinned series is a dotted line."""
    import plotly.graph_objects as go

    out = go.Figure()
    unit = f" {lines.y.unit}" if lines.y.unit else ""
    for series in lines.series:
        tone = TONES[series.hue]
        few = len(series.x) <= FEW
        hover = {"hovertemplate": f"{lines.x.title} %{{x:,.4~g}}: %{{y:,.4~g}}{unit}<extra>{series.name}</extra>"}
        out.add_scatter(
            name=series.name,
            x=list(series.x),
            y=[max(v, lines.y.low) for v in series.y],
            mode="lines+markers" if few else "lines",
            line={"color": tone, "width": 2, "dash": "solid" if few else DASHES[series.mark]},
            marker={"symbol": SYMBOLS[series.mark], "size": 8, "color": tone},
            cliponaxis=False,  # clipping would cut a mark at the edge of the plot in half
            **hover,
        )
        if series.upper:
            out.add_scatter(
                name=f"{series.name}, 99th percentile",
                x=list(series.x),
                y=[max(v, lines.y.low) for v in series.upper],
                mode="lines",
                line={"color": tone, "width": 1, "dash": "dot"},
                **hover,
            )
    axes = {"xaxis": _plotly_axis(lines.x), "yaxis": _plotly_axis(lines.y)}
    out.update_layout(layout(lines.title, 380, **axes, showlegend=len(out.data) > 1))
    return out


def _plotly_axis(of: Axis) -> dict[str, Any]:
    return {
        "title": {"text": of.label, "standoff": 8, "font": {"size": 13}},
        "type": "log" if of.log else "linear",
        "range": [math.log10(of.low), math.log10(of.high)] if of.log else [of.low, of.high],
        "gridcolor": GRID,
        "zeroline": False,
        # Invisible ticks keep the first labels of the two axes from touching in the corner.
        "ticks": "outside",
        "ticklen": 7,
        "tickcolor": "rgba(0,0,0,0)",
        "automargin": True,
        "tickformat": ",~r" if of.log else ",",
        **({"tickvals": of.ticks(9), "ticktext": [written(v) for v in of.ticks(9)]} if of.log or of.whole else {}),
    }


def drawn(lines: Lines) -> Picture:
    """Return the chart as a picture with one drawing for wide pages and one for narrow pages."""
    return Picture(lines.words or lines.title, *(_draw(lines, room) for room in ROOMS))


def tiled(words: str, charts: Sequence[Lines]) -> Picture:
    """Return small charts as one picture: two in a row on wide pages, and one below the other on narrow pages."""
    out = []
    for room, row in zip(ROOMS, (2, 1), strict=True):
        parts = [_draw(chart, room / row) for chart in charts]
        high = max(part.height for part in parts)
        at = [(n % row * room / row, n // row * high) for n in range(len(parts))]
        moved = (f'<g transform="translate({px(x)} {px(y)})">{p.body}</g>' for (x, y), p in zip(at, parts, strict=True))
        out.append(Drawing(room, at[-1][1] + high, "".join(moved)))
    return Picture(words, *out)


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Return the heights closest to ``wanted`` that are between ``low`` and ``high`` and at least ``apart`` apart."""
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
    body = [heading(lines.title, room)]
    y = 52.0
    if not beside and len(lines.series) > 1:
        keys, y = _keys(lines.series, y, room)
        body.append(keys)
    body.append(text((MARGIN, y), fit(lines.y.label, room - 2 * MARGIN), kind="m"))
    top = y + 14
    bottom = top + lines.height
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
    """Return the SVG of a series' mark: a small shape in the colour of the series, centred at ``at``."""
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
    """Return the SVG of the marks and names above the plot, and the y below them."""
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
