"""Draws the entries of an arrangement on a time axis: when each row was there, and which epochs can be read.

Each row has a line. A plus or minus marks a stored entry, and a bar shows in which epochs the row is there. A read at
an epoch finds the rows whose bars cross that epoch.

>>> banana = ("Banana", "Alice", 40)
>>> lifetimes([(banana, 8, +1), (banana, 10, -1)], upper=11)
Entries by epoch
  Banana Alice 40: +1 at 8, -1 at 10
  upper 11
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .stepper.glyphs import disc, minus, plus
from .svg import Drawing, Picture, line, rect, text
from .text import fit, width

ROOMS = (760.0, 520.0)
PITCH, MARGIN = 24.0, 14.0
LABEL = 190.0
"""The largest width of a row's label in px."""

Entry = tuple[tuple[Any, ...], int, int]


def lifetimes(
    entries: Iterable[Entry],
    *,
    upper: int,
    since: int | None = None,
    at: int | None = None,
    title: str = "",
    across: str = "epoch",
    hits: Iterable[tuple[tuple[Any, ...], int]] = (),
) -> Picture:
    """Return a picture of entries, given as (row, time, diff).

    The axis ends at ``upper``. The epochs that can be read, from ``since`` to before ``upper``, are tinted. ``at``
    marks the epoch of a read. ``across`` names the axis if it counts something else than epochs; the rows are then in
    the order in which they are given. ``hits`` are (row, time), each marked by a disc.
    """
    given = list(entries)
    rows: dict[str, list[tuple[int, int]]] = {}
    for row, time, diff in given if across != "epoch" else sorted(given, key=lambda e: e[1]):
        rows.setdefault(" ".join(map(str, row)), []).append((time, diff))
    found_at: dict[str, list[int]] = {name: [] for name in rows}
    for row, time in hits:
        found_at[" ".join(map(str, row))].append(time)
    lines = []
    for name, changes in rows.items():
        hit = f"; hits at {', '.join(map(str, found_at[name]))}" if found_at[name] else ""
        lines.append(f"  {name}: " + ", ".join(f"{d:+d} at {t}" for t, d in changes) + hit)
    frontiers = ([] if since is None else [f"since {since}"]) + [f"upper {upper}" if across == "epoch" else across]
    words = "\n".join([title or f"Entries by {across}", *lines, "  " + ", ".join(frontiers)])
    return Picture(words, *(_draw(rows, found_at, upper, since, at, title, across, wide) for wide in ROOMS))


def _draw(
    rows: dict[str, list[tuple[int, int]]],
    hits: dict[str, list[int]],
    upper: int,
    since: int | None,
    at: int | None,
    title: str,
    across: str,
    wide: float,
) -> Drawing:
    left = MARGIN + min(max(map(width, rows), default=0), LABEL) + 16
    top = MARGIN + (28 if title else 0) + (16 if since is not None or at is not None else 0)
    bottom = top + PITCH * len(rows)
    step = (wide - left - 2 * MARGIN - 24) / upper
    x = {epoch: left + step * (epoch - 0.5) for epoch in range(1, upper + 1)}
    out = [text((MARGIN, 22), title, kind="b", size=14)]
    if since is not None:
        out.append(rect(x[since], top, x[upper] - x[since], bottom - top, fill="handle-tint"))
        out.append(line([(x[since], top), (x[since], bottom)], "handle", wide=2))
        label = f"since {since}"
        out.append(text((x[since], top - 5), label, kind="b", anchor="middle", fill="handle"))
        if since > 2:
            out.append(text((x[since] - width(label, bold=True), top - 5), "cannot be read", kind="m", anchor="end"))
    for n, (name, found) in enumerate(rows.items()):
        y = top + PITCH * (n + 0.5)
        out.append(text((left - 16, y + 4), fit(name, LABEL), anchor="end", tip=name))
        out += _bars(found, upper, x, y)
        out += [(plus if diff > 0 else minus)(x[time], y, 5) for time, diff in found]
        out += [disc(x[time], y, 5, "upquery") for time in hits[name]]
    if at is not None:
        out.append(line([(x[at], top), (x[at], bottom)], "ink", wide=1.5, dashes="4 3"))
        out.append(text((x[at], top - 5), f"read at {at}", kind="b", anchor="middle"))
    out.append(line([(left - 8, bottom), (x[upper] + 12, bottom)], "frame"))
    if across != "epoch":
        del x[upper]
    for epoch, place in x.items():
        out.append(line([(place, bottom), (place, bottom + 4)], "frame"))
        out.append(text((place, bottom + 17), str(epoch), kind="m", anchor="middle"))
    if across == "epoch":
        out.append(line([(x[upper], top), (x[upper], bottom)], "ink", wide=2))
        out.append(text((x[upper], bottom + 33), f"upper {upper}", kind="b", anchor="middle"))
    out.append(text((left - 16, bottom + 17), across, kind="m", anchor="end"))
    return Drawing(wide, bottom + 44, "".join(out))


def _bars(found: list[tuple[int, int]], upper: int, x: dict[int, float], y: float) -> list[str]:
    """Return a bar for each stretch of time in which the row is there at least once."""
    out, there = [], 0
    ends = [time for time, _ in found[1:]] + [upper]
    for (time, diff), end in zip(found, ends, strict=True):
        there += diff
        if there > 0 and end > time:
            out.append(rect(x[time], y - 5, x[end] - x[time], 10, fill="inserted-tint", stroke="inserted", radius=3))
    return out


__all__ = ["Entry", "lifetimes"]
