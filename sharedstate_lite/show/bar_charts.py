"""Bar charts: one amount for each rung of a ladder, or the parts of each amount.

A rung's bar has its name above it and its number next to it. These bars use a logarithmic scale if the largest amount
is at least `WORTH` times the smallest, and the title of the axis says so. Bars of parts are always linear.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .chart import TONES, Chart, axis, empty, hues, layout, mapped, values, written

WORTH = 40.0
"""How many times the smallest amount the largest one is, if bars on a linear scale would be too short to see."""
LOGARITHMIC = "logarithmic: each factor of ten adds the same length"
HUE = "inserted"
OWN = " (your run)"


def rungs_chart(
    amounts: Mapping[str, float],
    unit: str,
    title: str = "",
    absent: Mapping[str, str] | None = None,
    own: Mapping[str, float] | None = None,
) -> Chart:
    """Return a chart with one bar per rung, from ``{rung: amount}`` in ``unit``.

    ``absent`` maps each rung that could not run to the reason. If ``amounts`` are a record, ``own`` has what the reader
    has measured: each of these bars stands below that of its rung, in another color, and its rung's name says so.
    Raises Error if a value is not a valid amount.
    """
    if own:
        pairs = [pair for name in amounts for pair in ((name, amounts), (f"{name}{OWN}", own))]
        amounts = {name: each[name.removesuffix(OWN)] for name, each in pairs if name.removesuffix(OWN) in each}
    import plotly.graph_objects as go

    title, missing = title or unit, dict(absent or {})
    amounts = mapped(amounts, "amount")
    shown = dict(zip(amounts, values("ladder", amounts.values(), "amounts").tolist(), strict=True))
    if not shown:
        return empty(title, "No rungs ran.")
    names = [*shown, *missing]
    told = {name: f"{written(v)} {unit}" for name, v in shown.items()}
    told |= {name: f"absent, {why}" for name, why in missing.items()}
    figure = go.Figure(
        go.Bar(
            y=names,
            x=[shown.get(name, 0) for name in names],
            orientation="h",
            width=0.4,
            text=[told[name] for name in names],
            textposition="outside",
            cliponaxis=False,
            marker={"color": [TONES["deleted" if name.endswith(OWN) else HUE] for name in names]},
            hovertemplate="%{y}: %{text}<extra></extra>",
        )
    )
    for name in names:
        at = {"x": 0, "xref": "paper", "xanchor": "left", "y": name, "yanchor": "bottom", "yshift": 12}
        figure.add_annotation(text=name, showarrow=False, **at)
    down = {"visible": False, "range": [len(names) - 0.5, -0.9], "fixedrange": True}
    down |= {"type": "category", "categoryorder": "array", "categoryarray": names}
    figure.update_layout(layout(title, 90 + 54 * len(names), xaxis=_across([*shown.values()], unit), yaxis=down))
    words = [title, *(f"  {name}: {told[name]}" for name in names)]
    return Chart(figure, "\n".join(words), ["", unit], [[name, told[name].removesuffix(f" {unit}")] for name in names])


def _across(amounts: list[float], unit: str) -> dict[str, Any]:
    """The axis of the bars. Its range has room for the number next to the longest bar."""
    if min(amounts) > 0 and max(amounts) / min(amounts) >= WORTH:
        low, high = math.floor(math.log10(min(amounts)) - 1e-9), math.log10(max(amounts))
        # By default, plotly also labels digits between the powers of ten, too small to read.
        return axis(f"{unit}, {LOGARITHMIC}", type="log", dtick=1, range=[low, high + 0.3 * (high - low)])
    return axis(unit, range=[0, 1.3 * max(amounts) or 1], nticks=6)


def stacks_chart(amounts: Mapping[str, Mapping[str, float]], unit: str, title: str) -> Chart:
    """Return a chart with one bar per name, made of its parts, from ``{name: {part: amount}}`` in ``unit``.

    All names have the same parts. The total stands next to each bar. Raises Error if a value is not a valid amount.
    """
    import plotly.graph_objects as go

    names, parts = [*amounts], [*next(iter(amounts.values()))]
    found = {part: values(part, [amounts[name][part] for name in names], "amounts").tolist() for part in parts}
    totals = [written(sum(each)) for each in zip(*found.values(), strict=True)]
    bars = [
        go.Bar(name=part, y=names, x=found[part], orientation="h", width=0.55, marker={"color": TONES[hue]})
        for part, hue in hues(parts).items()
    ]
    none = {"x": [0] * len(names), "text": totals, "textposition": "outside", "showlegend": False, "hoverinfo": "skip"}
    figure = go.Figure([*bars, go.Bar(y=names, orientation="h", cliponaxis=False, **none)])
    down = {"autorange": "reversed", "automargin": True, "fixedrange": True, "ticks": "outside", "ticklen": 6}
    down |= {"tickcolor": "rgba(0,0,0,0)"}
    most = max(sum(each) for each in zip(*found.values(), strict=True))
    figure.update_layout(
        layout(title, 150 + 42 * len(names), xaxis=axis(unit, range=[0, 1.15 * most or 1]), yaxis=down)
    )
    figure.update_layout(barmode="stack", margin={"t": 90})
    rows = [[name, *(written(found[part][at]) for part in parts), totals[at]] for at, name in enumerate(names)]
    words = [
        f"  {name}: " + ", ".join(f"{p} {v}" for p, v in zip([*parts, "in all"], v_, strict=True)) for name, *v_ in rows
    ]
    return Chart(figure, "\n".join([f"{title} ({unit})", *words]), ["", *parts, "in all"], rows)
