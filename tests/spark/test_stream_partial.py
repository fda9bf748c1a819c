"""Streams of partial state: lookups while rows come, in step with one process, through restarts and kills."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shopping import COUNTS, EPOCHS, RELATIONS, RESULT, arrow, bag, changelog, folders, rows, views
from sparks import Start

import sharedstate_lite as ss
from sharedstate_lite.spark.upjob import Fed, UpJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT = 180
KEYS = {"result": ["c1", "c2"], "counts": ["u1", "u9"]}
"""What is looked up after the first epoch; the third moves a product from one category to the other."""


def looked_up(engine: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the keys, of an engine or of a stream."""
    if isinstance(engine, UpJob):
        return {view: rows(engine.lookup(view, keys)) for view, keys in KEYS.items()}
    return {view: [row for key in keys for row in rows(engine.read(view, key=key))] for view, keys in KEYS.items()}


def told(changes: dict[str, ss.Changes]) -> dict[str, Counter[Any]]:
    """An epoch's changes, of all views."""
    return {name: bag(each) for name, each in changes.items()}


def here() -> tuple[list[dict[str, Counter[Any]]], dict[str, list[tuple[Any, ...]]]]:
    """What one process tells: the changes of each epoch, and the keys' rows at the end."""
    with ss.engine("partial", views()) as engine:
        out = [told(engine.step(EPOCHS[0]))]
        looked_up(engine)
        out += [told(engine.step(epoch)) for epoch in EPOCHS[1:]]
        return out, looked_up(engine)


def appear(folder: Path, name: str, pairs: list[Any] | bytes) -> Path:
    """A file of visits that is whole as soon as a running stream can see it."""
    aside, file = folder.with_name(f"{name} unfinished"), folder / name
    if isinstance(pairs, bytes):
        aside.write_bytes(pairs)
    else:
        pq.write_table(arrow("visit", pairs), aside)
    aside.replace(file)
    return file


def test_lookups_between_epochs(spark: SparkSession, tmp_path: Path) -> None:
    """The sink gets what steps tell; a sink that raised is given the same again; restarts know what was filled."""
    source, place = tmp_path / "shop", tmp_path / "c"
    wanted, answers = here()
    out: list[tuple[int, dict[str, Counter[Any]]]] = []
    bad = {2}

    def sink(changes: dict[str, ss.Changes], number: int) -> None:
        out.append((number, told(changes)))
        assert {each.to_pandas()["time"].eq(number + 1).all() for each in changes.values()} == {True}
        if number in bad:
            raise ValueError("the disk is full")

    def job(**more: Any) -> Any:
        named = {r: source / r for r in RELATIONS} | more
        return ss.spark.stream("partial", views(), named, sink, session=spark, checkpoint=place, bins=2)

    folders(source, 0)
    with job() as running:
        with pytest.raises(ss.CheckpointError, match="running there"):
            job()
        running.finish()
        assert running.epoch == 1 and list(running.progress()["rows"]) == [72]
        assert running.filled("result") == [] and not any(out[0][1].values())
        looked_up(running)
        appear(source / "visit", "1.parquet", EPOCHS[1]["visit"])
        running.finish()
    # Files of two relations do not appear at once.
    folders(source, 2)
    with job() as running, pytest.raises(ss.Error, match="the sink raised ValueError: the disk is full.*once more"):
        running.finish()
    with pytest.raises(ss.CheckpointError, match="a stream's, not an engine's"):
        ss.spark.engine("partial", views(), spark, checkpoint=place)
    with pytest.raises(ss.CheckpointError, match="visit came from .*/visit, and now from .*/info"):
        job(visit=source / "info")
    bad.clear()
    with job() as running:
        # Lookups of others must not make the stream forget what the sink is still to be given.
        assert running.epoch == 3 and running.filled("result") == [("c1",), ("c2",)]
        for _ in range(2):
            looked_up(running)
        running.finish()
        appear(source / "visit", "3.parquet", EPOCHS[3]["visit"])
        running.finish()
        assert looked_up(running) == answers
        assert sorted(running.evict("counts", key="u1")["counts"]) == [("u1",)]
        assert running.filled("counts") == [("u9",)]
        assert [name for name in running.state()["operator"] if name == "result"]
        appear(source / "visit", "odd.parquet", [(("p1", "u1", 77), -1)])
        with pytest.raises(ss.RowError, match="visit: .*77") as caught:
            running.finish()
        assert "odd.parquet: take it away" in caught.value.__notes__[0] and not running.active
        with pytest.raises(ss.Error, match="this stream has ended: finish.. says why; another one with the same"):
            running.read("result", key="c1")
    with pytest.raises(ss.Error, match="this stream has ended: it was stopped; another one with the same"):
        running.read("result", key="c1")
    assert [number for number, _ in out] == [0, 1, 2, 2, 3]
    assert [changes for _, changes in out] == [*wanted[:3], *wanted[2:]]


