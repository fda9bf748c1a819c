"""The plotly side of a chart: the same numbers as its picture, to hover over and to zoom in.

A figure does not know whether its page is light or dark, so it has no background, and
every colour here reaches a contrast of 4 against both.
"""

from __future__ import annotations

from typing import Any

from .axes import Axis, written
from .lines import Lines
from .palette import FAMILY

MIDDLE = "#767d86"
"""Text and lines."""
GRID = "rgba(133,140,149,0.3)"
TONES = {
    "inserted": "#2b84c4",
    "deleted": "#c9561c",
    "upquery": "#12896a",
    "handle": "#b4588f",
    "ink": "#8a7a1e",
    "frame": MIDDLE,
}
"""The palette's hues between their light and their dark values."""
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
"""What tells lines apart that have too many points for marks."""


def layout(title: str, height: float, **more: Any) -> dict[str, Any]:
    """What all figures have in common; the legend stands below the plot, so it covers nothing."""
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


def axis(of: Axis) -> dict[str, Any]:
    """An axis with its unit."""
    import math

    ends = [math.log10(of.low), math.log10(of.high)] if of.log else [of.low, of.high]
    return {
        "title": {"text": of.label, "standoff": 8, "font": {"size": 13}},
        "type": "log" if of.log else "linear",
        "range": ends,
        "gridcolor": GRID,
        "zeroline": False,
        # Unseen ticks keep the two axes' first labels apart, which would meet in the corner.
        "ticks": "outside",
        "ticklen": 7,
        "tickcolor": "rgba(0,0,0,0)",
        "automargin": True,
        "tickformat": ",~r" if of.log else ",",
        **({"tickvals": of.ticks(9), "ticktext": [written(v) for v in of.ticks(9)]} if of.log or of.whole else {}),
    }


def figure(lines: Lines) -> Any:
    """A chart of lines as a plotly figure; thinned series have their upper line, dotted."""
    import plotly.graph_objects as go

    out = go.Figure()
    unit = f" {lines.y.unit}" if lines.y.unit else ""
    for series in lines.series:
        tone = TONES[series.hue]
        some = len(series.x) <= 40
        y = [max(v, lines.y.low) for v in series.y]
        told = {"hovertemplate": f"{lines.x.title} %{{x:,.4~g}}: %{{y:,.4~g}}{unit}<extra>{series.name}</extra>"}
        out.add_scatter(
            name=series.name,
            x=list(series.x),
            y=y,
            mode="lines+markers" if some else "lines",
            line={"color": tone, "width": 2, "dash": "solid" if some else DASHES[series.mark]},
            marker={"symbol": SYMBOLS[series.mark], "size": 8, "color": tone},
            cliponaxis=False,  # a mark on the frame would be cut in half
            **told,
        )
        if series.upper:
            out.add_scatter(
                name=f"{series.name}, 99th percentile",
                x=list(series.x),
                y=[max(v, lines.y.low) for v in series.upper],
                mode="lines",
                line={"color": tone, "width": 1, "dash": "dot"},
                **told,
            )
    shown = len(out.data) > 1
    out.update_layout(
        layout(lines.title, 380, xaxis=axis(lines.x), yaxis=axis(lines.y), showlegend=shown),
    )
    return out
