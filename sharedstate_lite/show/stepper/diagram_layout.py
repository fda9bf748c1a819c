"""Places nodes, routes lanes, and puts messages on the lanes, in one layout that many steps share.

It uses the same layout as the static pictures (`show.layout`). The gap between two columns is at least as wide as the
widest message that is drawn in it. A message is drawn on the straight part of its lane, in the gap before the edge's
target. A message to several readers is drawn once. A message that would overlap a more important one shrinks to its
step number, or is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from ..layout import STRAIGHT, TRACK, Box, Link, LinkSegment, Placed, place, track_of, turns
from ..svg import Point, arrow, line, rect, text
from ..text import fit, width
from .chips import DROPPED, LABEL, NOW, WAITS, EdgeMessage
from .diagram import DiagramEdge, Lane
from .nodes import NodeContent, OperatorNode

SHIFT = 14.0
"""The distance from the middle of an edge to each of its two lanes, in px."""
LEAST, CLOSED, TURN, ROOM, TIP = 40.0, 28.0, 9.0, 7.0, 8.0
STRETCH = 46.0
"""The largest number of px by which a gap grows if there is room."""
RANK = {NOW: 0, WAITS: 1, DROPPED: 2}

Area = tuple[float, float, float, float]


@dataclass(frozen=True)
class Spot:
    """The place of a lane's messages: between x0 and x1, at the height y."""

    x0: float
    x1: float
    y: float


def meets(a: Area, b: Area) -> bool:
    """Return whether two areas overlap. Areas that only touch do not overlap."""
    return a[0] + 0.5 < b[2] and b[0] + 0.5 < a[2] and a[1] + 0.5 < b[3] and b[1] + 0.5 < a[3]


