"""Streams of partial state whose driver is killed, at several points of an epoch."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lookups import KEYS, WAIT, here, looked_up
from shopping import COUNTS, RELATIONS, RESULT, changelog, folders, rows, views
from sparks import Start

import sharedstate_lite as ss
from sharedstate_lite.spark.partial.job import PartialStreamEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_an_epoch_that_a_later_round_refuses(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A round refuses an epoch that a killed driver had begun: the next stream reports it, and continues without it."""
    (tmp_path / "info").mkdir()
    (tmp_path / "pay").mkdir()
    catalog = ss.Catalog(info="product STRING, category STRING", pay="product STRING, amount BIGINT")
    view = "CREATE VIEW s AS SELECT category, SUM(amount) AS t FROM info JOIN pay USING (product) GROUP BY category"
    views = [catalog.view(view)]
    paid = {"product": ["p1", "p9"], "amount": [3 * 2**61, 2**62], "diff": [1, 1]}
    pq.write_table(pa.table(paid), tmp_path / "pay" / "0.parquet")
    pq.write_table(pa.table({"product": ["p1"], "category": ["c1"], "diff": [1]}), tmp_path / "info" / "0.parquet")
    named, turn = {r: tmp_path / r for r in ("info", "pay")}, PartialStreamEngine._run_round

    def job(place: str) -> Any:
        return ss.spark.stream(
            "partial", views, named, lambda changes, number: None, session=spark, checkpoint=tmp_path / place, bins=1
        )

    def killed(fed: PartialStreamEngine, asks: Any) -> None:
        # The checkpoint as a driver leaves it that is killed here.
        if fed._epoch_request is not None and not (tmp_path / "left").exists():
            shutil.copytree(tmp_path / "c", tmp_path / "left")
        turn(fed, asks)

    with job("c") as running:
        running.finish()
        answer = rows(running.read("s", key="c1"))
        monkeypatch.setattr(PartialStreamEngine, "_run_round", killed)
        odd = tmp_path / "info" / "1.parquet"
        pq.write_table(pa.table({"product": ["p9"], "category": ["c1"], "diff": [1]}), odd)
        with pytest.raises(ss.RowError, match="SUM exceeds the range"):
            running.finish()
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "left").rename(tmp_path / "c")
    with job("c") as running:
        with pytest.raises(ss.RowError, match="SUM exceeds the range") as caught:
            running.finish()
        assert "1.parquet: remove it" in caught.value.__notes__[0]
    odd.unlink()
    with job("c") as running:
        running.finish()
        assert rows(running.read("s", key="c1")) == answer == [("c1", 3 * 2**61)]


SCRIPT = """
import os, signal
import sharedstate_lite as ss
from sharedstate_lite.spark.jobs.sink import deliver
from sharedstate_lite.spark.partial import job as partial_job
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
    return (self._epoch_request is not None) and self._epoch_request.number == batch + 1
if where == "round":
    before("_run_round", partial_job.PartialStreamEngine, in_epoch)
if where == "rest":
    before("_settle_requests", partial_job.PartialStreamEngine, in_epoch)
if where == "batch":
    before("_run", partial_job.PartialStreamEngine, lambda self: self.epoch == batch)
def sink(changes, number):
    if where == "sink" and number == batch:
        end()
    deliver({out!r}, "", changes, number)
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
    open({go!r}).readline()
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
    os.mkfifo(tmp_path / "go")
    process = start(SCRIPT.format(where=where, **given, **paths))
    assert process.stdout is not None and process.stdout.readline() == "looked up\n"
    for number in (1, 2, 3):
        folders(source, number)
    with (tmp_path / "go").open("r+b", buffering=0) as go:  # for both, so that none waits for the other to open it
        go.write(b"on\n")
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
