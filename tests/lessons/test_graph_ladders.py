"""Graphs: every rung gives the ranks and components of plain Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from sharedstate_lite import worker as w
from sharedstate_lite.data import graphs as made
from sharedstate_lite.errors import Error
from sharedstate_lite.lessons.usecases import dataflow, graphs, ladder, readonly
from sharedstate_lite.lessons.usecases.graphs import Graph, NearlyEqual
from sharedstate_lite.worker.runtime import host

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITERATIONS = 2


def ranked(graph: Graph, iterations: int) -> list[float]:
    """PageRank by its definition, an edge at a time."""
    ranks = [1.0] * graph.nodes
    degrees = [0] * graph.nodes
    edges = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    for source, _ in edges:
        degrees[source] += 1
    for _ in range(iterations):
        heard = [0.0] * graph.nodes
        for source, target in edges:
            heard[target] += ranks[source] / degrees[source]
        ranks = [0.15 + 0.85 * one for one in heard]
    there = {node for edge in edges for node in edge}
    scale = len(there) / sum(ranks[node] for node in there) if there else 1.0
    return [rank * scale if node in there else rank for node, rank in enumerate(ranks)]


def connected(graph: Graph) -> list[int]:
    """Components by union of sets, each named by its smallest node."""
    parent = list(range(graph.nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        ends = sorted((root(source), root(target)))
        parent[ends[1]] = ends[0]
    return [root(node) for node in range(graph.nodes)]


nodes = st.shared(st.integers(1, 12), key="nodes")
ends = nodes.flatmap(lambda n: st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))


@given(nodes, ends)
def test_kernels(count: int, edges: list[tuple[int, int]]) -> None:
    """On any graph, with sinks, loops and repeated edges, the kernels equal the definitions."""
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    graph = Graph(pairs[:, 0], pairs[:, 1], count)
    assert NearlyEqual(graphs.pagerank(graph, ITERATIONS)) == NearlyEqual(ranked(graph, ITERATIONS))
    assert graphs.components(graph).tolist() == connected(graph)


def test_every_rung(spark: SparkSession, tmp_path: Path) -> None:
    """All rungs agree on a graph with a sink and a node without edges."""
    table = made.table(300, 2_000, islands=3, seed=1)
    source, target = (np.append(table.column(name).to_numpy(), end) for name, end in (("source", 5), ("target", 300)))
    graph = Graph(source, target, 302)
    edges = dataflow.write(graph, tmp_path / "edges.txt")
    steps = ladder.climb(readonly.pagerank_rungs(spark, graph, edges, ITERATIONS), warm=0)
    assert all(step.answer == NearlyEqual(ranked(graph, ITERATIONS)) for step in steps if not step.absent)
    steps += ladder.climb(readonly.components_rungs(spark, graph, edges), warm=0)
    assert all(step.answer == NearlyEqual(connected(graph)) for step in steps[8:] if not step.absent)
    ran = [step.name for step in steps if not step.absent]
    assert len(ran) >= 14 and ran.count("GraphX") == ran.count("shared, one job") == 2


def test_graphx_is_the_first_rung(spark: SparkSession) -> None:
    """GraphX, which needs no jar, is what the other rungs are compared with."""
    graph = Graph(np.array([0]), np.array([1]), 2)
    for rungs in (readonly.pagerank_rungs(spark, graph, ""), readonly.components_rungs(spark, graph, "")):
        assert list(rungs)[:2] == ["GraphX", "GraphFrames"]


def test_pruning_saves_work_on_a_single_edge() -> None:
    """In the second round only one of two nodes sends a message."""
    graph = Graph(np.array([0]), np.array([1]), 3)
    all_of_them = np.arange(3)
    labels, changed = graphs.told(all_of_them, [graphs.push(graph.both, all_of_them, all_of_them)])
    assert labels.tolist() == [0, 0, 2] and changed.tolist() == [1]
    assert len(graph.both.neighbours(2)) == 0


@pytest.mark.skipif(not host.LINUX, reason="PSS is told by Linux alone: run it there")
def test_a_shared_graph_is_in_memory_once(spark: SparkSession) -> None:
    """Two tasks that map a graph account for one copy; two with a broadcast graph for two."""
    size = 8_000_000
    held = readonly.held(spark, w.CSR(np.array([0, size]), np.zeros(size, np.int32)), 2)
    assert held["broadcast"] > 1.8 * 4 * size and held["shared"] < 1.5 * 4 * size


def test_graphframes_are_there_or_told_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the jar the rung says why, what to do, and which variable names a jar."""
    monkeypatch.setenv("SHAREDSTATE_LITE_GRAPHFRAMES_JAR", str(tmp_path / "gone.jar"))
    assert "gone.jar is not a file" in dataflow.absent() and "SHAREDSTATE_LITE_GRAPHFRAMES_JAR" in dataflow.absent()
    monkeypatch.delenv("SHAREDSTATE_LITE_GRAPHFRAMES_JAR")
    monkeypatch.setenv("SHAREDSTATE_LITE_CACHE", str(tmp_path))
    assert "has not been downloaded yet" in dataflow.absent() and "or set " in dataflow.absent()


@pytest.mark.skipif(bool(dataflow.absent()), reason=f"GraphFrames: {dataflow.absent()}")
def test_graphframes(spark: SparkSession, tmp_path: Path) -> None:
    """GraphFrames gives the same answer, if its jar is available."""
    graph = Graph.of(made.table(300, 2_000, islands=3), 300)
    outside = dataflow.Outside(spark, graph, dataflow.write(graph, tmp_path / "edges.txt"), 2)
    assert NearlyEqual(outside.frames_pagerank(ITERATIONS)) == NearlyEqual(ranked(graph, ITERATIONS))
    assert outside.frames_components().tolist() == connected(graph)


def test_what_is_no_graph_is_refused() -> None:
    """A node outside the graph raises; ranks compare as equal within 1e-9."""
    with pytest.raises(Error, match=r"outside 0\.\.1"):
        Graph.of(pa.table({"source": [0], "target": [2]}), 2)
    assert NearlyEqual([1.0, 2.0]) == NearlyEqual([1.0 + 1e-12, 2.0]) and NearlyEqual([1.0]) != NearlyEqual(
        [1.0 + 1e-6]
    )
