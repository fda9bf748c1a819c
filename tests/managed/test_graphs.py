"""Components against union-find, triangles against a search through all triples (rules 26 and 34)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedstate_lite import managed as m
from sharedstate_lite.errors import StateError
from sharedstate_lite.managed.graphs import Components, components, merged, triangles

EDGES = m.source("edges", "source BIGINT, target BIGINT, op STRING", key="source")
PARTS = m.source("edges", "part INT, source BIGINT, target BIGINT, op STRING", key="part")
VERTEX = st.integers(0, 9)


def union_find(edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The smallest vertex of each vertex's component."""
    parent: dict[int, int] = {}

    def root(vertex: int) -> int:
        parent.setdefault(vertex, vertex)
        while parent[vertex] != vertex:
            vertex = parent[vertex]
        return vertex

    for source, target in edges:
        low, high = sorted((root(source), root(target)))
        parent[high] = low
    return {vertex: root(vertex) for vertex in sorted(parent)}


def count(edges: set[tuple[int, int]]) -> int:
    """The number of triangles of an undirected graph."""
    both = edges | {(b, a) for a, b in edges}
    vertices = sorted({vertex for edge in both for vertex in edge})
    return sum({(a, b), (b, c), (a, c)} <= both for a, b, c in combinations(vertices, 3))


@given(edges=st.lists(st.tuples(VERTEX, VERTEX), max_size=12), cut=st.integers(0, 12), times=st.integers(1, 2))
def test_rule_34_summaries_merge_in_any_order_and_any_number_of_times(
    edges: list[tuple[int, int]], cut: int, times: int
) -> None:
    """Rule 34: merging is associative, commutative and idempotent."""

    def summary(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        vertices, labels = components([a for a, _ in pairs], [b for _, b in pairs])
        return list(zip(vertices.tolist(), labels.tolist(), strict=True))

    left, right = summary(edges[:cut]), summary(edges[cut:])
    whole = summary(edges)
    assert summary(left * times + right) == summary(right + left) == summary(whole + left) == whole
    assert dict(whole) == union_find(edges)


@settings(max_examples=30)
@given(
    epochs=st.lists(st.lists(st.tuples(st.integers(0, 3), VERTEX, VERTEX), max_size=6), max_size=4),
    workers=st.integers(1, 4),
)
def test_components_are_right_however_edges_are_distributed(
    epochs: list[list[tuple[int, int, int]]], workers: int
) -> None:
    """Rule 34 in a run: any parts, any epochs, rescaled after each."""
    run = m.run(Components(), PARTS, workers=workers)
    for number, epoch in enumerate(epochs):
        run.step([(*edge, "insert") for edge in epoch])
        run.rescale(1 + number % 4)
    assert merged(run.read("labels")) == union_find((a, b) for epoch in epochs for _, a, b in epoch)


@settings(max_examples=40)
@given(
    changes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), max_size=25),
    cuts=st.sets(st.integers(0, 25)),
    workers=st.integers(1, 3),
)
def test_triangles_come_and_go(changes: list[tuple[int, int, bool]], cuts: set[int], workers: int) -> None:
    """After each epoch, the sum of the changes is the number of triangles; where epochs are cut does not matter."""
    run = m.run(triangles(), EDGES, workers=workers)
    edges: set[tuple[int, int]] = set()
    total = 0
    bounds = sorted({0, len(changes), *cuts})
    for first, last in zip(bounds, bounds[1:], strict=False):
        rows = [(a, b, "insert" if insert else "delete") for a, b, insert in changes[first:last]]
        total += int(run.step(rows)["triangles"].sum())
        for a, b, insert in changes[first:last]:
            edge = (min(a, b), max(a, b))
            if insert and a != b:
                edges.add(edge)
            else:
                edges.discard(edge)
        assert total == count(edges)
    stored = run.state().groupby("relation")["rows"].sum()
    assert stored["near"] == stored["known"] == 2 * len(edges)


def test_what_a_summary_and_an_edge_cannot_be() -> None:
    """A deletion names the reason; the state is as before."""
    run = m.run(Components(), PARTS)
    run.step([(0, 1, 2, "insert")])
    with pytest.raises(StateError, match="cannot delete an edge"):
        run.step([(0, 2, 3, "insert"), (0, 1, 2, "delete")])
    assert merged(run.read("labels")) == {1: 1, 2: 1}
    with pytest.raises(StateError, match="op='add' is unknown"):
        m.run(triangles(), EDGES).step([(1, 2, "add")])
