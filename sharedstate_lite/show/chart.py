"""What all charts share: a plotly figure beside its picture, checked numbers, colours and the heading.

One notebook output carries the figure and the picture. An exported page, a viewer without
plotly and a page without a network show the picture. A figure does not know whether its page
is light or dark, so it has no background, and its colours have a contrast of 4 against both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import Error
from .palette import FAMILY
from .svg import Drawing, Picture, rect, text
from .text import fit

ROOMS = (800.0, 480.0)
"""Widths in px at which a chart is drawn: a usual page and a narrow one."""
MARGIN = 14.0
MOST = 6
"""Series in one chart; more cannot be distinguished."""
LARGEST = 1e100
"""The largest number that a chart accepts. Sums and powers of ten of larger ones overflow a float."""
HUES = ("inserted", "deleted", "upquery", "handle", "ink", "frame")
OWN = {"full": "inserted", "shared": "handle", "partial": "upquery"}
"""Each strategy has the same colour in every chart."""
MARKS = ("circle", "square", "diamond", "triangle", "cross", "ring")
"""One mark for each colour, so that a reader does not need colours to distinguish series."""
MIDDLE = "#767d86"
"""Text and lines of a figure."""
GRID = "rgba(133,140,149,0.3)"
TONES = {
    "inserted": "#2b84c4",
    "deleted": "#c9561c",
    "upquery": "#12896a",
    "handle": "#b4588f",
    "ink": "#8a7a1e",
    "frame": MIDDLE,
}
"""The palette's colours, each between its light and its dark value."""


class Chart:
    """A plotly figure and a picture of the same numbers."""

    def __init__(self, figure: Any, picture: Picture) -> None:
        self.figure, self.picture = figure, picture

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown: dict[str, Any] = dict(self.picture._repr_mimebundle_())
        # Plain JSON, as plotly's own notebook renderer sends it.
        shown["application/vnd.plotly.v1+json"] = {**self.figure.to_plotly_json(), "config": {"displaylogo": False}}
        return shown

    def __repr__(self) -> str:
        return repr(self.picture)


def layout(title: str, height: float, **more: Any) -> dict[str, Any]:
    """The plotly layout of every figure, updated with ``more``. The legend stands below the plot."""
    common: dict[str, Any] = {
        "title": {"text": title, "font": {"size": 15}, "x": 0.01},
        "font": {"family": FAMILY, "size": 13, "color": MIDDLE},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": height,
        "margin": {"l": 10, "r": 20, "t": 44, "b": 90},
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "yref": "container",
            "y": 0.02,
            "yanchor": "bottom",
            "x": 0,
        },
    }
    return common | more


def heading(title: str, room: float) -> str:
    """The title of a drawing ``room`` px wide, with the line below it."""
    shown = fit(title, room - 2 * MARGIN, 14, True)
    return text((MARGIN, 22), shown, kind="b", size=14, tip=title) + rect(0, 33, room, 1, fill="hairline")


def nothing(title: str, why: str) -> Picture:
    """The picture of a chart without data: its title and the reason."""
    drawings = (Drawing(room, 76, heading(title, room) + text((MARGIN, 58), why, kind="m", size=13)) for room in ROOMS)
    return Picture(f"{title}\n  {why}", *drawings)


def values(name: str, given: Iterable[Any], what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The numbers of a series, float64[n]. Raises Error for a value that is no number, infinite or negative."""
    try:
        given = list(given)
        found = np.asarray([float(v) for v in given], dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise Error(f"series {name}: {what} must be numbers; {error}") from error
    wrong = np.flatnonzero(~(found <= LARGEST) | (found < 0))
    if len(wrong):
        at = int(wrong[0])
        raise Error(f"series {name}, value {at + 1}: cannot draw {given[at]!r}; {what} must be from 0 to {LARGEST:g}")
    return found


def mapped(given: Any, what: str) -> Mapping[Any, Any]:
    """``given`` if it is a mapping. Raises Error for anything else; ``what`` names the values."""
    if not isinstance(given, Mapping):
        raise Error(f"cannot draw {type(given).__name__}; pass {{name: {what}}}")
    return given


def coloured(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and mark of each series. Raises Error for more than `MOST` series."""
    if len(names) > MOST:
        raise Error(f"{len(names)} series in one chart cannot be distinguished; draw {MOST} at most, or two charts")
    taken = {OWN[n] for n in names if n in OWN}
    left = [h for h in HUES if h not in taken]
    hues = {n: OWN[n] if n in OWN else left.pop(0) for n in names}
    return {n: (hue, MARKS[HUES.index(hue)]) for n, hue in hues.items()}


def scaled(all_seconds: Mapping[str, Any]) -> tuple[float, str]:
    """A factor that makes seconds easy to read, and the name of the unit that it gives."""
    every = np.concatenate([v[v > 0] for v in all_seconds.values()] or [np.empty(0)])
    middle = float(np.median(every)) if len(every) else 1e-3
    if middle >= 0.5:
        return 1.0, "s"
    return (1e3, "ms") if middle >= 2e-4 else (1e6, "µs")
