"""The operators of an engine with their state as a picture, sources left and views right.

The input is what ``engine.graph()`` and ``engine.state`` return. A filled panel stores rows. A
plain line carries changes, a double line is a read through a trace handle (shared state), and a
dashed line carries upqueries (partial state).

If the picture is too wide, values are cut shorter, then columns are left out, then tables fold
to their row counts, those farthest from the views first, and finally the row counts on edges
go. Text keeps its size; a picture that is still too wide scrolls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .contents import EngineContents, State, panels, read
from .outline import Described, OutlineEdge, OutlineOperator, outline
from .panel import folded
from .scene import Scene
from .svg import Drawing, Picture
from .table import Limits, counted

ROOMS = (800.0, 640.0, 480.0)
"""Widths in px at which a picture is drawn: a usual notebook window and narrower ones."""
TALLEST = 440.0

STEPS = [
    (Limits(8, 5, 120, 230), 40.0),
    (Limits(8, 4, 96, 200), 36.0),
    (Limits(6, 3, 80, 160), 32.0),
    (Limits(5, 2, 64, 120), 28.0),
]
"""How much of the tables is drawn, and the smallest gap, from roomy to tight."""

Carried = Mapping[tuple[str, str], int]


def graph(
    described: Described,
    state: State,
    *,
    title: str = "",
    filled: Callable[[str], Any] | None = None,
    carried: Carried | None = None,
) -> Picture:
    """The operators with their state tables.

    ``described`` is ``engine.graph()`` and ``state`` is ``engine.state`` itself. Under partial
    state, ``filled`` is ``engine.filled``: filled keys without rows are named, and the rest is
    drawn as a hole. ``carried`` is ``engine.trace.rows_by_edge()`` or a part of it: row counts by
    (source, target).
    """
    operators, edges = outline(described)
    content = read(operators, state, filled)
    return Picture(
        in_words(operators, edges, content, title), *_drawings(operators, edges, content, title, carried or {})
    )


def _drawings(
    operators: Sequence[OutlineOperator],
    edges: Sequence[OutlineEdge],
    content: EngineContents,
    title: str,
    carried: Carried,
) -> Iterator[Drawing]:
    """For each width the roomiest drawing that fits it, else the tightest."""
    sizes = f"own state {counted(content.total(False), 'row')} · base {counted(content.total(True), 'row')}"
    scenes = _scenes(operators, edges, content, carried)
    scene = next(scenes)
    # A scene that is too wide for one width is too wide for the next, so each scene is tried once.
    for room in ROOMS:
        while scene.width > room or scene.height > TALLEST:
            tighter = next(scenes, None)
            if tighter is None:
                break
            scene = tighter
        yield scene.draw(title, sizes, room)


def _scenes(
    operators: Sequence[OutlineOperator], edges: Sequence[OutlineEdge], content: EngineContents, carried: Carried
) -> Iterator[Scene]:
    """Scenes from roomy to tight: shorter tables, then folded ones, then all of it without row counts on edges."""
    for labels in (carried, {}) if carried else ({},):
        for limits, gap in STEPS:
            scene = Scene(panels(operators, edges, content, limits), edges, labels, gap)
            yield scene
        boxes = scene.panels
        far = {n: c for c, column in enumerate(scene.placed.columns) for n in column}
        for name in sorted((n for n in boxes if boxes[n].tables), key=far.__getitem__):
            boxes = {**boxes, name: folded(boxes[name])}
            yield Scene(boxes, edges, labels, gap)


def in_words(
    operators: Sequence[OutlineOperator], edges: Sequence[OutlineEdge], content: EngineContents, title: str
) -> str:
    """The picture as text: one line an operator with its rows and its targets."""
    names = {o.name: " ".join(p for p in (o.title, o.detail) if p) for o in operators}
    out = [title or "operators and their state"]
    for o in operators:
        to = ", ".join(names[e.target] for e in edges if e.source == o.name and e.kind != "upquery")
        held = counted(content.of(o.tables), "row") if o.tables else "no state"
        out.append(f"  {names[o.name]}: {held}" + (f" -> {to}" if to else ""))
    return "\n".join(out)
