"""A chain of inner joins taken apart: its inputs, and for each the order of its look-ups.

For a change of one input, a delta join looks the other inputs up one after the other,
each by the columns it is joined by to those already there. Which those are depends on
the order, so it is worked out here once, for both the delta join of shared state and
the multi-way join of full state.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.nodes import Join, Node, Type


@dataclass(frozen=True)
class Step:
    """Look up ``input`` by its columns ``key``, with the values at ``lookup``: (input, column) pairs already there."""

    input: int
    key: tuple[int, ...]
    lookup: tuple[tuple[int, int], ...]
    types: tuple[Type, ...]
    checks: tuple[tuple[int, tuple[int, int]], ...]
    """Further equalities of what is found: its column, and the (input, column) it must equal."""


@dataclass(frozen=True)
class Multiway:
    """Inputs left to right, and a path of look-ups for each."""

    inputs: tuple[Node, ...]
    paths: tuple[tuple[Step, ...], ...]


InputColumn = tuple[int, int]


def flatten(node: Join) -> Multiway:
    """The inputs of a left-deep chain of inner joins, and the path of each. A LEFT JOIN ends the chain."""
    inputs: list[Node] = []
    equal: list[tuple[InputColumn, InputColumn]] = []

    def visit(part: Node) -> list[InputColumn]:
        if not isinstance(part, Join) or part.outer:
            inputs.append(part)
            return [(len(inputs) - 1, i) for i in range(len(part.schema))]
        left, right = visit(part.left), [(len(inputs), i) for i in range(len(part.right.schema))]
        inputs.append(part.right)
        equal.extend((left[a], right[b]) for a, b in zip(part.left_keys, part.right_keys, strict=True))
        return left + right

    visit(node)
    return Multiway(tuple(inputs), tuple(_path(start, inputs, equal) for start in range(len(inputs))))


def _path(start: int, inputs: list[Node], equal: list[tuple[InputColumn, InputColumn]]) -> tuple[Step, ...]:
    there, steps = {start}, []
    while len(there) < len(inputs):
        # The lowest input that is joined to what is there; a chain has one.
        following = min(b[0] for a, b in _both(equal) if a[0] in there and b[0] not in there)
        pairs: dict[int, InputColumn] = {}
        checks = []
        for a, b in _both(equal):
            if a[0] in there and b[0] == following and pairs.setdefault(b[1], a) != a:
                # A column is looked up once; what else it must equal is checked on what is found.
                checks.append((b[1], a))
        key = tuple(sorted(pairs))
        types = tuple(inputs[following].schema[i].type for i in key)
        steps.append(Step(following, key, tuple(pairs[i] for i in key), types, tuple(checks)))
        there.add(following)
    return tuple(steps)


def _both(equal: list[tuple[InputColumn, InputColumn]]) -> list[tuple[InputColumn, InputColumn]]:
    return equal + [(b, a) for a, b in equal]
