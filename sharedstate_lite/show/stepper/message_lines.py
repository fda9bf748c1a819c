"""Draws which operator sent which message to which operator, and when: a space-time diagram.

Each operator is a vertical lane, time runs downwards, and each message is a line from the step in which it was sent to
the step in which it was taken. A line stays at the height of its sending until the gap before its receiver. A lane that
it only passes is interrupted there. Two lines therefore cross in a gap exactly if the two messages pass its left and
its right side in different orders: one message overtakes the other, or they travel in opposite directions at the same
time.

>>> lanes = {"table": ("table", ""), "view": ("view", "")}
>>> question, change = MessageLine("view", "table", 1, 4, "? Potato"), MessageLine("table", "view", 2, 3, "+1 Potato")
>>> drawn = SpaceTime(lanes, [question, change])
>>> [(one, other) for one, other, _ in drawn.crossings(600)]
[(0, 1)]
>>> print(drawn)
view to table, sent at 1, taken at 4: ? Potato
table to view, sent at 2, taken at 3: +1 Potato

Source: Lamport, Time, Clocks, and the Ordering of Events in a Distributed System, CACM 1978.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import combinations, pairwise, product
from math import dist, inf

from ...errors import Error
from ..palette import colour
from ..svg import Drawing, Point, line, number, rect, text
from ..text import fit, width
from .chips import DROPPED, NOW, TALL, WAITS, Chip
from .glyphs import barrier, cross, disc

PITCH = 32.0
"""The distance between two steps in px. A chip fits between them."""
GUTTER, MARGIN = 44.0, 14.0
NEAREST, FARTHEST = 32.0, 240.0
"""The smallest and the largest distance between two lanes in px."""
_PAST = 0.15
"""Where a line bends behind a lane that it passes, as a fraction of the distance between two lanes."""
CLEAR = 12.0
"""The distance between a chip and a lane in px, which leaves room for an arrowhead."""
HEADING, NOTE = 110.0, 130.0
"""The width in px that is kept free for the first and the last title, and for notes beside the last lane."""
PLACES = [(part / 24, shift) for part in range(1, 24) for shift in (0.0, -0.3, 0.3)]
"""Where a chip can be: a fraction of a part of its line, and how far it is shifted, as a fraction of its width."""
BADGE = re.compile(r"([+−-]\d+|[+−-][IUD]|[?=±−0|-])(?: |$)")
BARRIER = "|"
"""The badge of a barrier, which is drawn as a bar across its line."""

LEGEND = {"?": "upquery", "=": "response", "−": "eviction", BARRIER: "barrier", "": ""}
"""The name of a message by its badge. Every other badge is that of a change."""

Area = tuple[float, float, float, float]


@dataclass(frozen=True)
class MessageLine:
    """A message from the lane ``source`` to the lane ``target``.

    ``sent`` and ``taken`` are times; ``taken`` is None if the message is still in flight. A ``text`` can begin with a
    badge, such as ``+1``, ``?`` for an upquery, ``=`` for its response, or ``|`` for a barrier. ``mark`` is '',
    ``dropped``, or words that are shown with the message, whose line is then drawn double.
    """

    source: str
    target: str
    sent: int
    taken: int | None = None
    text: str = ""
    mark: str = ""

    @property
    def dropped(self) -> bool:
        """Whether the receiver dropped the message, entirely or in part."""
        return self.mark.startswith("dropped")

    @cached_property
    def chip(self) -> Chip:
        """The badge and the text."""
        found = BADGE.match(self.text)
        rest = self.text[found.end() :] if found else self.text
        return Chip(found[1].replace("-", "−") if found else "", tuple(w for w in rest.split("  ") if w))

    @property
    def tone(self) -> str:
        """The colour of the line."""
        return {"?": "upquery", "=": "upquery", "−": "deleted", BARRIER: "ink", "": "handle"}.get(
            self.chip.badge, "muted"
        )

    def __str__(self) -> str:
        taken = "in flight" if self.taken is None else f"taken at {self.taken}"
        words = f"{self.text} ({self.mark})" if self.mark else self.text
        return f"{self.source} to {self.target}, sent at {self.sent}, {taken}: {words}".removesuffix(": ")


Crossing = tuple[int, int, Point]
"""The numbers of two lines, and the point where they cross."""


@dataclass(frozen=True)
class SpaceTime:
    """A space-time diagram.

    ``lanes`` maps each lane's name to its title and to the line below the title. ``events`` are the times at which an
    operator acts, as (lane, time). The ends of lines are also events, and so are ``notes``, which map events to words.
    What happened before ``begin`` is not drawn. ``unit`` is the label of the time axis. Raises Error if a line is not
    possible.
    """

    lanes: Mapping[str, tuple[str, str]]
    lines: Sequence[MessageLine]
    events: Collection[tuple[str, int]] = ()
    notes: Mapping[tuple[str, int], str] = field(default_factory=dict)
    begin: float = -inf
    unit: str = "step"

    def __post_init__(self) -> None:
        if not self.lanes:
            raise Error("there are no lanes to draw; give at least one lane or one message")
        ends = [name for m in self.lines for name in (m.source, m.target)]
        for name in [*ends, *(name for name, _ in [*self.events, *self.notes])]:
            if name not in self.lanes:
                raise Error(f"lane {name!r} does not exist; the lanes are {', '.join(self.lanes)}")
        for each in self.lines:
            if each.source == each.target:
                raise Error(f"a message from {each.source} to itself cannot be drawn; use two different lanes")
            if each.taken is not None and each.taken <= each.sent:
                raise Error(f"{each}: a message must be taken after it was sent")

    @cached_property
    def acts(self) -> list[tuple[int, str]]:
        """All events that are drawn, as (time, lane), by time."""
        ends = [(m.source, m.sent) for m in self.lines]
        ends += [(m.target, m.taken) for m in self.lines if m.taken is not None]
        return sorted((at, name) for name, at in {*self.events, *self.notes, *ends} if at >= self.begin)

    def draw(self, wide: float, title: str = "") -> Drawing:
        """Return the drawing for a width of ``wide`` px. It is narrower if the lanes do not need that width."""
        return _Drawn(self, wide, title).drawing()

    def crossings(self, wide: float) -> list[Crossing]:
        """Return the points where lines cross if the diagram is ``wide`` px wide."""
        return _Drawn(self, wide, "").crossings

    def __str__(self) -> str:
        return "\n".join(map(str, sorted(self.lines, key=lambda m: m.sent)))


class _Drawn:
    """A diagram that is laid out at one width."""

    def __init__(self, what: SpaceTime, wide: float, title: str) -> None:
        self.what, self.title = what, title
        names, last = list(what.lanes), list(what.lanes)[-1]
        heads = [max(width(t, bold=True), width(d)) for t, d in what.lanes.values()]
        noted = [words for (name, _), words in what.notes.items() if name == last]
        self.gutter = max(GUTTER, MARGIN + width(what.unit) + 6)
        left = self.gutter + max(8.0, min(heads[0], HEADING) / 2)
        right = MARGIN + max([min(heads[-1], HEADING) / 2, *(min(width(words), NOTE) + 8 for words in noted if words)])
        gap = (wide - left - right) / max(len(names) - 1, 1)
        self.gap = min(max(gap, NEAREST), FARTHEST)
        self.x = {name: left + self.gap * n for n, name in enumerate(names)}
        self.wide = max(self.x[last] + right, min(wide, width(title, 14, bold=True) + 2 * MARGIN))
        self.head = 24.0 if title else 0.0
        self.top = self.head + (46.0 if any(d for _, d in what.lanes.values()) else 30.0)
        self.y = {at: self.top + PITCH * (n + 0.5) for n, at in enumerate(dict(what.acts))}
        earlier = sorted({m.sent for m in what.lines} - set(self.y), reverse=True)
        self.earlier = {at: self.top - 3 * (n + 1) for n, at in enumerate(earlier)}
        self.end = self.top + PITCH * len(self.y)
        self.open = [n for n, m in enumerate(what.lines) if m.taken is None]
        self.open.sort(key=lambda n: what.lines[n].sent)
        self.bottom = self.end + 14 + 8 * len(self.open) if self.open else self.end
        self.paths = [self._path(n, m) for n, m in enumerate(what.lines)]
        self.crossings = list(self._crossings())
        self.notes = [self._note(name, at) for name, at in what.notes if at in self.y]

    def _path(self, number_: int, each: MessageLine) -> list[Point]:
        """Return the points of a line: level from the sender past the lane before the receiver, then down to it."""
        xs, names = list(self.x.values()), list(self.x)
        source, target = names.index(each.source), names.index(each.target)
        before = target - 1 if source < target else target + 1
        y = (self.y | self.earlier)[each.sent]
        if each.taken is None:
            # It ends near its receiver, below all rows, so that it crosses whatever is taken while it is in flight.
            end = (0.88 * xs[target] + 0.12 * xs[before], self.end + 10 + 8 * self.open.index(number_))
        else:
            end = (xs[target], self.y[each.taken])
        bend = (xs[before] + _PAST * (xs[target] - xs[before]), y)
        return [(xs[source], y), *([bend] if before != source else []), end]

    def _passed(self) -> Iterator[Point]:
        """Yield where a line passes a lane that neither sends nor takes its message."""
        for path in self.paths:
            (start, y), (end, _) = path[0], path[-1]
            yield from (
                (x, y) for x in self.x.values() if len(path) > 2 and min(start, end) + 1 < x < max(start, end) - 1
            )

    def _crossings(self) -> Iterator[Crossing]:
        for (one, a), (other, b) in combinations(enumerate(self.paths), 2):
            for first, second in product(pairwise(a), pairwise(b)):
                if (at := _meeting(*first, *second)) is not None:
                    yield one, other, at

    # --- drawing ------------------------------------------------------------------

    def drawing(self) -> Drawing:
        what = self.what
        out = [text((MARGIN, 20), fit(self.title, self.wide - 2 * MARGIN, 14, bold=True), kind="b", size=14)]
        out += [self._lane(name) for name in what.lanes]
        for x, y in self._passed():
            out.append(line([(x, y - 7), (x, y + 7)], "page", wide=3))
        out.append(text((MARGIN, self.top - 8), what.unit, kind="m"))
        for at, y in self.y.items():
            out.append(text((MARGIN + 28, y + 4), str(at), kind="m", anchor="end"))
        chips = self._chips()
        out += [self._line(n) for n in range(len(what.lines))]
        crashed = {event for event, words in what.notes.items() if words.startswith("crash")}
        for at, name in what.acts:
            place = self.x[name], self.y[at]
            out.append(cross(*place, 5) if (name, at) in crashed else disc(*place, 3.0))
        out += [text((area[0], area[3] - 4), words, kind="i") for words, area in self.notes]
        legend, high = self._legend()
        return Drawing(self.wide, self.bottom + high, "".join([*out, *chips, legend]))

    def _lane(self, name: str) -> str:
        x, y, (title, detail) = self.x[name], self.head + 16, self.what.lanes[name]
        room = min(self.gap - 8, 2 * (x - self.gutter), 2 * (self.wide - x - 4))
        said = text((x, y), fit(title, room, bold=True), kind="b", anchor="middle", tip=title)
        said += text((x, y + 15), fit(detail, room), kind="m", anchor="middle", tip=detail)
        return line([(x, self.top - 4), (x, self.bottom)], "hairline", wide=1.5) + said

    def _line(self, n: int) -> str:
        each, path = self.what.lines[n], self.paths[n]
        status, out = self._status(each), []
        tone, thick = ("frame", 1.4) if each.mark == "dropped" else (each.tone, 2.0 if status == NOW else 1.4)
        dashes = "5 3" if each.chip.badge == "?" or each.mark == "dropped" else ""
        double = bool(each.mark) and not each.dropped
        out.append(line(path, tone, wide=5 if double else thick, dashes=dashes))
        out += [line(path, "page", wide=2)] if double else []
        if each.taken is None:
            out.append(disc(*path[-1], 3.5, "page"))
        elif each.dropped:
            out.append(cross(*_tip(path, 9)))
        else:
            tip, back = _tip(path, 4), _tip(path, 12)
            dx, dy = (tip[0] - back[0]) * 0.45, (tip[1] - back[1]) * 0.45
            ends = [(back[0] - dy, back[1] + dx), tip, (back[0] + dy, back[1] - dx)]
            points = "L".join(f"{number(x)} {number(y)}" for x, y in ends)
            out.append(f'<path d="M{points}Z" fill="{colour(tone)}"/>')
        if each.chip.badge == BARRIER:
            out.append(barrier(_along(path[-2], path[-1], 0.5), path[-1]))
        return f'<g class="message" data-message="{n}"><title>{escape(str(each))}</title>{"".join(out)}</g>'

    def _status(self, each: MessageLine) -> str:
        if each.mark == "dropped":
            return DROPPED
        return WAITS if each.taken is None else NOW

    def _note(self, name: str, at: int) -> tuple[str, Area]:
        """Return the text beside an event and its area, on the side where fewer lines pass through it."""
        last = name == list(self.x)[-1]
        words = fit(self.what.notes[name, at], NOTE if last else self.gap - 16)
        x, y, long = self.x[name], self.y[at], width(words)
        right, left = (x + 9, y - 7, x + 9 + long, y + 8), (x - 9 - long, y - 7, x - 9, y + 8)
        rightwards = last or left[0] < self.gutter or self._covered(right) <= self._covered(left)
        area = right if rightwards else left
        above = area[0], area[1] - 11, area[2], area[3] - 11
        return words, above if self._covered(above) < self._covered(area) else area

    # --- chips ---------------------------------------------------------------------

    def _chips(self) -> list[str]:
        """Return the chips of the lines. A chip does not lie on another one, an event, a note or a crossing."""
        taken = [_around((self.x[name], self.y[at])) for at, name in self.what.acts]
        taken += [_around(at, 7) for _, _, at in self.crossings]
        taken += [_around(p[-1] if n in self.open else _tip(p, 8)) for n, p in enumerate(self.paths)]
        taken += [(0, 0, self.wide, self.top - 9), *(area for _, area in self.notes)]
        bars = [n for n in range(len(self.paths)) if self.what.lines[n].chip.badge == BARRIER]
        taken += [_around(_along(self.paths[n][-2], self.paths[n][-1], 0.5), 8) for n in bars]
        out = []
        for n in sorted(set(range(len(self.paths))) - set(bars), key=lambda n: self.what.lines[n].sent):
            each = self.what.lines[n]
            for chip in _shorter(each.chip, self.gap - 2 * CLEAR, self.wide):
                _, area = min(self._spots(n, chip, taken), default=(0.0, None))
                if area is not None and (chip.badge or chip.values):
                    taken.append((area[0] - 2, area[1] - 2, area[2] + 2, area[3] + 2))
                    back = self.paths[n][-1][0] < self.paths[n][0][0]
                    size = area[2] - area[0]
                    drawn = chip.draw(area[0], area[1], size, self._status(each), back)
                    out.append(f'<g class="load"><title>{escape(str(each))}</title>{drawn}</g>')
                    if each.mark not in ("", "dropped"):
                        out.append(self._marked(n, area, taken))
                    break
        return out

    def _spots(self, n: int, chip: Chip, taken: Sequence[Area]) -> Iterator[tuple[float, Area]]:
        """Yield where a chip can be, each with its cost: lines that it covers, lanes that it touches, its distance."""
        wide = chip.wide
        for leg, (a, b) in enumerate(reversed(list(pairwise(self.paths[n])))):
            low, high = min(a[0], b[0]) + CLEAR, max(a[0], b[0]) - CLEAR - wide
            for fraction, shift in PLACES:
                x, y = _along(a, b, fraction)
                free = x + (shift - 0.5) * wide
                for left in {free, min(max(free, low), high)}:
                    area = left, y - TALL / 2, left + wide, y + TALL / 2
                    inside = self.gutter <= left <= x <= left + wide <= self.wide - 2 and area[3] <= self.bottom
                    if inside and not any(meets(area, t) for t in taken):
                        touched = sum(left < lane < left + wide for lane in self.x.values())
                        yield 4 * self._covered(area, n) + 3 * touched + leg + abs(fraction - 0.5) + abs(shift), area

    def _covered(self, area: Area, n: int | None = None) -> int:
        """Return how many lines pass through an area, without line number ``n``."""
        return sum(_through(area, *leg) for m, path in enumerate(self.paths) if m != n for leg in pairwise(path))

    def _marked(self, n: int, chip: Area, taken: list[Area]) -> str:
        """Return the SVG of the words of a mark, above or below the chip of line number ``n`` or beside it."""
        words = self.what.lines[n].mark
        long, middle = width(words), (chip[0] + chip[2]) / 2
        spots = [(middle, chip[3] + 12), (middle, chip[1] - 4)]
        spots += [(x, chip[3] - 7) for x in (chip[2] + 5 + long / 2, chip[0] - 5 - long / 2)]
        areas = [(x - long / 2, y - 10, x + long / 2, y + 3) for x, y in spots]
        free = [a for a in areas if self.gutter < a[0] and a[2] < self.wide and not any(meets(a, t) for t in taken)]
        if not free:
            return ""
        area = min(free, key=self._covered)
        taken.append(area)
        return rect(*area[:2], long, 13, fill="page") + text((area[0], area[3] - 3), words, fill="deleted")

    def _legend(self) -> tuple[str, float]:
        """Return the SVG of the legend below the diagram, and its height."""
        y, x, out = self.bottom + 18, MARGIN, []
        shown = {}
        for each in self.what.lines:
            if each.mark != "dropped" and (kind := LEGEND.get(each.chip.badge, "change")):
                shown[kind] = line([(0, 0), (24, 0)], each.tone, wide=1.5, dashes="5 3" if kind == "upquery" else "")
                shown[kind] += barrier((12, 0), (24, 0)) if kind == "barrier" else ""
        if any(m.dropped for m in self.what.lines):
            shown["dropped"] = cross(12, 0)
        if self.open:
            shown["in flight"] = disc(12, 0, 3.5, "page")
        for words, sample in shown.items():
            if x + 30 + width(words) > self.wide - MARGIN / 2 and x > MARGIN:
                x, y = MARGIN, y + 18
            out.append(f'<g transform="translate({number(x)} {number(y - 4)})">{sample}</g>')
            out.append(text((x + 30, y), words, kind="m"))
            x += 46 + width(words)
        return "".join(out), y - self.bottom + 10 if shown else 6.0


def _shorter(chip: Chip, room: float, page: float) -> Iterator[Chip]:
    """Yield a chip with its whole text, then cut to fit between two lanes, then with its badge alone."""
    if chip.wide <= page / 2:
        yield chip
    words = "  ".join(chip.values)
    spare = room - Chip(chip.badge, ()).wide - 10
    if spare >= 24:
        yield Chip(chip.badge, (fit(words, min(spare, 96), bold=True),))
    yield Chip(chip.badge, ())


def meets(a: Area, b: Area) -> bool:
    """Return whether two areas overlap. Areas that only touch do not overlap."""
    return a[0] + 0.5 < b[2] and b[0] + 0.5 < a[2] and a[1] + 0.5 < b[3] and b[1] + 0.5 < a[3]


def _around(at: Point, far: float = 5) -> Area:
    return at[0] - far, at[1] - far, at[0] + far, at[1] + far


def _tip(path: Sequence[Point], before: float) -> Point:
    """Return the point that is ``before`` px before the end of a line."""
    return _along(path[-1], path[-2], before / dist(path[-1], path[-2]))


def _along(a: Point, b: Point, fraction: float) -> Point:
    return a[0] + (b[0] - a[0]) * fraction, a[1] + (b[1] - a[1]) * fraction


def _meeting(a: Point, b: Point, c: Point, d: Point) -> Point | None:
    """Return the point where the lines from a to b and from c to d cross, or None. A common end is not a crossing."""
    det = (b[0] - a[0]) * (d[1] - c[1]) - (b[1] - a[1]) * (d[0] - c[0])
    if abs(det) < 1e-9:
        return None
    t = ((c[0] - a[0]) * (d[1] - c[1]) - (c[1] - a[1]) * (d[0] - c[0])) / det
    u = ((c[0] - a[0]) * (b[1] - a[1]) - (c[1] - a[1]) * (b[0] - a[0])) / det
    inside = 1e-6 < t < 1 - 1e-6 and 1e-6 < u < 1 - 1e-6
    return _along(a, b, t) if inside else None


def _through(area: Area, a: Point, b: Point) -> bool:
    """Return whether the line from a to b passes through an area."""
    x0, y0, x1, y1 = area
    if max(a[0], b[0]) <= x0 or min(a[0], b[0]) >= x1 or max(a[1], b[1]) <= y0 or min(a[1], b[1]) >= y1:
        return False
    sides = [(b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) for x in (x0, x1) for y in (y0, y1)]
    return min(sides) < 0 < max(sides)
