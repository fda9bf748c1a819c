"""Computes the layout of a graph: the positions of its boxes and of the lines between them.

The only input is the sizes of the boxes and the links between them. Columns run from left to right. A box is in the
column after the last box that it reads (the longest path from a source), and a source is in the column before its first
reader. An edge that crosses a column runs through a lane that is kept free in it. Within each column, barycentre sweeps
look for the order with the fewest crossings.

Vertical positions start from the tallest column. Each box moves as close to the mean of its neighbours' ports as the
boxes above and below it allow (isotonic regression), and then small bends are straightened. A bent line has one
vertical part, in the gap between two columns.

Source: Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System
Structures, 1981.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

NEAR = 16.0
"""A link whose bend is at most this many px high is straightened if there is room."""


@dataclass(frozen=True)
class Box:
    """A box to place: its size in px, the height of the title above it, and whether it is only a lane for an edge."""

    name: str
    width: float
    height: float
    above: float = 0.0
    lane: bool = False


@dataclass(frozen=True)
class Link:
    """An edge between two boxes. ``out`` and ``into`` are its ports, in px below the upper edges of the boxes."""

    source: str
    target: str
    out: float
    into: float


def heights(
    order: Sequence[Sequence[str]],
    size: Mapping[str, Box],
    links: Sequence[Link],
    apart: float,
    most: float | None = None,
) -> dict[str, float]:
    """Return the y of each box's upper edge, in px. The top of the highest title is at 0.

    Straight links can make the layout taller than its tallest column. If it is then taller than ``most``, boxes are
    moved back into that height, and their links bend.
    """
    tops: dict[str, float] = {}
    if not order:
        return tops
    tall = [sum(size[n].height + size[n].above + apart for n in column) for column in order]
    start = tall.index(max(tall))
    y = 0.0
    for n in order[start]:
        tops[n] = y + size[n].above
        y = tops[n] + size[n].height + apart
    outwards = [*range(start + 1, len(order)), *range(start - 1, -1, -1)]
    for c in outwards * 3:
        _settle(order[c], size, links, tops, apart)
    for c in [*range(len(order)), *range(len(order) - 1, -1, -1)]:
        _straighten(order[c], size, links, tops, apart)
    if most is not None:
        _together(order, size, tops, apart, max(most, max(tall) - apart))
    highest = min(tops[n] - size[n].above for n in tops)
    return {n: t - highest for n, t in tops.items()}


def _together(
    order: Sequence[Sequence[str]], size: Mapping[str, Box], tops: dict[str, float], apart: float, most: float
) -> None:
    """Move boxes that are outside a window of height ``most`` back into it, pushing other boxes of their column."""
    low = min(tops[n] - size[n].above for n in tops)
    high = max(tops[n] + size[n].height for n in tops)
    if high - low <= most:
        return
    low, high = (low + high - most) / 2, (low + high + most) / 2
    for column in order:
        edge = low
        for n in column:
            tops[n] = max(tops[n], edge + size[n].above)
            edge = tops[n] + size[n].height + apart
        edge = high
        for n in reversed(column):
            tops[n] = min(tops[n], edge - size[n].height)
            edge = tops[n] - size[n].above - apart


def _settle(
    column: Sequence[str], size: Mapping[str, Box], links: Sequence[Link], tops: dict[str, float], apart: float
) -> None:
    """Move the boxes of a column towards their neighbours that are already placed."""
    shifts, weights, offsets, y = [], [], [], 0.0
    for n in column:
        wanted, weight = _wanted(n, size, links, tops)
        offsets.append(y + size[n].above)
        shifts.append((offsets[-1] if wanted is None else wanted) - offsets[-1])
        weights.append(weight)
        y = offsets[-1] + size[n].height + apart
    for n, shift, offset in zip(column, isotonic(shifts, weights), offsets, strict=True):
        tops[n] = shift + offset


def _wanted(
    name: str, size: Mapping[str, Box], links: Sequence[Link], tops: Mapping[str, float]
) -> tuple[float | None, float]:
    """Return the mean y of the upper edge at which the box's links would be straight, and the weight of this mean.

    The mean is None if no neighbour is placed yet.
    """
    total = weight = 0.0
    for k in links:
        here, there, shift = (
            (k.target, k.source, k.out - k.into) if k.target == name else (k.source, k.target, k.into - k.out)
        )
        if here == name and there in tops:
            # A bend between two lanes looks worse than a bend next to a box.
            w = 8.0 if size[here].lane and size[there].lane else 1.0
            total, weight = total + w * (tops[there] + shift), weight + w
    return (total / weight, weight) if weight else (None, 0.1)


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence closest to ``values`` in weighted least squares (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, v, n), (b, w, m) = blocks[-2:]
            blocks[-2:] = [((a * v + b * w) / (v + w), v + w, n + m)]
    return [value for value, _, n in blocks for _ in range(n)]


def _straighten(
    column: Sequence[str], size: Mapping[str, Box], links: Sequence[Link], tops: dict[str, float], apart: float
) -> None:
    """Move each box that does not have a straight link yet so that one becomes straight, if there is room."""
    for i, n in enumerate(column):
        bends = [tops[k.source] + k.out - tops[k.target] - k.into for k in links if k.target == n]
        bends += [tops[k.target] + k.into - tops[k.source] - k.out for k in links if k.source == n]
        bends.sort(key=abs)
        if not bends or abs(bends[0]) < 0.5:
            continue
        for bend in bends:
            above = tops[column[i - 1]] + size[column[i - 1]].height + apart if i else float("-inf")
            under = tops[column[i + 1]] - size[column[i + 1]].above - apart if i + 1 < len(column) else float("inf")
            top = tops[n] + bend
            if abs(bend) <= NEAR and above <= top - size[n].above and top + size[n].height <= under:
                tops[n] = top
                break


LANE = 14.0
"""The height that is kept free for an edge that crosses a column, in px."""


@dataclass(frozen=True)
class LinkSegment:
    """The part of a link in one gap: from y0 at the right of column ``gap`` to y1 at the left of the next column."""

    number: int
    gap: int
    source: str
    target: str
    y0: float
    y1: float


@dataclass(frozen=True)
class Placed:
    """A finished layout: columns of boxes, their upper edges and widths, and each link's segments, left to right."""

    columns: list[list[str]]
    tops: dict[str, float]
    widths: list[float]
    height: float
    links: list[list[LinkSegment]]

    def gap(self, c: int) -> list[LinkSegment]:
        """Return the link segments between column ``c`` and the next one."""
        return [p for link in self.links for p in link if p.gap == c]


