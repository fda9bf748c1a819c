"""The operators of an engine with their state, left to right, as a picture.

Takes what ``engine.graph()`` and ``engine.state`` say, and nothing else of an engine.
Sources are on the left, views on the right. A filled panel holds rows. A plain line
carries changes; a double line is a read through a trace handle (shared state); a dashed
line is the way of upqueries, against the stream (partial state).

Too wide for the room: values are cut shorter, columns of tables are left out, then tables
fold to their row counts, those farthest from the views first; what edges carried goes
unsaid last of all. Text stays as large as it is; what still does not fit is scrolled.
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
"""Px that a notebook gives a picture, in a window of the usual width and in narrower ones."""
TALLEST = 440.0

STEPS = [
    (Limits(8, 5, 120, 230), 40.0),
    (Limits(8, 4, 96, 200), 36.0),
    (Limits(6, 3, 80, 160), 32.0),
    (Limits(5, 2, 64, 120), 28.0),
]
"""How much of the tables, and the least gap, from roomy to tight."""

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

    ``described`` is ``engine.graph()``, ``state`` is ``engine.state`` itself. Under
    partial state ``filled`` is ``engine.filled``: keys that are filled and have no rows
    are named, and the rest is shown as a hole. ``carried`` is
    ``engine.trace.rows_by_edge()`` or a part of it: rows by (source, target).
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
    """For each room the roomiest drawing that fits it, else the tightest there is."""
    told = f"own state {counted(content.total(False), 'row')} · base {counted(content.total(True), 'row')}"
    scenes = _scenes(operators, edges, content, carried)
    scene = next(scenes)
    # What was too large for one room is so for the next, which is narrower: scenes are gone through once.
    for room in ROOMS:
        while scene.width > room or scene.height > TALLEST:
            tighter = next(scenes, None)
            if tighter is None:
                break
            scene = tighter
        yield scene.draw(title, told, room)


def _scenes(
    operators: Sequence[OutlineOperator], edges: Sequence[OutlineEdge], content: EngineContents, carried: Carried
) -> Iterator[Scene]:
    """From roomy to tight: tables cut shorter, then folded one by one, at last all of it without edges' labels."""
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
    """The picture in words: one line an operator, what it holds and where its changes go."""
    names = {o.name: " ".join(p for p in (o.title, o.detail) if p) for o in operators}
    out = [title or "operators and their state"]
    for o in operators:
        to = ", ".join(names[e.target] for e in edges if e.source == o.name and e.kind != "upquery")
        held = counted(content.of(o.tables), "row") if o.tables else "no state"
        out.append(f"  {names[o.name]}: {held}" + (f" -> {to}" if to else ""))
    return "\n".join(out)
