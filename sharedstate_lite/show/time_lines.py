"""Draws what several calls do over time: a line for each, with light bars where it waits and dark ones where it works.

>>> from sharedstate_lite import show
>>> show.time_lines({"one loop": [[(0, 40, "wait"), (40, 48, "work")]]}, "ms", "A call")
A call (ms)
  one loop, 1: wait 0 to 40, work 40 to 48
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .chart import written
from .svg import Drawing, Picture, line, rect, text
from .text import width

_FILLS = {"wait": "inserted-tint", "work": "inserted"}
_WIDE, _LEFT, _TOP, _PITCH, _TICKS = 668.0, 30.0, 52.0, 13.0, 6
Bar = tuple[float, float, str]
"""When it begins and ends, and whether it is ``wait`` or ``work``."""


def time_lines(panels: Mapping[str, Sequence[Sequence[Bar]]], unit: str, title: str) -> Picture:
    """Return a picture with a panel for each name, and in it a line for each sequence of bars, all on one time axis."""
    words, out, y = [f"{title} ({unit})"], [text((14, 22), title, kind="b", size=14)], _TOP
    end = max(bar[1] for lines in panels.values() for bars in lines for bar in bars)
    scale = (_WIDE - _LEFT - 20) / end
    out += _legend(40.0 + width(title, 14, True))
    for name, lines in panels.items():
        out.append(text((14, y), name, kind="b"))
        for n, bars in enumerate(lines, 1):
            top = y + 8 + _PITCH * (n - 1)
            for start, stop, kind in bars:
                at, wide = _LEFT + scale * start, scale * (stop - start)
                out.append(rect(at, top, wide, _PITCH - 3, fill=_FILLS[kind], stroke="inserted"))
            told = ", ".join(f"{kind} {written(start)} to {written(stop)}" for start, stop, kind in bars)
            words.append(f"  {name}, {n}: {told}")
        y += 36 + _PITCH * len(lines)
    y -= 22
    out.append(line([(_LEFT, y), (_WIDE - 20, y)], "frame"))
    size = 10 ** math.floor(math.log10(end / _TICKS))
    step = next(each * size for each in (1, 2, 5, 10) if each * size * _TICKS >= end)
    for n in range(int(end / step) + 1):
        at, label = _LEFT + scale * step * n, written(step * n) if n else unit
        out += [line([(at, y), (at, y + 4)], "frame"), text((at, y + 18), label, kind="m", anchor="middle")]
    return Picture("\n".join(words), Drawing(_WIDE, y + 28, "".join(out)))


def _legend(x: float) -> list[str]:
    out = []
    for kind, label in {"wait": "waits for the database", "work": "works on the answer"}.items():
        out += [rect(x, 12, 14, 10, fill=_FILLS[kind], stroke="inserted"), text((x + 20, 22), label, kind="m")]
        x += 40 + width(label)
    return out


__all__ = ["Bar", "time_lines"]
