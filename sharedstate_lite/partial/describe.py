"""Descriptions of partial operators for ``state()``, ``filled()`` and ``graph()``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from ..dataflow.labels import label
from ..plan import graph
from ..plan.nodes import digest
from ..storage.arrangement import Arrangement
from .filled_keys import FilledKeys
from .nodes import BaseNode, PartialNode, ReaderNode
from .reduce import ReduceNode


def unread(view: str) -> str:
    """Return the note about a view of which no key is filled."""
    return (
        f"{view}: nothing was read yet (or all keys were evicted), so read({view!r}) has no rows; "
        f"partial state stores the keys that you read with read({view!r}, key=...)"
    )


def part_names(node: PartialNode) -> list[str]:
    """Return the names of an operator's arrangements in ``state()``. The main one has the name of the operator."""
    parts = node.parts()
    main = len(parts) - 1 if node.filled is not None else -1
    return [node.name if i == main else part[0].name for i, part in enumerate(parts)]


def filled_parts(nodes: Iterable[PartialNode]) -> dict[str, FilledKeys]:
    """Return the sets of filled keys, by the names of their arrangements in ``state()``."""
    parts = ((name, part[3]) for n in nodes for name, part in zip(part_names(n), n.parts(), strict=True))
    return {name: filled for name, filled in parts if filled is not None}


def identity(node: PartialNode, arrangement: Arrangement) -> str:
    """Return the name of an arrangement in checkpoints. It does not depend on views that were dropped earlier."""
    if isinstance(node, ReaderNode):
        return f"reader:{node.name}"
    return f"{digest(node.plan)}:{node.ask}:{arrangement.name.rsplit('.', 1)[-1]}"


def relation_of(node: PartialNode) -> str:
    """Return the label of an operator's rows."""
    if isinstance(node, ReaderNode):
        return node.name
    return label(node.plan.inputs[0] if isinstance(node, ReduceNode) else node.plan)


def graph_frames(nodes: Iterable[PartialNode], bases: Sequence[tuple[str, str]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the operators and the edges as two data frames (see :mod:`..plan.graph`).

    ``bases`` has each relation with the name of its base table, and again with the name of each index of it. Each edge
    appears twice, once for the changes that are sent down and once for the upqueries that are sent up.
    """
    rows: list[graph.Row] = []
    edges: list[tuple[str, str, str]] = []
    for node in nodes:
        kind, title, detail = graph.describe(node.plan)
        tables = tuple(part_names(node))
        if isinstance(node, BaseNode):
            tables = tuple(name for relation, name in bases if relation == node.name_of_relation)
        if isinstance(node, ReaderNode):
            kind, title, detail = "view", node.name, ""
        rows.append((node.name, kind, title, detail, tables, node.view))
        for edge in node.inputs:
            edges += [(edge.source.name, node.name, "change"), (node.name, edge.source.name, "upquery")]
    return graph.frames(rows, edges)
