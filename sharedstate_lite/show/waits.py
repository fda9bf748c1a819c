"""How long single things took: bars of seconds, grouped by what was done, with their numbers.

For what happens once (a late view, a restart), where a line over epochs says nothing. Every
bar begins at zero, and one scale holds for all, so a short one may be a hairline: its number
stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .axes import written
from .chart import Chart
from .figure import GRID, TONES, layout
from .lines import ROOMS, nothing
from .series import coloured, mapped, scaled, values
from .svg import Drawing, Picture, rect, text
from .text import fit, width

MARGIN, PITCH, BAR = 14.0, 24.0, 15.0

Waits = Mapping[str, Mapping[str, float]]


def waits_chart(seconds: Waits, title: str = "How long it took") -> Chart:
    """Seconds by what was done and by who did it, ``{what: {name: seconds}}``; six names at most.

    Raises Error for what is no time.
    """
    import plotly.graph_objects as go

    given = {what: mapped(by, "seconds") for what, by in mapped(seconds, "{name: seconds}").items()}
    groups = {what: dict(zip(by, values(what, by.values(), "seconds"), strict=True)) for what, by in given.items()}
    names = list(dict.fromkeys(name for by in groups.values() for name in by))
    if not names:
        return Chart(go.Figure(layout=layout(title, 140)), nothing(title, "Nothing was timed."))
    # The longest chooses the unit: bars are compared with it.
    factor, unit = scaled({"": np.array([max(max(by.values()) for by in groups.values() if by)])})
    hues = {name: look[0] for name, look in coloured(names).items()}
    figure = go.Figure()
    for name in names:
        mine = {what: float(by[name]) * factor for what, by in groups.items() if name in by}
        figure.add_bar(
            name=name,
            y=list(mine),
            x=list(mine.values()),
            orientation="h",
            text=[f"{written(v)} {unit}" for v in mine.values()],
            # Inside, they would be made small enough for a thin bar, in white on any colour.
            textposition="outside",
            constraintext="none",
            cliponaxis=False,
            marker={"color": TONES[hues[name]]},
            hovertemplate=f"%{{y}}: %{{x:,.3~g}} {unit}<extra>{name}</extra>",
        )
    down = {"autorange": "reversed", "automargin": True}
    longest = max((float(v) * factor for by in groups.values() for v in by.values()), default=0.0) or 1.0
    across = {
        "title": {"text": f"time ({unit})", "standoff": 6, "font": {"size": 13}},
        "gridcolor": GRID,
        "zeroline": False,
        "range": [0, longest * 1.2],  # room for the number behind the longest bar
    }
    height = 160 + 22 * sum(map(len, groups.values())) + 16 * len(groups)
    figure.update_layout(layout(title, height, barmode="group", xaxis=across, yaxis=down))
    words = [title]
    for what, by in groups.items():
        words.append(f"  {what}: " + ", ".join(f"{name} {written(v * factor)} {unit}" for name, v in by.items()))
    shown = {what: {name: float(v) * factor for name, v in by.items()} for what, by in groups.items()}
    return Chart(figure, Picture("\n".join(words), *(_draw(shown, unit, title, hues, room) for room in ROOMS)))


def _draw(groups: Waits, unit: str, title: str, hues: Mapping[str, str], room: float) -> Drawing:
    every = [v for by in groups.values() for v in by.values()]
    left = MARGIN + min(max(width(name) for name in hues), room * 0.34) + 12
    numbers = max(width(f"{written(v)} {unit}") for v in every) + 10
    scale = (room - MARGIN - left - numbers) / (max(every) or 1)
    body = [text((MARGIN, 22), fit(title, room - 2 * MARGIN, 14, True), kind="b", size=14, tip=title)]
    body.append(rect(0, 33, room, 1, fill="hairline"))
    y = 44.0
    for what, by in groups.items():
        body.append(text((MARGIN, y + 14), fit(what, room - 2 * MARGIN, 13, True), kind="b", size=13, tip=what))
        y += 24
        for name, value in by.items():
            body.append(text((MARGIN, y + 13), fit(name, left - MARGIN - 8), kind="m", tip=name))
            long = value * scale
            body.append(rect(left, y + 2, max(long, 1.0), BAR, fill=hues[name]))
            body.append(text((left + long + 6, y + 13), f"{written(value)} {unit}", kind="m"))
            y += PITCH
        y += 10
    return Drawing(room, y + MARGIN, "".join(body))


__all__ = ["waits_chart"]