@pytest.mark.slow
def test_what_is_refused_ends_the_stream_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A retraction of what is not there, a corrupt file: named, and mended by taking it away."""
    source, sink = tmp_path / "shop", tmp_path / "out"
    folders(source, 0)
    named = {r: source / r for r in RELATIONS}

    def job() -> Any:
        return ss.spark.stream("partial", views(), named, sink, session=spark, checkpoint=tmp_path / "c", bins=2)

    with job() as running:
        running.finish()
        before = looked_up(running)
        odd = appear(source / "visit", "odd.parquet", [(("p1", "u1", 77), -1)])
        with pytest.raises(ss.RowError, match="visit: .*77"):
            running.finish()
    odd.unlink()
    corrupt = appear(source / "visit", "corrupt.parquet", b"no parquet")
    with job() as running, pytest.raises(ss.Error, match="corrupt.parquet: this file cannot be read"):
        running.finish()
    corrupt.unlink()
    assert ss.spark.filled(tmp_path / "c", "result", session=spark) == [("c1",), ("c2",)]
    log = ss.spark.batches(tmp_path / "c")
    epochs = log[log["kind"] == "epoch"]
    assert list(epochs["epoch"]) == [1, 2] and not epochs["refused"].any() and log["kept"].iloc[-1]
    stored = ss.spark.state(tmp_path / "c", session=spark)
    assert stored.set_index("operator")["rows"]["result"] == 2
    ss.spark.rescale(tmp_path / "c", 1, spark)
    assert set(ss.spark.partitions(tmp_path / "c", session=spark)["of"]) == {1}
    with job() as running:
        running.finish()
        assert looked_up(running) == before
        appear(source / "visit", "1.parquet", EPOCHS[1]["visit"])
        running.finish()
        assert looked_up(running) != before
    with job() as running:
        assert running.filled("result") == [("c1",), ("c2",)], "what was filled before it was rescaled is filled still"
    with ss.engine("partial", views()) as engine:
        engine.step(EPOCHS[0])
        looked_up(engine)
        assert [bag(engine.step(EPOCHS[1])["result"])] == changelog(sink, "result")
    with pytest.raises(ss.ViewError, match="max_rows: full state has no such option"):
        ss.spark.stream("full", views(), named, sink, session=spark, checkpoint=tmp_path / "d", max_rows=5)
    with pytest.raises(ss.CheckpointError, match="changes of a stream with another checkpoint"):
        ss.spark.stream("partial", views(), named, sink, session=spark, checkpoint=tmp_path / "d")
    assert not (tmp_path / "d" / "engine.json").exists()
    shutil.copytree(tmp_path / "c" / "intake", tmp_path / "older")
    with job() as running:
        appear(source / "visit", "3.parquet", EPOCHS[3]["visit"])
        appear(source / "visit", "4.parquet", [(("p1", "u1", 4), 1)])
        running.finish()
    shutil.rmtree(tmp_path / "c" / "intake")
    (tmp_path / "older").rename(tmp_path / "c" / "intake")
    with (
        job() as running,
        pytest.raises(ss.CheckpointError, match="at batch 4, its state is at epoch 6"),
    ):
        running.finish()


def test_dataframes_beside_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame of two files at once is one epoch, whatever its columns' order; a budget holds over the stream."""
    for name in ("info", "visit"):
        (tmp_path / name).mkdir()
        both = [arrow(name, epoch.get(name, [])) for epoch in EPOCHS[:2]]
        for number, table in enumerate(both):
            pq.write_table(table, tmp_path / name / f"{number}.parquet")
    (tmp_path / "info" / "1.parquet").unlink()
    read = spark.readStream.schema("product STRING, user STRING, length INT, diff BIGINT")
    visit = read.parquet(str(tmp_path / "visit")).selectExpr("diff", "length", "user AS USER", "product")
    out: list[dict[str, Counter[Any]]] = []
    sources = {"visit": visit, "info": tmp_path / "info"}
    with ss.spark.stream(
        "partial",
        views(),
        sources,
        lambda changes, number: out.append(told(changes)),
        session=spark,
        checkpoint=tmp_path / "c",
        max_rows=30,
    ) as job:
        job.finish()
        merged = {r: [row for epoch in EPOCHS[:2] for row in epoch.get(r, [])] for r in RELATIONS}
        with ss.engine("partial", views()) as engine:
            engine.step(merged)
            keys = ["c0", "c1", "c2", "c3"]
            answers = [row for key in keys for row in rows(engine.read("result", key=key))]
        assert rows(job.lookup("result", keys)) == answers
        state = job.state()
        assert state[~state["base"]]["rows"].sum() <= 30 < state["rows"].sum()
        assert job.epoch == 1 and len(out) == 1


