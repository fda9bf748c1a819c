"""Partial state on Spark: one example of each operation; drawn sequences are in test_partial_bins.py, without Spark."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from sparks import Start
from support import bag, tuples

import sharedstate_lite as ss
from sharedstate_lite.spark.rounds.inbox import RoundKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS longest "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
USERS = "CREATE VIEW users AS SELECT user, COUNT(*) AS n FROM visit GROUP BY user"
FIRST: dict[str, Any] = {
    "info": [(("Apple", "Fruit"), 1), (("Kiwi", "Fruit"), 1), (("Carrot", None), 1)],
    "visit": [(("Apple", "a", 10), 1), (("Kiwi", "b", 20), 1), (("Carrot", "b", 50), 1)],
}
LAST_GOES: dict[str, Any] = {"visit": [(("Kiwi", "b", 20), -1)]}
MOVES: dict[str, Any] = {"info": [(("Carrot", None), -1), (("Carrot", "Fruit"), 1)]}
BAD: dict[str, Any] = {"visit": [(("Kiwi", "b", 21), -1)]}
WAIT = 180
TOTALS = "CREATE VIEW v AS SELECT g, SUM(b) AS total FROM s JOIN t USING (k) GROUP BY g"
BIG = 2**62


def totals() -> ss.View:
    """A view whose sum can exceed BIGINT, in a catalog of its own."""
    return ss.Catalog(t="k STRING, b BIGINT", s="k STRING, g STRING").view(TOTALS)


def view(sql: str = RESULT) -> ss.View:
    """A view in a catalog of its own."""
    return ss.Catalog(**RELATIONS).view(sql)


def test_partial_on_spark_is_the_one_in_process(
    spark: SparkSession, tmp_path: Path, notes: Callable[[], list[str]]
) -> None:
    """Misses, hits, epochs, a refusal, eviction, a restart and a restored copy equal those of one process."""
    place = tmp_path / "a place"
    catalog = ss.Catalog(**RELATIONS)
    with ss.engine("partial", [catalog.view(RESULT), catalog.view(USERS)]) as here:
        there: Any = ss.spark.engine("partial", list(here.views.values()), spark, checkpoint=place, bins=2)
        with there:
            for engine in (here, there):
                assert len(engine.step(FIRST)["result"]) == 0
                assert [len(engine.read("result")), len(engine.read("result"))] == [0, 0]
            first, second = notes()  # one line for each engine
            assert first == second and first.startswith("result: nothing was read yet")
            for key in ("Fruit", "nowhere", (None,)):
                assert there.read("result", key=key).equals(here.read("result", key=key))
            there.trace.clear()
            rounds = there.rounds
            assert there.read("result", key="Fruit").equals(here.read("result", key="Fruit"))
            assert there.rounds == rounds + 1 and not there.trace.rows_by_edge()
            for step in (LAST_GOES, MOVES):
                assert there.step(step) == here.step(step)
            told = []
            for engine in (here, there):
                with pytest.raises(ss.RowError) as caught:
                    engine.step(BAD)
                told.append(str(caught.value))
            assert told[0] == told[1] and there.epoch == here.epoch == 3
            told = [engine.bill().loc["durable inputs", "rows"] for engine in (there, here)]
            assert told == [5, 5] and ss.spark.state(place)["rows"].equals(there.state()["rows"])
            assert there.filled("result") == here.filled("result")
            assert ss.spark.filled(place, "result") == here.filled("result")
            assert ss.spark.state(place, "visit[product]", batch=0)["diff"].sum() == len(FIRST["visit"])
            assert tuples(there.read("result")) == tuples(here.read("result"))
            there.compact()
            assert ss.spark.changes(place, "visit[product]", batch=0)["diff"].sum() == len(FIRST["visit"])
            assert there.filled("result") == here.filled("result")
            assert there.read("users", key="b").equals(here.read("users", key="b"))
            assert there.evict("result", key="Fruit")["result"] == here.evict("result", key="Fruit")["result"]
            there.checkpoint(tmp_path / "copy")
            for name in ("visit[product]", "users"):
                assert there.state(name).equals(here.state(name))
        state = ss.spark.state(place)
        assert state[state.operator == "visit[product]"]["rows"].tolist() == [2]
        assert set(here.state().query("kind != 'index'").operator) <= set(state.operator)
        assert ss.spark.stages(place)["bins"].tolist() == [2, 2] and len(ss.spark.partitions(place)) == 4
        with ss.spark.restore(tmp_path / "copy", spark) as again:
            assert notes() == [f"continues from {tmp_path / 'copy'}, epoch 3"]
            assert f"epoch 3 (continued from {tmp_path / 'copy'}, epoch 3), views" in repr(again)
            assert (again.kind, again.epoch, list(again.views)) == ("partial", 3, ["result", "users"])
            assert again.filled("users") == [("b",)]
            more = {"visit": [(("Apple", "b", 70), 1)]}
            assert bag(again.step(more)["users"]) == bag(here.step(more)["users"])
            assert again.read("result", key="Fruit").equals(here.read("result", key="Fruit"))


SCRIPT = """
import threading, sharedstate_lite as ss
relations, sql, place, first = {relations!r}, {sql!r}, {place!r}, {first!r}
with ss.spark.session(memory="1g") as session:
    view = ss.Catalog(**relations).view(sql)
    with ss.spark.engine("partial", [view], session, checkpoint=place, bins=2) as engine:
        engine.step(first)
        engine.read("result", key="Fruit")
        turn = engine._query.run
        def told(messages, kind, epoch, about=None):
            if kind == "round":
                print("round", flush=True)
                threading.Event().wait()
            return turn(messages, kind, epoch, about)
        engine._query.run = told
        engine.step({goes!r})
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_between_rounds(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    """kill -9 while an upquery of an epoch is open: the epoch is there, all keys are holes, and answers are right."""
    place = tmp_path / "live"
    told = {"relations": RELATIONS, "sql": RESULT, "place": str(place), "first": FIRST, "goes": LAST_GOES}
    process = start(SCRIPT.format(**told))
    assert process.stdout is not None
    assert process.stdout.readline() == "round\n"
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    psutil.wait_procs(children, timeout=WAIT)
    assert ss.spark.filled(place, "result", session=spark) == [("Fruit",)]
    assert ss.spark.state(place, "result", session=spark).to_dict("list")["longest"] == [20]
    with ss.spark.restore(place, spark) as again:
        assert again.epoch == 2 and again.filled("result") == []
        assert len(again.step(MOVES)["result"]) == 0
        assert tuples(again.read("result", key="Fruit")) == [("Fruit", 50)]
    ss.spark.rescale(place, 3, spark)
    with ss.spark.restore(place, spark) as again:
        assert again.filled("result") == [("Fruit",)] and ss.spark.partitions(place, session=spark)["of"].max() == 3
        assert tuples(again.read("result", key="Fruit")) == [("Fruit", 50)]
    lost = sorted(place.glob("g-*/base/1/*.parquet"))[0]
    lost.rename(tmp_path / "elsewhere")
    with pytest.raises(ss.CheckpointError, match="base table visit .* is lost"):
        ss.spark.restore(place, spark)


@pytest.mark.slow
def test_an_epoch_that_is_refused_rounds_later(spark: SparkSession, tmp_path: Path) -> None:
    """A sum overflows in a later round: the step raises, its rows are taken back, answers are as before."""
    place = tmp_path / "live"
    with ss.spark.engine("partial", [totals()], spark, checkpoint=place, bins=2) as engine:
        engine.step({"s": [(("x", "G"), 1)], "t": [(("x", BIG), 1), (("z", BIG), 1)]})
        assert tuples(engine.read("v", key="G")) == [("G", BIG)]
        with pytest.raises(ss.RowError, match="BIGINT"):
            engine.step({"s": [(("z", "G"), 1)]})
        assert engine.epoch == 1
    with ss.spark.restore(place, spark) as again:
        assert again.epoch == 1 and again.filled("v") == []
        assert tuples(again.read("v", key="G")) == [("G", BIG)]
        assert ss.spark.state(place, "s[g]", session=spark).to_dict("list")["k"] == ["x"]


def test_a_driver_that_is_killed_in_a_read_or_in_an_epoch(spark: SparkSession, tmp_path: Path) -> None:
    """Between two rounds, all keys are holes then; an epoch that had begun is there, and a read finds a bad row in it.

    The checkpoint is copied between the rounds, as a killed driver leaves it.
    """
    place, left = tmp_path / "live", list[Path]()
    made: Any = ss.spark.engine("partial", [totals()], spark, checkpoint=place, bins=2)
    with made as engine:
        turn = engine._query.run

        def copied(messages: Any, kind: RoundKind, epoch: int, about: Any = None) -> Any:
            if kind is RoundKind.ROUND and first[0]:
                first[0] = False
                left.append(tmp_path / f"left {len(left)}")
                shutil.copytree(place, left[-1])
            return turn(messages, kind, epoch, about)

        engine._query.run = copied
        first = [False]
        engine.step({"s": [(("x", "G"), 1)], "t": [(("x", BIG), 1), (("y", 5), 1), (("z", BIG), 1)]})
        first = [True]
        assert tuples(engine.read("v", key="G")) == [("G", BIG)]
        first = [True]
        assert len(engine.step({"s": [(("y", "G"), 1)]})["v"]) == 2
        first = [True]
        with pytest.raises(ss.RowError, match="BIGINT"):
            engine.step({"s": [(("z", "G"), 1)]})
    for folder, epoch, total in zip(left, (1, 2, 3), (BIG, BIG + 5, None), strict=True):
        shutil.rmtree(place)
        folder.rename(place)
        with ss.spark.restore(place, spark) as again:
            assert again.epoch == epoch and again.filled("v") == []
            if total is None:
                with pytest.raises(ss.RowError, match="key .'G'.* cannot be read: .*BIGINT"):
                    again.read("v", key="G")
                again.step({"s": [(("z", "G"), -1)]})
            assert tuples(again.read("v", key="G")) == [("G", total or BIG + 5)]


def test_a_base_table_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    """A lost file fails the epoch and the lookup that need it; once it is back, both work."""
    counts = ss.Catalog(t="k STRING, b BIGINT").view("CREATE VIEW v AS SELECT k, SUM(b) AS total FROM t GROUP BY k")
    with ss.spark.engine("partial", [counts], spark, checkpoint=tmp_path / "c", bins=2) as engine:
        engine.step({"t": [(("x", 5), 1), (("y", 7), 1)]})
        (file,) = (tmp_path / "c").glob("g-*/base/*/*.parquet")
        kept = file.rename(tmp_path / "kept")
        with pytest.raises(ss.Error, match="the base table t cannot be read"):
            engine.step({"t": [(("x", 5), -1), (("x", 6), 1)]})
        with pytest.raises(ss.Error, match="the base table t cannot be read"):
            engine.read("v", key="x")
        kept.rename(file)
        assert engine.epoch == 1 and tuples(engine.read("v", key="x")) == [("x", 5)]
        engine.step({"t": [(("x", 5), -1), (("x", 6), 1)]})
        assert engine.epoch == 2 and tuples(engine.read("v", key="x")) == [("x", 6)]
