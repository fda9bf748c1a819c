"""Bar charts of single numbers: how long one-off actions took, and one amount for each rung of a ladder.

Each bar has its number next to it. All bars of durations share one scale, which starts at zero. A ladder's bars use a
logarithmic scale if the largest amount is at least `WORTH` times the smallest, and a line below the chart says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .axes import WORTH, written
from .chart import GRID, MARGIN, ROOMS, TONES, Chart, coloured, heading, layout, mapped, nothing, scaled, values
from .svg import Drawing, Picture, rect, text
from .text import fit, width, wrap

WAIT_PITCH, WAIT_BAR = 24.0, 15.0
RUNG_PITCH, RUNG_BAR = 30.0, 18.0
LOGARITHMIC = "The scale is logarithmic: each factor of ten adds the same length."
HUE = "inserted"

Waits = Mapping[str, Mapping[str, float]]


def waits_chart(seconds: Waits, title: str = "How long it took") -> Chart:
    """Return a chart of how long each action took, from ``{action: {name: seconds}}``, with at most six names.

    Raises Error if a value is not a valid number of seconds.
    """
    import plotly.graph_objects as go

    given = {what: mapped(by, "seconds") for what, by in mapped(seconds, "{name: seconds}").items()}
    groups = {what: dict(zip(by, values(what, by.values(), "seconds"), strict=True)) for what, by in given.items()}
    names = list(dict.fromkeys(name for by in groups.values() for name in by))
    if not names:
        return Chart(go.Figure(layout=layout(title, 140)), nothing(title, "Nothing was timed."))
    # The longest bar sets the unit, because the others are compared with it.
    factor, unit = scaled({"": np.array([max(max(by.values()) for by in groups.values() if by)])})
    shown = {what: {name: float(v) * factor for name, v in by.items()} for what, by in groups.items()}
    hues = {name: look[0] for name, look in coloured(names).items()}
    figure = go.Figure()
    for name in names:
        mine = {what: by[name] for what, by in shown.items() if name in by}
        figure.add_bar(
            name=name,
            y=list(mine),
            x=list(mine.values()),
            orientation="h",
            text=[f"{written(v)} {unit}" for v in mine.values()],
            # Inside a thin bar, plotly would make the number small, and white whatever the bar's colour.
            textposition="outside",
            constraintext="none",
            cliponaxis=False,
            marker={"color": TONES[hues[name]]},
            hovertemplate=f"%{{y}}: %{{x:,.3~g}} {unit}<extra>{name}</extra>",
        )
    longest = max(v for by in shown.values() for v in by.values()) or 1.0
    across = {
        "title": {"text": f"time ({unit})", "standoff": 6, "font": {"size": 13}},
        "gridcolor": GRID,
        "zeroline": False,
        "range": [0, longest * 1.2],  # room for the number after the longest bar
    }
    down = {"autorange": "reversed", "automargin": True}
    height = 160 + 22 * sum(map(len, groups.values())) + 16 * len(groups)
    figure.update_layout(layout(title, height, barmode="group", xaxis=across, yaxis=down))
    words = [title]
    for what, by in shown.items():
        words.append(f"  {what}: " + ", ".join(f"{name} {written(v)} {unit}" for name, v in by.items()))
    return Chart(figure, Picture("\n".join(words), *(_draw_waits(shown, unit, title, hues, room) for room in ROOMS)))


def _draw_waits(groups: Waits, unit: str, title: str, hues: Mapping[str, str], room: float) -> Drawing:
    every = [v for by in groups.values() for v in by.values()]
    left = MARGIN + min(max(width(name) for name in hues), room * 0.34) + 12
    numbers = max(width(f"{written(v)} {unit}") for v in every) + 10
    scale = (room - MARGIN - left - numbers) / (max(every) or 1)
    body = [heading(title, room)]
    y = 44.0
    for what, by in groups.items():
        body.append(text((MARGIN, y + 14), fit(what, room - 2 * MARGIN, 13, True), kind="b", size=13, tip=what))
        y += 24
        for name, value in by.items():
            body.append(text((MARGIN, y + 13), fit(name, left - MARGIN - 8), kind="m", tip=name))
            long = value * scale
            body.append(rect(left, y + 2, max(long, 1.0), WAIT_BAR, fill=hues[name]))
            body.append(text((left + long + 6, y + 13), f"{written(value)} {unit}", kind="m"))
            y += WAIT_PITCH
        y += 10
    return Drawing(room, y + MARGIN, "".join(body))


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
