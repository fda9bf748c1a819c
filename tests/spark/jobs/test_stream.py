"""A streaming job of its own: folders and DataFrames in, a changelog or a function out, stopped, restarted, refused."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from shopping import EPOCHS, RELATIONS, arrow, bag, changelog, expected, folders, views
from sparks import Start, until

import sharedstate_lite as ss
from sharedstate_lite.spark.jobs import sources
from sharedstate_lite.spark.rounds.errors import RowRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("result", "counts")


def test_a_job_keeps_epochs_goes_on_and_names_bad_files(
    spark: SparkSession, tmp_path: Path, notes: Callable[[], list[str]]
) -> None:
    """Folders keep their epochs, a restart continues, corrupt, lost and empty files are named, nothing comes twice."""
    source, sink = tmp_path / "shop of parquet", tmp_path / "out"
    folders(source, 0)
    folders(source, 1)
    named = {relation: source / relation for relation in RELATIONS}
    turned = dict(reversed(named.items()))

    def job(to: Any = sink, place: str = "checkpoint", sources: Any = named) -> Any:
        return ss.spark.stream("shared", views(), sources, to, session=spark, checkpoint=tmp_path / place, bins=2)

    told: list[str] = []
    with job() as running:
        with pytest.raises(ss.CheckpointError, match="another engine is using this folder"):
            job()
        running.finish(told.append)
        assert list(running.progress()["batch"]) == [0, 1]
    assert notes() == [] and repr(running) == "<shared stream, views: result, counts>"
    assert [line.split(" rows")[0] for line in told] == ["batch 0: 72", "batch 1: 3"]
    assert {name: changelog(sink, name) for name in NAMES} == expected(2)
    # Each would cost a micro-batch two processes.
    assert not [*(tmp_path / "checkpoint").rglob("*.crc")]
    folders(source, 2)
    good = source / "visit" / "epoch=00003" / "part.parquet"
    data = good.read_bytes()
    good.write_bytes(b"no parquet at all, of whatever size")
    where = f"{tmp_path / 'checkpoint'}, epoch 2"
    with job(sources=turned) as running:
        for _ in range(2):
            with pytest.raises(ss.Error, match="parquet/visit/epoch=00003/part.parquet: this file cannot be read"):
                running.finish()
        assert notes() == [f"continues from {where}"] and repr(running).endswith(f"counts, continued from {where}>")
        good.write_bytes(data)
        running.finish()
    assert not running.active
    assert {name: changelog(sink, name) for name in NAMES} == expected(3)
    folders(source, 3)
    (source / "info" / "epoch=00004" / "part.parquet").unlink()
    good = source / "visit" / "epoch=00004" / "part.parquet"
    data = good.read_bytes()
    good.write_bytes(b"")
    with job() as running, pytest.raises(ss.Error, match="epoch=00004/part.parquet: this file is empty"):
        running.finish()
    good.unlink()
    with job() as running:
        running.finish()
        assert {name: changelog(sink, name) for name in NAMES} == expected(3)
        # A file that comes late is taken however old it is.
        (good.parent / "late.parquet").write_bytes(data)
        os.utime(good.parent / "late.parquet", (1, 1))
        running.finish()
    assert {name: changelog(sink, name) for name in NAMES} == expected(4)
    for wrong in {"visit": source / "visit"}, named | {"info": source / "visit"}:
        with pytest.raises(ss.CheckpointError, match=r"it has sources=\{'info': '.*/info', 'visit': '.*/visit'\}"):
            job(sources=wrong)
    with pytest.raises(ss.CheckpointError, match="view counts"):
        ss.spark.stream("shared", views()[:1], named, sink, session=spark, checkpoint=tmp_path / "checkpoint")
    with pytest.raises(ss.CheckpointError, match="changes of a stream whose checkpoint is not"):
        job(place="a new one")


def test_dataframes_several_relations_to_a_function(spark: SparkSession, tmp_path: Path) -> None:
    """DataFrames, columns in any order and case, beside a folder: one epoch a micro-batch, to a function."""
    for name in ("info", "visit"):
        (tmp_path / name).mkdir()
    for number, epoch in enumerate(EPOCHS):
        for relation in RELATIONS:
            if epoch.get(relation):
                file = tmp_path / relation / f"{number}.parquet"
                pq.write_table(arrow(relation, epoch[relation]), file)
                # Files are taken in the order of their times, which some milliseconds of a file system share.
                os.utime(file, (number, number))
    visit = spark.readStream.schema("product STRING, user STRING, length INT, diff BIGINT").parquet(
        str(tmp_path / "visit")
    )
    visit = visit.selectExpr(
        "CAST(diff AS INT) AS DIFF", "user AS User", "'x' AS more", "CAST(length AS BIGINT) AS length", "product"
    )
    out: list[tuple[int, dict[str, ss.Changes]]] = []

    def take(changes: dict[str, ss.Changes], number: int) -> None:
        out.append((number, changes))

    def job() -> Any:
        named = {"visit": visit, "INFO": tmp_path / "info"}
        return ss.spark.stream("full", views(), named, take, session=spark, checkpoint=tmp_path / "c", bins=9)

    with job() as running:
        running.finish()
    total: dict[str, Counter[Any]] = {name: Counter() for name in NAMES}
    for number, changes in out:
        for name, each in changes.items():
            assert set(each.to_pandas()["time"]) <= {number + 1}
            for row, diff in bag(each).items():
                total[name][row] += diff
    with ss.engine("full", views()) as here:
        for epoch in EPOCHS:
            here.step(epoch)
        for name in NAMES:
            wanted = Counter(tuple(row.values()) for row in _arrow(here.read(name)))
            assert {row: n for row, n in total[name].items() if n} == wanted
    odd = spark.readStream.format("rate").load().selectExpr("value AS `A``b.c`", "1 AS diff")
    # Whatever a column is called, Spark reads no more into its name.
    assert sources.frame("t", ss.Catalog(t='"a`b.c" BIGINT').schema("t"), odd).columns == ["A`b.c", "diff"]
    # All visits are one micro-batch of the DataFrame, so one epoch; the folder has two files.
    assert len(out) in (2, 3)
    with job() as again:
        again.finish()
    assert len(out) in (2, 3)


def _arrow(frame: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    return list(pa.Table.from_pandas(frame, preserve_index=False).to_pylist())


def test_what_cannot_be_streamed_is_said_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    """No diff, a wrong type, a static DataFrame, no folder, no sink: an error names each, and nothing is left."""
    rate = spark.readStream.format("rate").load().selectExpr("'p' AS product", "'c' AS category", "1 AS diff")

    def refuse(sources: Any, error: type[Exception], match: str, sink: Any = tmp_path / "out") -> None:
        with pytest.raises(error, match=match):
            ss.spark.stream("full", views(), sources, sink, session=spark, checkpoint=tmp_path / "c")

    refuse({"info": rate.drop("diff")}, ss.RelationError, r"info: the DataFrame has no column diff \(\+1 inserts a row")
    refuse({"info": rate.drop("category")}, ss.RelationError, "info: the DataFrame has no column category")
    wrong = rate.withColumn("category", rate["diff"])
    refuse({"info": wrong}, ss.RowError, "info: column category is INT in the DataFrame and STRING in the catalog")
    refuse(
        {"info": rate.selectExpr("product", "category", "1.0 AS diff")}, ss.RowError, r"column diff is DECIMAL\(2,1\)"
    )
    static = spark.createDataFrame([("p", "c", 1)], "product STRING, category STRING, diff INT")
    refuse({"info": static}, ss.RelationError, "info: the source DataFrame.* is not a streaming DataFrame")
    refuse({"info": 7}, ss.RelationError, "info: the source 7 is not a streaming DataFrame")
    refuse({"info": tmp_path / "nowhere"}, ss.RelationError, "nowhere is not a folder")
    refuse({"info": rate, "INFO": rate}, ss.RelationError, "info appears twice")
    odd = tmp_path / "shop [x]"
    odd.mkdir()
    with pytest.raises(ss.Error, match="in a path as a pattern"):
        ss.spark.engine("full", views(), spark, checkpoint=odd)
    assert not (odd / "run.json").exists()
    refuse({"shop": rate}, ss.RelationError, "there is no relation named shop")
    for none in ({}, None, [("info", rate)]):
        refuse(none, ss.RelationError, "pass a mapping .* that is not empty")
    (tmp_path / "file").touch()
    refuse({"info": rate}, ss.ViewError, "sink=7", sink=7)
    refuse({"info": rate}, ss.ViewError, "file: the folder cannot be created", sink=tmp_path / "file")
    for more, match in (
        ({"bins": 0}, "bins=0: pass a whole number of at least 1"),
        ({"session": "local[2]"}, "'local\\[2\\]' is not a Spark session"),
        ({"checkpoint": 5}, "checkpoint=5: pass the path of a folder"),
        ({"checkpoint": tmp_path / "file"}, "file: the folder cannot be created"),
    ):
        named: Any = {"session": spark, "checkpoint": tmp_path / "c"} | more
        for make in (
            partial(ss.spark.stream, "full", views(), {"info": rate}, tmp_path / "out"),
            partial(ss.spark.engine, "full", views()),
        ):
            with pytest.raises(ss.Error, match=match):
                make(**named)
    with pytest.raises(ss.ViewError, match="partial state serves one caller at a time, and a stream is a caller"):
        ss.spark.stream("partial", views(), {"info": rate}, tmp_path / "out", session=spark, checkpoint=tmp_path / "c")
    visits = tmp_path / "visits"
    visits.mkdir()
    refuse({"visit": visits}, ss.ViewError, "sink=.*would be read as input", sink=visits / "out")
    assert not (tmp_path / "c").exists()
    # This Spark says itself, when it is to start.
    sorted_ = {"info": rate.orderBy("product")}
    with ss.spark.stream("full", views(), sorted_, print, session=spark, checkpoint=tmp_path / "d") as job:
        with pytest.raises(ss.Error, match="Spark cannot stream this: .*[Ss]ort"):
            job.finish()


def test_spark_connect_is_refused_with_the_reason(tmp_path: Path) -> None:
    """A Connect session, and a Connect address, are refused with the reason: the driver must be in this process."""

    class Client:
        """What is looked at of a Connect session."""

    Client.__module__ = "pyspark.sql.connect.session"
    remote: Any = Client()
    with pytest.raises(ss.Error, match="master sc://host: Spark Connect is not supported"):
        ss.spark.session("sc://host")
    with pytest.raises(ss.Error, match="a stream: Spark Connect is not supported: the driver must be in this process"):
        ss.spark.stream("full", views(), {}, tmp_path / "out", session=remote, checkpoint=tmp_path / "c")
    with pytest.raises(ss.Error, match="an engine: Spark Connect is not supported"):
        ss.spark.engine("full", views(), remote, checkpoint=tmp_path / "c")


def test_a_row_that_is_refused_and_a_sink_that_raises(spark: SparkSession, tmp_path: Path) -> None:
    """A bad row ends the job with the in-process error; a sink that raises is named, and gets its batch again."""
    (tmp_path / "info").mkdir()
    (tmp_path / "visit").mkdir()
    seen: list[int] = []
    # The text of the first one is the refusal of another stream.
    raised = [ValueError(str(RowRefused(ss.RowError("elsewhere")))), OSError("the disk is full")]

    def sink(changes: dict[str, ss.Changes], number: int) -> None:
        seen.append(number)
        if len(seen) <= len(raised):
            raise raised[len(seen) - 1]

    def job() -> Any:
        named = {r: tmp_path / r for r in RELATIONS}
        return ss.spark.stream("full", views()[1:], named, sink, session=spark, checkpoint=tmp_path / "c", bins=2)

    pq.write_table(arrow("visit", EPOCHS[0]["visit"]), tmp_path / "visit" / "0.parquet")
    with job() as running:
        for said in ("ValueError: <<refused", "OSError: the disk is full"):
            with pytest.raises(ss.Error, match=f"the sink raised {said}"):
                running.finish()
    for _ in range(2):
        with job() as running:
            running.finish()
    assert seen == [0, 0, 0]
    pq.write_table(arrow("visit", [(("p1", "u1", 77), -1)]), tmp_path / "visit" / "1.parquet")
    with ss.engine("full", views()) as here:
        with pytest.raises(ss.RowError) as told:
            here.step({"visit": [(("p1", "u1", 77), -1)]})
    with job() as running, pytest.raises(ss.RowError) as caught:
        running.finish()
    assert str(caught.value) == str(told.value) and seen == [0, 0, 0]
    # The note names the file; without it the stream continues.
    assert f"{tmp_path}/visit/1.parquet: remove it" in caught.value.__notes__[0]
    (tmp_path / "visit" / "1.parquet").unlink()
    with job() as running:
        running.finish()
        pq.write_table(arrow("visit", EPOCHS[1]["visit"]), tmp_path / "visit" / "2.parquet")
        running.finish()
    # Micro-batch 1 was refused, so the epoch that follows is in micro-batch 2.
    assert seen == [0, 0, 0, 2]
    assert ss.spark.batches(tmp_path / "c")["refused"].tolist() == [False, True, False]
    with pytest.raises(ss.Error, match="this engine is closed"):
        running.finish()


SCRIPT = """
import sharedstate_lite as ss
with ss.spark.session(memory="1g") as session:
    catalog = ss.Catalog(tick="value BIGINT")
    view = catalog.view("CREATE VIEW odd AS SELECT COUNT(*) AS n FROM tick WHERE value % 2 = 1")
    rate = session.readStream.format("rate").option("rowsPerSecond", 50).load().selectExpr("value", "1 AS diff")
    with ss.spark.stream("full", [view], {{"tick": rate}}, {out!r}, session=session, checkpoint={place!r}) as job:
        job.finish(seconds=0.1)
        try:
            job.finish(lambda line: print(line, flush=True), seconds=3600)
        except KeyboardInterrupt:
            print("interrupted", job.active)
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_stream(start: Start, tmp_path: Path) -> None:
    """Progress comes while a stream runs; Ctrl-C stops it without another word; its changes are whole batches."""
    process = start(SCRIPT.format(out=str(tmp_path / "out"), place=str(tmp_path / "c")))
    until(process, lambda: len(list((tmp_path / "out").glob("odd/batch-*"))) >= 2)
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert first.startswith("batch ") and out.splitlines()[-1] == "interrupted False"
    changes = changelog(tmp_path / "out", "odd")
    total: Counter[Any] = Counter()
    for each in changes:
        total.update(each)
    assert [n for n in total.values() if n] == [1]
