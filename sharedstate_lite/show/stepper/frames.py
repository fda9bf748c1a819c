"""Draws one step: only the diagram for the widget, or the diagram with header and caption for a page.

At a given width, the diagrams of all steps have the same size unless columns have to be folded. `Pages` shows several
frames below each other, for readers without the widget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...replay.recording import Recording
from ..palette import colour, style
from ..svg import Drawing, rect, text
from ..table import counted, slot
from ..text import fit, width, wrap
from . import glyphs
from .chips import EdgeMessage
from .diagram import Diagram, Lane
from .fitting import MARGIN, Fit, Fitting
from .nodes import NodeContent
from .recorded_messages import ROWS, recorded
from .time_axis import pin

CAPTION = 13
TITLES = {"full": "Full state", "shared": "Shared state", "partial": "Partial state"}
LEGENDS = {
    "full": ("inserted", "deleted", "changed", "looked up"),
    "shared": ("inserted", "deleted", "looked up", "handle", "folded"),
    "partial": ("inserted", "deleted", "hole", "upquery", "dropped"),
}
NAMES = {"folded": "compacted epochs", "handle": "trace handle"}


@dataclass(frozen=True)
class Counts:
    """The numbers in the header of a step: (name, value, change) for its first line, and the text of its second line.

    A change in a number of rows is ``+2``, ``−1``, or an empty string if it is 0.
    """

    pairs: tuple[tuple[str, str, str], ...]
    bill: str


def size(count: int) -> str:
    """Format a number of bytes with its unit."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"


def one_line(sql: Iterable[str]) -> str:
    """Return the SQL of the views on one line."""
    return "; ".join(" ".join(each.split()).rstrip("; ") for each in sql)


def counts(recording: Recording, number: int) -> Counts:
    """Return the header's numbers at a step."""
    totals, step = recording.totals(number), recording.step(number)
    pairs = [("epoch", str(step.epoch if step else 0), "")]
    for name, amount in (("working state", totals.working), ("cached answers", totals.cached)):
        added = amount.rows - amount.rows_before
        change = f"{added:+,}".replace("-", "−") if added else ""
        pairs.append((name, counted(amount.rows, "row"), change))
    durable = f"durable inputs {counted(totals.durable.rows, 'row')}, {size(totals.durable.bytes)}"
    rest = f"working state {size(totals.working.bytes)} · cached answers {size(totals.cached.bytes)}"
    return Counts(tuple(pairs), f"{durable} · {rest}")


