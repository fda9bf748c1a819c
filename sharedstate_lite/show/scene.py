"""Draws a graph as panels that are joined by lines.

A plain line carries changes, and a double line marks a read through a trace handle. A dashed line carries upqueries. It
is below the plain line between the same two panels and runs in the opposite direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .layout import STRAIGHT, Box, Link, LinkSegment, Placed, gap_width, place, track_of, turns
from .outline import OutlineEdge
from .panel import Panel
from .svg import Drawing, Point, arrow, line, rect, text
from .table import counted, slot
from .text import fit, width

MARGIN = 14.0
HEAD = 46.0
STRETCH = 46.0
"""The largest number of px by which a gap grows if there is room."""


class Scene:
    """A graph that is laid out and can be drawn.

    It consists of ``panels`` by name, joined by ``edges``. ``carried`` contains the row counts to write on the edges,
    by (source, target), and ``gap`` is the smallest distance between columns in px.
    """

    def __init__(
        self,
        panels: Mapping[str, Panel],
        edges: Sequence[OutlineEdge],
        carried: Mapping[tuple[str, str], int],
        gap: float,
    ) -> None:
        self.panels, self.carried = panels, carried
        self.asked = {(e.target, e.source): e for e in edges if e.kind == "upquery"}
        self.shift = 9.0 if self.asked else 0.0
        self.links: list[tuple[OutlineEdge, bool]] = []
        """Each link's edge, and whether the link carries upqueries in the opposite direction of that edge."""
        ends = self._ends([e for e in edges if e.kind != "upquery"])
        wide = {n: p.width for n, p in panels.items()}
        first = place(self._boxes(wide), ends)
        # All panels in a column have the column's width, so a title may need one line fewer.
        wide = {n: w for column, w in zip(first.columns, first.widths, strict=True) for n in column}
        self.placed: Placed = place(self._boxes(wide), ends, apart=20.0 if self.asked else 14.0)
        self.gaps = [self._gap(self.placed.gap(c), gap) for c in range(len(self.placed.columns) - 1)]
        self.width = 2 * MARGIN + sum(self.placed.widths) + sum(self.gaps)

    @property
    def height(self) -> float:
        """The height of the panels, including their titles."""
        return self.placed.height

    def _boxes(self, wide: Mapping[str, float]) -> list[Box]:
        return [Box(n, wide[n], p.height, p.above(wide[n])) for n, p in self.panels.items()]

    def _ends(self, edges: Sequence[OutlineEdge]) -> list[Link]:
        into: dict[str, int] = {}
        out = []
        for edge in edges:
            port = into.get(edge.target, 0)
            into[edge.target] = port + 1
            two = (edge.source, edge.target) in self.asked
            start, end = self.panels[edge.source].height / 2, self.panels[edge.target].port(port)
            for back, shift in ((False, -self.shift), (True, self.shift)) if two else ((False, 0.0),):
                self.links.append((edge, back))
                out.append(Link(edge.source, edge.target, start + shift, end + shift))
        return out

    def _label(self, number: int) -> str:
        edge, back = self.links[number]
        pair = self.asked[edge.source, edge.target].trace_edge if back else edge.trace_edge
        return counted(self.carried[pair], "key" if back else "row") if self.carried.get(pair) else ""

    def _gap(self, pieces: Sequence[LinkSegment], least: float) -> float:
        labels = max((width(self._label(p.number)) for p in pieces), default=0)
        return gap_width(pieces, least if not labels else 28) + (labels + 6 if labels else 0)

    # --- drawing ------------------------------------------------------------------

    def draw(self, title: str, sizes: str, room: float) -> Drawing:
        """Return the drawing. Its gaps grow by at most `STRETCH` px each to fill a width of ``room`` px."""
        spare = max(room - self.width, 0) / max(len(self.gaps), 1)
        gaps = [g + min(spare, STRETCH) for g in self.gaps]
        top = HEAD if title or sizes else MARGIN
        lefts, x = [], MARGIN
        for w, g in zip(self.placed.widths, [*gaps, 0.0], strict=True):
            lefts.append(x)
            x += w + g
        legend, least = self._legend()
        head = width(title, 14, bold=True) + width(sizes) + 24 + 2 * MARGIN
        wide = max(x + MARGIN, least + 2 * MARGIN, min(head, room))
        paths = self._paths(lefts, gaps, top)
        body = [_header(title, sizes, wide)] if top > MARGIN else []
        body += [self._stroke(n, points) for n, points in paths.items()]
        # A double line is a wide line with a narrow page-coloured line over it, drawn last so that crossings stay open.
        body += [line(p, "page", wide=2, radius=7) for n, p in paths.items() if self._read(n)]
        body += [self._end(n, points) for n, points in paths.items()]
        for c, column in enumerate(self.placed.columns):
            for name in column:
                body.append(self.panels[name].draw(lefts[c], self.placed.tops[name] + top, self.placed.widths[c]))
        height = top + self.placed.height + MARGIN
        if legend:
            body.append(_draw_legend(legend, MARGIN, height + 4))
            height += 24
        return Drawing(wide, height, "".join(body))

    def _paths(self, lefts: Sequence[float], gaps: Sequence[float], top: float) -> dict[int, list[Point]]:
        """Return the points of each link, from its source to its target."""
        x: dict[int, dict[tuple[str, float], float]] = {}
        for c in range(len(gaps)):
            pieces = self.placed.gap(c)
            labels = max((width(self._label(p.number)) for p in pieces), default=0)
            left = lefts[c] + self.placed.widths[c]
            x[c] = turns(pieces, left, lefts[c + 1] - (labels + 6 if labels else 0))
        paths: dict[int, list[Point]] = {}
        for link in self.placed.links:
            points: list[Point] = [(lefts[link[0].gap] + self.placed.widths[link[0].gap], link[0].y0 + top)]
            for piece in link:
                if abs(piece.y0 - piece.y1) > STRAIGHT:
                    turn = x[piece.gap][track_of(piece)]
                    points += [(turn, piece.y0 + top), (turn, piece.y1 + top)]
            points.append((lefts[link[-1].gap + 1], link[-1].y1 + top))
            paths[link[0].number] = points
        return paths

    def _read(self, number: int) -> bool:
        edge, back = self.links[number]
        return edge.kind == "read" and not back

    def _stroke(self, number: int, points: list[Point]) -> str:
        if self.links[number][1]:
            return line(points, "upquery", wide=1.5, dashes="5 3", radius=6)
        return line(points, "handle", wide=4, radius=7) if self._read(number) else line(points, "frame", radius=6)

    def _end(self, number: int, points: list[Point]) -> str:
        label = self._label(number)
        (x, y), back = points[-1], self.links[number][1]
        written = text((x - 9, y + 14 if back else y - 5), label, kind="m", anchor="end") if label else ""
        if back:
            return written + arrow(points[0], "upquery", leftwards=True)
        return written + arrow(points[-1], "handle" if self._read(number) else "frame")

    def _legend(self) -> tuple[list[tuple[str, str]], float]:
        """Return the entries of the legend and its width."""
        out = []
        if any(self._read(n) for n in range(len(self.links))):
            out.append(("read", "reads an arrangement"))
        if self.asked:
            out.append(("upquery", "upqueries"))
        if any(t.hole for p in self.panels.values() for t in p.tables):
            out.append(("hole", "hole: not stored, computed when read"))
        return out, sum(54 + width(words) for _, words in out) - 22 if out else 0.0


def _header(title: str, sizes: str, wide: float) -> str:
    room = wide - 2 * MARGIN - width(sizes) - 16
    return (
        text((MARGIN, 22), fit(title, room, 14, bold=True), kind="b", size=14, tip=title)
        + text((wide - MARGIN, 22), sizes, kind="m", anchor="end")
        + rect(0, 33, wide, 1, fill="hairline")
    )


def _draw_legend(entries: Sequence[tuple[str, str]], x: float, y: float) -> str:
    out = []
    for kind, words in entries:
        ends: list[Point] = [(x, y), (x + 26, y)]
        if kind == "read":
            out.append(line(ends, "handle", wide=4) + line(ends, "page", wide=2))
        elif kind == "upquery":
            out.append(line(ends, "upquery", wide=1.5, dashes="5 3"))
        else:
            out.append(slot(x, y - 6, 26))
        out.append(text((x + 32, y + 4), words, kind="m"))
        x += 54 + width(words)
    return "".join(out)
