"""Operators beyond the neighbours of the one that acts, gathered under ``upstream`` and ``downstream``.

The last thing that gives way where there is no room. The views stay, and so do the
operators next to the one that acts, as long as that makes no circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..heights import Link
from ..layout import columns
from ..table import counted
from .chips import Load
from .nodes import Node
from .script import Lane, Script, Way

UP, DOWN = "(upstream)", "(downstream)"


def gathered(
    script: Script, nodes: dict[str, Node], actor: str, fewer: int = 0
) -> tuple[dict[str, Node], list[Way], dict[Lane, list[Load]], dict[str, str]]:
    """Fewer nodes, their ways, what runs on those, and the node that each operator is drawn as.

    ``fewer`` 0 keeps the operator's neighbours and the views, 1 the views, 2 itself alone.
    """
    after = _reached(script.ways, actor)
    next_to = {w.source for w in script.ways if w.target == actor} | {
        w.target for w in script.ways if w.source == actor
    }
    views = {o.name for o in script.operators.values() if o.kind == "view"}
    for kept in ({actor} | next_to | views, {actor} | views, {actor})[fewer:]:
        drawn = {n: n if n in kept else DOWN if n in after else UP for n in nodes}
        ends = {(drawn[w.source], drawn[w.target]) for w in script.ways}
        links = [Link(a, b, 0, 0) for a, b in sorted(ends) if a != b]
        try:
            columns(list(dict.fromkeys(drawn.values())), links)
        except ValueError:
            continue
        break
    few = {n: node for n, node in nodes.items() if drawn[n] == n}
    for name in (UP, DOWN):
        inside = [n for n in nodes if drawn[n] == name]
        if len(inside) == 1:
            few[inside[0]], drawn[inside[0]] = nodes[inside[0]], inside[0]
        elif inside:
            few[name] = _summary(script, name, inside)
    return *_joined(script, few, drawn), drawn


def _joined(
    script: Script, few: dict[str, Node], drawn: dict[str, str]
) -> tuple[dict[str, Node], list[Way], dict[Lane, list[Load]]]:
    """The edges between what is left, several that became one drawn as one; numbers of edges stay."""
    ways: list[Way] = []
    sizes: dict[Lane, list[Load]] = {}
    seen: set[tuple[str, str]] = set()
    for number, way in enumerate(script.ways):
        a, b = drawn[way.source], drawn[way.target]
        if a == b or (a, b) in seen:
            # Keeps its number, and joins nothing that is drawn.
            ways.append(Way("", "", way.read, way.two, None, way.edge))
            continue
        seen.add((a, b))
        ways.append(Way(a, b, way.read, way.two, way.table if a == way.source else None, way.edge))
        sizes |= {lane: loads for lane, loads in script.sizes.items() if lane[0] == number}
    into = Counter(w.target for w in ways if w.target)
    for name, node in few.items():
        node.inputs = max(into[name], 1)
    return few, ways, sizes


def _reached(ways: Sequence[Way], start: str) -> set[str]:
    """What comes after an operator."""
    found: set[str] = set()
    open_ = [start]
    while open_:
        at = open_.pop()
        new = {w.target for w in ways if w.source == at} - found
        found |= new
        open_ += new
    return found


def _summary(script: Script, name: str, inside: Sequence[str]) -> Node:
    kinds = Counter(script.operators[n].kind for n in inside)
    sources, views = kinds["source"], kinds["view"]
    others = len(inside) - sources - views
    words = [counted(k, w) for k, w in ((sources, "source"), (others, "operator"), (views, "view")) if k]
    held = any(script.operators[n].tables for n in inside)
    return Node(name, name.strip("()"), "", holds=held, words=tuple(words), inputs=1)
