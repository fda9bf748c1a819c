"""The Grand Challenge on Spark: each way answers as the single pass does, and survives what it says it survives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from sparks import WORKER, kill
from ticksdrawn import check

from sharedstate_lite.errors import Error
from sharedstate_lite.lessons.grand_challenge import Challenger, by_files, by_mailbox, by_source, mailbox
from sharedstate_lite.lessons.grand_challenge.challenger_pb2 import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "way",
    # test_killed_workers_lose_nothing and notebook 10 run the slow ones every time.
    [pytest.param(by_mailbox, marks=pytest.mark.slow), by_files, pytest.param(by_source, marks=pytest.mark.slow)],
    ids=["mailbox", "files", "source"],
)
def test_ways_on_spark(
    spark: SparkSession, challenger: Challenger, handed_out: list[Batch], way: Callable[..., int]
) -> None:
    """Every answer is the single pass' own, with several batches under way at once."""
    number = way(challenger.address, spark, ahead=20)
    check(challenger.record(number), handed_out, number)


def test_too_many_parts_are_refused(spark: SparkSession, challenger: Challenger) -> None:
    """Parts that cannot run at once would wait for each other for ever; no parts are none."""
    with pytest.raises(Error, match="parts=50: .* the session has"):
        by_mailbox(challenger.address, spark, parts=50)
    for way in (by_mailbox, by_files, by_source):
        with pytest.raises(Error, match="parts=0"):
            way(challenger.address, spark, parts=0)


def test_killed_workers_lose_nothing(
    spark: SparkSession, challenger: Challenger, handed_out: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python workers that are killed mid-way, kill -9, are begun again, and no answer is lost or wrong."""
    killed = threading.Event()
    plain = mailbox.BatchServer.answer

    async def deadly(server: mailbox.BatchServer, request: object) -> object:
        if b'"upto": 9' in request.schema.metadata[b"request"] and not killed.is_set():  # type: ignore[attr-defined]
            killed.set()
            kill(WORKER)
        return await plain(server, request)  # type: ignore[arg-type]

    monkeypatch.setattr(mailbox.BatchServer, "answer", deadly)
    number = by_mailbox(challenger.address, spark, ahead=1)
    assert killed.is_set()
    check(challenger.record(number), handed_out, number)


@pytest.mark.slow
def test_tasks_ask_from_anywhere(everywhere: SparkSession, challenger: Challenger, handed_out: list[Batch]) -> None:
    """On other processes and on a standalone cluster, too, tasks ask the driver and answer as the single pass does."""
    number = by_mailbox(challenger.address, everywhere, ahead=8)
    check(challenger.record(number), handed_out, number)
