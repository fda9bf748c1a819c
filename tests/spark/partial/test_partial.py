"""Partial state on Spark: one example of each operation; drawn sequences are in test_partial_bins.py, without Spark."""

from __future__ import annotations

import datetime as dt
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from sparks import Start
from support import bag, tuples

import sharedstate_lite as ss
from sharedstate_lite import postgres
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.spark.partial.base_spark import _is_in
from sharedstate_lite.spark.session import jars
from sharedstate_lite.storage.encoding import Dictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = {"info": "product STRING, category STRING", "visit": "product STRING, user STRING, length INT"}
RESULT = (
    "CREATE VIEW result AS SELECT category, MAX(length) AS longest "
    "FROM info JOIN visit USING (product) GROUP BY category"
)
USERS = "CREATE VIEW users AS SELECT user, COUNT(*) AS n FROM visit GROUP BY user"
COUNTED = "CREATE VIEW counted AS SELECT product, COUNT(*) AS n FROM visit GROUP BY product"
FIRST: dict[str, Any] = {
    "info": [(("Apple", "Fruit"), 1), (("Kiwi", "Fruit"), 1), (("Carrot", None), 1)],
    "visit": [(("Apple", "a", 10), 1), (("Kiwi", "b", 20), 1), (("Carrot", "b", 50), 1)],
}
LAST_GOES: dict[str, Any] = {"visit": [(("Kiwi", "b", 20), -1)]}
MOVES: dict[str, Any] = {"info": [(("Carrot", None), -1), (("Carrot", "Fruit"), 1)]}
BAD: dict[str, Any] = {"visit": [(("Kiwi", "b", 21), -1)]}
WAIT = 180
TABLE = "partial visit"


def view(sql: str = RESULT) -> ss.View:
    """A view in a catalog of its own."""
    return ss.Catalog(**RELATIONS).view(sql)


def test_partial_on_spark_is_the_one_in_process(
    spark: SparkSession, tmp_path: Path, notes: Callable[[], list[str]]
) -> None:
    """Misses, hits, epochs, a refusal, eviction, a late view and a restored copy equal those of one process."""
    place = tmp_path / "a place"
    with ss.engine("partial", [view()]) as here:
        with ss.spark.engine("partial", [here.views["result"]], spark, checkpoint=place, bins=2) as there:
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
            with pytest.raises(ss.TimeError, match="epochs 1 to 2 of the base table visit were merged"):
                ss.spark.state(place, "visit[product]", batch=0)
            late = there.catalog.view(USERS)
            assert len(there.install(late)) == len(here.install(late)) == 0
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


@pytest.mark.slow
def test_lookups_at_once_share_micro_batches(spark: SparkSession) -> None:
    """Six threads' misses share their micro-batches, and an epoch of another thread comes between them."""
    many: dict[str, Any] = {
        "info": [((f"p{n}", f"C{n}"), 1) for n in range(7)],
        "visit": [((f"p{n}", "u", n), 1) for n in range(7)],
    }
    with ss.spark.engine("partial", [view()], spark, bins=2, max_rows=1_000) as engine:
        engine.step(many)
        before = engine.rounds
        engine.read("result", key="C6")
        alone = engine.rounds - before
        found: dict[int, Any] = {}

        def look(n: int) -> None:
            found[n] = tuples(engine.read("result", key=f"C{n}"))

        threads = [threading.Thread(target=look, args=(n,)) for n in range(6)]
        before = engine.rounds
        for thread in threads:
            thread.start()
        engine.step({"visit": [(("p6", "u", 60), 1)]})
        for thread in threads:
            thread.join(WAIT)
        assert found == {n: [(f"C{n}", n)] for n in range(6)}
        assert engine.rounds - before <= 3 * alone
        assert tuples(engine.read("result", key="C6")) == [("C6", 60)]


