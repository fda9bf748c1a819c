"""What the rungs of use case 1 share: a graph, the kernels of PageRank and components, and approximate equality.

PageRank as in GraphX: every rank starts at 1, and becomes 0.15 + 0.85 times the sum of what its incoming neighbours
pass on, each its rank divided by its number of edges. At the end the ranks of nodes that have an edge are scaled to
add up to the number of those nodes; without sinks that changes nothing.

Connected components: every node starts with its own number and takes the smallest number of its neighbours. Only
nodes whose number has changed send it on (pruning).
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import Error
from ...worker import CSR

Ranks = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
RESET = 0.15


@dataclasses.dataclass(frozen=True)
class Graph:
    """Edges ``source[i] -> target[i]`` between nodes 0 .. nodes - 1. Raises Error for a node outside."""

    source: Labels
    target: Labels
    nodes: int

    def __post_init__(self) -> None:
        for ends in (self.source, self.target):
            if len(ends) and not 0 <= ends.min() <= ends.max() < self.nodes:
                raise Error(f"graph: an edge has an end outside 0..{self.nodes - 1}. Number the nodes from 0.")

    @classmethod
    def of(cls, edges: pa.Table, nodes: int) -> Graph:
        """From a table with the columns source and target."""
        source, target = (edges.column(name).to_numpy().astype(np.int64) for name in ("source", "target"))
        return cls(source, target, nodes)

    @cached_property
    def incoming(self) -> CSR:
        """For each node the nodes that point to it."""
        return CSR.from_edges(self.target, self.source, self.nodes)

    @cached_property
    def both(self) -> CSR:
        """For each node its neighbours in either direction."""
        ends = [self.source, self.target]
        return CSR.from_edges(np.concatenate(ends), np.concatenate(ends[::-1]), self.nodes)

    @cached_property
    def degrees(self) -> Ranks:
        """Edges that leave each node; infinite for a sink, so that it passes nothing on."""
        found = np.bincount(self.source, minlength=self.nodes).astype(np.float64)
        return np.where(found == 0, np.inf, found)

    def scaled(self, ranks: Ranks) -> Ranks:
        """Ranks scaled to add up to the number of nodes with an edge; nodes without edges keep theirs."""
        some = np.zeros(self.nodes, np.bool_)
        some[self.source] = some[self.target] = True
        return np.where(some, ranks * (some.sum() / max(ranks[some].sum(), RESET)), ranks)


class NearlyEqual:
    """Numbers that compare as equal if they differ by at most 1e-9 (relative)."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, np.float64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NearlyEqual) and bool(
            self.values.shape == other.values.shape and np.allclose(self.values, other.values, rtol=1e-9, atol=0)
        )

    def __hash__(self) -> int:
        raise TypeError("numbers that are nearly equal have no hash")

    def __repr__(self) -> str:
        return f"NearlyEqual({len(self.values)} values, sum {self.values.sum():.9g})"


def cuts(nodes: int, parts: int) -> list[tuple[int, int]]:
    """One range of nodes for each part."""
    at = np.linspace(0, nodes, parts + 1).astype(int).tolist()
    return list(zip(at, at[1:], strict=False))


def pull(incoming: CSR, passed: Ranks, first: int, last: int) -> Ranks:
    """The new ranks of nodes first .. last - 1 from what every node passes on."""
    pointers = incoming.indptr[first : last + 1]
    given = passed[incoming.indices[pointers[0] : pointers[-1]]]
    some = np.flatnonzero(np.diff(pointers))
    sums = np.zeros(last - first)
    if len(some):
        sums[some] = np.add.reduceat(given, pointers[:-1][some] - pointers[0])
    return RESET + (1 - RESET) * sums


def push(both: CSR, labels: Labels, changed: Labels) -> tuple[Labels, Labels]:
    """The neighbours of changed nodes that get a smaller label, and the smallest label that each gets."""
    starts, counts = both.indptr[changed], both.indptr[changed + 1] - both.indptr[changed]
    at = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
    nodes, heard = both.indices[at], np.repeat(labels[changed], counts)
    better = heard < labels[nodes]
    nodes, heard = nodes[better].astype(np.int64), heard[better]
    order = np.lexsort((heard, nodes))
    nodes, heard = nodes[order], heard[order]
    first = np.ones(len(nodes), np.bool_)
    first[1:] = nodes[1:] != nodes[:-1]
    return nodes[first], heard[first]


def told(labels: Labels, news: list[tuple[Labels, Labels]]) -> tuple[Labels, Labels]:
    """The labels after the updates of all parts, and the nodes that changed."""
    after = labels.copy()
    for nodes, heard in news:
        np.minimum.at(after, nodes, heard)
    return after, np.flatnonzero(after < labels)


def pagerank(graph: Graph, iterations: int) -> Ranks:
    """PageRank in this process, with numpy."""
    ranks = np.ones(graph.nodes)
    for _ in range(iterations):
        ranks = pull(graph.incoming, ranks / graph.degrees, 0, graph.nodes)
    return graph.scaled(ranks)


def components(graph: Graph) -> Labels:
    """Components in this process: for each node the smallest node that it is connected with."""
    labels = changed = np.arange(graph.nodes)
    while len(changed):
        labels, changed = told(labels, [push(graph.both, labels, changed)])
    return labels
