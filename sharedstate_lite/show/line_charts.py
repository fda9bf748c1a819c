"""Line charts of measurements: hit rate by budget, rows held, and any other curves, together or in panels.

Each function returns a `Chart` with one series for each name in a mapping, at most six. The functions only draw; the
caller measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import Error
from .chart import DASHES, HUES, MARKS, TONES, Chart, axis, empty, hues, layout, mapped, values, written

Points = Mapping[str, Mapping[float, float]]
FEW = 40
"""Lines with at most this many points have a mark at each point."""
WORTH = 10
"""The axis of budgets is logarithmic if the largest budget is at least this many times the smallest one."""


def hits_chart(rates: Points, unit: str = "rows", title: str = "Hit rate against budget") -> Chart:
    """Return a chart of hit rate by budget, from {name: {budget: hit rate from 0 to 1}}, with budgets in ``unit``.

    The hit rate is the share of reads whose key was filled. If the largest budget is 10 times the smallest one, the
    axis of budgets is logarithmic, and its title says so. Raises Error if a hit rate is above 1, or if a value is not a
    valid number.
    """
    points = _points(rates, "hit rates", "budgets")
    for name, found in points.items():
        if max(found.values()) > 1:
            raise Error(f"series {name}: a hit rate must be at most 1, not {max(found.values()):g}")
    if not points:
        return empty(title, "No budgets were tried.")
    percent = {name: {x: 100 * y for x, y in found.items()} for name, found in points.items()}
    budgets = sorted({x for found in points.values() for x in found})
    x_axis = axis(f"budget ({unit})", rangemode="normal")
    if budgets[0] > 0 and budgets[-1] / budgets[0] >= WORTH:
        ticks = [m * 10.0**p for p in range(-6, 100) for m in (1, 2, 5) if budgets[0] <= m * 10.0**p <= budgets[-1]]
        x_axis = axis(f"budget ({unit}), logarithmic", type="log", tickvals=ticks, ticktext=[*map(written, ticks)])
    lines = [
        f"  {name}: " + ", ".join(f"{written(x)} {unit} {y:.0f} %" for x, y in found.items())
        for name, found in percent.items()
    ]
    y_axis = axis("reads that were hits (%)", range=[0, 102])
    return _chart(percent, x_axis, y_axis, title, "\n".join([title, *lines]))


def rows_chart(rows: Points, across: str = "epochs", title: str = "Rows stored") -> Chart:
    """Return a chart of how many rows are stored, from {name: {x: rows}}, on linear axes.

    ``across`` is what x counts, for example epochs or views. Raises Error if a value is not a valid number.
    """
    points = _points(rows, "rows", across)
    if not points:
        return empty(title, "No rows were counted.")
    found = [x for each in points.values() for x in each]
    whole = {"dtick": 1} if max(found) - min(found) <= 10 else {}
    lines = [
        f"  {name}: " + ", ".join(f"{written(y)} rows at {written(x)} {across}" for x, y in each.items())
        for name, each in points.items()
    ]
    x_axis = axis(f"{across} (number)", rangemode="normal", **whole)
    return _chart(points, x_axis, axis("stored (rows)"), title, "\n".join([title, *lines]))


def curves(points: Points, across: str, up: str, title: str) -> Chart:
    """Return a chart of curves on linear axes, from {name: {x: y}}. ``across`` and ``up`` are the names of x and y.

    Raises Error if a value is not a valid number.
    """
    found = _points(points, up, across)
    if not found:
        return empty(title, "There are no points.")
    ends = [x for each in found.values() for x in each]
    x_axis = axis(across, range=[min(0.0, *ends), max(ends) or 1])
    return _chart(found, x_axis, axis(up), title, _words(found, across, up, title))


def panels(points: Points, across: str, up: str, title: str, own: Points | None = None) -> Chart:
    """Return the curves of `curves` one above the other, each in a plot of its own, all with the same axes.

    Use it for curves that would cover each other in one plot. If ``points`` are a record, ``own`` has what the reader
    has measured, as a dashed line in the plot of the same name. Raises Error if a value is not a valid number.
    """
    from plotly.subplots import make_subplots

    found, mine = _points(points, up, across), _points(own or {}, up, across)
    if not found:
        return empty(title, "There are no points.")
    top = max(y for each in [*found.values(), *mine.values()] for y in each.values())
    figure = make_subplots(len(found), 1, shared_xaxes=True, vertical_spacing=0.3 / len(found), subplot_titles=[*found])
    for row, (name, trace) in enumerate(_traces(found).items(), 1):
        figure.add_scatter(**trace, row=row, col=1)
        if again := mine.get(name):
            line = {"color": TONES["muted"], "dash": "dash"}
            figure.add_scatter(
                x=[*again], y=[*again.values()], line=line, name="your run", mode="lines", row=row, col=1
            )
        figure.update_yaxes(axis(up, range=[0, 1.05 * top or 1], nticks=4), row=row, col=1)
        figure.update_xaxes(axis(across if row == len(found) else ""), row=row, col=1)
        figure.layout.annotations[row - 1].update(text=f"<b>{name}</b>", x=0, xanchor="left", font={"size": 13})
    figure.update_layout(layout(title, 70 + 130 * len(found), showlegend=False))
    figure.update_layout(margin={"t": 64})
    found |= {f"{name} (your run)": line for name, line in mine.items()}
    return _table(figure, found, across, _words(found, across, up, title))


def _words(found: Points, across: str, up: str, title: str) -> str:
    lines = [
        f"  {name}: " + ", ".join(f"{written(y)} at {written(x)}" for x, y in each.items())
        for name, each in found.items()
    ]
    return "\n".join([f"{title} ({up} at {across})", *lines])


def _traces(points: Points) -> dict[str, dict[str, Any]]:
    """Return each series as a plotly trace."""
    out: dict[str, dict[str, Any]] = {}
    for name, hue in hues([*points]).items():
        few, at, tone = len(points[name]) <= FEW, HUES.index(hue), TONES[hue]
        out[name] = {
            "name": name,
            "x": [*points[name]],
            "y": [*points[name].values()],
            "mode": "lines+markers" if few else "lines",
            "line": {"color": tone, "width": 2, "dash": "solid" if few else DASHES[at]},
            "marker": {"symbol": MARKS[at], "size": 8, "color": tone},
            "cliponaxis": False,  # clipping would cut a mark at the edge of the plot in half
            "hovertemplate": "%{x:,.4~g}: %{y:,.4~g}<extra>" + name.replace("<", "&lt;") + "</extra>",
        }
    return out


def _chart(points: Points, x: dict[str, Any], y: dict[str, Any], title: str, words: str) -> Chart:
    import plotly.graph_objects as go

    figure = go.Figure([go.Scatter(**trace) for trace in _traces(points).values()])
    figure.update_layout(layout(title, 300, xaxis=x, yaxis=y, showlegend=len(points) > 1))
    if len(points) > 1:  # the names stand above the plot, one below the other on a phone
        lines = 1 + sum(len(name) + 6 for name in points) // 100
        figure.update_layout(height=300 + 22 * len(points), margin={"t": 46 + 22 * lines})
    return _table(figure, points, x["title"]["text"].removesuffix(", logarithmic"), words)


def _table(figure: Any, points: Points, across: str, words: str) -> Chart:
    every = sorted({x for found in points.values() for x in found})
    rows = [[written(x), *(written(found[x]) if x in found else "" for found in points.values())] for x in every]
    return Chart(figure, words, [across, *points], rows)


def _points(given: Any, what: str, across: str) -> dict[str, dict[float, float]]:
    """Return the points of each series that has some, in ascending order of x."""
    out = {}
    for name, points in mapped(given, f"{{{across}: {what}}}").items():
        if len(mapped(points, what)):
            x, y = values(name, points.keys(), across), values(name, points.values(), what)
            order = np.argsort(x, kind="stable")
            out[str(name)] = dict(zip(x[order].tolist(), y[order].tolist(), strict=True))
    return out
