"""A bar chart of single numbers: one amount for each rung of a ladder.

Each bar has its number next to it. The bars use a logarithmic scale if the largest amount is at least `WORTH` times the
smallest, and a line below the chart says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .axes import WORTH, written
from .chart import GRID, MARGIN, ROOMS, TONES, Chart, heading, layout, mapped, nothing, values
from .svg import Drawing, Picture, rect, text
from .text import fit, width, wrap

RUNG_PITCH, RUNG_BAR = 30.0, 18.0
LOGARITHMIC = "The scale is logarithmic: each factor of ten adds the same length."
HUE = "inserted"


def rungs_chart(
    amounts: Mapping[str, float], unit: str, title: str = "", absent: Mapping[str, str] | None = None
) -> Chart:
    """Return a chart with one bar per rung, from ``{rung: amount}`` in ``unit``.

    ``absent`` maps each rung that could not run to the reason. Raises Error if a value is not a valid amount.
    """
    import plotly.graph_objects as go

    title, missing = title or unit, dict(absent or {})
    amounts = mapped(amounts, "amount")
    shown = dict(zip(amounts, values("ladder", amounts.values(), "amounts").tolist(), strict=True))
    if not shown:
        return Chart(go.Figure(layout=layout(title, 140)), nothing(title, "No rungs ran."))
    log = _logarithmic(list(shown.values()))
    figure = go.Figure()
    names = [*shown, *missing]
    figure.add_bar(
        y=list(shown),
        x=list(shown.values()),
        orientation="h",
        text=[f"{written(v)} {unit}" for v in shown.values()],
        textposition="auto",
        marker={"color": TONES[HUE]},
        hovertemplate=f"%{{y}}: %{{x:,.3~g}} {unit}<extra></extra>",
    )
    for name in missing:
        figure.add_annotation(x=0, xref="x domain", xanchor="left", y=name, text="absent", showarrow=False)
    down = {"autorange": "reversed", "automargin": True, "categoryorder": "array", "categoryarray": names}
    named = f"{unit}{', logarithmic' if log else ''}"
    across: dict[str, Any] = {"title": {"text": named, "standoff": 6}, "gridcolor": GRID}
    # By default, plotly also labels digits between the powers of ten, too small to read.
    across |= {"type": "log", "dtick": 1} if log else {"rangemode": "tozero"}
    if missing:
        down["range"] = [len(names) - 0.5, -0.5]
        del down["autorange"]
    height = 130 + 32 * len(names)
    figure.update_layout(layout(title, height, showlegend=False, xaxis=across, yaxis=down))
    words = [title, *(f"  {name}: {written(v)} {unit}" for name, v in shown.items())]
    words += [f"  {name}: absent, {why}" for name, why in missing.items()]
    drawings = (_draw_rungs(shown, missing, unit, title, log, room) for room in ROOMS)
    return Chart(figure, Picture("\n".join(words), *drawings))


def _logarithmic(amounts: list[float]) -> bool:
    """Return whether the small bars would be too short to see on a linear scale, and a logarithmic one is possible."""
    return min(amounts) > 0 and max(amounts) / min(amounts) >= WORTH


def _share(value: float, amounts: list[float], log: bool) -> float:
    """Return the length of a value's bar, relative to the length of the longest bar."""
    if not log:
        return value / (max(amounts) or 1)
    low = math.floor(math.log10(min(amounts)) - 1e-9)
    return (math.log10(value) - low) / (math.log10(max(amounts)) - low)


def _draw_rungs(
    shown: Mapping[str, float], missing: Mapping[str, str], unit: str, title: str, log: bool, room: float
) -> Drawing:
    amounts = list(shown.values())
    left = MARGIN + min(max(width(name, 13, True) for name in [*shown, *missing]), room * 0.34) + 12
    numbers = max(width(f"{written(v)} {unit}") for v in amounts) + 10
    room_for_bars = room - MARGIN - left - numbers
    body = [heading(title, room)]
    y = 46.0
    for name in [*shown, *missing]:
        body.append(text((MARGIN, y + 14), fit(name, left - MARGIN - 8, 13, True), kind="b", size=13, tip=name))
        if name in shown:
            long = max(_share(shown[name], amounts, log) * room_for_bars, 1.0)
            body.append(rect(left, y, long, RUNG_BAR, fill=HUE))
            body.append(text((left + long + 6, y + 14), f"{written(shown[name])} {unit}", kind="m"))
        else:
            why = f"absent: {missing[name]}"
            body.append(text((left, y + 14), fit(why, room - MARGIN - left), kind="m", tip=why))
        y += RUNG_PITCH
    for words in wrap(LOGARITHMIC, room - 2 * MARGIN, 2) if log else []:
        body.append(text((MARGIN, y + 8), words, kind="m"))
        y += 18
    return Drawing(room, y + MARGIN, "".join(body))
