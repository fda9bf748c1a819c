"""Graphs that grow and shrink: connected components from summaries that merge, and triangles from stored neighbours.

A *summary* maps each vertex to the smallest vertex of its component. It is itself a set of edges, so two summaries are
merged by computing the components of all their entries. Merging is associative, commutative and idempotent: the
components are right however the edges are distributed over summaries, and however summaries are moved and merged. What
a summary costs is that it cannot forget an edge.

Triangles can be deleted, because all neighbours of each vertex are stored.

Source: Dhulipala et al., ConnectIt, VLDB 2020 (hooking and pointer jumping on smallest labels); gelly-streaming, for a
summary in each partition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import StateError, shorten
from .declare import StatefulOperator
from .handles import MapState, ReducingState

Vertices = npt.NDArray[np.int64]
INSERT, DELETE = "insert", "delete"
"""The values of the column ``op`` of an edge."""


def components(source: Any, target: Any) -> tuple[Vertices, Vertices]:
    """Return the vertices of n edges, int64[m] in ascending order, and the smallest vertex of each one's component.

    To merge summaries, pass all their vertices as ``source`` and all their labels as ``target``.

    >>> [each.tolist() for each in components([1, 5, 3], [2, 4, 2])]
    [[1, 2, 3, 4, 5], [1, 1, 1, 4, 4]]
    """
    ends = np.concatenate([np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64)])
    vertices, place = np.unique(ends, return_inverse=True)
    a, b = np.split(place, 2)
    label = np.arange(len(vertices))
    while True:
        low, high = np.minimum(label[a], label[b]), np.maximum(label[a], label[b])
        apart = low != high
        if not apart.any():
            return vertices, vertices[label]
        a, b, low, high = (each.compress(apart) for each in (a, b, low, high))
        np.minimum.at(label, high, low)  # hook the larger root to the smaller one
        while not (label == label[label]).all():
            label = label[label]


class Components(StatefulOperator):
    """Keeps a summary for each value of the column ``part``. The columns of an edge are part, source, target and op.

    The parts can be chosen in any way, for example ``source % 8``. `merged` merges the summaries. Raises StateError for
    a deletion.

    >>> from sharedstate_lite import managed as m
    >>> edges = m.source("edges", "part INT, source BIGINT, target BIGINT, op STRING", key="part")
    >>> run = m.run(Components(), edges, workers=2)
    >>> _ = run.step([(0, 1, 2, "insert"), (1, 3, 2, "insert"), (1, 7, 8, "insert")])
    >>> merged(run.read("labels"))
    {1: 1, 2: 1, 3: 1, 7: 7, 8: 7}
    """

    labels = MapState("BIGINT", "BIGINT")

    def rows(self, batch: Any, out: Any) -> None:
        """Add the edges of an epoch to the summaries of their parts."""
        op = batch["op"]
        if not (op == INSERT).all():
            found = shorten(op[op != INSERT].iloc[0])
            raise StateError(
                f"Components: op={found}: a summary of components cannot delete an edge, because it does not store "
                f"edges; every op must be {INSERT!r}"
            )
        stored = self.labels.table(batch.keys)
        part, source, target = (batch[name].to_numpy() for name in ("part", "source", "target"))
        where, vertex, label = [], [], []
        for each in np.unique(part):
            mine = np.flatnonzero(part == each)
            old = stored[part[stored["at"]] == each]
            found_vertex, found_label = components([*source[mine], *old["key"]], [*target[mine], *old["value"]])
            where.append(np.full(len(found_vertex), mine[0]))
            vertex.append(found_vertex)
            label.append(found_label)
        if where:
            self.labels.put(batch.keys[np.concatenate(where)], np.concatenate(vertex), np.concatenate(label))


def merged(summaries: pd.DataFrame) -> dict[int, int]:
    """Merge the summaries in a frame with the column ``labels``, such as ``run.read("labels")``."""
    pairs = [pair for labels in summaries["labels"] for pair in labels.items()]
    vertices, label = components([vertex for vertex, _ in pairs], [label for _, label in pairs])
    return dict(zip(vertices.tolist(), label.tolist(), strict=True))


class BothWays(StatefulOperator):
    """Emits each edge in both directions. Raises StateError for an op that is unknown."""

    key = "source"
    out = "vertex BIGINT, other BIGINT, op STRING"

    def row(self, key: int, row: dict[str, Any], out: Any) -> None:
        """One edge: source, target, op."""
        if row["op"] not in (INSERT, DELETE):
            raise StateError(f"triangles: op={shorten(row['op'])} is unknown; it is {INSERT!r} or {DELETE!r}")
        if row["target"] != key:
            out(key, row["target"], row["op"])
            out(row["target"], key, row["op"])


class Neighbours(StatefulOperator):
    """Stores the neighbours of each vertex, and sends them to the other end of an edge that is new or deleted."""

    key = "vertex"
    out = "vertex BIGINT, other BIGINT, op STRING, near LIST<BIGINT>"
    near = MapState("BIGINT", "BOOLEAN")

    def row(self, key: int, row: dict[str, Any], out: Any) -> None:
        """One end of an edge. An edge that is inserted twice is one edge, and a missing one is not deleted."""
        other, insert = row["other"], row["op"] == INSERT
        if (other in self.near) == insert:
            return
        out(other, key, row["op"], [vertex for vertex, _ in self.near.items()])
        if insert:
            self.near.put(other, True)
        else:
            self.near.remove(other)


class CommonNeighbours(StatefulOperator):
    """Counts the vertices that are neighbours of both ends of an edge: each is one triangle more or less."""

    key = "vertex"
    out = "vertex BIGINT, other BIGINT, triangles BIGINT"
    known = MapState("BIGINT", "BOOLEAN")
    triangles = ReducingState("BIGINT", "sum")

    def row(self, key: int, row: dict[str, Any], out: Any) -> None:
        """The neighbours of the other end, as they were before the edge."""
        other, insert = row["other"], row["op"] == INSERT
        if key < other:  # the other direction of the edge would count it again
            common = sum(vertex in self.known for vertex in row["near"])
            if common:
                change = common if insert else -common
                self.triangles.add(change)
                out(key, other, change)
        if insert:
            self.known.put(other, True)
        else:
            self.known.remove(other)


def triangles() -> list[StatefulOperator]:
    """Return the chain that emits how the number of triangles changes, for edges with source, target and op.

    >>> from sharedstate_lite import managed as m
    >>> edges = m.source("edges", "source BIGINT, target BIGINT, op STRING", key="source")
    >>> run = m.run(triangles(), edges, workers=2)
    >>> changes = run.step([(1, 2, "insert"), (2, 3, "insert"), (3, 1, "insert"), (1, 2, "delete")])
    >>> changes["triangles"].tolist()
    [1, -1]
    """
    return [BothWays(), Neighbours(), CommonNeighbours()]
