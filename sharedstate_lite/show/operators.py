"""Which operator holds how much: one bar for each piece of state, in the colour of its kind.

Takes the tables that ``engine.state()`` returns, one for each name. Bars stand under
their engine's name, longest scale shared, each with its number; what is past
:data:`MOST` bars of an engine is added up in one line, never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from ..errors import Error
from .bars import MEANING, UNITS, legend, legend_rows, tables
from .lines import ROOMS, nothing
from .palette import KINDS
from .svg import Drawing, Picture, rect, text
from .text import fit, width

MOST = 12
MARGIN, PITCH, BAR = 14.0, 24.0, 15.0
NAMES = 0.34
"""The share of the room for operators' names, at most."""


@dataclass(frozen=True)
class Part:
    """One operator's state; ``more`` counts the operators that a line adds up."""

    name: str
    kind: str
    amount: int
    more: int = 0


def parts(state: pd.DataFrame, unit: str) -> list[Part]:
    """A state table's lines, largest kept where there are too many. Raises Error for another unit."""
    if unit not in UNITS:
        raise Error(f"unit {unit!r}: state is counted in {' or '.join(UNITS)}")
    kinds = state["kind"].where(~state["base"].astype(bool), "base")
    found = [Part(str(o), str(k), int(n)) for o, k, n in zip(state["operator"], kinds, state[unit], strict=True)]
    if len(found) <= MOST:
        return found
    kept = sorted(range(len(found)), key=lambda i: (-found[i].amount, i))[: MOST - 1]
    rest = [p for i, p in enumerate(found) if i not in kept]
    shown = [found[i] for i in sorted(kept)]
    return [*shown, Part(f"{len(rest)} more", "other", sum(p.amount for p in rest), len(rest))]


def by_operator(states: Mapping[str, pd.DataFrame], unit: str = "rows", title: str = "") -> Picture:
    """The bars as a picture; ``states`` maps a name to what ``engine.state()`` returned."""
    groups = {str(name): parts(state, unit) for name, state in tables(states).items()}
    title = title or f"{unit.capitalize()} held by each operator"
    if not any(groups.values()):
        return nothing(title, "No operator holds state here.")
    words = [title]
    for name, found in groups.items():
        words += [f"  {name}:", *(f"    {p.name} ({MEANING.get(p.kind, p.kind)}): {p.amount:,} {unit}" for p in found)]
    return Picture("\n".join(words), *(_draw(groups, unit, title, room) for room in ROOMS))


def _draw(groups: Mapping[str, list[Part]], unit: str, title: str, room: float) -> Drawing:
    every = [p for found in groups.values() for p in found]
    left = MARGIN + min(max(width(p.name, mono=True) for p in every), room * NAMES) + 12
    numbers = max(width(f"{p.amount:,} {unit}") for p in every) + 10
    scale = (room - MARGIN - left - numbers) / (max(p.amount for p in every) or 1)
    body = [text((MARGIN, 22), fit(title, room - 2 * MARGIN, 14, True), kind="b", size=14, tip=title)]
    body.append(rect(0, 33, room, 1, fill="hairline"))
    y = 44.0
    for name, found in groups.items():
        own = sum(p.amount for p in found if p.kind != "base")
        said = f"own state {own:,} {unit}"
        heading = fit(name, room - 2 * MARGIN - width(said) - 16, 13, True)
        body.append(text((MARGIN, y + 14), heading, kind="b", size=13, tip=name))
        body.append(text((MARGIN + width(heading, 13, True) + 12, y + 14), said, kind="m"))
        y += 24
        for part in found:
            label = fit(part.name, left - MARGIN - 8, mono=True)
            body.append(text((MARGIN, y + 13), label, kind="mono", tip=part.name))
            fill, stroke = ("panel", "frame") if part.kind == "base" else (KINDS.get(part.kind, "frame"), "page")
            long = part.amount * scale
            body.append(rect(left, y + 2, long, BAR, fill=fill, stroke=stroke) if part.amount else "")
            body.append(text((left + long + 6, y + 13), f"{part.amount:,} {unit}", kind="m"))
            y += PITCH
        y += 10
    kinds = [k for k in MEANING if any(p.kind == k for p in every)]
    body.append(legend(kinds, MARGIN, y + 2, room))
    return Drawing(room, y + 20 * legend_rows(kinds, MARGIN, room) + MARGIN, "".join(body))
