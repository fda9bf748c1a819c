"""Charts: plotly where a page can run it, and beside it the same as a picture for where it cannot.

Both go into the notebook as one output, so that an exported page, a viewer without
plotly and a page without a network show the picture instead of an empty box.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from .bars import MEANING, ORDER, bars, held
from .palette import FAMILY, KINDS, LIGHT
from .svg import Picture

MIDDLE = "#767d86"
"""Text and lines of a chart that does not know whether its page is light or dark."""


class Chart:
    """A plotly figure and the picture of the same numbers."""

    def __init__(self, figure: Any, picture: Picture) -> None:
        self.figure, self.picture = figure, picture

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        shown: dict[str, Any] = dict(self.picture._repr_mimebundle_())
        # The figure's numbers as plain JSON, as plotly's own renderer for notebooks gives them.
        shown["application/vnd.plotly.v1+json"] = {**self.figure.to_plotly_json(), "config": {"displaylogo": False}}
        return shown

    def __repr__(self) -> str:
        return repr(self.picture)


def held_chart(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Chart:
    """Who holds how much, as :func:`~.bars.held` draws it, to hover over and to select kinds in."""
    import plotly.graph_objects as go

    drawn = bars(states, unit)
    title = title or f"{unit.capitalize()} held"
    figure = go.Figure()
    kinds = [*ORDER, *{k for b in drawn for k, _ in b.parts if k not in ORDER}]
    for kind in kinds:
        amounts = [dict(b.parts).get(kind, 0) for b in drawn]
        if not any(amounts):
            continue
        base = kind == "base"
        figure.add_bar(
            name=MEANING.get(kind, kind),
            y=[b.name for b in drawn],
            x=amounts,
            orientation="h",
            text=[f"{n:,}" if n else "" for n in amounts],
            textposition="inside",
            insidetextanchor="middle",
            marker={
                "color": "rgba(133,140,149,0.25)" if base else LIGHT[KINDS.get(kind, "frame")],
                "line": {"width": 1, "color": LIGHT["frame"]},
            },
            textfont={"color": MIDDLE if base else LIGHT["badge"], "size": 13},
            hovertemplate=f"%{{y}}: %{{x:,}} {unit}<extra>{MEANING.get(kind, kind)}</extra>",
        )
    figure.update_layout(
        barmode="stack",
        title={"text": title, "font": {"size": 15}, "x": 0.01},
        font={"family": FAMILY, "size": 13, "color": MIDDLE},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        height=150 + 56 * len(drawn),
        margin={"l": 10, "r": 20, "t": 44, "b": 90},
        xaxis={
            "title": {"text": unit, "standoff": 6, "font": {"size": 13}},
            "gridcolor": "rgba(133,140,149,0.3)",
            "zeroline": False,
            "rangemode": "tozero",
        },
        yaxis={"autorange": "reversed", "automargin": True},
        legend={
            "orientation": "h",
            "traceorder": "normal",
            "yref": "container",
            "y": 0.02,
            "yanchor": "bottom",
            "x": 0,
        },
    )
    return Chart(figure, held(states, unit, title))
