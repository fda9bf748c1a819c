"""Draws bins as tiles: which worker owns each bin, under one or several plans, and which bins have moved.

>>> from sharedstate_lite import show
>>> before = [0, 1, 0, 1]
>>> show.tiles({"before": before, "modulo": [0, 1, 2, 0]}, before={"modulo": before}, title="4 bins")
4 bins
  before: worker 0 owns 2, worker 1 owns 2
  modulo: 2 of 4 bins move; worker 0 owns 2, worker 1 owns 1, worker 2 owns 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..errors import Error
from .chart import HUES
from .stepper.glyphs import disc
from .svg import Drawing, Picture, rect, text
from .text import width

ROOMS = (760.0, 520.0)
ACROSS, PITCH, MARGIN, GAP = 16, 12.0, 14.0, 34.0
"""Tiles in a line, px from tile to tile, and px around and between the panels."""


def tiles(
    panels: Mapping[str, Sequence[int]], before: Mapping[str, Sequence[int]] | None = None, title: str = ""
) -> Picture:
    """Return a picture with a panel for each name, and a tile for each bin in the colour of the worker that owns it.

    ``panels`` maps a name to the owner of each bin, and ``before`` to the owners before. A tile has a dot if its owner
    was another one. Raises Error if there are more than 6 workers, or if the numbers of bins differ.
    """
    workers = sorted({owner for owners in panels.values() for owner in owners})
    if workers and not 0 <= workers[0] <= workers[-1] < len(HUES):
        raise Error(f"workers {workers} cannot all be drawn; number them from 0 to {len(HUES) - 1}")
    moved: dict[str, set[int]] = {}
    for name, old in (before or {}).items():
        if len(old) != len(panels[name]):
            raise Error(f"{name}: {len(panels[name])} bins cannot be compared with {len(old)} before")
        moved[name] = {
            number for number, owners in enumerate(zip(old, panels[name], strict=True)) if len({*owners}) > 1
        }
    lines = [title or "Bins"]
    for name, owners in panels.items():
        many = f"{len(moved[name])} of {len(owners)} bins move; " if name in moved else ""
        lines.append(
            f"  {name}: {many}" + ", ".join(f"worker {w} owns {n}" for w, n in sorted(Counter(owners).items()))
        )
    return Picture("\n".join(lines), *(_draw(panels, moved, workers, title, room) for room in ROOMS))


def _draw(
    panels: Mapping[str, Sequence[int]],
    moved: Mapping[str, set[int]],
    workers: Sequence[int],
    title: str,
    room: float,
) -> Drawing:
    out, x, y, high = [text((MARGIN, 22), title, kind="b", size=14)], MARGIN, MARGIN + (28 if title else 0), 0.0
    side = ACROSS * PITCH
    for name, owners in panels.items():
        if x + side > room:
            x, y, high = MARGIN, y + high + 20, 0.0
        out.append(text((x, y + 12), name, kind="b"))
        if name in moved:
            many = f"{len(moved[name])} of {len(owners)} move"
            out.append(text((x + side, y + 12), many, kind="m", anchor="end"))
        for number, owner in enumerate(owners):
            at = x + number % ACROSS * PITCH, y + 20 + number // ACROSS * PITCH
            out.append(rect(*at, PITCH - 1, PITCH - 1, fill=HUES[owner]))
            if number in moved.get(name, ()):
                out.append(disc(at[0] + (PITCH - 1) / 2, at[1] + (PITCH - 1) / 2, 2.5, "page"))
        high = max(high, 20 + -(-len(owners) // ACROSS) * PITCH)
        x += side + GAP
    x, y = MARGIN, y + high + 22
    for worker in workers:
        out += [rect(x, y - 10, 11, 11, fill=HUES[worker]), text((x + 17, y), f"worker {worker}", kind="m")]
        x += 33 + width(f"worker {worker}")
    if moved:
        out += [rect(x, y - 10, 11, 11, fill="muted"), disc(x + 5.5, y - 4.5, 2.5, "page")]
        out.append(text((x + 17, y), "has moved", kind="m"))
    wide = max(
        room if len(panels) > 2 else 2 * MARGIN + len(panels) * (side + GAP) - GAP, width(title, 14, bold=True) + 28
    )
    return Drawing(min(wide, room), y + MARGIN, "".join(out))


__all__ = ["tiles"]
