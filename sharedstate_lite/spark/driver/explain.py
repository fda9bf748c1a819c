"""An engine's Spark plan, as a table with one row per stateful operator.

The output of ``df.explain()`` for such a query fills a screen, mostly with columns of blobs. This table shows only the
operators of each stage, the columns by which incoming rows are partitioned, and Spark's own state metadata.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...partial.nodes import BaseNode
from ...plan.graph import describe
from ..bins.route import Route
from ..rounds import home
from .store import EngineReader

COLUMNS = ["stage", "receives", "operators", "holds", "bins", "Spark's operator", "Spark's name for it", "partitions"]


def stages(reader: EngineReader) -> pd.DataFrame:
    """Return the stages of a checkpoint's query, in the order in which rows pass through them.

    The columns are ``stage``, ``receives`` (each sender, and the columns by which its rows are partitioned),
    ``operators``, ``holds`` (the stage's state, under the names that ``state()`` shows), and ``bins``. Three more
    columns come from Spark's metadata: the number of Spark's operator, which Spark counts from the end of the query,
    its name, and its number of partitions.
    """
    route: Any = reader.route
    bins = home.read(reader.checkpoint.parents[1], "views")["options"]["bins"]
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
    """Return the title of an operator as graphs show it, preceded by the name of its view."""
    title = f"{node['title']} {node['detail']}".strip()
    return f"{node['view']}: {title}" if node["view"] and node["kind"] != "view" else title


def _routed(route: Route, stage: int, titles: dict[str, str]) -> tuple[list[str], list[str]]:
    """Describe a stage of full or shared state: return its incoming channels and its operators."""
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
    """Describe a stage of partial state: return its incoming edges and its operators."""
    receives = []
    for node in route.at(stage):
        for edge in node.inputs:
            if not route.is_local(edge):
                source = edge.source
                sender = source.name_of_relation if isinstance(source, BaseNode) else _title(source, titles)
                receives.append(_by(sender, source.plan.schema, route.route(edge)))
    return receives, [_title(node, titles) for node in route.at(stage)]


def _title(operator: Any, titles: dict[str, str]) -> str:
    """Return the title of an operator, or a description of its node if graphs do not show the operator."""
    if operator.name in titles:
        return titles[operator.name]
    return " ".join(describe(operator.node)[1:]).strip() if hasattr(operator, "node") else str(operator.name)


def _by(sender: str, schema: Any, columns: tuple[int, ...]) -> str:
    names = ", ".join(schema[c].name for c in columns)
    return f"{sender}, by {names}" if names else f"{sender}, all rows in one bin"
