"""The Grand Challenge on Spark: each way gives the single pass's answers, also after its workers are killed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
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
    """Every answer equals the single pass's, with several batches in flight."""
    number = way(challenger.address, spark, ahead=20)
    check(challenger.record(number), handed_out, number)


def test_too_many_parts_are_refused(spark: SparkSession, challenger: Challenger) -> None:
    """More parts than slots are refused, because they would wait for each other; so is parts=0."""
    with pytest.raises(Error, match="parts=50 .* the session has"):
        by_mailbox(challenger.address, spark, parts=50)
    for way in (by_mailbox, by_files, by_source):
        with pytest.raises(Error, match="parts=0"):
            way(challenger.address, spark, parts=0)


def test_killed_workers_lose_nothing(
    spark: SparkSession,
    kill_workers: Callable[[], int],
    challenger: Challenger,
    handed_out: list[Batch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After kill -9 of the Python workers Spark restarts the tasks, and no answer is lost or wrong."""
    killed = threading.Event()
    plain = mailbox.BatchServer.answer

    async def deadly(server: mailbox.BatchServer, request: object) -> object:
        if b'"upto": 9' in request.schema.metadata[b"request"] and not killed.is_set():  # type: ignore[attr-defined]
            killed.set()
            kill_workers()
        return await plain(server, request)  # type: ignore[arg-type]

    monkeypatch.setattr(mailbox.BatchServer, "answer", deadly)
    number = by_mailbox(challenger.address, spark, ahead=1)
    assert killed.is_set()
    check(challenger.record(number), handed_out, number)


@pytest.mark.slow
def test_tasks_ask_from_anywhere(everywhere: SparkSession, challenger: Challenger, handed_out: list[Batch]) -> None:
    """Tasks on local-cluster and on a standalone cluster give the single pass's answers."""
    number = by_mailbox(challenger.address, everywhere, ahead=8)
    check(challenger.record(number), handed_out, number)
