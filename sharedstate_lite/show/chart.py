"""Code that all charts share: the pair of figure and picture, checks of numbers, colours and the heading.

The notebook output of a chart contains both the plotly figure and the picture. Exported pages, viewers without plotly
and pages without network access show the picture. A figure cannot detect whether its page is light or dark, so its
background is transparent, and its colours have a contrast of at least 4 against both.
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
"""The widths at which a chart is drawn, in px: for a normal page and for a narrow one."""
MARGIN = 14.0
MOST = 6
"""The largest number of series in one chart. Readers could not distinguish more."""
LARGEST = 1e100
"""The largest number that a chart accepts. Arithmetic with larger numbers could overflow a float."""
HUES = ("inserted", "deleted", "upquery", "handle", "ink", "frame")
OWN = {"full": "inserted", "shared": "handle", "partial": "upquery"}
"""Each strategy has the same colour in every chart."""
MARKS = ("circle", "square", "diamond", "triangle", "cross", "ring")
"""One mark for each colour, so that a reader does not need colours to distinguish series."""
MIDDLE = "#767d86"
"""The colour of text and lines in a plotly figure."""
GRID = "rgba(133,140,149,0.3)"
TONES = {
    "inserted": "#2b84c4",
    "deleted": "#c9561c",
    "upquery": "#12896a",
    "handle": "#b4588f",
    "ink": "#8a7a1e",
    "frame": MIDDLE,
}
"""The palette's colours in a plotly figure, each between its light and its dark value."""


class Chart:
    """A plotly figure and a picture of the same numbers."""

    def __init__(self, figure: Any, picture: Picture) -> None:
        self.figure, self.picture = figure, picture

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown: dict[str, Any] = dict(self.picture._repr_mimebundle_())
        # Plain JSON, like the output of plotly's own notebook renderer.
        shown["application/vnd.plotly.v1+json"] = {**self.figure.to_plotly_json(), "config": {"displaylogo": False}}
        return shown

    def __repr__(self) -> str:
        return repr(self.picture)


def layout(title: str, height: float, **more: Any) -> dict[str, Any]:
    """Return the plotly layout that all figures share, updated with ``more``. The legend is below the plot."""
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
    """Return the SVG of the title of a drawing that is ``room`` px wide, with a line below it."""
    shown = fit(title, room - 2 * MARGIN, 14, True)
    return text((MARGIN, 22), shown, kind="b", size=14, tip=title) + rect(0, 33, room, 1, fill="hairline")


def nothing(title: str, why: str) -> Picture:
    """Return the picture of a chart without data: its title, and the reason why it is empty."""
    drawings = (Drawing(room, 76, heading(title, room) + text((MARGIN, 58), why, kind="m", size=13)) for room in ROOMS)
    return Picture(f"{title}\n  {why}", *drawings)


def values(name: str, given: Iterable[Any], what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the numbers of a series as float64[n]. Raises Error if a value is not a number from 0 to `LARGEST`."""
    try:
        given = list(given)
        found = np.asarray([float(v) for v in given], dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise Error(f"series {name}: {what} must be numbers ({error})") from error
    wrong = np.flatnonzero(~(found <= LARGEST) | (found < 0))
    if len(wrong):
        at = int(wrong[0])
        raise Error(f"series {name}, value {at + 1}: cannot draw {given[at]!r}; {what} must be from 0 to {LARGEST:g}")
    return found


def mapped(given: Any, what: str) -> Mapping[Any, Any]:
    """Return ``given`` if it is a mapping, otherwise raise Error. ``what`` describes the values in the message."""
    if not isinstance(given, Mapping):
        raise Error(f"cannot draw {type(given).__name__}; pass {{name: {what}}}")
    return given


def coloured(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the colour and the mark of each series. Raises Error if there are more than `MOST` series."""
    if len(names) > MOST:
        raise Error(f"{len(names)} series in one chart cannot be distinguished; draw at most {MOST} per chart")
    taken = {OWN[n] for n in names if n in OWN}
    left = [h for h in HUES if h not in taken]
    hues = {n: OWN[n] if n in OWN else left.pop(0) for n in names}
    return {n: (hue, MARKS[HUES.index(hue)]) for n, hue in hues.items()}


def scaled(all_seconds: Mapping[str, Any]) -> tuple[float, str]:
    """Return a factor that converts seconds to a unit in which they are easy to read, and the name of that unit."""
    every = np.concatenate([v[v > 0] for v in all_seconds.values()] or [np.empty(0)])
    middle = float(np.median(every)) if len(every) else 1e-3
    if middle >= 0.5:
        return 1.0, "s"
    return (1e3, "ms") if middle >= 2e-4 else (1e6, "µs")
