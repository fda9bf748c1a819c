"""Entities on Spark: answers, states and rounds are those of bins in memory, also after the driver was killed."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sharedstate_lite.entities import AskMessage, EntityBin, Epochs, NotPlain, Program, Reference, rounds
from sharedstate_lite.entities.bins import EntityMessage
from sharedstate_lite.entities.on_spark import SparkEntities, run
from sharedstate_lite.errors import CheckpointError, Error
from sharedstate_lite.lessons.checkouts import Buyer, Item, Order, scarce
from sharedstate_lite.spark.rounds.inbox import Inbox
from sharedstate_lite.spark.rounds.query import Query

if TYPE_CHECKING:
    from sparks import Start

ORDERS = scarce(30, 6)
PROGRAM = Program(Item, Buyer, Order)
FIRST = 1_000


class Sorted(EntityBin):
    """The oracle: a bin in memory that handles the messages of a round in the order of their requests."""

    def handle(self, messages: Iterable[EntityMessage]) -> list[tuple[int, EntityMessage]]:
        """Handle the messages of a round."""
        return super().handle(sorted(messages, key=lambda message: message.request))


def created() -> list[AskMessage]:
    """The requests that create buyers, items and orders."""
    made: list[tuple[str, str, tuple[Any, ...]]] = [("Buyer", name, (name, n)) for name, n in ORDERS.users.items()]
    made += [("Item", name, (name, n)) for name, n in ORDERS.items.items()]
    for number, (user, lines, cost) in enumerate(ORDERS.orders):
        wanted = [(Reference("Item", name), n) for name, n in lines]
        made.append(("Order", str(number), (str(number), Reference("Buyer", user), wanted, cost)))
    return [AskMessage(n, Reference(cls, key), "__init__", args, None) for n, (cls, key, args) in enumerate(made)]


SAGAS = [AskMessage(FIRST + n, Reference("Order", str(n)), "saga", (), None) for n in range(len(ORDERS.orders))]


def in_memory(bins: int) -> tuple[dict[int, Any], dict[Any, Any], int]:
    """The answers to the sagas, the states after them, and their rounds, by bins in memory."""
    oracle = [Sorted(PROGRAM, number, bins) for number in range(bins)]
    rounds(oracle, created())
    answers, count = rounds(oracle, SAGAS)
    return answers, {name: state for bin in oracle for name, state in bin.state.items()}, count


def balanced(answers: dict[int, Any], state: dict[Any, Any]) -> bool:
    """Whether stock and credit are less by what the orders that were answered with True have taken, and no more."""
    stock, credit = dict(ORDERS.items), dict(ORDERS.users)
    for number, (user, lines, cost) in enumerate(ORDERS.orders):
        if answers[FIRST + number] is True:
            credit[user] -= cost
            for name, n in lines:
                stock[name] -= n
    return all(state["Item", name]["stock"] == n for name, n in stock.items()) and all(
        state["Buyer", name]["credit"] == n for name, n in credit.items()
    )


def test_thirty_checkouts(spark: SparkSession, tmp_path: Path) -> None:
    """Answers and states are those of bins in memory, and each hop between bins is a micro-batch."""
    answers, state, count = in_memory(8)
    assert 0 < sum(answer is True for answer in answers.values()) < len(answers)  # some are refused, and give back
    with SparkEntities(PROGRAM, tmp_path / "folder", 8, spark) as front:
        assert front.state() == {}
        front.run(created())
        assert front.rounds == 1
        assert front.run(SAGAS) == answers
        assert front.rounds == 1 + count == 1 + 7
        assert front.state() == state
        assert balanced(answers, state)


def test_thirty_transactions(spark: SparkSession, tmp_path: Path) -> None:
    """Answers and states are those of epochs in memory. Most transactions are in conflict, and are gathered."""
    oracle = Epochs(PROGRAM, 8)
    oracle.run(created())
    before = oracle.rounds
    asked = [each._replace(what="checkout") for each in SAGAS]
    expected = {number: str(answer) for number, answer in oracle.run(asked).items()}
    assert 10 < list(expected.values()).count("True") < 30 and oracle.gathered > 10
    with SparkEntities(PROGRAM, tmp_path / "folder", 8, spark) as front:
        front.run(created())
        found = front.run(asked)
        assert {number: str(answer) for number, answer in found.items()} == expected
        assert front.state() == oracle.state()
        assert balanced(found, front.state())
        # in memory, entities are sent back in a round of their own
        assert 0 <= oracle.rounds - before - (front.rounds - 1) <= oracle.epochs


class Killed(BaseException):
    """The driver ends here."""


def test_a_driver_that_ends_between_two_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started again, it goes on: each request has one answer and one effect, in as many micro-batches."""
    answers, state, count = in_memory(8)
    folder, points = tmp_path / "folder", {"put": 3, "wait": 4, "publish": 5}
    put, publish, wait = Query.run, Inbox._publish, StreamingQuery.processAllAvailable
    armed = list[int]()

    def dying_run(self: Query, *args: Any) -> Any:
        """End before the input file of micro-batch 3 is logged."""
        if points.get("put") == len(self.inbox.entries):
            del points["put"]
            raise Killed
        if points.get("wait") == len(self.inbox.entries):
            armed.append(points.pop("wait"))
        return put(self, *args)

    def interrupted_wait(self: StreamingQuery) -> None:
        """Raise, as Ctrl-C does, while micro-batch 4 runs: Spark gives it up."""
        if armed:
            armed.pop()
            raise Killed
        wait(self)

    def dying_publish(self: Inbox, number: int) -> None:
        """End after the input file of micro-batch 5 is logged, and before Spark can see it."""
        if points.get("publish") == number:
            del points["publish"]
            raise Killed
        publish(self, number)

    monkeypatch.setattr(Query, "run", dying_run)
    monkeypatch.setattr(StreamingQuery, "processAllAvailable", interrupted_wait)
    monkeypatch.setattr(Inbox, "_publish", dying_publish)
    with SparkEntities(PROGRAM, folder, 8, spark) as front:
        front.run(created())
        with pytest.raises(Killed):
            front.run(SAGAS)
        assert front.rounds == 3
    for _ in range(2):
        with SparkEntities(PROGRAM, folder, 8, spark) as front, pytest.raises(Killed):
            front.run(SAGAS[:4])
    assert points == {}
    with SparkEntities(PROGRAM, folder, 8, spark) as front:
        assert front.run(SAGAS) == answers
        assert front.run(SAGAS[::-1]) == answers
        assert front.rounds == 1 + count
        assert front.state() == state
        with pytest.raises(Error, match="request 1000 was another question before"):
            front.run([SAGAS[0]._replace(who=Reference("Order", "1"))])
        with pytest.raises(NotPlain, match="request 2000"):
            front.run([AskMessage(2_000, Reference("Item", "0"), "put", (object(),), None)])
        with pytest.raises(CheckpointError, match="another engine is using this folder"):
            SparkEntities(PROGRAM, folder, 8, spark)
        assert front.rounds == 1 + count
    with pytest.raises(CheckpointError, match="the bins of this folder is 8, not 4"):
        SparkEntities(PROGRAM, folder, 4, spark)
    with pytest.raises(CheckpointError, match="the program of this folder is"):
        run(Program(Item), [], folder, 8, spark)
    with pytest.raises(Error, match="bins=0"):
        SparkEntities(PROGRAM, folder, 0, spark)
    with pytest.raises(CheckpointError, match="is not empty"):
        SparkEntities(PROGRAM, tmp_path, 8, spark)


