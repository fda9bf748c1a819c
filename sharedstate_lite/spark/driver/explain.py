"""Spark's plan of an engine as a table with one row per stateful operator.

``df.explain()`` of such a query fills a screen, mostly with columns of blobs. This table has what matters: the
operators of each stage, the columns by which rows are partitioned on the way there, and Spark's own state metadata.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...partial.nodes import BaseNode
from ...plan.graph import describe
from ..bins import engine_spec
from ..bins.route import Route
from .store import StateReader

COLUMNS = ["stage", "receives", "operators", "holds", "bins", "Spark's operator", "Spark's name for it", "partitions"]


def stages(reader: StateReader) -> pd.DataFrame:
    """The stages of the query at a checkpoint, in the order in which rows pass them.

    Columns: stage; receives (each sender, and the columns by which its rows are partitioned); operators; holds (names
    of ``state()``); bins; and from Spark's metadata the operator's number (Spark counts from the end of the query), its
    name and its partitions.
    """
    route: Any = reader.route
    bins = engine_spec.read(reader.checkpoint.parents[1])["options"]["bins"]
    metadata: dict[int, Any] = {row["operatorId"]: row for row in reader.metadata()}
    nodes, _ = route.engine.graph()
    titles = {n["name"]: _titled(n) for n in nodes.to_dict("records")}
    describe = _routed if isinstance(route, Route) else _placed
    rows = []
    for stage in range(1, route.stages + 1):
        receives, operators = describe(route, stage, titles)
        spark = metadata.get(route.stages - stage, {"operatorName": "not started", "numPartitions": 0})
        name = spark["operatorName"].removesuffix("Exec")
        parts = [("; ".join(dict.fromkeys(x))) for x in (receives, operators, route.parts(stage))]
        rows.append([stage, *parts, bins, route.stages - stage, name, spark["numPartitions"]])
    return pd.DataFrame(rows, columns=COLUMNS)


def _titled(node: dict[Any, Any]) -> str:
    """The title of an operator as graphs show it, after the name of its view."""
    title = f"{node['title']} {node['detail']}".strip()
    return f"{node['view']}: {title}" if node["view"] and node["kind"] != "view" else title


def _routed(route: Route, stage: int, titles: dict[str, str]) -> tuple[list[str], list[str]]:
    """Full and shared state: the channels into a stage, and its operators."""
    receives = []
    for channel in route.channels:
        if channel.stage == stage:
            relation = route.relation(channel)
            if channel.origin < 0:
                schema = route.engine.catalog.schema(relation)
                receives.append(_by(str(relation), schema, channel.columns))
            else:
                last = route.operators[channel.early[-1] if channel.early else channel.origin]
                sender = relation or _title(route.operators[channel.origin], titles)
                receives.append(_by(sender, last.node.schema, channel.columns))
    return receives, [_title(route.operators[n], titles) for n in route.at(stage)]


def _placed(route: Any, stage: int, titles: dict[str, str]) -> tuple[list[str], list[str]]:
    """Partial state: the edges into a stage, and its operators."""
    receives = []
    for node in route.at(stage):
        for edge in node.inputs:
            if not route.is_local(edge):
                source = edge.source
                sender = source.name_of_relation if isinstance(source, BaseNode) else _title(source, titles)
                receives.append(_by(sender, source.plan.schema, route.route(edge)))
    return receives, [_title(node, titles) for node in route.at(stage)]


def _title(operator: Any, titles: dict[str, str]) -> str:
    """The title of an operator; for an operator that graphs leave out, what it does."""
    if operator.name in titles:
        return titles[operator.name]
    return " ".join(describe(operator.node)[1:]).strip() if hasattr(operator, "node") else str(operator.name)


def _by(sender: str, schema: Any, columns: tuple[int, ...]) -> str:
    names = ", ".join(schema[c].name for c in columns)
    return f"{sender}, by {names}" if names else f"{sender}, all rows in one bin"
