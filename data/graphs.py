"""Power-law graphs: a few nodes have most of the edges, as where people follow people.

Row n is one edge, ``source`` BIGINT and ``target`` BIGINT. The first edge of each node comes
first, so every node has one that leaves it, and there are no sinks; all other sources, and
all targets, are drawn by Zipf's law over nodes in an order of their own. No edge leads to where
it begins; one may come twice. With ``islands``, nodes whose numbers have the same remainder
keep to themselves: there are then at least so many connected components.
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
"""Ranks are drawn in proportion to rank ** -SKEW; the number of edges of a node then has a tail of 1 + 1/SKEW."""


def draw(numbers: Whole, nodes: int, islands: int = 1, seed: int = 0, skew: float = SKEW) -> dict[str, Whole]:
    """These edges. Raises Error where an island would have fewer than two nodes, and for what is out of its limits."""
    limits.whole("nodes", nodes, 2, MOST_NODES)
    limits.whole("islands", islands, 1, MOST_NODES)
    limits.skew(skew)
    limits.seed(seed)
    if nodes < 2 * islands:
        raise Error(
            f"{nodes} nodes on {islands} islands: an island has two nodes or more, as no edge ends at its start"
        )
    drawn = _nodes(numbers, nodes, 1, skew, key(seed, 4))
    source = np.where(numbers < nodes, numbers, drawn)
    island = source % islands
    # So many nodes are there on each one's island.
    size = (nodes - island - 1) // islands + 1
    place = (_nodes(numbers, nodes, 1, skew, key(seed, 5)) // islands) % size
    # Who would end where it begins goes one further.
    place = np.where(place == source // islands, (place + 1) % size, place)
    return {"source": source, "target": place * islands + island}


def _nodes(numbers: Whole, nodes: int, under: int, skew: float, of: int) -> Whole:
    """Nodes by Zipf's law; which node has which rank depends on their number alone."""
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
    """``count`` edges between ``nodes`` nodes as a DataFrame, a function of the seed alone.

    Raises Error for fewer edges than nodes, and as :func:`draw` does.
    """
    made = _make(nodes, count, islands, seed, skew)
    return numbered.frame(session, count, made, SCHEMA, tasks)


def table(nodes: int, count: int, islands: int = 1, seed: int = 0, skew: float = SKEW) -> pa.Table:
    """The same edges in this process."""
    return numbered.table(count, _make(nodes, count, islands, seed, skew))


def _make(nodes: int, count: int, islands: int, seed: int, skew: float) -> numbered.Make:
    draw(np.empty(0, np.int64), nodes, islands, seed, skew)
    limits.whole("count", count, 0, numbered.MOST_ROWS)
    if count < nodes:
        raise Error(f"{count} edges of {nodes} nodes: one leaves each node, so there are as many or more")
    return functools.partial(draw, nodes=nodes, islands=islands, seed=seed, skew=skew)
