"""The graph of use case 1, the kernels of PageRank and connected components, and approximate equality.

PageRank works as in GraphX. Every rank starts at 1. In each iteration, every node passes on its rank, divided by the
number of its outgoing edges, along each of these edges. Its new rank is 0.15 + 0.85 times the sum that it receives. At
the end, the ranks of nodes with an edge are scaled so that they add up to the number of these nodes. If the graph does
not have sinks, scaling does not change anything.

For connected components, every node starts with its own number as its label, and takes the smallest label of its
neighbours. Only nodes whose label has changed send it to their neighbours (pruning).
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
    """A graph with edges ``source[i] -> target[i]`` between nodes 0 to ``nodes`` - 1.

    Raises Error if an edge contains any other node.
    """

    source: Labels
    target: Labels
    nodes: int

    def __post_init__(self) -> None:
        for ends in (self.source, self.target):
            if len(ends) and not 0 <= ends.min() <= ends.max() < self.nodes:
                raise Error(f"graph: an edge has a node outside 0..{self.nodes - 1}. Number the nodes from 0.")

    @classmethod
    def of(cls, edges: pa.Table, nodes: int) -> Graph:
        """Build a graph from a table of edges with the columns source and target."""
        source, target = (edges.column(name).to_numpy().astype(np.int64) for name in ("source", "target"))
        return cls(source, target, nodes)

    @cached_property
    def incoming(self) -> CSR:
        """For each node, the nodes that have an edge to it."""
        return CSR.from_edges(self.target, self.source, self.nodes)

    @cached_property
    def both(self) -> CSR:
        """For each node, its neighbours in either direction."""
        ends = [self.source, self.target]
        return CSR.from_edges(np.concatenate(ends), np.concatenate(ends[::-1]), self.nodes)

    @cached_property
    def degrees(self) -> Ranks:
        """The number of outgoing edges of each node, or infinity for a sink, so that it passes on a rank of 0."""
        found = np.bincount(self.source, minlength=self.nodes).astype(np.float64)
        return np.where(found == 0, np.inf, found)

    def scaled(self, ranks: Ranks) -> Ranks:
        """Scale the ranks of nodes with an edge to add up to the number of these nodes. Other ranks are unchanged."""
        some = np.zeros(self.nodes, np.bool_)
        some[self.source] = some[self.target] = True
        return np.where(some, ranks * (some.sum() / max(ranks[some].sum(), RESET)), ranks)


class NearlyEqual:
    """An array that equals another NearlyEqual if all numbers differ by at most 1e-9, relative to their size."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, np.float64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NearlyEqual) and bool(
            self.values.shape == other.values.shape and np.allclose(self.values, other.values, rtol=1e-9, atol=0)
        )

    def __hash__(self) -> int:
        raise TypeError("NearlyEqual is not hashable, because its equality is approximate")

    def __repr__(self) -> str:
        return f"NearlyEqual({len(self.values)} values, sum {self.values.sum():.9g})"


def cuts(nodes: int, parts: int) -> list[tuple[int, int]]:
    """Split the nodes into ``parts`` ranges (first, last), without ``last``."""
    at = np.linspace(0, nodes, parts + 1).astype(int).tolist()
    return list(zip(at, at[1:], strict=False))


def pull(incoming: CSR, passed: Ranks, first: int, last: int) -> Ranks:
    """Return the new ranks of nodes ``first`` to ``last`` - 1.

    ``passed[n]`` is the part of its rank that node n passes on along each of its edges.
    """
    pointers = incoming.indptr[first : last + 1]
    given = passed[incoming.indices[pointers[0] : pointers[-1]]]
    some = np.flatnonzero(np.diff(pointers))
    sums = np.zeros(last - first)
    if len(some):
        sums[some] = np.add.reduceat(given, pointers[:-1][some] - pointers[0])
    return RESET + (1 - RESET) * sums


def push(both: CSR, labels: Labels, changed: Labels) -> tuple[Labels, Labels]:
    """Return the neighbours of changed nodes that receive a smaller label, and the smallest label received by each."""
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
    """Apply the updates from all parts, each given as (nodes, labels).

    Returns the new labels and the nodes that changed.
    """
    after = labels.copy()
    for nodes, heard in news:
        np.minimum.at(after, nodes, heard)
    return after, np.flatnonzero(after < labels)


def pagerank(graph: Graph, iterations: int) -> Ranks:
    """Run PageRank in this process with numpy."""
    ranks = np.ones(graph.nodes)
    for _ in range(iterations):
        ranks = pull(graph.incoming, ranks / graph.degrees, 0, graph.nodes)
    return graph.scaled(ranks)


def components(graph: Graph) -> Labels:
    """Find connected components in this process, and return the smallest node in each node's component."""
    labels = changed = np.arange(graph.nodes)
    while len(changed):
        labels, changed = told(labels, [push(graph.both, labels, changed)])
    return labels