def columns(names: Sequence[str], links: Sequence[Link]) -> dict[str, int]:
    """Return the column number of each box. Raises ValueError if the links form a cycle."""
    below: dict[str, list[str]] = {n: [] for n in names}
    above: dict[str, list[str]] = {n: [] for n in names}
    for link in links:
        below[link.target].append(link.source)
        above[link.source].append(link.target)
    level: dict[str, int] = {}
    waiting = list(names)
    while waiting:
        ready = [n for n in waiting if all(b in level for b in below[n])]
        if not ready:
            raise ValueError(f"the links of {', '.join(waiting)} form a cycle; a graph of operators must not have one")
        for n in ready:
            level[n] = max((level[b] + 1 for b in below[n]), default=0)
        waiting = [n for n in waiting if n not in level]
    for n in names:
        if not below[n] and above[n]:
            level[n] = min(level[a] for a in above[n]) - 1
    first = min(level.values(), default=0)
    return {n: c - first for n, c in level.items()}


def place(boxes: Sequence[Box], links: Sequence[Link], apart: float = 14.0, most: float | None = None) -> Placed:
    """Return the layout of a graph. Boxes in the same column are at least ``apart`` px apart.

    The layout is at most ``most`` px tall, unless its tallest column is taller.
    """
    size = {b.name: b for b in boxes}
    level = columns([b.name for b in boxes], links)
    chains = [_chain(number, link, level, size) for number, link in enumerate(links)]
    steps = [step for chain in chains for step in chain]
    order = [[n for n in size if level[n] == c] for c in range(max(level.values(), default=-1) + 1)]
    order = ordered(order, steps, size)
    tops = heights(order, size, steps, apart, most)
    links_placed = [
        [
            LinkSegment(number, level[s.source], s.source, s.target, tops[s.source] + s.out, tops[s.target] + s.into)
            for s in chain
        ]
        for number, chain in enumerate(chains)
    ]
    return Placed(
        [[n for n in column if not size[n].lane] for column in order],
        {n: t for n, t in tops.items() if not size[n].lane},
        [max((size[n].width for n in column), default=0.0) for column in order],
        max((tops[n] + size[n].height for n in tops), default=0.0),
        links_placed,
    )


def _chain(number: int, link: Link, level: dict[str, int], size: dict[str, Box]) -> list[Link]:
    """Split a link into steps from column to column, and add a lane to each column that it crosses."""
    names = [link.source]
    for c in range(level[link.source] + 1, level[link.target]):
        names.append(f"lane {number} of column {c}")
        size[names[-1]] = Box(names[-1], 0, LANE, lane=True)
        level[names[-1]] = c
    names.append(link.target)
    ports = [link.out, *[LANE / 2] * (len(names) - 2), link.into]
    return [Link(a, b, ports[i], ports[i + 1]) for i, (a, b) in enumerate(zip(names, names[1:], strict=False))]


