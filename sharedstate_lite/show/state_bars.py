"""Bar charts of state: how many rows or bytes each strategy stores, by kind of state or by operator.

The input is one ``engine.state()`` table per strategy. Base tables are drawn as outlines, because every strategy
stores them. Any additional state is drawn as a filled bar. If a number does not fit in its bar, it is omitted; the
line below the bar shows the totals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..errors import Error
from .chart import GRID, MARGIN, MIDDLE, ROOMS, TONES, Chart, heading, layout, mapped, nothing
from .palette import KINDS, LEAST, LIGHT
from .svg import Drawing, Picture, rect, text
from .text import fit, width

BAR, PITCH = 26.0, 56.0
THIN, THIN_PITCH = 15.0, 24.0
"""The height of an operator's bar, and the distance from one bar to the next, in px."""
NAMES = 0.34
"""The largest fraction of the width that is used for the operators' names."""
MOST = 12
"""The largest number of bars per engine. If there are more operators, the last bar is the sum of the smallest ones."""
MEANING = {
    "base": "base tables",
    "join": "join state",
    "aggregate": "aggregate state",
    "arrangement": "arrangement",
    "reader": "view's rows",
}
"""The name of each kind of state in a chart, in drawing order."""
UNITS = ("rows", "bytes")
COLUMNS = ("operator", "kind", "base", *UNITS)
FILL = {kind: LIGHT[hue] for kind, hue in KINDS.items()}
"""The colour of each kind of state in a plotly figure. Bars contain numbers, so their colours are always light ones."""


@dataclass(frozen=True)
class Bar:
    """The bar of one strategy. ``parts`` are pairs of a kind of state and an amount, with base tables first."""

    name: str
    parts: list[tuple[str, int]]

    @property
    def base(self) -> int:
        """The amount of state in base tables."""
        return sum(n for kind, n in self.parts if kind == "base")

    @property
    def own(self) -> int:
        """The amount of state outside base tables."""
        return sum(n for kind, n in self.parts if kind != "base")


@dataclass(frozen=True)
class OperatorBar:
    """The bar of one operator, or of several small operators together."""

    name: str
    kind: str
    amount: int


