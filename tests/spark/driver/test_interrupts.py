"""A call that is cut off, by Ctrl-C or by another thread that closes the engine: its epoch is applied, or it is not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shopping import EPOCHS, bag, rows, views

import sharedstate_lite as ss
from sharedstate_lite.spark.rounds.query import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT = 120


def shown(engine: Any) -> list[Any]:
    """The rows of a key and, of partial state, the filled keys."""
    found = rows(engine.read("result", key="c1"))
    return [found, engine.filled("result")] if engine.kind == "partial" else [found]


def holding(sent: threading.Event, go_on: threading.Event) -> Callable[[Query, Any, int], None]:
    """A sink that keeps Spark from committing what all stages have run; made while the query's own sink is in place."""
    sink = Query._sink

    def held(query: Query, frame: Any, number: int) -> None:
        sink(query, frame, number)
        sent.set()
        assert go_on.wait(WAIT)
        raise RuntimeError("this is not to be committed")

    return held


def cut(engine: Any, patch: pytest.MonkeyPatch, moment: str) -> None:
    """Interrupt the next micro-batch as Ctrl-C does: once all stages have run, before or after Spark commits.

    ``moment``: sent or committed.
    """
    from pyspark.sql.streaming.query import StreamingQuery

    wait = StreamingQuery.processAllAvailable
    sent, go_on = threading.Event(), threading.Event()

    def interrupted(query: StreamingQuery) -> None:
        patch.undo()
        if moment == "sent":
            assert sent.wait(WAIT)
            go_on.set()
        else:
            wait(query)
        raise KeyboardInterrupt

    if moment == "sent":
        engine._query.stop()
        patch.setattr(Query, "_sink", holding(sent, go_on))
        engine._query.start()
    patch.setattr(StreamingQuery, "processAllAvailable", interrupted)


@pytest.mark.parametrize("kind", ["partial", *(pytest.param(k, marks=pytest.mark.slow) for k in ("full", "shared"))])
def test_an_interrupted_epoch_is_whole_or_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    """Before Spark's commit an interrupt undoes the epoch in all stages; after the commit the epoch is applied."""
    with ss.engine(kind, views()) as here:
        with ss.spark.engine(kind, views(), spark, checkpoint=tmp_path / "c", bins=2) as there:
            for engine in (here, there):
                engine.step(EPOCHS[0])
            before = shown(there)
            assert before == shown(here)
            cut(there, monkeypatch, "sent")
            with pytest.raises(KeyboardInterrupt):
                there.step(EPOCHS[1])
            assert there.epoch == 1 and shown(there) == before
            assert bag(there.step(EPOCHS[1])["result"]) == bag(here.step(EPOCHS[1])["result"])
            cut(there, monkeypatch, "committed")
            with pytest.raises(KeyboardInterrupt):
                there.step(EPOCHS[2])
            here.step(EPOCHS[2])
            assert there.epoch == 3 and shown(there) == shown(here)
        with ss.spark.restore(tmp_path / "c", spark) as again:
            assert again.epoch == 3 and shown(again) == shown(here)
            assert bag(again.step(EPOCHS[3])["result"]) == bag(here.step(EPOCHS[3])["result"])


@pytest.mark.parametrize("kind", ["shared", *(pytest.param(k, marks=pytest.mark.slow) for k in ("full", "partial"))])
def test_an_engine_that_is_closed_by_another_thread(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    """The thread in ``step`` gets the error, its epoch is not applied, and no query runs on the checkpoint."""
    sink, close, sent, closing = Query._sink, Query.close, threading.Event(), threading.Event()
    told: list[BaseException] = []
    with ss.engine(kind, views()) as here:
        here.step(EPOCHS[0])
        there = ss.spark.engine(kind, views(), spark, checkpoint=tmp_path / "c", bins=2)
        there.step(EPOCHS[0])
        assert shown(there) == shown(here)

        def closed(query: Query) -> None:
            closing.set()
            close(query)

        def stepping() -> None:
            try:
                there.step(EPOCHS[1])
            except BaseException as error:
                told.append(error)

        there._query.stop()
        with monkeypatch.context() as patch:
            patch.setattr(Query, "_sink", holding(sent, closing))
            there._query.start()
            thread = threading.Thread(target=stepping)
            thread.start()
            assert sent.wait(WAIT)
            patch.setattr(Query, "close", closed)
            patch.setattr(Query, "_sink", sink)
            there.close()
        thread.join(WAIT)
        assert [type(error) for error in told] == [ss.Error] and "closed" in str(told[0])
        assert not [query for query in spark.streams.active if query.isActive]
        with ss.spark.restore(tmp_path / "c", spark) as again:
            assert again.epoch == 1 and shown(again) == shown(here)
            assert bag(again.step(EPOCHS[1])["result"]) == bag(here.step(EPOCHS[1])["result"])
            assert shown(again) == shown(here)
