"""Power-law graphs: a few nodes have most of the edges, as in a social network.

Each row is an edge, ``source`` BIGINT and ``target`` BIGINT. The first rows have one edge from each node, so no node is
a sink. The other sources, and all targets, follow a Zipf distribution over the nodes in a scattered order. No edge
starts and ends at one node; an edge may occur twice. With ``islands``, an edge connects only nodes whose numbers have
the same remainder modulo ``islands``, so there are at least that many connected components.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sharedstate_lite.errors import Error

from . import limits, numbered
from .draws import Whole, Zipf, key, unshuffled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "source BIGINT, target BIGINT"
MOST_NODES = 1 << 32
SKEW = 0.8
"""Ranks are drawn in proportion to rank ** -SKEW, so the degrees follow a power law with the exponent 1 + 1/SKEW."""


def draw(numbers: Whole, nodes: int, islands: int = 1, seed: int = 0, skew: float = SKEW) -> dict[str, Whole]:
    """The edges of these row numbers, int64[n]. Raises Error if an island has fewer than two nodes."""
    limits.whole("nodes", nodes, 2, MOST_NODES)
    limits.whole("islands", islands, 1, MOST_NODES)
    limits.skew(skew)
    limits.seed(seed)
    if nodes < 2 * islands:
        raise Error(
            f"nodes={nodes}, islands={islands}: an island needs two nodes, as no edge ends where it starts; "
            "choose fewer islands"
        )
    drawn = _nodes(numbers, nodes, 1, skew, key(seed, 4))
    source = np.where(numbers < nodes, numbers, drawn)
    island = source % islands
    size = (nodes - island - 1) // islands + 1  # nodes on the source's island
    place = (_nodes(numbers, nodes, 1, skew, key(seed, 5)) // islands) % size
    # An edge that would end at its source ends at the next node.
    place = np.where(place == source // islands, (place + 1) % size, place)
    return {"source": source, "target": place * islands + island}


def _nodes(numbers: Whole, nodes: int, under: int, skew: float, of: int) -> Whole:
    """Zipf-distributed nodes; the rank of a node depends on the number of nodes alone."""
    ranks = Zipf(nodes, skew).draw(of, numbers)
    return unshuffled(ranks, np.full(len(ranks), nodes), under, np.zeros(len(ranks), np.uint64))


def edges(
    session: SparkSession,
    nodes: int,
    count: int,
    islands: int = 1,
    seed: int = 0,
    skew: float = SKEW,
    tasks: int | None = None,
) -> DataFrame:
    """``count`` edges between ``nodes`` nodes as a DataFrame, the same for any ``tasks``.

    Raises Error for fewer edges than nodes, and as `draw` does.
    """
    made = _make(nodes, count, islands, seed, skew)
    return numbered.frame(session, count, made, SCHEMA, tasks)


def table(nodes: int, count: int, islands: int = 1, seed: int = 0, skew: float = SKEW) -> pa.Table:
    """The same edges as an Arrow table, without Spark."""
    return numbered.table(count, _make(nodes, count, islands, seed, skew))


def _make(nodes: int, count: int, islands: int, seed: int, skew: float) -> numbered.Make:
    draw(np.empty(0, np.int64), nodes, islands, seed, skew)
    limits.whole("count", count, 0, numbered.MOST_ROWS)
    if count < nodes:
        raise Error(f"count={count}, nodes={nodes}: every node has an outgoing edge; choose at least {nodes} edges")
    return functools.partial(draw, nodes=nodes, islands=islands, seed=seed, skew=skew)