class Frames:
    """The drawings of one recording, at any width."""

    def __init__(self, recording: Recording, title: str = "", folded: frozenset[str] = frozenset()) -> None:
        self.recording, self.folded = recording, folded
        self.title = title or TITLES.get(recording.kind, recording.kind)
        self.diagram = Diagram(recording)
        self._fittings: dict[float, Fitting] = {}

    def fitting(self, wide: float) -> Fitting:
        """Return the layouts of the recording at an outer width in px."""
        if wide not in self._fittings:
            self._fittings[wide] = Fitting(self.diagram, wide, folded=self.folded)
        return self._fittings[wide]

    def scene(self, number: int, wide: float) -> Drawing:
        """Return the drawing of the operators and messages after a step."""
        fit_ = self.fitting(wide).at(number)
        drawn = self.diagram.contents(number, fit_.limits)
        if number not in self.diagram.seen and not _room(drawn, fit_):
            # This step of a long recording was not measured, and it needs more room.
            self.diagram.see(number)
            self._fittings.clear()
            return self.scene(number, wide)
        contents = _gathered(drawn, fit_)
        messages = _carried(self.diagram.messages(number), fit_)
        inside = fit_.layout.draw(contents, messages, self._reading(number))
        body = f'<g transform="translate({MARGIN:g} 8)">{inside}</g>'
        widest = max(wide, fit_.layout.width + 2 * MARGIN)
        return Drawing(widest, fit_.layout.height + 16, body)

    def messages(self, number: int, wide: float) -> Drawing:
        """Return the drawing of the messages of the last steps up to this one, as a space-time diagram."""
        acting = [s.number for s in self.recording.steps[:number] if s.operator]
        begin = acting[-ROWS] if len(acting) > ROWS else 1
        return recorded(self.recording, begin, number, now=number, rows=ROWS).draw(wide)

    def _reading(self, number: int) -> frozenset[int]:
        """Return the edges along which the acting operator read or looked something up."""
        step = self.recording.step(number)
        if step is None:
            return frozenset()
        state = self.recording.state(number)
        out = {
            n
            for n, w in enumerate(self.diagram.edges)
            if w.read and any((m.source, m.target) == (w.source, w.target) for m in step.taken)
        }
        for n, edge in enumerate(self.diagram.edges):
            held = state.get(edge.source)
            if edge.read and edge.target == step.operator and held is not None:
                rows = [r for t in held.tables if t.arrangement for s in t.arrangement.batches for r in s.rows]
                if any(r.looked_up for r in rows):
                    out.add(n)
        return frozenset(out)

    # --- pages --------------------------------------------------------------------

    def page(self, number: int, wide: float) -> Drawing:
        """Return the drawing of a step with header, caption and legend."""
        scene = self.scene(number, wide)
        head, top = self._header(number, scene.width)
        foot, high = self._footer(number, scene.width, top + scene.height)
        moved = f'<g transform="translate(0 {top:g})">{scene.body}</g>'
        return Drawing(scene.width, top + scene.height + high, head + moved + foot)

    def _header(self, number: int, wide: float) -> tuple[str, float]:
        header = counts(self.recording, number)
        right = wide - MARGIN
        out, x = [], right
        for name, value, change in reversed(header.pairs):
            if change:
                tone = "deleted" if change.startswith("−") else "inserted"
                out.append(text((x, 22), change, anchor="end", fill=tone))
                x -= width(change) + 3
            out.append(text((x, 22), value, kind="b", size=14, anchor="end"))
            x -= width(value, 14, bold=True) + 5
            out.append(text((x, 22), name, kind="m", anchor="end"))
            x -= width(name) + 18
        step = self.recording.message_of(number)
        title = fit(self.title, x - MARGIN, 14, bold=True)
        out.append(text((MARGIN, 22), title, kind="b", size=14))
        if step is not None:
            left = MARGIN + width(title, 14, bold=True) + 14
            label = f"step {number} of {self.recording.last}: {step.text}"
            if x - left > 60:
                out.append(text((left, 22), fit(label, x - left), kind="m"))
        room = right - MARGIN - width(header.bill) - 20
        lines = wrap(one_line(self.recording.sql), room, 2, mono=True)
        for n, words in enumerate(lines):
            out.append(text((MARGIN, 40 + 16 * n), words, kind="m mono"))
        out.append(text((right, 40), header.bill, kind="m", anchor="end"))
        high = 40 + 16 * (len(lines) - 1) + 10
        return "".join(out) + rect(0, high, wide, 1, fill="hairline"), high + 1

    def _footer(self, number: int, wide: float, y: float) -> tuple[str, float]:
        legend, long = self.legend() if wide >= 760 else ("", 0.0)
        room = wide - 2 * MARGIN - (long + 30 if legend else 0)
        lines = wrap(self.recording.caption(number), room, 3, CAPTION)
        out = [text((MARGIN, y + 16 + 17 * n), words, size=CAPTION) for n, words in enumerate(lines)]
        out.append(f'<g transform="translate({wide - MARGIN - long:.1f} {y + 4:.1f})">{legend}</g>' if legend else "")
        return "".join(out), 17 * max(len(lines), 2) + 14

    def legend(self) -> tuple[str, float]:
        """Return the SVG of the legend, which is 18 px high and explains the marks, and its width."""
        out, x = [], 0.0
        for name in LEGENDS.get(self.recording.kind, LEGENDS["full"]):
            sample, w = _sample(name, x)
            label = NAMES.get(name, name)
            out.append(sample + text((x + w + 5, 13), label, kind="m"))
            x += w + 5 + width(label) + 16
        return "".join(out), x - 16


