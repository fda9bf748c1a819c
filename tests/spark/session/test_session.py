"""The Spark session: settings, sameness, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sharedstate_lite as ss
import sharedstate_lite.spark as kit
from sharedstate_lite.doctor import loops as doctor_loops
from sharedstate_lite.errors import Error
from sharedstate_lite.loops import compiled
from sharedstate_lite.spark.session import home
from sharedstate_lite.spark.session.settings import PROVIDER_CLASS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_importing_the_kit_imports_no_pyspark() -> None:
    """Everything can be imported without Java; PySpark is imported by the first session."""
    code = (
        "import sharedstate_lite.spark, sys; sys.exit(any(m.split('.')[0] in ('pyspark', 'py4j') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_settings_are_those_of_a_laptop(spark: SparkSession) -> None:
    """Two shuffle partitions, RocksDB with its changelog, Arrow, UTC, no web pages; Java options may be added."""
    assert spark.sparkContext.master == os.environ.get("SHAREDSTATE_LITE_MASTER", "local[2]")
    expected = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.pollingDelay": "25ms",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    assert {name: spark.conf.get(name) for name in expected} == expected
    assert "RocksDB" in str(spark.conf.get("spark.sql.streaming.stateStore.providerClass"))
    added = os.environ.get("SHAREDSTATE_LITE_JAVA_OPTIONS", "")
    assert added in str(spark.conf.get("spark.driver.extraJavaOptions"))


def test_a_session_with_another_state_store_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A session made without the kit: a new engine or stream is refused before Spark tries it, with the setting."""
    catalog = ss.Catalog(visit="product STRING")
    views = [catalog.view("CREATE VIEW seen AS SELECT DISTINCT product FROM visit")]
    (tmp_path / "visit").mkdir()
    rocks = str(spark.conf.get(PROVIDER_CLASS))
    spark.conf.set(PROVIDER_CLASS, rocks.replace("RocksDBStateStore", "HDFSBackedStateStore"))
    try:
        for kind in ("full", "shared", "partial"):
            with pytest.raises(Error, match=r"RocksDB, .* uses .*HDFSBacked.*; call session.conf.set\('spark.*RocksDB"):
                kit.engine(kind, views, spark, checkpoint=tmp_path / kind)
            if kind != "partial":
                source = {"visit": tmp_path / "visit"}
                with pytest.raises(Error, match="keeps its state in RocksDB, but"):
                    kit.stream(kind, views, source, print, session=spark, checkpoint=tmp_path / kind)
            assert [f for f in (tmp_path / kind).iterdir() if not f.name.startswith(".")] == []
    finally:
        spark.conf.set(PROVIDER_CLASS, rocks)


def test_workers_run_this_python_and_find_the_kit(spark: SparkSession) -> None:
    """A worker is this environment's Python, imports the kit from any folder, and PySpark not from a zip."""

    def where(_: object) -> tuple[str, str, str]:
        import pyspark

        import sharedstate_lite.errors

        return sys.executable, sharedstate_lite.errors.__file__, pyspark.__file__

    import sharedstate_lite.errors as here

    # Pickled by value, because workers cannot import this file.
    where.__module__ = "__main__"
    wanted = (sys.executable, here.__file__, str(home.package() / "__init__.py"))
    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [wanted]


def test_a_worker_loads_the_compiled_loops(spark: SparkSession) -> None:
    """A Python worker has all loops, and says what they cost."""
    pytest.importorskip("numba", reason="nothing is compiled without Numba")
    told = doctor_loops.load_in_spark(spark)
    assert told.startswith(f"{len(compiled.functions())} loops are compiled and take ")


def test_asking_again_gives_the_same_session(spark: SparkSession) -> None:
    """session() without arguments, or with those of the running session, returns it."""
    assert kit.session() is spark
    assert kit.session(spark.sparkContext.master, shuffle_partitions=2) is spark
    assert kit.session(conf={"spark.ui.enabled": False, "spark.sql.session.timeZone": "UTC"}) is spark


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"master": "local[7]"}, "master is"),
        ({"shuffle_partitions": 5}, "spark.sql.shuffle.partitions is '2', not '5'"),
        ({"memory": "333m"}, "spark.driver.memory is"),
        ({"conf": {"spark.sql.ansi.enabled": False}}, "spark.sql.ansi.enabled is 'true', not 'false'"),
        ({"conf": {"spark.no.such": 1}}, "spark.no.such is None, not '1'"),
        ({"conf": {"spark.driver.extraJavaOptions": "-Da=b"}}, "not '-Da=b'"),
    ],
)
def test_a_session_that_differs_is_refused(spark: SparkSession, wish: dict[str, object], named: str) -> None:
    """A difference from the running session is an error that names it, and the session stays."""
    with pytest.raises(Error) as caught:
        kit.session(**wish)  # type: ignore[arg-type]
    assert named in str(caught.value) and "stop()" in str(caught.value)
    assert kit.session() is spark


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"master": "yarn"}, "local[N]"),
        ({"master": 2}, "master 2: "),
        ({"master": "local[two]"}, "local[two]"),
        ({"master": "spark://nowhere"}, "spark://host:port"),
        ({"shuffle_partitions": 0}, "shuffle_partitions=0"),
        ({"shuffle_partitions": True}, "shuffle_partitions=True"),
        ({"shuffle_partitions": 2.0}, "shuffle_partitions=2.0"),
        ({"memory": "lots"}, "'2g'"),
        ({"conf": {"executor.memory": "1g"}}, "must start with 'spark.'"),
        ({"conf": {"spark.master": "local"}}, "argument master"),
        ({"conf": {"spark.jars": ["a.jar"]}}, "spark.jars"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(wish: dict[str, object], named: str) -> None:
    """A wrong argument is named, with a correct one."""
    with pytest.raises(Error) as caught:
        kit.session(**wish)  # type: ignore[arg-type]
    assert named in str(caught.value)


def test_a_started_session_is_found_by_pyspark(spark: SparkSession) -> None:
    """Code that asks PySpark for the session gets this one."""
    from pyspark.sql import SparkSession as Class

    assert Class.getActiveSession() is not None
    assert Class.builder.getOrCreate() is spark


@pytest.mark.slow  # every engine and stream of the fast suite keeps its state there, too
def test_state_is_kept_in_rocksdb(spark: SparkSession, tmp_path: Path) -> None:
    """A stateful query works at once, and its state is RocksDB's with a changelog."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    counts = spark.readStream.schema("product STRING").csv(str(source)).groupBy("product").count()
    query = (
        counts.writeStream.format("memory")
        .queryName("session_state")
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    for number, text in enumerate(["Apple\nBanana\nApple\n", "Apple\n"]):
        (source / f"{number}.csv").write_text(text)
        query.processAllAvailable()
    query.stop()
    assert {tuple(row) for row in spark.table("session_state").collect()} == {("Apple", 3), ("Banana", 1)}
    assert list((checkpoint / "state").rglob("*.changelog"))
