"""Where the boxes of a graph go: a room without a browser, sizes in and positions out.

Columns run left to right. A box stands one column after the last of those it reads (the
longest path from a source); a source stands right before its first reader. An edge that
passes a column runs through a lane kept free there. Within a column the order is the one
with the fewest crossings that sweeps of barycentres find (Sugiyama, Tagawa and Toda
1981); the heights are :mod:`.heights`.

Nothing here knows what a box shows; :mod:`.routes` turns the result into lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .heights import Box, Link, heights

LANE = 14.0
"""Height kept free for an edge that passes a column."""


@dataclass(frozen=True)
class Piece:
    """A link's way through one gap: from the right of column ``gap`` to the left of the next, at heights y."""

    number: int
    gap: int
    source: str
    target: str
    y0: float
    y1: float


@dataclass(frozen=True)
class Placed:
    """Columns of boxes with their upper edges and widths, and each link's pieces from left to right."""

    columns: list[list[str]]
    tops: dict[str, float]
    widths: list[float]
    height: float
    links: list[list[Piece]]

    def gap(self, c: int) -> list[Piece]:
        """The pieces between column ``c`` and the next."""
        return [p for link in self.links for p in link if p.gap == c]


def columns(names: Sequence[str], links: Sequence[Link]) -> dict[str, int]:
    """The column of each box. Raises ValueError where the links make a circle."""
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
            raise ValueError(f"the links of {', '.join(waiting)} make a circle; a graph of operators has none")
        for n in ready:
            level[n] = max((level[b] + 1 for b in below[n]), default=0)
        waiting = [n for n in waiting if n not in level]
    for n in names:
        if not below[n] and above[n]:
            level[n] = min(level[a] for a in above[n]) - 1
    first = min(level.values(), default=0)
    return {n: c - first for n, c in level.items()}


def place(boxes: Sequence[Box], links: Sequence[Link], apart: float = 14.0, most: float | None = None) -> Placed:
    """Columns, heights and the pieces of every link; boxes of a column are ``apart`` px from each other.

    No higher than ``most`` px, if the tallest column is not.
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
            Piece(number, level[s.source], s.source, s.target, tops[s.source] + s.out, tops[s.target] + s.into)
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
    """A link as steps from column to column, with a new lane in each column that it passes."""
    names = [link.source]
    for c in range(level[link.source] + 1, level[link.target]):
        names.append(f"lane {number} of column {c}")
        size[names[-1]] = Box(names[-1], 0, LANE, lane=True)
        level[names[-1]] = c
    names.append(link.target)
    ports = [link.out, *[LANE / 2] * (len(names) - 2), link.into]
    return [Link(a, b, ports[i], ports[i + 1]) for i, (a, b) in enumerate(zip(names, names[1:], strict=False))]


def ordered(order: list[list[str]], links: Sequence[Link], size: Mapping[str, Box]) -> list[list[str]]:
    """The order of each column, with the fewest crossings found."""
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
    """How many pairs of links between two columns cross."""
    rank = {n: i for column in order for i, n in enumerate(column)}
    column = {n: c for c, names in enumerate(order) for n in names}
    ends: dict[int, list[tuple[float, float]]] = {}
    for k in links:
        ends.setdefault(column[k.source], []).append(
            (_at(rank[k.source], size[k.source], k.out), _at(rank[k.target], size[k.target], k.into))
        )
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for gap in ends.values() for i, a in enumerate(gap) for b in gap[:i])


__all__ = ["LANE", "Box", "Link", "Piece", "Placed", "columns", "crossings", "ordered", "place"]