def _sample(name: str, x: float) -> tuple[str, float]:
    """Return the SVG of a mark as the legend shows it, and its width."""
    if name in ("inserted", "deleted"):
        return glyphs.band(name, x, 2, 20, 14) + glyphs.mark(name, x + 12, 9), 20
    if name == "changed":
        return rect(x, 2, 22, 14, fill="page", stroke="ink", radius=2) + text((x + 5, 13), "→"), 22
    if name == "looked up":
        return glyphs.ring(x + 5, 9), 9
    if name == "handle":
        return pin(x + 9, 9, "J"), 18
    if name == "folded":
        return text((x, 13), "≤3", kind="b"), width("≤3", bold=True)
    if name == "hole":
        return slot(x, 3, 24), 24
    if name == "dropped":
        return glyphs.cross(x + 5, 9), 9
    line = f'<path d="M{x:.1f} 9H{x + 24:.1f}" stroke="{colour("upquery")}" stroke-width="1.6" stroke-dasharray="5 3"/>'
    return line, 24


def _room(contents: Mapping[str, NodeContent], fit_: Fit) -> bool:
    """Return whether every table that is shown has room for its rows."""
    nodes = ((fit_.layout.nodes[n], content) for n, content in contents.items() if n in fit_.layout.nodes)
    return all(
        shape.suits(block)
        for node, content in nodes
        if node.open
        for shape, block in zip(node.shapes, content.blocks, strict=False)
        if block is not None
    )


def _gathered(contents: Mapping[str, NodeContent], fit_: Fit) -> dict[str, NodeContent]:
    """Return the content of each node. The content of a summarized node is empty."""
    out: dict[str, NodeContent] = {}
    for name, content in contents.items():
        drawn = fit_.drawn.get(name, name)
        if drawn == name:
            node = fit_.layout.nodes[name]
            if not node.open and node.shapes:
                content = NodeContent(content.blocks, (), content.count, (), content.acts)
            out[name] = content
        else:
            out.setdefault(drawn, NodeContent())
    return out


def _carried(messages: Mapping[Lane, EdgeMessage], fit_: Fit) -> dict[Lane, EdgeMessage]:
    """Return the messages whose edges are drawn."""
    return {lane: message for lane, message in messages.items() if fit_.layout.edges[lane[0]].source}


FRAMES = 10
"""The largest number of frames in one output."""


class Pages:
    """Frames of a recording, one per step, which can be displayed as HTML, as one SVG or as text."""

    def __init__(self, frames: Frames, steps: Sequence[int], width: float) -> None:
        self.frames, self.steps, self.width = frames, list(steps), width

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def drawings(self) -> list[Drawing]:
        """The drawings of the frames."""
        return [self.frames.page(n, self.width) for n in self.steps]

    def _label(self, number: int) -> str:

        return f"step {number}: {self.frames.recording.caption(number)}"

    def html(self, theme: str | None = None) -> str:
        """Return the frames as HTML with their style sheet. A frame that is too wide scrolls."""
        drawn = zip(self.steps, self.drawings, strict=True)
        out = [d.svg(self._label(n), alone=False) for n, d in drawn]
        rules = f"{style(theme)}.ssl-pages{{overflow-x:auto}}.ssl-pages svg{{display:block;margin:0 0 10px}}"
        return f'<div class="ssl-pages"><style>{rules}</style>{"".join(out)}</div>'

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_svg_(self) -> str:
        y, inside, widest = 0.0, [], 0.0
        for drawing in self.drawings:
            inside.append(f'<g transform="translate(0 {y:g})">{drawing.body}</g>')
            y, widest = y + drawing.height + 10, max(widest, drawing.width)
        return Drawing(widest, y, "".join(inside)).svg(repr(self).splitlines()[0], alone=True)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "image/svg+xml": self._repr_svg_(), "text/html": self._repr_html_()}

    def save(self, path: str | Path, theme: str | None = None) -> None:
        """Write a complete HTML page if the suffix is ``.html``, otherwise one SVG."""
        where = Path(path)
        if where.suffix == ".html":
            scheme = f"<style>:root{{color-scheme:{theme or 'light dark'}}}</style>"
            page = f'<!doctype html><meta charset="utf-8"><title>{self.frames.title}</title>{scheme}{self.html(theme)}'
            where.write_text(page, encoding="utf-8")
        else:
            where.write_text(self._repr_svg_(), encoding="utf-8")

    def __repr__(self) -> str:
        return "\n".join([self.frames.title, *(self._label(n) for n in self.steps)])
