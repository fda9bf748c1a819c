"""Spark's plan as a table, and the benchmark of notebook 04."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import data
import sharedstate_lite as ss
from sharedstate_lite import show
from sharedstate_lite.lessons import benchmark, measure, reads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS longest "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
USERS = "CREATE VIEW users AS SELECT user, COUNT(*) AS n FROM visit GROUP BY user"


@pytest.mark.parametrize("kind", ["full", pytest.param("shared", marks=pytest.mark.slow), "partial"])
def test_the_plan_names_each_piece_of_state_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Each piece of state is in one stage, the stages are those of Spark's metadata, and the join comes first."""
    view = ss.Catalog(**data.SCHEMA).view(RESULT)
    with ss.spark.engine(kind, [view], spark, checkpoint=tmp_path, bins=3) as engine:
        before = ss.spark.stages(tmp_path)
        assert before["Spark's name for it"].tolist() == ["not started"] * 2
        engine.step({name: table.assign(diff=1) for name, table in data.seed().items()})
        own = engine.state().query("not base").operator.tolist()
    plan = ss.spark.stages(tmp_path)
    held = [name for cell in plan.holds for name in cell.split("; ")]
    assert set(own) <= set(held) and len(held) == len(set(held))
    assert plan.stage.tolist() == [1, 2] and plan.bins.tolist() == [3, 3]
    assert plan["Spark's operator"].tolist() == [1, 0]
    assert plan["Spark's name for it"].tolist() == ["transformWithStateInPandas"] * 2
    assert plan.partitions.tolist() == [2, 2]
    assert "JOIN on product" in plan.operators[0] and "by category" in plan.operators[1]
    assert {"info, by product", "visit, by product"} <= set(plan.receives[0].split("; "))
    assert "category" in plan.receives[1]


@pytest.mark.slow  # notebook 04 asserts the same of a larger stream
def test_a_run_is_the_same_in_process_and_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Emitted changes and answers are equal in process and on Spark, and each part is timed."""
    catalog = ss.Catalog(**data.SCHEMA)
    view, late = catalog.view(RESULT), catalog.view(USERS)

    def stream() -> list[tuple[int, object]]:
        return list(data.generate(visits=300, products=20, users=10, categories=4, epochs=2))

    category = str(measure.tables(stream())["info"]["category"].iloc[0])
    asked = [category, "no such", category]
    both = benchmark.run_all(view, late, stream, asked, tmp_path, spark, ["partial"])
    here, there = both["partial"], both["partial on Spark"]
    assert (here.spark, there.spark) == (False, True)
    assert here.emitted == there.emitted and len(here.emitted) == len(here.epochs) == len(there.epochs) == 2
    assert here.reads["hit"].tolist() == there.reads["hit"].tolist() == [True, False, True]
    assert all(here.answers[key].equals(there.answers[key]) for key in asked)
    waits = benchmark.waits(both)
    assert all(list(by) == list(both) and min(by.values()) > 0 for by in waits.values())
    assert "a restart" in str(show.waits_chart(waits)._repr_mimebundle_())


def test_edges_count_what_went_along_them() -> None:
    """Questions, answers and changes are counted by edge, also if the trace keeps no rows."""
    view = ss.Catalog(**data.SCHEMA).view(RESULT)
    engine = ss.engine("partial", [view])
    engine.step({name: table.assign(diff=1) for name, table in data.seed().items()})
    engine.trace.clear()
    engine.read("result", key="Vegetable")
    told = reads.edges(engine)
    moved = told.groupby(["from", "to"])["rows"].sum()
    assert moved.to_dict() == dict(engine.trace.rows_by_edge())
    assert told.kind.tolist().count("question") == told.kind.tolist().count("answer")