SCRIPT = """
import threading, sharedstate_lite as ss
relations, sql, place, first = {relations!r}, {sql!r}, {place!r}, {first!r}
with ss.spark.session(memory="1g") as session:
    view = ss.Catalog(**relations).view(sql)
    with ss.spark.engine("partial", [view], session, checkpoint=place, bins=2) as engine:
        engine.step(first)
        engine.read("result", key="Fruit")
        turn = engine._run
        def told(messages, kind, epoch):
            if kind == "round":
                print("round", flush=True)
                threading.Event().wait()
            return turn(messages, kind, epoch)
        engine._run = told
        engine.step({goes!r})
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_between_rounds(spark: SparkSession, start: Start, tmp_path: Path) -> None:
    """kill -9 while an upquery of an epoch is open: filled keys stay filled, the next engine completes the epoch."""
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
        assert again.epoch == 2 and again.filled("result") == [("Fruit",)]
        assert tuples(again.read("result")) == [("Fruit", 10)]
        again.step(MOVES)
        assert tuples(again.read("result", key="Fruit")) == [("Fruit", 50)]
    ss.spark.rescale(place, 3, spark)
    with ss.spark.restore(place, spark) as again:
        assert again.filled("result") == [("Fruit",)] and ss.spark.partitions(place, session=spark)["of"].max() == 3
        assert tuples(again.read("result", key="Fruit")) == [("Fruit", 50)]
    lost = next(place.glob("g-*/base/1/*.parquet"))
    lost.rename(tmp_path / "elsewhere")
    with pytest.raises(ss.CheckpointError, match="base table visit .* is lost"):
        ss.spark.restore(place, spark)


def test_a_base_table_in_postgresql(spark: SparkSession, tmp_path: Path) -> None:
    """Upqueries reach a table in PostgreSQL as filters; epochs are written to it, refused ones are not."""
    absent = jars.find("postgresql").absent
    if absent:
        pytest.skip(absent)
    with postgres.Server() as server, ss.engine("partial", [view()]) as here:
        with server.connect() as connection:
            connection.execute(f'DROP TABLE IF EXISTS "{TABLE}", "partial plain"')
        base = {"visit": ss.spark.Postgres(server, TABLE)}
        with ss.spark.engine("partial", [view()], spark, checkpoint=tmp_path / "live", bins=2, base=base) as there:
            for engine in (here, there):
                engine.step(FIRST)
            for key in ("Fruit", (None,)):
                assert there.read("result", key=key).equals(here.read("result", key=key))
            out, want = there.step(LAST_GOES)["result"], here.step(LAST_GOES)["result"]
            assert bag(out) == bag(want)
            with pytest.raises(ss.RowError, match="retracted"):
                there.step(BAD)
            with server.connect() as connection:
                rows = connection.execute(
                    f'SELECT batch, sum(diff) FROM "{TABLE}" GROUP BY batch ORDER BY batch'
                ).fetchall()
            assert rows == [(1, 3), (2, -1)]
            assert there.state().set_index("operator")["rows"]["visit[product]"] == 2
            frame = there.base_tables.rows("visit", (0,), *keyed("Kiwi"))
            assert "PushedFilters" in plan_of(frame) and "Kiwi" in plan_of(frame).split("PushedFilters")[1]
        with pytest.raises(ss.CheckpointError, match="pass base= for the same relations"):
            ss.spark.restore(tmp_path / "live", spark)
        with ss.spark.restore(tmp_path / "live", spark, base=base) as again:
            assert again.read("result", key="Fruit").equals(here.read("result", key="Fruit"))
        # Other programs write the table, and then call step.
        base = {"visit": ss.spark.Postgres(server, TABLE, append=False)}
        with ss.spark.engine("partial", [view(COUNTED)], spark, bins=2, base=base) as told:
            told.step({"visit": FIRST["visit"]})
            told.step(LAST_GOES)
            assert tuples(told.lookup("counted", ["Kiwi", "Apple"])) == [("Apple", 1)]
            assert told.state().set_index("operator")["rows"]["visit[product]"] == 2
        with server.connect() as connection:
            connection.execute('CREATE TABLE "partial plain" (product text, "user" text, length integer, diff bigint)')
        with pytest.raises(ss.RelationError, match=r"rows of epochs up to 2, but this engine is new; restore"):
            ss.spark.engine("partial", [view()], spark, base={"visit": ss.spark.Postgres(server, TABLE)})
        with pytest.raises(ss.ViewError, match="is in PostgreSQL"):
            ss.spark.state(tmp_path / "live", "visit[product]")
        with pytest.raises(ss.RelationError, match="rule 18"):
            ss.spark.engine("partial", [view()], spark, base={"visit": ss.spark.Postgres(server, "partial plain")})


def test_keys_of_the_first_years(spark: SparkSession) -> None:
    """A date and a time in a year with fewer than four digits are found."""
    day, time = dt.date(1, 1, 1), dt.datetime(1, 1, 1, 2, 3, 4, 5)
    there = spark.sql("SELECT DATE'0001-01-01' AS c0, TIMESTAMP_NTZ'0001-01-01 02:03:04.000005' AS c1")
    found = there.where(_is_in(there.c0, [day, None], Type.DATE)).where(_is_in(there.c1, [time], Type.TIMESTAMP))
    assert found.count() == 1


def keyed(*values: str) -> Any:
    """Keys, and an epoch, as base tables take them."""
    strings = Dictionary()
    return np.array([[strings.code(v) for v in values]]), 9, strings


def plan_of(frame: Any) -> str:
    """The plan that Spark would run."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.slow
def test_an_epoch_that_is_refused_rounds_later(spark: SparkSession, tmp_path: Path) -> None:
    """A sum overflows in a later round: the step raises, its rows are taken back, answers are as before."""
    catalog = ss.Catalog(t="k STRING, b BIGINT", s="k STRING, g STRING")
    sql = "CREATE VIEW v AS SELECT g, SUM(b) AS total FROM s JOIN t USING (k) GROUP BY g"
    place, big = tmp_path / "live", 2**62
    with ss.spark.engine("partial", [catalog.view(sql)], spark, checkpoint=place, bins=2) as engine:
        engine.step({"s": [(("x", "G"), 1)], "t": [(("x", big), 1), (("z", big), 1)]})
        assert tuples(engine.read("v", key="G")) == [("G", big)]
        with pytest.raises(ss.RowError, match="BIGINT"):
            engine.step({"s": [(("z", "G"), 1)]})
        assert engine.epoch == 1
    with ss.spark.restore(place, spark) as again:
        assert again.epoch == 1 and again.filled("v") == []
        assert tuples(again.read("v", key="G")) == [("G", big)]
        assert ss.spark.state(place, "s[g]", session=spark).to_dict("list")["k"] == ["x"]


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


def test_what_partial_state_refuses_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """An option of another strategy and a computed key are refused by name."""
    with pytest.raises(ss.ViewError, match="max_rows"):
        ss.spark.engine("full", [view()], spark, max_rows=5)
    with pytest.raises(ss.ViewError, match="is computed"):
        ss.spark.engine("partial", [view("CREATE VIEW v AS SELECT length + 1 AS more FROM visit")], spark)
