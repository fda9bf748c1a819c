"""Charts: plotly where a page can run it, and beside it the same as a picture for where it cannot.

Both go into the notebook as one output, so that an exported page, a viewer without
plotly and a page without a network show the picture instead of an empty box.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from .bars import MEANING, ORDER, bars, held
from .figure import GRID, MIDDLE, TONES, layout
from .operators import by_operator, parts
from .palette import KINDS, LEAST, LIGHT
from .svg import Picture

FILL = {kind: LIGHT[hue] for kind, hue in KINDS.items()}
"""Bars have numbers in them, so they keep the palette's light colours, whatever the page's theme is."""


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
        figure.add_bar(
            name=MEANING.get(kind, kind),
            y=[b.name for b in drawn],
            x=amounts,
            orientation="h",
            text=[f"{n:,}" if n else "" for n in amounts],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            marker={
                "color": FILL.get(kind, MIDDLE),
                "line": {"width": 1, "color": LIGHT["frame"]},
            },
            textfont={"color": LIGHT["ink" if kind == "base" else "badge"], "size": 13},
            hovertemplate=f"%{{y}}: %{{x:,}} {unit}<extra>{MEANING.get(kind, kind)}</extra>",
        )
    figure.update_layout(_lying(title, unit, 150 + 56 * len(drawn)))
    return Chart(figure, held(states, unit, title))


def _lying(title: str, unit: str, height: int, **down: Any) -> dict[str, Any]:
    """The layout of bars that lie: amounts across, names ``down``."""
    across = {"title": {"text": f"{unit} held", "standoff": 6, "font": {"size": 13}}, "gridcolor": GRID}
    return layout(
        title,
        height,
        barmode="stack",
        # A number that its bar is too short for would be shrunk until it fits; it can still be hovered for.
        uniformtext={"minsize": LEAST, "mode": "hide"},
        xaxis=across | {"zeroline": False, "rangemode": "tozero", "tickformat": ","},
        yaxis={"autorange": "reversed", "automargin": True, **down},
    )


def operators_chart(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Chart:
    """Which operator holds how much, as :func:`~.operators.by_operator` draws it."""
    import plotly.graph_objects as go

    picture = by_operator(states, unit, title)
    title = title or f"{unit.capitalize()} held by each operator"
    figure = go.Figure()
    bars_of = [(str(name), p) for name, state in states.items() for p in parts(state, unit)]
    for kind in dict.fromkeys(p.kind for _, p in bars_of):
        of_kind = [(name, p) for name, p in bars_of if p.kind == kind]
        figure.add_bar(
            name=MEANING.get(kind, kind),
            y=[f"{name} · {p.name}" for name, p in of_kind],
            x=[p.amount for _, p in of_kind],
            orientation="h",
            marker={"color": FILL.get(kind, TONES["frame"]), "line": {"width": 1, "color": LIGHT["frame"]}},
            hovertemplate=f"%{{x:,}} {unit}<extra>{MEANING.get(kind, kind)}</extra>",
        )
    names = [f"{name} · {p.name}" for name, p in bars_of]
    figure.update_layout(_lying(title, unit, 150 + 24 * len(bars_of), categoryorder="array", categoryarray=names))
    return Chart(figure, picture)