SCRIPT = """
import json, os, signal, sys
sys.path.insert(0, {tests!r})
from test_entities_on_spark import PROGRAM, SAGAS, created
from sharedstate_lite.entities.on_spark import SparkEntities
from sharedstate_lite.spark.rounds.query import Query
point, run, sink = {point!r}, Query.run, Query._sink

def dying_run(self, messages, kind, epoch, about=None):
    if point == "between" and len(self.inbox.entries) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(self, messages, kind, epoch)

def dying_sink(self, frame, number):
    if point == "before" and number == 4:
        frame.toArrow()
        os.kill(os.getpid(), signal.SIGKILL)
    sink(self, frame, number)
    if point == "after" and number == 4:
        os.kill(os.getpid(), signal.SIGKILL)

Query.run, Query._sink = dying_run, dying_sink
with SparkEntities(PROGRAM, {folder!r}) as front:
    front.run(created())
    answers = front.run(SAGAS)
    state = [[*name, repr(each)] for name, each in sorted(front.state().items())]
    print("RESULT", json.dumps([sorted(answers.items()), state, front.rounds]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["between", "before", "after"])
def test_a_killed_driver(start: Start, tmp_path: Path, point: str) -> None:
    """SIGKILL between two micro-batches, before the output file of one, and after it: nothing is lost or doubled."""
    tests, folder = str(Path(__file__).parent), str(tmp_path / "folder")
    killed = start(SCRIPT.format(tests=tests, point=point, folder=folder))
    children: list[psutil.Process] = []
    while killed.poll() is None:
        children = psutil.Process(killed.pid).children(recursive=True) or children
        with contextlib.suppress(subprocess.TimeoutExpired):
            killed.wait(timeout=0.2)
    assert psutil.wait_procs(children, timeout=60)[1] == []  # none of them writes any more
    assert killed.returncode == -signal.SIGKILL
    again = start(SCRIPT.format(tests=tests, point="", folder=folder))
    out, errors = again.communicate(timeout=600)
    found = re.search("^RESULT (.*)$", out, re.MULTILINE)
    assert found, errors
    answers, state, count = in_memory(8)
    expected = [[name[0], name[1], repr(each)] for name, each in sorted(state.items())]
    assert json.loads(found[1]) == [[list(each) for each in sorted(answers.items())], expected, 1 + count]
