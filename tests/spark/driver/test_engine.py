"""The engines on Spark against those in one process: a few epochs each, because a micro-batch takes a second.

Drawn examples are in test_rehearsal.py, over the same bins without Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sharedstate_lite as ss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = {
    "info": "product STRING, category STRING",
    "visit": "product STRING, user STRING, length INT",
    "o'clock": "hour INT",
}
RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
COUNTS = "CREATE VIEW counts AS SELECT COUNT(*) AS n, SUM(length) AS total FROM visit"
USERS = "CREATE VIEW users AS SELECT category, user FROM info LEFT JOIN visit USING (product) WHERE category <> 'x'"
SEED: list[dict[str, Any]] = [
    {
        "info": [(("Apple", "Fruit"), 1), (("Banana", "Fruit"), 1), (("Carrot", "Vegetable"), 1)],
        "visit": [(("Apple", "Alice", 10), 1), (("Banana", "Bob", 20), 1), (("Carrot", None, 30), 1)],
        "o'clock": [((12,), 2)],
    },
    {"visit": [(("Apple", "Eve", 40), 1)]},
    {"visit": [(("Apple", "Eve", 40), -1)]},
    {"info": [(("Carrot", "Vegetable"), -1), (("Carrot", "Fruit"), 1)], "o'clock": [((12,), -1)]},
]
BAD = {"visit": [(("Apple", "Eve", 41), -1)]}
GOOD = {"visit": [(("Apple", "Eve", 41), 1)]}


def views(*sql: str) -> list[ss.View]:
    """Views in a catalog of their own."""
    catalog = ss.Catalog(**RELATIONS)
    return [catalog.view(text) for text in sql]


def rows(frame: Any) -> list[str]:
    """The rows of a state table without bytes, in any order."""
    return sorted(str(row) for row in frame.drop(columns="bytes").itertuples(index=False))


def same_bill(there: Any, here: Any) -> bool:
    """Whether the rows of both bills are equal, and those on Spark are on disk."""
    mine, theirs = there.bill(), here.bill()
    assert set(mine["place"]) == {"disk"} and set(theirs["place"]) == {"memory"}
    return bool(mine["rows"].equals(theirs["rows"]) and mine.loc["durable inputs", "rows"] > 0)


@pytest.mark.parametrize("kind", [pytest.param("full", marks=pytest.mark.slow), "shared"])
def test_an_engine_on_spark_is_the_one_in_process(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    """Epochs, reads, a refusal, state, a late view, a checkpoint and its restore equal those of one process."""
    made = views(RESULT, COUNTS)
    with ss.engine(kind, made) as here:
        with ss.spark.engine(kind, made, spark, checkpoint=tmp_path / "a pläce (1)", bins=2) as there:
            for step in SEED[:2]:
                assert there.step(step) == here.step(step)
            told = []
            for engine in (there, here):
                with pytest.raises(ss.RowError) as caught:
                    engine.step(BAD)
                told.append(str(caught.value))
            assert told[0] == told[1] and there.epoch == here.epoch == 2
            assert there.step(SEED[2]) == here.step(SEED[2])
            assert there.read("result").equals(here.read("result"))
            assert there.read("result", key="Vegetable").equals(here.read("result", key="Vegetable"))
            assert rows(there.state()) == rows(here.state())
            assert same_bill(there, here)
            late = there.catalog.view(USERS)
            assert there.install(late) == here.install(late)
            there.checkpoint(tmp_path / "copy")
            assert there.step(SEED[3]) == here.step(SEED[3])
            assert same_bill(there, here)
        state = ss.spark.state(tmp_path / "a pläce (1)")
        assert set(state.operator) == set(here.state().operator)
        for name in ("users", here.state().operator[0]):
            assert ss.spark.state(tmp_path / "a pläce (1)", name).equals(here.state(name))
        with pytest.raises(
            ss.CheckpointError,
            match="copy: .* it is a copy, which never changes: start",
        ):
            ss.spark.engine(kind, [*made, late], spark, checkpoint=tmp_path / "copy")
        with pytest.raises(ss.CheckpointError, match="view users was not passed"):
            ss.spark.engine(kind, made, spark, checkpoint=tmp_path / "a pläce (1)")
        with ss.spark.restore(tmp_path / "copy", spark) as again:
            assert again.epoch == 3
            assert list(again.views) == ["result", "counts", "users"]
            out = again.step(SEED[3])
            # The restored engine has another catalog, and emits what the first one emitted.
            assert again.read("users").equals(here.read("users"))
            assert bag(out["result"]) == {("Fruit", 20): -1, ("Fruit", 30): 1, ("Vegetable", 30): -1}


def test_full_state_with_all_columns_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """columns="all" is part of a checkpoint: its bill is that of one process, and another value is refused by name."""
    made, place = views(RESULT, USERS), tmp_path / "place"
    with (
        ss.engine("full", made, columns="all") as here,
        ss.spark.engine("full", made, spark, checkpoint=place, bins=2, columns="all") as there,
    ):
        for step in SEED:
            assert there.step(step) == here.step(step)
        assert same_bill(there, here)
        assert rows(there.state()) == rows(here.state())
    assert list(ss.spark.state(place, "result.join1.right")) == ["product", "user", "length", "diff"]
    with pytest.raises(ss.CheckpointError, match="belongs to a different engine: it has columns='all'"):
        ss.spark.engine("full", made, spark, checkpoint=place)


@pytest.mark.slow
def test_what_step_1_owes_survives_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """An engine closed between an install at epoch 0 and step 1: step 1 after the restart emits the first rows."""
    catalog = ss.Catalog(t="k STRING")
    early, late = (catalog.view(f"CREATE VIEW {n} AS SELECT COUNT(*) AS n FROM t") for n in ("early", "late"))
    with ss.spark.engine("full", [early], spark, checkpoint=tmp_path / "place", bins=1) as engine:
        assert bag(engine.install(late)) == {(0,): 1}
    with ss.spark.restore(tmp_path / "place", spark) as engine:
        out = engine.step({"t": [(("a",), 1)]})
    assert {name: bag(changes) for name, changes in out.items()} == {"early": {(1,): 1}, "late": {(0,): -1, (1,): 1}}


def bag(changes: ss.Changes) -> dict[Any, int]:
    """Changes as row -> diff."""
    return {tuple(row[:-2]): row[-1] for row in changes.to_pandas().itertuples(index=False, name=None)}