def ordered(order: list[list[str]], links: Sequence[Link], size: Mapping[str, Box]) -> list[list[str]]:
    """Return each column in a new order. Of all orders that were tried, this one has the fewest crossings."""
    order = [list(c) for c in order]
    best, least = [list(c) for c in order], crossings(order, links, size)
    for sweep in range(8):
        rightwards = sweep % 2 == 0
        for c in range(1, len(order)) if rightwards else range(len(order) - 2, -1, -1):
            fixed = {n: i for i, n in enumerate(order[c - 1 if rightwards else c + 1])}
            centre = {n: _barycentre(n, i, fixed, links, size, rightwards) for i, n in enumerate(order[c])}
            order[c] = sorted(order[c], key=centre.__getitem__)
        now = crossings(order, links, size)
        if now < least:
            best, least = [list(c) for c in order], now
    return best


def _barycentre(
    name: str, rank: int, fixed: Mapping[str, int], links: Sequence[Link], size: Mapping[str, Box], rightwards: bool
) -> float:
    ranks = []
    for link in links:
        here, there = (link.target, link.source) if rightwards else (link.source, link.target)
        if here == name and there in fixed:
            ranks.append(_at(fixed[there], size[there], link.out if rightwards else link.into))
    return sum(ranks) / len(ranks) if ranks else float(rank)


def _at(rank: int, box: Box, port: float) -> float:
    return rank + port / (box.height + 1)


def crossings(order: list[list[str]], links: Sequence[Link], size: Mapping[str, Box]) -> int:
    """Return the number of pairs of links that cross in a gap between columns."""
    rank = {n: i for column in order for i, n in enumerate(column)}
    column = {n: c for c, names in enumerate(order) for n in names}
    ends: dict[int, list[tuple[float, float]]] = {}
    for k in links:
        ends.setdefault(column[k.source], []).append(
            (_at(rank[k.source], size[k.source], k.out), _at(rank[k.target], size[k.target], k.into))
        )
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for gap in ends.values() for i, a in enumerate(gap) for b in gap[:i])


TRACK = 9.0
"""The distance between the vertical parts of two lines, in px."""
STRAIGHT = 0.5
"""Two heights that differ by at most this many px are treated as equal."""
EDGE = 14.0
"""The distance between a panel and the nearest vertical part of a line, in px."""

Track = tuple[str, float]
"""The vertical part of one or more segments. Segments that leave the same source at the same height share a track."""


def track_of(piece: LinkSegment) -> Track:
    """Return the track of a segment."""
    return piece.source, round(piece.y0, 1)


def tracks(pieces: Sequence[LinkSegment]) -> list[Track]:
    """Return the tracks of the bent segments in one gap, ordered from left to right to avoid overlaps and crossings."""
    bent = [p for p in pieces if abs(p.y0 - p.y1) > STRAIGHT]
    found = list(dict.fromkeys(track_of(p) for p in bent))
    # For few crossings, the uppermost of the links that go down turns last, and the lowest of those that go up.
    down = [t for t in found if all(p.y1 > p.y0 for p in bent if track_of(p) == t)]
    up = [t for t in found if t not in down]
    best = [*sorted(down, key=lambda t: -t[1]), *sorted(up, key=lambda t: t[1])]
    if len(found) <= 5:
        return min((list(o) for o in permutations(best)), key=lambda o: _cost(o, pieces))
    least = _cost(best, pieces)
    for i in range(len(best)):
        for j in range(i):
            tried = list(best)
            tried[i], tried[j] = tried[j], tried[i]
            if (cost := _cost(tried, pieces)) < least:
                best, least = tried, cost
    return best


def _cost(order: Sequence[Track], pieces: Sequence[LinkSegment]) -> float:
    """Return the number of crossings, plus 1,000 for each pair of overlapping links."""
    at = {t: i + 1.0 for i, t in enumerate(order)}
    turn = [at.get(track_of(p), 0.0) if abs(p.y0 - p.y1) > STRAIGHT else 0.0 for p in pieces]
    total = 0.0
    for i, a in enumerate(pieces):
        for j, b in enumerate(pieces):
            if i == j or track_of(a) == track_of(b) or not turn[j]:
                continue
            far = turn[i] or len(order) + 1.0
            # The first horizontal part of a and the last one of b overlap if b turns before a.
            if abs(a.y0 - b.y1) < 3 and turn[j] < far:
                total += 1000
            low, high = sorted((b.y0, b.y1))
            total += low < (a.y0 if turn[j] < far else a.y1) < high
    return total


def gap_width(pieces: Sequence[LinkSegment], least: float) -> float:
    """Return the width that the tracks in a gap need, which is at least ``least``."""
    return max(least, 2 * EDGE + TRACK * max(len(tracks(pieces)) - 1, 0))


def turns(pieces: Sequence[LinkSegment], left: float, right: float) -> dict[Track, float]:
    """Return the x of each track. Together, the tracks are centred between ``left`` and ``right``."""
    order = tracks(pieces)
    start = (left + right) / 2 - TRACK * (len(order) - 1) / 2
    return {t: start + TRACK * i for i, t in enumerate(order)}
