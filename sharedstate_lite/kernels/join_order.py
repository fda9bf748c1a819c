"""The order of lookups in a join of n inputs.

A change of one input is joined with the other inputs one after the other. Each of these inputs is looked up by the
columns that must equal columns of inputs already joined. So every input has its own *path*: the steps that join a
change of this input with all other inputs.

The delta join of shared state and the multi-way join of full state use these paths. Source: the delta queries of
Materialize; Flink's multi-way join (FLIP-516).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.nodes import Join, Node


@dataclass(frozen=True)
class Step:
    """One step of a path: look up ``input`` by its columns ``key``.

    The values of the key are those of the (input, column) pairs in ``lookup``, which are joined already.
    """

    input: int
    key: tuple[int, ...]
    lookup: tuple[tuple[int, int], ...]
    checks: tuple[tuple[int, tuple[int, int]], ...]
    """Further equalities to check: pairs of a column of the row found and the (input, column) that it must equal."""


@dataclass(frozen=True)
class Multiway:
    """The inputs of a multi-way join from left to right, and the path of each input."""

    inputs: tuple[Node, ...]
    paths: tuple[tuple[Step, ...], ...]


InputColumn = tuple[int, int]


def flatten(node: Join) -> Multiway:
    """Return the inputs of a left-deep tree of inner joins, and the path of each. A LEFT JOIN is a single input."""
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
    joined, steps = {start}, []
    while len(joined) < len(inputs):
        # The first input with a column that must equal a column of an input already joined.
        following = min(b[0] for a, b in _both(equal) if a[0] in joined and b[0] not in joined)
        pairs: dict[int, InputColumn] = {}
        checks = []
        for a, b in _both(equal):
            if a[0] in joined and b[0] == following and pairs.setdefault(b[1], a) != a:
                # The column is already in the key, so this equality is checked on the rows found.
                checks.append((b[1], a))
        key = tuple(sorted(pairs))
        steps.append(Step(following, key, tuple(pairs[i] for i in key), tuple(checks)))
        joined.add(following)
    return tuple(steps)


def _both(equal: list[tuple[InputColumn, InputColumn]]) -> list[tuple[InputColumn, InputColumn]]:
    return equal + [(b, a) for a, b in equal]
