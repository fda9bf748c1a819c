"""Spark's plan of an engine, as a table that can be read: one line a stateful operator.

``df.explain()`` of such a query fills a screen, most of it columns of blobs. What it comes to is
here: which of the view's operators stand in which stage, by which columns rows are
brought there, and what Spark itself says of that stage, from its state metadata.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...partial.nodes import BaseNode
from ...plan.graph import describe
from ..bins import blueprint
from ..bins.route import Route
from ..session.paths import absolute
from .store import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ["stage", "receives", "operators", "holds", "bins", "Spark's operator", "Spark's name for it", "partitions"]


def stages(checkpoint: str | os.PathLike[str], session: SparkSession | None = None) -> pd.DataFrame:
    """The stages of the query at a checkpoint, in the order in which rows pass them.

    Columns: stage; receives (from whom, and by which columns rows are brought together);
    operators; holds (as ``state()`` calls it); bins; then what Spark's own metadata say: the
    number of the operator (Spark counts from the end), its name, partitions.
    Raises CheckpointError.
    """
    found = opened(checkpoint, None, session)
    route: Any = found.route
    bins = blueprint.read(absolute(checkpoint))["options"]["bins"]
    said: dict[int, Any] = {row["operatorId"]: row for row in found.metadata()}
    nodes, _ = route.engine.graph()
    title = {n["name"]: _titled(n) for n in nodes.to_dict("records")}
    tell = _routed if isinstance(route, Route) else _placed
    lines = []
    for stage in range(1, route.stages + 1):
        receives, operators = tell(route, stage, title)
        spark = said.get(route.stages - stage, {"operatorName": "not started", "numPartitions": 0})
        name = spark["operatorName"].removesuffix("Exec")
        parts = [("; ".join(dict.fromkeys(x))) for x in (receives, operators, route.parts(stage))]
        lines.append([stage, *parts, bins, route.stages - stage, name, spark["numPartitions"]])
    return pd.DataFrame(lines, columns=COLUMNS)


def _titled(node: dict[Any, Any]) -> str:
    """An operator as pictures call it, after the view that it was built for."""
    title = f"{node['title']} {node['detail']}".strip()
    return f"{node['view']}: {title}" if node["view"] and node["kind"] != "view" else title


def _routed(route: Route, stage: int, title: dict[str, str]) -> tuple[list[str], list[str]]:
    """Full and shared state: channels into a stage, operators in it."""
    receives = []
    for channel in route.channels:
        if channel.stage == stage:
            relation = route.relation(channel)
            if channel.origin < 0:
                schema = route.engine.catalog.schema(relation)
                receives.append(_by(str(relation), schema, channel.columns))
            else:
                last = route.operators[channel.early[-1] if channel.early else channel.origin]
                sender = relation or _said(route.operators[channel.origin], title)
                receives.append(_by(sender, last.node.schema, channel.columns))
    return receives, [_said(route.operators[n], title) for n in route.at(stage)]


def _placed(route: Any, stage: int, title: dict[str, str]) -> tuple[list[str], list[str]]:
    """Partial state: edges that cross into a stage, operators in it."""
    receives = []
    for node in route.at(stage):
        for edge in node.inputs:
            if not route.near(edge):
                source = edge.source
                sender = source.name_of_relation if isinstance(source, BaseNode) else _said(source, title)
                receives.append(_by(sender, source.plan.schema, route.route(edge)))
    return receives, [_said(node, title) for node in route.at(stage)]


def _said(operator: Any, title: dict[str, str]) -> str:
    """An operator by its title; what pictures do not show by what it does."""
    if operator.name in title:
        return title[operator.name]
    return " ".join(describe(operator.node)[1:]).strip() if hasattr(operator, "node") else str(operator.name)


def _by(sender: str, schema: Any, columns: tuple[int, ...]) -> str:
    names = ", ".join(schema[c].name for c in columns)
    return f"{sender}, by {names}" if names else f"{sender}, all in one bin"


__all__ = ["COLUMNS", "stages"]
