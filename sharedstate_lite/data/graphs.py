"""Power-law graphs: a few nodes have most of the edges, as in a social network.

Each row is an edge with the columns ``source`` BIGINT and ``target`` BIGINT. The first rows contain one edge from each
node, so no node is a sink. The other sources and all targets follow a Zipf distribution over the nodes, in a scattered
order. No edge starts and ends at the same node, but an edge can occur more than once. With ``islands``, an edge only
connects nodes whose numbers have the same remainder modulo ``islands``. The graph then has at least that many connected
components.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..errors import Error
from . import limits, numbered
from .draws import Whole, Zipf, key, unshuffled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "source BIGINT, target BIGINT"
MOST_NODES = 1 << 32
SKEW = 0.8
"""The default exponent: a rank's probability is proportional to rank ** -SKEW.

The degrees therefore follow a power law with the exponent 1 + 1/SKEW.
"""


def draw(numbers: Whole, nodes: int, islands: int = 1, seed: int = 0, skew: float = SKEW) -> dict[str, Whole]:
    """Return the edges with the row numbers ``numbers``, int64[n], as the columns ``source`` and ``target``.

    Raises Error for a parameter outside its limits, and if an island would have fewer than two nodes.
    """
    limits.whole("nodes", nodes, 2, MOST_NODES)
    limits.whole("islands", islands, 1, MOST_NODES)
    limits.skew(skew)
    limits.seed(seed)
    if nodes < 2 * islands:
        raise Error(
            f"nodes={nodes}, islands={islands}: an island needs at least two nodes, because no edge starts and ends at "
            "the same node. Choose fewer islands."
        )
    drawn = _nodes(numbers, nodes, 1, skew, key(seed, 4))
    source = np.where(numbers < nodes, numbers, drawn)
    island = source % islands
    size = (nodes - island - 1) // islands + 1  # number of nodes on the source's island
    place = (_nodes(numbers, nodes, 1, skew, key(seed, 5)) // islands) % size
    # An edge must not end at its source; it ends at the next node on the island instead.
    place = np.where(place == source // islands, (place + 1) % size, place)
    return {"source": source, "target": place * islands + island}


def _nodes(numbers: Whole, nodes: int, under: int, skew: float, of: int) -> Whole:
    """Return one Zipf-distributed node for each number. A node's rank depends only on ``nodes`` and ``under``."""
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
    """Return ``count`` edges between ``nodes`` nodes as a DataFrame. The rows do not depend on ``tasks``.

    Raises Error if there are fewer edges than nodes, and in the same cases as `draw`.
    """
    made = _make(nodes, count, islands, seed, skew)
    return numbered.frame(session, count, made, SCHEMA, tasks)


def table(nodes: int, count: int, islands: int = 1, seed: int = 0, skew: float = SKEW) -> pa.Table:
    """Return the same edges as `edges`, as an Arrow table and without Spark."""
    return numbered.table(count, _make(nodes, count, islands, seed, skew))


def _make(nodes: int, count: int, islands: int, seed: int, skew: float) -> numbered.Make:
    draw(np.empty(0, np.int64), nodes, islands, seed, skew)
    limits.whole("count", count, 0, numbered.MOST_ROWS)
    if count < nodes:
        raise Error(f"count={count}, nodes={nodes}: every node has an outgoing edge. Choose at least {nodes} edges.")
    return functools.partial(draw, nodes=nodes, islands=islands, seed=seed, skew=skew)
