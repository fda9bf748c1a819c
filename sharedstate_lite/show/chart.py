"""What all charts share: a plotly figure with the table of its numbers, checks of numbers, and colours.

The output of a notebook has both. JupyterLab and VS Code show the figure. Viewers without plotly show the table, and
the site's page has the figure for the eye and the table for screen readers, for paper, and for a page without a script.
A figure in a notebook cannot detect whether its page is light or dark: its background is transparent, its colours have
a contrast of at least 4 against both, and `TEXT_RULE` gives its text the colour of the page's text. The site draws it
in the colours of the palette, of which `TONES` names one for each colour of a figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ..errors import Error
from .page import STYLE
from .palette import FAMILY, style

MOST = 6
"""The largest number of series in one chart. Readers could not distinguish more."""
LARGEST = 1e100
"""The largest number that a chart accepts. Arithmetic with larger numbers could overflow a float."""
LONGEST = 60
"""The largest number of rows in a chart's table. Longer tables leave out points."""
HUES = ("inserted", "deleted", "upquery", "handle", "ink", "frame")
OWN = {"full": "inserted", "shared": "handle", "partial": "upquery"}
"""Each strategy has the same colour in every chart."""
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "circle-open")
"""One mark for each colour, so that a reader does not need colours to distinguish series."""
DASHES = ("solid", "dash", "longdash", "dashdot", "dot", "longdashdot")
"""One dash style for each colour, for lines that have too many points for marks."""
TEXT, GRID = "#767d87", "rgba(133,140,149,0.3)"
TONES = {
    "inserted": "#2b84c4",
    "deleted": "#c9561c",
    "upquery": "#12896a",
    "handle": "#b4588f",
    "ink": "#8a7a1e",
    "frame": "#767d86",
    "muted": TEXT,
    "hairline": GRID,
}
"""The palette's colours in a plotly figure, each between its light and its dark value."""
_OF_THE_PAGE = f"var(--jp-ui-font-color1,var(--vscode-foreground,{TEXT}))"
TEXT_RULE = f".js-plotly-plot text:not(.hoverlayer *){{fill:{_OF_THE_PAGE}!important}}"
"""The style sheet that gives the text of figures in a notebook the colour of the page's text."""
PLOTLY = "application/vnd.plotly.v1+json"


class Chart:
    """A plotly figure and the table of its numbers.

    ``words`` is the chart as text. ``heads`` are the heads of the table, and each of ``rows`` has as many cells.
    """

    def __init__(self, figure: Any, words: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.figure, self.words, self.heads, self.rows = figure, words, heads, rows
        figure.layout.template = None  # 7 KB of colours that no chart uses

    @property
    def html(self) -> str:
        """The table. A page's script folds it and draws the figure in front of it."""
        step = math.ceil(len(self.rows) / LONGEST) or 1
        shown = [*self.rows[:-1:step], *self.rows[-1:]]
        count = "The numbers" if step == 1 else f"The numbers of {len(shown)} of {len(self.rows)} points"
        heads = "".join(f'<th scope="col">{escape(each)}</th>' for each in self.heads)
        body = "".join(
            f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(each)}</td>" for each in rest)}</tr>'
            for first, *rest in shown
        )
        title = escape(self.words.splitlines()[0], quote=True)
        kind = "" if self.figure.data and self.figure.data[0].type == "scatter" else " named"
        return (
            f'<div class="ssl ssl-chart{kind}"><style>{style()}{STYLE}</style><details open><summary>{count}</summary>'
            f'<div tabindex="0" role="region" aria-label="{title}"><table class="numbers"><caption>{title}</caption>'
            f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div></details></div>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        # Plain JSON, like the output of plotly's own notebook renderer.
        figure = {**self.figure.to_plotly_json(), "config": {"displaylogo": False}}
        return {"text/plain": self.words, "text/html": self.html, PLOTLY: figure}

    def __repr__(self) -> str:
        return self.words


STILL = {"itemclick": False, "itemdoubleclick": False}
"""A click on the legend would hide a line and stretch the axes."""


def layout(title: str, height: float, **more: Any) -> dict[str, Any]:
    """Return the plotly layout that all figures share, updated with ``more``. The legend is above the plot.

    Dragging does nothing, so that a finger scrolls the page.
    """
    common: dict[str, Any] = {
        "title": {"text": title, "font": {"size": 15}, "x": 0.01},
        "font": {"family": FAMILY, "size": 13, "color": TEXT},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": height,
        "margin": {"l": 10, "r": 24, "t": 44, "b": 10},
        "dragmode": False,
        "legend": {"orientation": "h", "traceorder": "normal", "x": 0, "y": 1.02, "yanchor": "bottom", **STILL},
    }
    return common | more


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return a plotly axis with its title, updated with ``more``. By default it is linear and begins at 0."""
    common: dict[str, Any] = {
        "title": {"text": title, "standoff": 8, "font": {"size": 13}},
        "gridcolor": GRID,
        "griddash": "dot",
        "gridwidth": 0.5,
        "zeroline": False,
        # Invisible ticks keep the first labels of the two axes from touching in the corner.
        "ticks": "outside",
        "ticklen": 7,
        "tickcolor": "rgba(0,0,0,0)",
        "automargin": True,
        "tickformat": ",",
        "rangemode": "tozero",
        "fixedrange": True,
    }
    return common | more


def empty(title: str, why: str) -> Chart:
    """Return a chart without data: its title, and the reason why it is empty."""
    import plotly.graph_objects as go

    note = {"text": why, "showarrow": False, "x": 0, "xanchor": "left", "xref": "paper", "yref": "paper", "y": 0.5}
    hidden = {"visible": False}
    figure = go.Figure(layout=layout(title, 120, xaxis=hidden, yaxis=hidden, annotations=[note]))
    return Chart(figure, f"{title}\n  {why}", [why], [])


def written(value: float) -> str:
    """Format a number for a chart, such as ``0.125``, ``1,250`` or ``1e12``.

    Fractions have at most three significant digits. Very large and very small numbers have an exponent.
    """
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e12 or size < 1e-6:
        return f"{value:.0e}".replace("e+", "e")
    if size >= 100 or value == round(value):
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(size)))
    shown = f"{value:.{digits}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


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


def hues(names: Sequence[str]) -> dict[str, str]:
    """Return the hue of each series. Raises Error if there are more than `MOST` series."""
    if len(names) > MOST:
        raise Error(f"{len(names)} series in one chart cannot be distinguished; draw at most {MOST} per chart")
    taken = {OWN[n] for n in names if n in OWN}
    left = [h for h in HUES if h not in taken]
    return {n: OWN[n] if n in OWN else left.pop(0) for n in names}
