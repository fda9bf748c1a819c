"""Runs graph algorithms as dataflows, with GraphX, GraphFrames and joins of DataFrames.

GraphX does not have a Python API, so its Scala objects are called through py4j. GraphFrames needs two jars that
PySpark does not include (spark/session/jars.py). If they are missing, :func:`absent` returns the reason. The graph is
read from a text file with one line ``source target`` per edge.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from ...spark.session import jars
from . import graphs
from .graphs import Graph, Labels, Ranks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def absent() -> str:
    """Return why GraphFrames is not available and how to fix that, or '' if it is available."""
    found = jars.find("graphframes")
    return f"{found.absent}; {found.mend}" if found.absent is not None else ""


def write(graph: Graph, path: Path) -> str:
    """Write the graph to a text file with one line ``source target`` per edge, and return its path."""

    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    ends = {"source": pa.array(graph.source), "target": pa.array(graph.target)}
    csv.write_csv(pa.table(ends), path, options)
    return str(path)


class Outside:
    """A graph that Spark reads once from the file ``edges`` and then caches, in ``parts`` partitions.

    A node without edges has rank RESET.
    """

    def __init__(self, session: SparkSession, graph: Graph, edges: str, parts: int) -> None:
        self._session, self._graph, self._path, self._parts = session, graph, edges, parts
        self._nodes = graph.nodes

    def graphx_pagerank(self, iterations: int) -> Ranks:
        """Run GraphX's PageRank. The ranks add up to the number of nodes with an edge."""
        lib = self._jvm.org.apache.spark.graphx.lib
        tag = self._jvm.scala.reflect.ClassTag.Int()
        ranked = lib.PageRank.run(self._graphx, iterations, graphs.RESET, tag, tag)
        ids, values = self._vertices(ranked, self._jvm.org.apache.spark.sql.Encoders.scalaDouble())
        return self._ranks(ids, values)

    def graphx_components(self) -> Labels:
        """Run GraphX's ConnectedComponents, and return the smallest node in each node's component."""
        tag = self._jvm.scala.reflect.ClassTag.Int()
        found = self._jvm.org.apache.spark.graphx.lib.ConnectedComponents.run(self._graphx, tag, tag)
        return self._labels(*self._vertices(found, self._jvm.org.apache.spark.sql.Encoders.scalaLong()))

    def frames_pagerank(self, iterations: int) -> Ranks:
        """Run GraphFrames' pageRank, which runs PageRank from GraphFrames' own copy of GraphX."""
        found = self._frames.pageRank(resetProbability=graphs.RESET, maxIter=iterations).vertices
        table = found.select("id", "pagerank").toArrow()
        return self._ranks(table.column("id").to_numpy(), table.column("pagerank").to_numpy())

    def frames_components(self) -> Labels:
        """Run GraphFrames' connectedComponents with the algorithm "graphx", which is its fastest on a small graph."""
        table = self._frames.connectedComponents(algorithm="graphx").select("id", "component").toArrow()
        return self._labels(table.column("id").to_numpy(), table.column("component").to_numpy())

    def joined_pagerank(self, iterations: int) -> Ranks:
        """Run PageRank with a join and a sum per iteration.

        The ranks of each iteration are checkpointed, so that the next iteration does not recompute them.
        """
        from pyspark.sql import functions as f

        degrees = self._edges.groupBy("source").agg(f.count("*").alias("degree"))
        edges = self._edges.join(degrees, "source").cache()
        nodes = self._session.range(0, self._nodes, 1, self._parts).withColumnRenamed("id", "node").cache()
        ranks = nodes.select("node", f.lit(1.0).alias("rank"))
        for _ in range(iterations):
            passed = edges.join(ranks, edges["source"] == ranks["node"]).select(
                "target", (f.col("rank") / f.col("degree")).alias("passed")
            )
            sums = passed.groupBy(f.col("target").alias("node")).agg(f.sum("passed").alias("sum"))
            rank = graphs.RESET + (1 - graphs.RESET) * f.coalesce(f.col("sum"), f.lit(0.0))
            ranks = nodes.join(sums, "node", "left").select("node", rank.alias("rank")).localCheckpoint()
        table = ranks.toArrow()
        for frame in (edges, nodes):
            frame.unpersist()
        return self._graph.scaled(self._ranks(table.column("node").to_numpy(), table.column("rank").to_numpy()))

    def joined_components(self) -> Labels:
        """Find connected components with a join and a minimum per round.

        Only nodes whose label has changed are joined with their edges.
        """
        from pyspark.sql import functions as f

        back = self._edges.select(f.col("target").alias("source"), f.col("source").alias("target"))
        both = self._edges.union(back).cache()
        labels = self._session.range(0, self._nodes, 1, self._parts).select(
            f.col("id").alias("node"), f.col("id").alias("label"), f.lit(True).alias("changed")
        )
        more = True
        while more:
            news = both.join(labels.where("changed"), both["source"] == labels["node"]).select("target", "label")
            least = news.groupBy(f.col("target").alias("node")).agg(f.min("label").alias("heard"))
            better = f.coalesce(f.col("heard") < f.col("label"), f.lit(False))
            after = labels.join(least, "node", "left").select(
                "node", f.when(better, f.col("heard")).otherwise(f.col("label")).alias("label"), better.alias("changed")
            )
            labels = after.localCheckpoint()
            more = labels.where("changed").limit(1).count() > 0
        table = labels.toArrow()
        both.unpersist()
        return self._labels(table.column("node").to_numpy(), table.column("label").to_numpy())

    @property
    def _jvm(self) -> Any:
        return self._session._jvm

    @cached_property
    def _graphx(self) -> Any:
        context: Any = self._session.sparkContext
        level = self._jvm.org.apache.spark.storage.StorageLevel.MEMORY_ONLY()
        load = self._jvm.org.apache.spark.graphx.GraphLoader.edgeListFile
        graph = load(context._jsc.sc(), self._path, False, self._parts, level, level)
        # Read the graph now, so that the time is not included in a measured run.
        graph.edges().count()
        return graph

    @cached_property
    def _edges(self) -> DataFrame:
        frame = self._session.read.csv(self._path, schema="source BIGINT, target BIGINT", sep=" ").cache()
        frame.count()
        return frame

    @cached_property
    def _frames(self) -> Any:
        from graphframes import GraphFrame

        ends = self._edges.selectExpr("source AS src", "target AS dst")
        nodes = ends.selectExpr("explode(array(src, dst)) AS id").distinct()
        return GraphFrame(nodes.cache(), ends.cache())

    def _vertices(self, graph: Any, value: Any) -> tuple[Any, Any]:
        """Collect the nodes of a GraphX graph and their values as two arrays."""
        from pyspark.sql import DataFrame

        encoders = self._jvm.org.apache.spark.sql.Encoders
        session: Any = self._session._jsparkSession
        data = session.createDataset(graph.vertices(), encoders.tuple(encoders.scalaLong(), value))
        table = DataFrame(data.toDF(), self._session).toArrow()
        return table.column(0).to_numpy(), table.column(1).to_numpy()

    def _ranks(self, ids: Any, values: Any) -> Ranks:
        """Return the ranks of all nodes. A node without edges is not in GraphX's graph, so its rank is RESET."""
        out = np.full(self._nodes, graphs.RESET)
        out[ids] = values
        return out

    def _labels(self, ids: Any, values: Any) -> Labels:
        """Return the components of all nodes. A node without edges forms a separate component."""
        out = np.arange(self._nodes)
        out[ids] = values
        return out