def test_an_epoch_that_a_later_round_refuses(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a sum past BIGINT that comes with a partner, whoever finds it begun is told, and goes on once it is gone."""
    (tmp_path / "info").mkdir()
    (tmp_path / "pay").mkdir()
    catalog = ss.Catalog(info="product STRING, category STRING", pay="product STRING, amount BIGINT")
    view = "CREATE VIEW s AS SELECT category, SUM(amount) AS t FROM info JOIN pay USING (product) GROUP BY category"
    views = [catalog.view(view)]
    paid = {"product": ["p1", "p9"], "amount": [3 * 2**61, 2**62], "diff": [1, 1]}
    pq.write_table(pa.table(paid), tmp_path / "pay" / "0.parquet")
    pq.write_table(pa.table({"product": ["p1"], "category": ["c1"], "diff": [1]}), tmp_path / "info" / "0.parquet")
    named, turn = {r: tmp_path / r for r in ("info", "pay")}, Fed._turn_once

    def job(place: str) -> Any:
        return ss.spark.stream(
            "partial", views, named, lambda changes, number: None, session=spark, checkpoint=tmp_path / place
        )

    def killed(fed: Fed, asks: Any, kind: str = "") -> None:
        # What a driver leaves that is killed here.
        if fed._step is not None and not (tmp_path / "left").exists():
            shutil.copytree(tmp_path / "c", tmp_path / "left")
        turn(fed, asks, kind)

    with job("c") as running:
        running.finish()
        answer = rows(running.read("s", key="c1"))
        monkeypatch.setattr(Fed, "_turn_once", killed)
        odd = tmp_path / "info" / "1.parquet"
        pq.write_table(pa.table({"product": ["p9"], "category": ["c1"], "diff": [1]}), odd)
        with pytest.raises(ss.RowError, match="SUM passes the range"):
            running.finish()
    with job("left") as running:
        with pytest.raises(ss.RowError, match="SUM passes the range") as caught:
            running.finish()
        assert "1.parquet: take it away" in caught.value.__notes__[0]
    odd.unlink()
    for place in ("left", "c"):
        with job(place) as running:
            running.finish()
            assert rows(running.read("s", key="c1")) == answer == [("c1", 3 * 2**61)]


SCRIPT = """
import os, signal, time
import sharedstate_lite as ss
from sharedstate_lite.spark import upjob
where, batch = {where!r}, 2
def end():
    os.kill(os.getpid(), signal.SIGKILL)
def before(name, of, when):
    kept = getattr(of, name)
    def instead(self, *given, **named):
        if when(self):
            end()
        return kept(self, *given, **named)
    setattr(of, name, instead)
def in_epoch(self):
    return (self._step is not None) and self._step.number == batch + 1
if where == "round":
    before("_turn_once", upjob.Fed, in_epoch)
if where == "rest":
    before("_rest", upjob.Fed, in_epoch)
if where == "batch":
    before("_run", upjob.Fed, lambda self: self.epoch == batch)
def sink(changes, number):
    if where == "sink" and number == batch:
        end()
    ss.spark.outlet.give({out!r}, "", changes, number)
def job(session):
    return ss.spark.stream("partial", views, sources, sink, session=session, checkpoint={place!r}, bins=2)
with ss.spark.session(memory="1g") as session:
    catalog = ss.Catalog(**{relations!r})
    views = [catalog.view({result!r}), catalog.view({counts!r})]
    sources = {{r: {source!r} + "/" + r for r in {relations!r}}}
    with job(session) as running:
        running.finish()
        for view, keys in {keys!r}.items():
            running.lookup(view, keys)
    print("looked up", flush=True)
    while not os.path.exists({go!r}):
        time.sleep(0.05)
    with job(session) as running:
        running.finish()
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["batch", "round", "rest", "sink"])
def test_a_driver_that_is_killed(spark: SparkSession, start: Start, where: str, tmp_path: Path) -> None:
    """kill -9 before an epoch's rows, between its rounds, after them, and before the sink: each change comes once."""
    source, place, sink = tmp_path / "shop", tmp_path / "c", tmp_path / "out"
    folders(source, 0)
    given: dict[str, Any] = {"relations": RELATIONS, "result": RESULT, "counts": COUNTS, "keys": KEYS}
    paths = {"source": str(source), "out": str(sink), "place": str(place), "go": str(tmp_path / "go")}
    process = start(SCRIPT.format(where=where, **given, **paths))
    assert process.stdout is not None and process.stdout.readline() == "looked up\n"
    for number in (1, 2, 3):
        folders(source, number)
    (tmp_path / "go").touch()
    process.communicate(timeout=WAIT)
    assert process.returncode == -signal.SIGKILL
    named = {r: source / r for r in RELATIONS}
    wanted, answers = here()
    with ss.spark.stream("partial", views(), named, sink, session=spark, checkpoint=place, bins=2) as job:
        looked_up(job)
        job.finish()
        assert job.epoch == 4 and looked_up(job) == answers
    for name in KEYS:
        assert changelog(sink, name) == [changes[name] for changes in wanted if changes[name]]
    log = [json.loads(line) for line in next(place.glob("g-*/log.jsonl")).read_text().splitlines()]
    assert [line["epoch"] for line in log if line.get("kind") == "epoch"] == [1, 2, 3, 4]


