"""Entities on Spark: answers, states and rounds are those of bins in memory, also after the driver was killed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kills
import pytest
from pyspark.sql import SparkSession
from sorted_bins import Sorted

from sharedstate_lite.entities import AskMessage, NotPlain, PlainStore, Program, Reference, rounds
from sharedstate_lite.entities.fetched import FetchingFront
from sharedstate_lite.entities.on_spark import SparkEntities
from sharedstate_lite.errors import CheckpointError, Error
from sharedstate_lite.lessons.checkouts import Buyer, Item, Order, scarce
from sharedstate_lite.spark.rounds.inbox import Inbox
from sharedstate_lite.spark.rounds.query import Query

if TYPE_CHECKING:
    from sparks import Start

ORDERS = scarce(30, 6)
PROGRAM = Program(Item, Buyer, Order)
FIRST = 1_000


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


def test_thirty_transactions(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers and states are those of the plain carrier, in the order that the front reports. An epoch fetches the
    orders in one micro-batch and the rest in another, and sends back what has changed with the next."""
    order, finish = list[int](), FetchingFront.finish
    monkeypatch.setattr(FetchingFront, "finish", lambda *given: (order.append(given[1]), finish(*given))[1])
    asked, plain = {each.request: each._replace(what="checkout") for each in SAGAS}, PlainStore(PROGRAM)
    with SparkEntities(PROGRAM, tmp_path / "folder", 8, spark) as front:
        assert front.state() == {} and front.bins == 2
        front.run(created())
        found = front.run(asked.values())
        assert front.rounds == 1 + 3
        for each in created():
            plain.create(each.who.cls, *each.args or ())
        replies = {number: plain.call(asked[number].who, "checkout") for number in order}
        assert {n: str(each.error or each.value) for n, each in replies.items()} == {
            n: str(a) for n, a in found.items()
        }
        assert 10 < list(found.values()).count(True) < 30
        state = front.state()
        assert all(plain.state(Reference(*name)) == each for name, each in state.items())
        assert balanced(found, state)


class Killed(BaseException):
    """The driver ends here."""


def test_a_driver_that_ends_between_two_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started again, it goes on: each request has one answer and one effect, in as many micro-batches. Answers and
    states are those of bins in memory, and each hop between bins is a micro-batch. Bins are as many as partitions.

    test_serve_on_spark.py ends drivers at every step, without Spark.
    """
    answers, state, count = in_memory(2)
    assert 0 < sum(answer is True for answer in answers.values()) < len(answers)  # some are refused, and give back
    folder, points = tmp_path / "folder", {"wait": 4, "publish": 5}
    publish, wait = Inbox._publish, Query._wait

    def interrupted_wait(self: Query, *args: Any) -> None:
        """Raise, as Ctrl-C does, while micro-batch 3 runs: Spark gives it up."""
        if points.get("wait") == len(self.inbox.entries):
            del points["wait"]
            raise Killed
        wait(self, *args)

    def dying_publish(self: Inbox, number: int) -> None:
        """End after the input file of micro-batch 5 is logged, and before Spark can see it."""
        if points.get("publish") == number:
            del points["publish"]
            raise Killed
        publish(self, number)

    monkeypatch.setattr(Query, "_wait", interrupted_wait)
    monkeypatch.setattr(Inbox, "_publish", dying_publish)
    with SparkEntities(PROGRAM, folder, 8, spark) as front:
        front.run(created())
        with pytest.raises(Killed):
            front.run(SAGAS)
    with SparkEntities(PROGRAM, folder, 8, spark) as front, pytest.raises(Killed):
        front.run(SAGAS[:4])
    assert points == {}
    with SparkEntities(PROGRAM, folder, 8, spark) as front:
        assert front.run(SAGAS) == answers
        assert front.run(SAGAS[::-1]) == answers
        assert front.rounds == 1 + count
        assert front.state() == state and balanced(answers, state)
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
        SparkEntities(Program(Item), folder, 8, spark)
    with pytest.raises(Error, match="bins=0"):
        SparkEntities(PROGRAM, folder, 0, spark)
    with pytest.raises(CheckpointError, match="is not empty"):
        SparkEntities(PROGRAM, tmp_path, 8, spark)


SCRIPT = """
import json, os, signal, sys, time
sys.path[:0] = {tests!r}
from test_entities_on_spark import PROGRAM, SAGAS, created
from sharedstate_lite.entities.on_spark import SparkEntities
from sharedstate_lite.spark.rounds.query import Query
point, run, sink = {point!r}, Query.run, Query._sink

def dying_run(self, *args, **named):
    if point == "between" and len(self.inbox.entries) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(self, *args, **named)

def dying_sink(self, frame, number):
    if point == "before" and number == 4:
        frame.toArrow()
        os.kill(os.getpid(), signal.SIGKILL)
    sink(self, frame, number)
    while point == "ahead" and number == 4 and len(self.inbox.entries) < 6:
        time.sleep(0.01)
    if point in ("after", "ahead") and number == 4:
        os.kill(os.getpid(), signal.SIGKILL)

Query.run, Query._sink = dying_run, dying_sink
with SparkEntities(PROGRAM, {folder!r}) as front:
    front.run(created())
    answers = front.run(SAGAS)
    state = [[*name, repr(each)] for name, each in sorted(front.state().items())]
    print("RESULT", json.dumps([sorted(answers.items()), state, front.rounds]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["between", "before", "after", "ahead"])
def test_a_killed_driver(start: Start, tmp_path: Path, point: str) -> None:
    """SIGKILL between two micro-batches, before the output file of one, after it, and when the next one is written but
    Spark has not committed this one: nothing is lost or doubled."""
    tests, folder = [str(Path(each).parent) for each in (__file__, kills.__file__)], str(tmp_path / "folder")
    killed = start(SCRIPT.format(tests=tests, point=point, folder=folder))
    assert kills.ended(killed)
    again = start(SCRIPT.format(tests=tests, point="", folder=folder))
    out, errors = again.communicate(timeout=600)
    found = re.search("^RESULT (.*)$", out, re.MULTILINE)
    assert found, errors
    answers, state, count = in_memory(2)
    expected = [[name[0], name[1], repr(each)] for name, each in sorted(state.items())]
    assert json.loads(found[1]) == [[list(each) for each in sorted(answers.items())], expected, 1 + count]
