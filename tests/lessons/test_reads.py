"""The messages of a read, listed, and delivered in every order."""

from __future__ import annotations

from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite.lessons import reads
from sharedstate_lite.lessons.demo import MESSAGES, SCHEMA, view


def shop(*fixes: str, sql: str | None = None) -> Any:
    """A partial engine that has processed the nine messages."""
    shown = view() if sql is None else ss.Catalog(**SCHEMA).view(f"CREATE VIEW result AS {sql}")
    engine = ss.engine("partial", [shown], without=fixes)
    for relation, row in MESSAGES:
        engine.step({relation: [(row, 1)]})
    return engine


def test_a_read_is_listed_from_question_to_answer() -> None:
    """A miss is shown from the view to the tables and back, without projections; a hit is one row."""
    engine = shop()
    told = reads.trace_read(engine, "result", "Vegetable")
    moves = [tuple(line) for line in told.values.tolist() if line[1]]
    assert moves == [
        ("result", "MAX(length)", "asks for Vegetable"),
        ("MAX(length)", "JOIN", "asks for Vegetable"),
        ("JOIN", "info", "asks for Vegetable"),
        ("info", "JOIN", "answers Carrot Vegetable, Potato Vegetable"),
        ("JOIN", "visit", "asks for Carrot, Potato"),
        ("visit", "JOIN", "answers Carrot Bob 50, Potato Eve 60"),
        ("JOIN", "MAX(length)", "answers Vegetable 50, Vegetable 60"),
        ("MAX(length)", "result", "answers Vegetable 60"),
    ]
    assert reads.trace_read(engine, "result", "Vegetable")["what"].tolist() == [
        "has the key, so it does not send an upquery"
    ]
    assert reads.trace_read(engine, "result", "Nut")["what"].tolist()[-1] == "answers with no rows"
    assert not engine.trace.keep_rows


def test_changes_and_evictions_are_listed_too() -> None:
    """A change at a hole is shown as dropped; of many rows the first are shown, and the number of the others."""
    engine = shop()
    engine.trace.clear()
    engine.trace.keep_rows = True
    engine.step({"visit": [(("Apple", f"u{n}", 99), 1) for n in range(9)]})
    told = reads.trace_lines(engine)
    assert told["what"].tolist()[-1] == "drops a change because its key is a hole"
    assert told["what"].tolist()[0].endswith("and 5 more")


COUNT = "SELECT product, COUNT(*) AS visits FROM visit GROUP BY product"
DAN = {"visit": [(("Potato", "Dan", 5), 1)]}
ACTIONS: list[reads.Action] = [("result", "Potato"), DAN]


def test_an_engine_begins_with_epochs_and_reads() -> None:
    """start() does the actions in order: a key that was read before an epoch is updated by it."""
    shown = ss.Catalog(**SCHEMA).view(f"CREATE VIEW result AS {COUNT}")
    engine = reads.start([shown], [("result", "Potato"), DAN, {"visit": [(("Apple", "Dan", 5), 1)]}])
    assert engine.filled("result") == [("Potato",)] and engine.epoch == 2
    assert engine.read("result").values.tolist() == [["Potato", 1]]
    assert reads.start([shown], [DAN], kind="full").kind == "full"


@pytest.mark.parametrize(("fixes", "wrong"), [((), 0), (("rule18",), 5)])
def test_every_order(fixes: tuple[str, ...], wrong: int) -> None:
    """Each order works on a copy; all are right with the fix, and some are wrong without it."""
    engine = shop(*fixes, sql=COUNT)
    answers: list[Any] = [e.read("result", key="Potato")["visits"].tolist() for e in reads.orders(engine, ACTIONS)]
    assert len(answers) == 10 and sum(a != [2] for a in answers) == wrong
    assert engine.filled("result") == [] and engine.epoch == len(MESSAGES)
