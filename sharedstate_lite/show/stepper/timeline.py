"""Draws the slider below the picture: the messages from left to right, a dot for each step, and a fork.

All positions are computed here; the widget only moves the mark between them. The width of a message is proportional to
its number of steps. Dots that would be less than 7 px apart are left out. A label that does not fit shrinks to a number
or is left out. The messages of a fork are below those of its parent, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...replay.messages import Epoch
from ...replay.recording import Recording
from ..palette import colour
from ..svg import line, number, text
from ..text import fit, width
from .glyphs import shape

SIDE, PITCH = 10.0, 7.0
LABELS, TRACK, FORK = 14.0, 30.0, 24.0
UNDER = 20.0
"""The distance from a line to the text below it, in px. It leaves room for the mark."""
AGAINST = ("upquery", "response")
"""The kinds of steps that go against the stream, or answer such a step."""


@dataclass(frozen=True)
class TimelineRow:
    """One history on the slider: its recording, and the message at which it forked, or 0 if it is not a fork."""

    recording: Recording
    left_at: int = 0
    words: str = ""


@dataclass(frozen=True)
class Timeline:
    """The drawn slider: for each row, the x of its steps from step 0 on (``xs``), and its y (``ys``)."""

    width: float
    height: float
    body: str
    xs: list[list[float]]
    ys: list[float]
    begins: list[float]
    """The x at which each row branches off from the one above it."""

    @property
    def svg(self) -> str:
        """The picture, without the mark of the current step."""
        w, h = number(self.width), number(self.height)
        return f'<svg class="ssl" aria-hidden="true" width="{w}" height="{h}" viewBox="0 0 {w} {h}">{self.body}</svg>'


def timeline(rows: Sequence[TimelineRow], wide: float, others: int = 0) -> Timeline:
    """Return the slider for a history and at most one of its forks. ``others`` is the number of forks not drawn."""
    slots = max(len(r.recording.messages) for r in rows)
    weight = [
        max((_steps(r.recording, n) for r in rows if n < len(r.recording.messages)), default=1) for n in range(slots)
    ]
    unit = (wide - 2 * SIDE) / max(sum(weight), 1)
    lefts = [SIDE + unit * sum(weight[:n]) for n in range(slots + 1)]
    out, xs, ys, begins = [], [], [], []
    for at, row in enumerate(rows):
        y = TRACK + FORK * at
        ys.append(y)
        xs.append(_places(row.recording, lefts))
        begins.append(lefts[min(max(row.left_at - 1, 0), len(row.recording.messages))] if at else lefts[0])
        out.append(_track(row, y, lefts, xs[-1], wide, at))
    out.append(_labels(rows[0].recording, lefts))
    if others:
        words = f"+{others} more"
        out.append(text((wide - SIDE, ys[-1] + UNDER), words, kind="m", anchor="end"))
    return Timeline(wide, ys[-1] + (UNDER + 7 if others or len(rows) > 1 else 12), "".join(out), xs, ys, begins)


def _steps(recording: Recording, at: int) -> int:
    message = recording.messages[at]
    return max(message.last - message.first + 1, 1)


def _places(recording: Recording, lefts: Sequence[float]) -> list[float]:
    """Return the x of every step, starting with step 0."""
    out = [lefts[0]]
    for n, message in enumerate(recording.messages):
        count = message.last - message.first + 1
        step = (lefts[n + 1] - lefts[n]) / max(count, 1)
        out += [lefts[n] + step * (k + 0.5) for k in range(count)]
    return out


def _track(row: TimelineRow, y: float, lefts: Sequence[float], xs: Sequence[float], wide: float, at: int) -> str:
    recording, fork = row.recording, at > 0
    last = len(recording.messages)
    first = max(row.left_at - 1, 0) if fork else 0
    begin, end = lefts[min(first, last)], lefts[last]
    out = []
    if fork:
        up = y - FORK
        path = f"M{number(begin)} {number(up)}Q{number(begin)} {number(y)} {number(begin + 10)} {number(y)}"
        out.append(f'<path d="{path}" fill="none" stroke="{colour("frame")}"/>')
        begin += 10
        beside = begin - 26 - SIDE
        if width(row.words) <= beside:
            out.append(text((begin - 16, y + 4), row.words, kind="m", anchor="end"))
        elif beside > wide / 3:
            out.append(text((begin - 16, y + 4), fit(row.words, beside), kind="m", anchor="end", tip=row.words))
        else:
            out.append(text((begin, y + UNDER), fit(row.words, wide - begin - 90), kind="m", tip=row.words))
    out.append(line([(begin, y), (max(end, begin), y)], "frame"))
    for x in lefts[first : last + 1] if not fork else [end]:
        out.append(line([(x, y - 6), (x, y + 6)], "frame"))
    dots = [(x, s) for x, s in zip(xs[1:], recording.steps, strict=True) if x > begin]
    close = any(b[0] - a[0] < PITCH for a, b in zip(dots, dots[1:], strict=False))
    marks = []
    for x, step in [] if close else dots:
        if step.kind in AGAINST:
            path = f"M{number(x - 4)} {number(y)}L{number(x + 3)} {number(y - 4)}V{number(y + 4)}Z"
            marks.append(shape(path, "page", "frame"))
        else:
            where = f'cx="{number(x)}" cy="{number(y)}"'
            marks.append(f'<circle {where} r="2.6" fill="{colour("page")}" stroke="{colour("frame")}"/>')
    return (
        "".join(out) + f'<g class="dots" data-row="{at}" data-from="{recording.last - len(dots)}">{"".join(marks)}</g>'
    )


def _labels(recording: Recording, lefts: Sequence[float]) -> str:
    out, free = [], 0.0
    for n, message in enumerate(recording.messages):
        whole = f"epoch {message.epoch}" if isinstance(message.message, Epoch) else message.text.split(" ")[0]
        room = lefts[n + 1] - lefts[n] - 6
        short = str(message.epoch) if isinstance(message.message, Epoch) else ""
        words = whole if width(whole, bold=True) <= room else short
        long = width(words, bold=True)
        x = (lefts[n] + lefts[n + 1]) / 2
        if words and long <= room and x - long / 2 > free:
            free = x + long / 2 + 3
            label = text((x, LABELS), words, kind="m", anchor="middle")
            out.append(f'<g data-message="{message.number}">{label}</g>')
    return "".join(out)


__all__ = ["TimelineRow", "Timeline", "timeline"]