def test_lookups_while_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    """Each answer is as of an epoch between its call and its return; each change replaces what the view said before."""
    source = tmp_path / "visit"
    source.mkdir()
    catalog = ss.Catalog(visit=RELATIONS["visit"])
    view = catalog.view(
        "CREATE VIEW best AS SELECT user, MAX(length) AS longest, COUNT(*) AS n FROM visit GROUP BY user"
    )
    epochs = [[(((f"p{n % 3}"), f"u{n % 4}", 10 * n + k), 1) for k in range(4)] for n in range(8)]
    as_of: list[dict[str, tuple[Any, ...]]] = [{}]
    with ss.engine("full", [view]) as engine:
        for epoch in epochs:
            engine.step({"visit": epoch})
            as_of.append({row[0]: row for row in rows(engine.read("best"))})
    got: list[tuple[int, dict[str, Counter[Any]]]] = []
    with ss.spark.stream(
        "partial",
        [view],
        {"visit": source},
        lambda changes, number: got.append((number + 1, told(changes))),
        session=spark,
        checkpoint=tmp_path / "c",
        bins=2,
    ) as job:
        asked: list[tuple[int, str, list[tuple[Any, ...]], int]] = []
        over = threading.Event()

        def ask() -> None:
            number = 0
            while not over.is_set():
                key, before = f"u{number % 5}", job.epoch
                asked.append((before, key, rows(job.read("best", key=key)), job.epoch))
                number += 1

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            for number, epoch in enumerate(epochs):
                appear(source, f"{number}.parquet", epoch)
                job.finish()
        finally:
            over.set()
            thread.join(WAIT)
        assert job.epoch == len(epochs)
        for before, key, answer, after in asked:
            possible = [[as_of[n][key]] if key in as_of[n] else [] for n in range(before, after + 1)]
            assert answer in possible, (before, key, answer, after)
        filled = {key for (key,) in job.filled("best")}
        assert {row[0]: row for row in rows(job.read("best"))} == {k: v for k, v in as_of[-1].items() if k in filled}
    assert [number for number, _ in got] == list(range(1, len(epochs) + 1)) and len(asked) > len(epochs)
    for number, changes in got:
        for row, diff in changes["best"].items():
            assert as_of[number if diff > 0 else number - 1][row[0]] == row