def held(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Picture:
    """Return a picture with one bar per strategy, divided by kind of state.

    ``states`` maps the name of each strategy to the result of ``engine.state()``; ``unit`` is rows or bytes.
    Raises Error for any other unit or input.
    """
    drawn = bars(states, unit)
    title = title or f"{unit.capitalize()} held"
    if not drawn:
        return nothing(title, "No engine was passed.")
    words = [title, *(f"  {b.name}: {_sum(b, unit)}" for b in drawn)]
    return Picture("\n".join(words), *(_draw(drawn, unit, title, room) for room in ROOMS))


def held_chart(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Chart:
    """Return `held` as a chart, which has a plotly figure and the picture. Raises the same errors as `held`."""
    import plotly.graph_objects as go

    drawn = bars(states, unit)
    title = title or f"{unit.capitalize()} held"
    figure = go.Figure()
    for kind in dict.fromkeys([*MEANING, *(k for b in drawn for k, _ in b.parts)]):
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
            marker={"color": FILL.get(kind, MIDDLE), "line": {"width": 1, "color": LIGHT["frame"]}},
            textfont={"color": LIGHT["ink" if kind == "base" else "badge"], "size": 13},
            hovertemplate=f"%{{y}}: %{{x:,}} {unit}<extra>{MEANING.get(kind, kind)}</extra>",
        )
    figure.update_layout(_horizontal(title, unit, 150 + 56 * len(drawn)))
    return Chart(figure, held(states, unit, title))


def by_operator(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Picture:
    """Return a picture with one bar for each operator of each strategy. Raises the same errors as `held`."""
    groups = {str(name): operator_bars(state, unit) for name, state in _checked(states).items()}
    title = title or f"{unit.capitalize()} held by each operator"
    if not any(groups.values()):
        return nothing(title, "None of the operators stores state.")
    words = [title]
    for name, found in groups.items():
        words += [f"  {name}:", *(f"    {p.name} ({MEANING.get(p.kind, p.kind)}): {p.amount:,} {unit}" for p in found)]
    return Picture("\n".join(words), *(_draw_operators(groups, unit, title, room) for room in ROOMS))


def operators_chart(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Chart:
    """Return `by_operator` as a chart, which has a plotly figure and the picture. Raises the same errors as `held`."""
    import plotly.graph_objects as go

    picture = by_operator(states, unit, title)
    title = title or f"{unit.capitalize()} held by each operator"
    figure = go.Figure()
    every = [(str(name), p) for name, state in states.items() for p in operator_bars(state, unit)]
    for kind in dict.fromkeys(p.kind for _, p in every):
        of_kind = [(name, p) for name, p in every if p.kind == kind]
        figure.add_bar(
            name=MEANING.get(kind, kind),
            y=[f"{name} · {p.name}" for name, p in of_kind],
            x=[p.amount for _, p in of_kind],
            orientation="h",
            marker={"color": FILL.get(kind, TONES["frame"]), "line": {"width": 1, "color": LIGHT["frame"]}},
            hovertemplate=f"%{{x:,}} {unit}<extra>{MEANING.get(kind, kind)}</extra>",
        )
    names = [f"{name} · {p.name}" for name, p in every]
    figure.update_layout(_horizontal(title, unit, 150 + 24 * len(every), categoryorder="array", categoryarray=names))
    return Chart(figure, picture)


def bars(states: Mapping[str, pd.DataFrame], unit: str = "rows") -> list[Bar]:
    """Return the sums of each state table by kind; all base tables are one kind. Raises the same errors as `held`."""
    _check_unit(unit)
    out = []
    for name, table in _checked(states).items():
        sums = table.groupby(_kinds(table))[unit].sum()
        known = [k for k in MEANING if k in sums.index]
        others = [str(k) for k in sums.index if k not in MEANING]
        out.append(Bar(str(name), [(k, int(sums[k])) for k in [*known, *others]]))
    return out


def operator_bars(state: pd.DataFrame, unit: str) -> list[OperatorBar]:
    """Return one bar for each row of a state table. Raises Error for an unknown unit.

    If there are more than `MOST` rows, the smallest ones are summed in the last bar.
    """
    _check_unit(unit)
    rows = zip(state["operator"], _kinds(state), state[unit], strict=True)
    found = [OperatorBar(str(o), str(k), int(n)) for o, k, n in rows]
    if len(found) <= MOST:
        return found
    kept = sorted(range(len(found)), key=lambda i: (-found[i].amount, i))[: MOST - 1]
    rest = [p for i, p in enumerate(found) if i not in kept]
    shown = [found[i] for i in sorted(kept)]
    return [*shown, OperatorBar(f"{len(rest)} more", "other", sum(p.amount for p in rest))]


def _check_unit(unit: str) -> None:
    if unit not in UNITS:
        raise Error(f"unit {unit!r}: state can be counted in {' or '.join(UNITS)}; pass one of these")


def _checked(states: Any) -> Mapping[str, pd.DataFrame]:
    for name, table in mapped(states, "result of state()").items():
        if not isinstance(table, pd.DataFrame) or not set(COLUMNS) <= set(table.columns):
            raise Error(f"{name}: {type(table).__name__} is not a state table; pass the unchanged result of state()")
    return dict(states)


def _kinds(state: pd.DataFrame) -> pd.Series[Any]:
    """Return the kind of each row. It is ``base`` for a base table, even if the table is an arrangement."""
    return state["kind"].where(~state["base"].astype(bool), "base")


def _horizontal(title: str, unit: str, height: int, **vertical: Any) -> dict[str, Any]:
    across = {"title": {"text": f"{unit} held", "standoff": 6, "font": {"size": 13}}, "gridcolor": GRID}
    return layout(
        title,
        height,
        barmode="stack",
        # Otherwise, plotly would shrink a number until it fits into its bar. A hidden number still appears on hover.
        uniformtext={"minsize": LEAST, "mode": "hide"},
        xaxis=across | {"zeroline": False, "rangemode": "tozero", "tickformat": ","},
        yaxis={"autorange": "reversed", "automargin": True, **vertical},
    )


def _sum(bar: Bar, unit: str) -> str:
    parts = ", ".join(f"{MEANING.get(k, k)} {n:,}" for k, n in bar.parts if k != "base" and n)
    return f"base tables {bar.base:,} {unit}, own state {bar.own:,} {unit}" + (f" ({parts})" if parts else "")


def _draw(drawn: list[Bar], unit: str, title: str, room: float) -> Drawing:
    left = MARGIN + min(max((width(b.name, 13, bold=True) for b in drawn), default=0), 150) + 16
    most = max((b.base + b.own for b in drawn), default=0) or 1
    scale = (room - MARGIN - left - 8) / most
    body = [heading(title, room)]
    y = 50.0
    for bar in drawn:
        name = fit(bar.name, left - MARGIN - 12, 13, bold=True)
        body.append(text((MARGIN, y + 18), name, kind="b", size=13, tip=bar.name))
        x = left
        for kind, n in bar.parts:
            body.append(_part(x, y, n * scale, kind, f"{n:,}") if n else "")
            x += n * scale
        line = f"own state {bar.own:,} {unit} · base {bar.base:,} {unit}"
        body.append(text((left, y + BAR + 15), line, kind="m"))
        y += PITCH
    kinds = [k for k in MEANING if any(k == kind and n for b in drawn for kind, n in b.parts)]
    legend, lines = _legend(kinds, left, y + 4, room)
    return Drawing(room, y + 20 * lines + MARGIN, "".join([*body, legend]))


def _draw_operators(groups: Mapping[str, Sequence[OperatorBar]], unit: str, title: str, room: float) -> Drawing:
    every = [p for found in groups.values() for p in found]
    left = MARGIN + min(max(width(p.name, mono=True) for p in every), room * NAMES) + 12
    numbers = max(width(f"{p.amount:,} {unit}") for p in every) + 10
    scale = (room - MARGIN - left - numbers) / (max(p.amount for p in every) or 1)
    body = [heading(title, room)]
    y = 44.0
    for name, found in groups.items():
        own = f"own state {sum(p.amount for p in found if p.kind != 'base'):,} {unit}"
        shown = fit(name, room - 2 * MARGIN - width(own) - 16, 13, True)
        body.append(text((MARGIN, y + 14), shown, kind="b", size=13, tip=name))
        body.append(text((MARGIN + width(shown, 13, True) + 12, y + 14), own, kind="m"))
        y += 24
        for part in found:
            label = fit(part.name, left - MARGIN - 8, mono=True)
            body.append(text((MARGIN, y + 13), label, kind="mono", tip=part.name))
            fill, stroke = ("panel", "frame") if part.kind == "base" else (KINDS.get(part.kind, "frame"), "page")
            long = part.amount * scale
            body.append(rect(left, y + 2, long, THIN, fill=fill, stroke=stroke) if part.amount else "")
            body.append(text((left + long + 6, y + 13), f"{part.amount:,} {unit}", kind="m"))
            y += THIN_PITCH
        y += 10
    legend, lines = _legend([k for k in MEANING if any(p.kind == k for p in every)], MARGIN, y + 2, room)
    return Drawing(room, y + 20 * lines + MARGIN, "".join([*body, legend]))


def _part(x: float, y: float, wide: float, kind: str, number: str) -> str:
    base = kind == "base"
    fill, stroke = ("panel", "frame") if base else (KINDS.get(kind, "frame"), "page")
    out = rect(x, y, wide, BAR, fill=fill, stroke=stroke)
    if width(number, bold=True) + 6 <= wide:
        out += text((x + wide / 2, y + 17), number, kind="b", anchor="middle", fill="ink" if base else "badge")
    return out


def _legend(kinds: Sequence[str], left: float, y: float, room: float) -> tuple[str, int]:
    """Return the SVG of a legend for some kinds of state, with its top at ``y``, and its number of lines."""
    out, x, lines = "", left, 1
    for kind in kinds:
        wide = 18 + width(MEANING[kind])
        if x > left and x + wide > room - MARGIN:
            x, y, lines = left, y + 20, lines + 1
        fill, stroke = ("panel", "frame") if kind == "base" else (KINDS[kind], "page")
        out += rect(x, y, 12, 12, fill=fill, stroke=stroke) + text((x + 18, y + 10), MEANING[kind], kind="m")
        x += wide + 20
    return out, lines
