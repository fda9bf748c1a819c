"""Who holds how much: one bar a strategy, its parts the kinds of state, with numbers and a unit.

Takes the tables that ``engine.state()`` returns, one for each name, and nothing else of
an engine. Base tables are drawn in outline, since every strategy keeps them; what comes
on top of them is filled. Parts too narrow for their number have it in the line below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..errors import Error
from .lines import nothing
from .palette import KINDS
from .series import mapped
from .svg import Drawing, Picture, rect, text
from .text import fit, width

ROOMS = (800.0, 480.0)
MARGIN = 14.0
BAR, PITCH = 26.0, 56.0
ORDER = ["base", "join", "aggregate", "arrangement", "reader"]
MEANING = {
    "base": "base tables",
    "join": "join state",
    "aggregate": "aggregate state",
    "arrangement": "arrangement",
    "reader": "view's rows",
}
UNITS = ("rows", "bytes")
COLUMNS = ("operator", "kind", "base", *UNITS)


@dataclass(frozen=True)
class Bar:
    """One strategy: how much of each kind, base tables first."""

    name: str
    parts: list[tuple[str, int]]

    @property
    def base(self) -> int:
        """What the base tables hold."""
        return sum(n for kind, n in self.parts if kind == "base")

    @property
    def own(self) -> int:
        """What is held beside the base tables."""
        return sum(n for kind, n in self.parts if kind != "base")


def bars(states: Mapping[str, pd.DataFrame], unit: str = "rows") -> list[Bar]:
    """Sums by kind of each table; a base table is of kind base, however it is kept. Raises Error for another unit."""
    if unit not in UNITS:
        raise Error(f"unit {unit!r}: state is counted in {' or '.join(UNITS)}")
    out = []
    for name, table in tables(states).items():
        kinds = table["kind"].where(~table["base"].astype(bool), "base")
        sums = table.groupby(kinds)[unit].sum()
        known = [k for k in ORDER if k in sums.index]
        others = [str(k) for k in sums.index if k not in ORDER]
        out.append(Bar(str(name), [(k, int(sums[k])) for k in [*known, *others]]))
    return out


def tables(states: Any) -> Mapping[str, pd.DataFrame]:
    """State tables by name. Raises Error for what is none."""
    for name, table in mapped(states, "what state() returned").items():
        if not isinstance(table, pd.DataFrame) or not set(COLUMNS) <= set(table.columns):
            raise Error(f"{name}: {type(table).__name__} is no state; give what state() returned, unchanged")
    return dict(states)


def held(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Picture:
    """The bars as a picture; ``states`` maps a name to what ``engine.state()`` returned."""
    drawn = bars(states, unit)
    title = title or f"{unit.capitalize()} held"
    if not drawn:
        return nothing(title, "No engine was given.")
    words = [title, *(f"  {b.name}: {_sum(b, unit)}" for b in drawn)]
    return Picture("\n".join(words), *(_draw(drawn, unit, title, room) for room in ROOMS))


def _sum(bar: Bar, unit: str) -> str:
    parts = ", ".join(f"{MEANING.get(k, k)} {n:,}" for k, n in bar.parts if k != "base" and n)
    return f"base tables {bar.base:,} {unit}, own state {bar.own:,} {unit}" + (f" ({parts})" if parts else "")


def _draw(drawn: list[Bar], unit: str, title: str, room: float) -> Drawing:
    left = MARGIN + min(max((width(b.name, 13, bold=True) for b in drawn), default=0), 150) + 16
    most = max((b.base + b.own for b in drawn), default=0) or 1
    scale = (room - MARGIN - left - 8) / most
    body = [text((MARGIN, 22), title, kind="b", size=14), rect(0, 33, room, 1, fill="hairline")]
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
    kinds = [k for k in ORDER if any(k == kind and n for b in drawn for kind, n in b.parts)]
    body.append(legend(kinds, left, y + 4, room))
    rows = legend_rows(kinds, left, room)
    return Drawing(room, y + 20 * rows + MARGIN, "".join(body))


def _part(x: float, y: float, wide: float, kind: str, number: str) -> str:
    base = kind == "base"
    fill, stroke = ("panel", "frame") if base else (KINDS.get(kind, "frame"), "page")
    out = rect(x, y, wide, BAR, fill=fill, stroke=stroke)
    if width(number, bold=True) + 6 <= wide:
        out += text((x + wide / 2, y + 17), number, kind="b", anchor="middle", fill="ink" if base else "badge")
    return out


def _entry(kind: str) -> float:
    return 18 + width(MEANING[kind]) + 20


def legend_rows(kinds: list[str], left: float, room: float) -> int:
    """How many lines a legend of these kinds takes."""
    rows, x = 1, left
    for kind in kinds:
        if x > left and x + _entry(kind) - 20 > room - MARGIN:
            rows, x = rows + 1, left
        x += _entry(kind)
    return rows


def legend(kinds: list[str], left: float, y: float, room: float) -> str:
    """What the colours of kinds of state mean, from the height ``y`` on."""
    out, x = "", left
    for kind in kinds:
        if x > left and x + _entry(kind) - 20 > room - MARGIN:
            x, y = left, y + 20
        fill, stroke = ("panel", "frame") if kind == "base" else (KINDS[kind], "page")
        out += rect(x, y, 12, 12, fill=fill, stroke=stroke) + text((x + 18, y + 10), MEANING[kind], kind="m")
        x += _entry(kind)
    return out
