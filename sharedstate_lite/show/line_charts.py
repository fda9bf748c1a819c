"""Line charts of measurements: seconds per epoch, hit rate by budget, rows held, and any other curves.

Each function returns a `Chart` with one series for each name in a mapping, at most six. The functions only draw; the
caller measures. If long series were thinned, a line below the chart says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import Error
from .axes import Axis, fitted, written
from .chart import Chart, coloured, layout, mapped, nothing, scaled, values
from .lines import Lines, Series, drawn, figure, thinned, tiled
from .svg import Picture

Numbers = Mapping[str, Iterable[float]]
_Points = dict[str, tuple[tuple[float, ...], tuple[float, ...]]]


def time_chart(seconds: Numbers, title: str = "Time for each epoch", first: int = 1) -> Chart:
    """Return a chart of how long each epoch took, from {name: the seconds of each epoch}.

    ``first`` is the number of the first epoch. A long run is thinned: the chart shows the median and the 99th
    percentile of each bucket of epochs. Raises Error if a value is not a valid number of seconds.
    """
    given = _given(seconds, "seconds")
    if not given:
        return _empty(title, "No epochs were timed.")
    factor, unit = scaled(given)
    looks, made, size = coloured(list(given)), [], 1
    for name, found in given.items():
        x = np.arange(first, first + len(found), dtype=np.float64)
        xs, ys, upper, each = thinned(x, found * factor)
        size = max(size, each)
        made.append(Series(name, tuple(xs), tuple(ys), *looks[name], tuple(upper)))
    y = fitted(Axis("time", unit), [v for s in made for v in (*s.y, *s.upper)])
    x_axis = fitted(Axis("epoch", "number", whole=True), [v for s in made for v in s.x], log=False, zero=False)
    note = ""
    if size > 1:
        note = (
            f"Each point summarizes up to {size} epochs. "
            "The line shows the median, and the dotted line shows the 99th percentile."
        )
    return _chart(
        Lines(title, x_axis, y, tuple(made), _with_axis(note, y), _words(title, given, factor, unit, "epochs"))
    )


def hits_chart(
    rates: Mapping[str, Mapping[float, float]], unit: str = "rows", title: str = "Hit rate against budget"
) -> Chart:
    """Return a chart of hit rate by budget, from {name: {budget: hit rate from 0 to 1}}, with budgets in ``unit``.

    The hit rate is the share of reads whose key was filled. Raises Error if a hit rate is above 1, or if a value is not
    a valid number.
    """
    points = _points(rates, "hit rates", "budgets")
    wrong = next(
        (f"series {n}: a hit rate must be at most 1, not {max(y):g}" for n, (_, y) in points.items() if max(y) > 1), ""
    )
    if wrong:
        raise Error(wrong)
    if not points:
        return _empty(title, "No budgets were tried.")
    looks = coloured(list(points))
    made = [Series(name, x, tuple(100 * v for v in y), *looks[name]) for name, (x, y) in points.items()]
    x_axis = fitted(Axis("budget", unit), [v for s in made for v in s.x], worth=10)
    y_axis = Axis("reads that were hits", "%", 0.0, 100.0)
    lines = [
        f"  {s.name}: " + ", ".join(f"{written(b)} {unit} {h:.0f} %" for b, h in zip(s.x, s.y, strict=True))
        for s in made
    ]
    return _chart(Lines(title, x_axis, y_axis, tuple(made), _with_axis("", x_axis), "\n".join([title, *lines]), False))


def rows_chart(rows: Mapping[str, Mapping[float, float]], across: str = "epochs", title: str = "Rows stored") -> Chart:
    """Return a chart of how many rows are stored, from {name: {x: rows}}, on linear axes.

    ``across`` is what x counts, for example epochs or views. Raises Error if a value is not a valid number.
    """
    points = _points(rows, "rows", across)
    if not points:
        return _empty(title, "No rows were counted.")
    looks = coloured(list(points))
    made = [Series(name, x, y, *looks[name]) for name, (x, y) in points.items()]
    x_axis = fitted(Axis(across, "number", whole=True), [v for s in made for v in s.x], log=False, zero=False)
    y_axis = fitted(Axis("stored", "rows", whole=True), [v for s in made for v in s.y], log=False)
    lines = [
        f"  {s.name}: "
        + ", ".join(f"{written(r)} rows at {written(n)} {across}" for n, r in zip(s.x, s.y, strict=True))
        for s in made
    ]
    return _chart(Lines(title, x_axis, y_axis, tuple(made), words="\n".join([title, *lines])))


def curves(points: Mapping[str, Mapping[float, float]], across: str, up: str, title: str) -> Chart:
    """Return a chart of curves on linear axes, from {name: {x: y}}. ``across`` and ``up`` are the names of x and y.

    Raises Error if a value is not a valid number.
    """
    found = _points(points, up, across)
    if not found:
        return _empty(title, "There are no points.")
    return _chart(_curves(found, across, up, title))


def panels(points: Mapping[str, Mapping[float, float]], across: str, up: str, title: str) -> Picture:
    """Return the curves of `curves` as a small chart each, all with the same axes.

    Use it for curves that would cover each other in one chart. ``title`` begins the text of the picture; each chart has
    the name of its curve. Raises Error if a value is not a valid number.
    """
    found = _points(points, up, across)
    if not found:
        return nothing(title, "There are no points.")
    whole = _curves(found, across, up, title)
    return tiled(whole.words, [replace(whole, title=s.name, series=(s,), words="", height=110.0) for s in whole.series])


def _curves(found: _Points, across: str, up: str, title: str) -> Lines:
    looks = coloured(list(found))
    made = [Series(name, x, y, *looks[name]) for name, (x, y) in found.items()]
    x_axis = fitted(Axis(across, ""), [v for s in made for v in s.x], log=False)
    y_axis = fitted(Axis(up, ""), [v for s in made for v in s.y], log=False)
    lines = [
        f"  {s.name}: " + ", ".join(f"{written(y)} at {written(x)}" for x, y in zip(s.x, s.y, strict=True))
        for s in made
    ]
    return Lines(title, x_axis, y_axis, tuple(made), words="\n".join([f"{title} ({up} at {across})", *lines]))


def _points(given: Any, what: str, across: str) -> _Points:
    """Return the x (``across``) and the y (``what``) of each series that has points, in ascending order of x."""
    out = {}
    for name, points in mapped(given, f"{{{across}: {what}}}").items():
        if len(mapped(points, what)):
            x, y = values(name, points.keys(), across), values(name, points.values(), what)
            order = np.argsort(x, kind="stable")
            out[str(name)] = tuple(x[order].tolist()), tuple(y[order].tolist())
    return out


def _given(given: Numbers, what: str) -> dict[str, Any]:
    checked = {str(n): values(str(n), v, what) for n, v in mapped(given, what).items()}
    return {n: v for n, v in checked.items() if len(v)}


def _with_axis(note: str, axis: Axis) -> str:
    """Return the note, followed by a warning if the axis is logarithmic."""
    parts = [note] if note else []
    if axis.log:
        parts.append(f"The {axis.title} axis is logarithmic: equal distances mean equal ratios.")
    if axis.floored:
        parts.append(f"It cannot show values at or near 0. Values drawn at its lower end instead: {axis.floored}.")
    return " ".join(parts)


def _words(title: str, given: Mapping[str, Any], factor: float, unit: str, what: str) -> str:
    lines = [title]
    for name, found in given.items():
        middle, late, most = (
            written(float(v) * factor) for v in (np.median(found), np.percentile(found, 99), found.max())
        )
        lines.append(f"  {name}: {len(found):,} {what}, median {middle} {unit}, 99th percentile {late}, longest {most}")
    return "\n".join(lines)


def _chart(lines: Lines) -> Chart:
    return Chart(figure(lines), drawn(lines))


def _empty(title: str, why: str) -> Chart:
    import plotly.graph_objects as go

    note = {"text": why, "showarrow": False, "x": 0, "xanchor": "left", "xref": "paper", "yref": "paper", "y": 0.5}
    hidden = {"visible": False}
    out = go.Figure()
    out.update_layout(layout(title, 140, xaxis=hidden, yaxis=hidden, annotations=[note], margin={"b": 10, "t": 44}))
    return Chart(out, nothing(title, why))