class DiagramLayout:
    """The positions of nodes, lanes and messages.

    In the last ``stacked`` gaps, counted from the right, messages show one value per line. If ``waiting`` is a set of
    lanes, only the messages on these lanes are drawn in full, and the others shrink to numbers. If ``short`` is True,
    labels show numbers only. ``tallest`` is the height in px that the layout stays within if possible.
    """

    def __init__(
        self,
        nodes: Mapping[str, OperatorNode],
        edges: Sequence[DiagramEdge],
        sizes: Mapping[Lane, Sequence[EdgeMessage]],
        *,
        stacked: int = 0,
        waiting: frozenset[Lane] | None = None,
        short: bool = False,
        tallest: float | None = None,
    ) -> None:
        self.nodes, self.edges, self.sizes = nodes, edges, sizes
        self.waiting, self.closed = waiting, waiting is not None
        self.short = short or self.closed
        self.lanes: list[Lane] = []
        ends = self._links()
        apart = 26.0 if any(w.two for w in edges) else 14.0
        first = place(self._boxes({n: node.width for n, node in nodes.items()}), ends, apart)
        # All panels in a column have the column's width, so a title may need one line fewer.
        wide = {n: w for column, w in zip(first.columns, first.widths, strict=True) for n in column}
        self.placed: Placed = place(self._boxes(wide), ends, apart, tallest)
        self.last = {p[-1].number: p[-1].gap for p in self.placed.links}
        count = max(len(self.placed.columns) - 1, 0)
        self.stacked = {c for c in range(count) if c >= count - stacked}
        self.gaps = [self._gap(c) for c in range(count)]
        self.width = sum(self.placed.widths) + sum(self.gaps)
        self._extend()

    def _boxes(self, wide: Mapping[str, float]) -> list[Box]:
        return [Box(n, wide[n], node.height, node.above(wide[n])) for n, node in self.nodes.items()]

    def _links(self) -> list[Link]:
        into: dict[str, int] = {}
        out = []
        for number, edge in enumerate(self.edges):
            if edge.source not in self.nodes or edge.target not in self.nodes:
                continue
            port = into.get(edge.target, 0)
            into[edge.target] = port + 1
            start = self.nodes[edge.source].out(edge.table)
            end = self.nodes[edge.target].into(port)
            for back in (False, True) if edge.two else (False,):
                shift = (SHIFT if back else -SHIFT) if edge.two else 0.0
                self.lanes.append((number, back))
                out.append(Link(edge.source, edge.target, start + shift, end + shift))
        return out

    # --- gaps ---------------------------------------------------------------------

    def _chip(self, lane: Lane, gap: int) -> tuple[float, float]:
        """Return the largest width and height of a lane's messages. The width includes their labels."""
        stacked = gap in self.stacked
        if self.waiting is not None and lane not in self.waiting:
            return max((width(str(e.step)) for e in self.sizes.get(lane, ())), default=0.0), 0.0
        sizes = [message.size(stacked) for message in self.sizes.get(lane, ())]
        labels = [width(message.label(self.short), bold=True) for message in self.sizes.get(lane, ())]
        return max([w for w, _ in sizes] + labels, default=0.0), max([h for _, h in sizes], default=0.0)

    def _zone(self, gap: int) -> float:
        """Return the width that the messages in a gap need, to the left of the turns of its lanes."""
        wide = (self._chip(self.lanes[p.number], gap)[0] for p in self.placed.gap(gap) if self.last[p.number] == gap)
        return max((w + ROOM for w in wide if w), default=0.0)

    def _turning(self, gap: int) -> float:
        bent = len({track_of(p) for p in self.placed.gap(gap) if abs(p.y0 - p.y1) > STRAIGHT})
        return 2 * TURN + TRACK * (bent - 1) if bent else 0.0

    def _gap(self, gap: int) -> float:
        zone = self._zone(gap)
        return max(zone + self._turning(gap) + TIP, LEAST if zone and not self.closed else CLOSED)

    def _extend(self) -> None:
        """Set the top and the bottom of the layout so that messages above and below the panels fit."""
        self.top, self.bottom = 0.0, self.placed.height
        for pieces in self.placed.links:
            p = pieces[-1]
            lane = self.lanes[p.number]
            wide, high = self._chip(lane, p.gap)
            if wide:
                y = p.y0
                label = LABEL * (2 if any(message.word for message in self.sizes.get(lane, ())) else 1) + 2
                up, down = (0.0, label) if lane[1] else (label, 0.0)
                self.top = min(self.top, y - high / 2 - up)
                self.bottom = max(self.bottom, y + high / 2 + down)

    @property
    def height(self) -> float:
        """The height of the layout, which is enough for every step."""
        return self.bottom - self.top

    # --- positions ----------------------------------------------------------------

    def settle(self, room: float) -> None:
        """Compute all positions for a width of ``room`` px. Spare width goes to the gaps, then to both margins."""
        spare = max(room - self.width, 0.0)
        step = min(spare / max(len(self.gaps), 1), STRETCH)
        gaps = [g + step for g in self.gaps]
        x = max(room - sum(self.placed.widths) - sum(gaps), 0.0) / 2
        self.lefts: list[float] = []
        for w, g in zip(self.placed.widths, [*gaps, 0.0], strict=True):
            self.lefts.append(x)
            x += w + g
        self.paths: dict[int, list[Point]] = {}
        self.spots: dict[int, Spot] = {}
        for c in range(len(gaps)):
            self._gap_lines(c, self.lefts[c] + self.placed.widths[c], self.lefts[c + 1])
        for pieces in self.placed.links:
            y = pieces[-1].y1 - self.top
            self.paths[pieces[0].number].append((self.lefts[pieces[-1].gap + 1], y))

    def _gap_lines(self, gap: int, left: float, right: float) -> None:
        pieces, turning = self.placed.gap(gap), self._turning(gap)
        zone = self._zone(gap)
        spare = right - left - zone - turning - TIP
        first = left + zone + spare * (1.0 if zone else 0.5)
        x = turns(pieces, first, first + turning)
        for p in pieces:
            path = self.paths.setdefault(p.number, [])
            y0, y1 = p.y0 - self.top, p.y1 - self.top
            if not path:
                path.append((left, y0))
            if abs(y0 - y1) > STRAIGHT:
                at = x[track_of(p)]
                path += [(at, y0), (at, y1)]
            if self.last[p.number] == gap and self._chip(self.lanes[p.number], gap)[0]:
                self.spots[p.number] = Spot(left, first + TURN / 2 if turning else right - TIP, y0)

    # --- drawing ------------------------------------------------------------------

    def draw(
        self, contents: Mapping[str, NodeContent], messages: Mapping[Lane, EdgeMessage], reading: frozenset[int]
    ) -> str:
        """Return the SVG of one step. ``reading`` are the edges along which the acting operator looked something up."""
        there = {n for n in self.nodes if n in contents}
        links = {
            n: points
            for n, points in self.paths.items()
            if {self.edges[self.lanes[n][0]].source, self.edges[self.lanes[n][0]].target} <= there
        }
        out = [self._stroke(n, p, messages, reading) for n, p in links.items()]
        # A double line is a wide line with a narrow page-coloured line over it, drawn last so that crossings stay open.
        out += [line(p, "page", wide=2, radius=7) for n, p in links.items() if self._read(n)]
        out += [self._arrow(n, p, messages, reading) for n, p in links.items()]
        taken: list[Area] = []
        for c, column in enumerate(self.placed.columns):
            for name in column:
                if name in there:
                    node, y = self.nodes[name], self.placed.tops[name] - self.top
                    out.append(node.draw(contents[name], self.lefts[c], y, self.placed.widths[c]))
        out += self._chips(links, messages, taken)
        return "".join(out)

    def _read(self, number: int) -> bool:
        lane = self.lanes[number]
        return self.edges[lane[0]].read and not lane[1]

    def _stroke(
        self, n: int, points: list[Point], messages: Mapping[Lane, EdgeMessage], reading: frozenset[int]
    ) -> str:
        lane = self.lanes[n]
        message = messages.get(lane)
        if lane[1]:
            live = message is not None
            return line(points, "upquery" if live else "frame", wide=1.6 if live else 1, dashes="5 3", radius=6)
        if self._read(n):
            live = lane[0] in reading or (message is not None and message.status == NOW)
            return line(points, "handle" if live else "frame", wide=4.4 if live else 4, radius=7)
        now = message is not None and message.status == NOW
        return line(points, "ink" if now else "frame", wide=1.6 if now else 1, radius=6)

    def _arrow(self, n: int, points: list[Point], messages: Mapping[Lane, EdgeMessage], reading: frozenset[int]) -> str:
        lane = self.lanes[n]
        message = messages.get(lane)
        if lane[1]:
            return arrow(points[0], "upquery" if message else "frame", leftwards=True)
        if self._read(n):
            return arrow(points[-1], "handle" if lane[0] in reading else "frame")
        return arrow(points[-1], "ink" if message is not None and message.status == NOW else "frame")

    def _chips(
        self, links: Mapping[int, list[Point]], messages: Mapping[Lane, EdgeMessage], taken: list[Area]
    ) -> list[str]:
        out = []
        number = {lane: n for n, lane in enumerate(self.lanes)}
        shown = [(lane, message) for lane, message in messages.items() if number.get(lane) in links]
        shown = [(lane, message) for lane, message in shown if number[lane] in self.spots]
        said: set[tuple[Spot, EdgeMessage]] = set()
        for lane, message in sorted(shown, key=lambda e: (0 if e[1].fresh else RANK.get(e[1].status, 3), -e[1].step)):
            n = number[lane]
            if (self.spots[n], message) in said:
                continue  # sent to several readers from one port, and already drawn
            said.add((self.spots[n], message))
            out.append(self._put(n, lane[1], message, taken))
        return out

    def _put(self, n: int, back: bool, message: EdgeMessage, taken: list[Area]) -> str:
        """Return the SVG of a message in full, or of its step number if the message would overlap another.

        If even the number would overlap another message, the result is an empty string.
        """
        spot, stacked = self.spots[n], self.last[n] in self.stacked
        middle = (spot.x0 + spot.x1) / 2
        closed = self.closed and not message.whole
        wide, high = message.size(stacked)
        label = message.label(self.short)
        long = width(label, bold=message.status == NOW)
        above = spot.y - high / 2 - 4
        y = spot.y + high / 2 + 12 if back else above
        lines = [(label, y)]
        if message.word:
            room = spot.x1 - spot.x0 - 2
            word = message.word if width(message.word) <= room else fit(message.word.split(" ")[0], room)
            lines.append((word, y + 15 if back else y - 14))
            long = max(long, width(word))
        reach = LABEL * len(lines)
        area = (
            middle - max(wide, long) / 2,
            spot.y - high / 2 - (0 if back else reach),
            middle + max(wide, long) / 2 + 2,
            spot.y + high / 2 + (reach if back else 0),
        )
        if not closed and not any(meets(area, t) for t in taken):
            taken.append(area)
            kind = "b" if message.status == NOW else "m"
            said = "".join(self._said(middle, at, words, kind) for words, at in lines)
            chip = message.draw(middle - wide / 2, spot.y - high / 2, back, stacked, moves=message.status == NOW)
            return chip + said
        y = spot.y + 13 if back else spot.y - 5
        long = width(message.label(True))
        area = (middle - long / 2, y - 10, middle + long / 2, y + 3)
        if any(meets(area, t) for t in taken):
            return ""
        taken.append(area)
        return self._said(middle, y, message.label(True), "m")

    def _said(self, middle: float, y: float, words: str, kind: str) -> str:
        """Return the SVG of text over a message. A line behind the text is interrupted, as on a map."""
        said = text((middle, y), words, kind=kind, anchor="middle")
        long = width(words, bold=kind == "b")
        x0, y0, x1, y1 = middle - long / 2, y - 10, middle + long / 2, y + 3
        paths = (pairwise(path) for path in self.paths.values())
        strokes = ((min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in chain.from_iterable(paths))
        if any(meets((x0, y0, x1, y1), stroke) for stroke in strokes):
            return rect(x0, y0, x1 - x0, y1 - y0, fill="page") + said
        return said


__all__ = ["LinkSegment", "DiagramLayout", "meets"]
