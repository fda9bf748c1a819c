"""Draws the orders in which something can happen as a tree, with the outcome of each order beside its last action.

Orders that begin with the same actions share a branch. The root is on the left, and each leaf is one order.

>>> orders = {("a", "b"): [("3", "right")], ("b", "a"): [("2", "wrong")]}
>>> outcome_tree(orders, ["total"], title="Two orders")
Two orders
a, b: total 3
b, a: total 2 (wrong)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import Error
from .stepper.glyphs import barrier, cross, disc
from .svg import Drawing, Picture, line, rect, text
from .text import width

Path = tuple[str, ...]
Cell = tuple[str, str]
"""The words of an outcome, and its kind: ``right``, ``wrong``, or '' for an order that cannot happen."""
ROW, MARGIN, NODE = 30.0, 14.0, 20.0
STEPS = (64.0, 46.0)
"""The distances in px between two actions, for a wide and for a narrow page."""


def outcome_tree(orders: Mapping[Path, Sequence[Cell]], columns: Sequence[str], *, title: str = "") -> Picture:
    """Return a picture of ``orders``: each maps its actions to one cell for each of ``columns``.

    An action that begins with ``|`` is drawn as a barrier, with the words after it. Raises Error if there is no order,
    or if an order does not have one cell a column.
    """
    if not orders:
        raise Error("there are no orders to draw; give at least one")
    for path, cells in orders.items():
        if len(cells) != len(columns):
            raise Error(f"the order {', '.join(path)} has {len(cells)} cells for {len(columns)} columns; give one each")
    lines = [title] if title else []
    for path, cells in orders.items():
        said = [
            f"{name} {words}{' (wrong)' if kind == 'wrong' else ''}"
            for name, (words, kind) in zip(columns, cells, strict=True)
        ]
        lines.append(f"{', '.join(path)}: {', '.join(said)}")
    return Picture("\n".join(lines), *(_draw(orders, columns, title, step) for step in STEPS))


def _draw(orders: Mapping[Path, Sequence[Cell]], columns: Sequence[str], title: str, step: float) -> Drawing:
    leaves = _sorted(list(orders))
    top = (28.0 if title else 4.0) + 26
    rows = {path: top + ROW * (n + 0.5) for n, path in enumerate(leaves)}
    prefixes = list(dict.fromkeys(path[:n] for path in leaves for n in range(len(path) + 1)))
    places = {}
    for prefix in prefixes:
        ys = [y for path, y in rows.items() if path[: len(prefix)] == prefix]
        places[prefix] = (MARGIN + 6 + step * len(prefix), (ys[0] + ys[-1]) / 2)
    out = [text((MARGIN, 20), title, kind="b", size=14)]
    for prefix in prefixes[1:]:
        (x0, y0), (x1, y1) = places[prefix[:-1]], places[prefix]
        out.append(line([(x0, y0), (x0 + step * 0.35, y1), (x1, y1)], "frame", wide=1.4, radius=8))
    out.append(disc(*places[()], 3.5))
    out += [_node(prefix[-1], *places[prefix]) for prefix in prefixes[1:]]
    left = MARGIN + 6 + step * max(map(len, leaves)) + 34
    for n, name in enumerate(columns):
        words = [cells[n] for cells in orders.values()]
        wide = max(width(name, bold=True), *(width(each, bold=True) + 18 for each, _ in words)) + 12
        out.append(text((left + 6, top - 10), name, kind="b"))
        out += [_cell(orders[path][n], left, y, wide) for path, y in rows.items()]
        left += wide + 8
    return Drawing(max(left, width(title, 14, bold=True) + MARGIN) + MARGIN, top + ROW * len(leaves) + 8, "".join(out))


def _sorted(paths: list[Path]) -> list[Path]:
    """Return the orders so that those with a common beginning are neighbours, in order of first appearance."""
    first: dict[Path, int] = {}
    for path in paths:
        for n in range(len(path) + 1):
            first.setdefault(path[:n], len(first))
    return sorted(paths, key=lambda path: [first[path[:n]] for n in range(len(path) + 1)])


def _node(action: str, x: float, y: float) -> str:
    words = action.removeprefix("|").strip()
    wide = max(NODE, width(words) + (16 if action.startswith("|") else 10))
    box = rect(x - wide / 2, y - NODE / 2, wide, NODE, fill="page", stroke="frame", radius=4)
    if not action.startswith("|"):
        return box + text((x, y + 4), words, anchor="middle")
    at = (x - wide / 2 + 8, y)
    return box + barrier(at, (at[0] + 9, y), 6) + text((at[0] + 5, y + 4), words, kind="m")


def _cell(cell: Cell, x: float, y: float, wide: float) -> str:
    words, kind = cell
    tint = {"right": "panel", "wrong": "deleted-tint"}.get(kind, "page")
    out = rect(x, y - ROW / 2 + 2, wide, ROW - 4, fill=tint, radius=3)
    if kind == "wrong":
        out += cross(x + 11, y, 4)
    look = {"right": "", "wrong": "b"}.get(kind, "m")
    return out + text((x + 22 if kind == "wrong" else x + 8, y + 4), words, kind=look)


__all__ = ["outcome_tree"]
