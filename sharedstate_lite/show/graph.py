"""Draws the operators of an engine with their state, from the sources on the left to the views on the right.

The input is what ``engine.graph()`` and ``engine.state`` return. Operators that store rows have filled panels. A plain
line carries changes, a double line marks a read through a trace handle (shared state), and a dashed line carries
upqueries (partial state).

A picture that is too wide is made narrower in three steps. First, the tables show shorter values and fewer columns.
Then they are folded to their row counts, starting with those farthest from the views. Finally, the row counts on the
edges are removed. Text keeps its size, and a picture that is still too wide scrolls.
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
"""The widths for which a picture is drawn, in px: a normal notebook window and narrower ones."""
TALLEST = 440.0

STEPS = [
    (Limits(8, 5, 120, 230), 40.0),
    (Limits(8, 4, 96, 200), 36.0),
    (Limits(6, 3, 80, 160), 32.0),
    (Limits(5, 2, 64, 120), 28.0),
]
"""How much of each table is drawn, and the smallest gap between columns in px, from roomy to tight."""

Carried = Mapping[tuple[str, str], int]


def graph(
    described: Described,
    state: State,
    *,
    title: str = "",
    filled: Callable[[str], Any] | None = None,
    carried: Carried | None = None,
) -> Picture:
    """Return a picture of the operators with their state tables.

    ``described`` is the result of ``engine.graph()``, and ``state`` is the method ``engine.state``. For partial state,
    ``filled`` is the method ``engine.filled``: the picture lists filled keys that have no rows, and shows all other
    keys as one hole. ``carried`` is ``engine.trace.rows_by_edge()`` or a part of it: row counts by (source, target).
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
    """Yield one drawing for each width in `ROOMS`: the roomiest one that fits, or the tightest if none fits."""
    scenes = _scenes(operators, edges, content, carried)
    scene = next(scenes)
    # A scene that is too wide for one width is also too wide for the next, so each scene is tried once.
    for room in ROOMS:
        while scene.width > room or scene.height > TALLEST:
            tighter = next(scenes, None)
            if tighter is None:
                break
            scene = tighter
        yield scene.draw(title, content.bill(), room)


def _scenes(
    operators: Sequence[OutlineOperator], edges: Sequence[OutlineEdge], content: EngineContents, carried: Carried
) -> Iterator[Scene]:
    """Yield scenes from roomy to tight: with smaller tables, then with folded ones, then without counts on edges."""
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
    """Return the picture as text, with one line per operator: its title, its row count and its targets."""
    names = {o.name: " ".join(p for p in (o.title, o.detail) if p) for o in operators}
    out = [title or "operators and their state"]
    for o in operators:
        to = ", ".join(names[e.target] for e in edges if e.source == o.name and e.kind != "upquery")
        held = counted(content.of(o.tables), "row") if o.tables else "no state"
        out.append(f"  {names[o.name]}: {held}" + (f" -> {to}" if to else ""))
    return "\n".join(out)
