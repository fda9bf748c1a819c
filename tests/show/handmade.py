"""A recording written by hand: Eve's visit under full state, without an engine behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharedstate_lite.replay.messages import Epoch
from sharedstate_lite.replay.questions import Question
from sharedstate_lite.replay.recording import (
    Amount,
    Bag,
    Group,
    Move,
    OperatorState,
    RecordedEdge,
    RecordedMessage,
    RecordedOperator,
    RecordedStep,
    Recording,
    Row,
    RowChange,
    Rows,
    Table,
    Totals,
)

INFO = [("Apple", "Fruit"), ("Banana", "Fruit"), ("Carrot", "Vegetable"), ("Potato", "Vegetable")]
VISITS = [("Apple", "Alice", 10), ("Apple", "Bob", 20), ("Banana", "Alice", 40), ("Carrot", "Bob", 50)]
EVE = ("Potato", "Eve", 60)
SQL = "CREATE VIEW result AS SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product)"


def rows(*changes: RowChange) -> Rows:
    """Rows of a message."""
    return Rows(len(changes), lambda n: changes[:n])


def kept(values: Sequence[tuple[object, ...]]) -> tuple[Row, ...]:
    """Rows as they were."""
    return tuple(Row(v, 1, 1) for v in values)


def table(name: str, columns: str, held: Sequence[Row], caption: str = "") -> Table:
    """A table of rows."""
    names = tuple(columns.split())
    return Table(name, "rows", caption, names, names[:1], tuple(held), len(held))


def states(at: int) -> Mapping[str, OperatorState]:
    """What is held after each step: Eve's row arrives, is joined, becomes the maximum, is the answer."""
    eve = Row(EVE, 1, 0, now=at == 2)
    looked = tuple(Row(v, 1, 1, looked_up=at == 2 and v[0] == "Potato") for v in INFO)
    left = table("j.left", "product category", looked, "info side")
    right = table("j.right", "product user length", (*kept(VISITS), *([eve] if at >= 2 else [])), "visit side")
    new = Row((60,), 1, 0, now=at == 3)
    vegetable = (*kept([(50,)]), *([new] if at >= 3 else []))
    said = Row((60,), 1, 1, (50,), now=at == 3) if at >= 3 else Row((50,), 1, 1)
    groups = (
        Group(("Fruit",), (Bag("length", kept([(10,), (20,), (40,)]), 3),), Row((40,), 1, 1)),
        Group(("Vegetable",), (Bag("length", vegetable, len(vegetable)),), said),
    )
    reduce = Table("g", "groups", "", (), ("category",), (), 2, groups=groups, measures=("lengths",), results=("max",))
    answer = Row(("Vegetable", 60), 1, 1, ("Vegetable", 50), now=at == 4) if at >= 4 else Row(("Vegetable", 50), 1, 1)
    result = table("result", "category max_length", (Row(("Fruit", 40), 1, 1), answer))
    base = table("visit", "product user length", (*kept(VISITS), *([Row(EVE, 1, 0, now=at == 1)] if at else [])))
    return {
        "info": OperatorState("info", (table("info", "product category", kept(INFO)),), 4, 128, True),
        "visit": OperatorState("visit", (base,), 4 + (at > 0), 160, True),
        "j": OperatorState("j", (left, right), 8 + (at >= 2), 300),
        "g": OperatorState("g", (reduce,), 4 + (at >= 3), 120),
        "result": OperatorState("result", (result,), 2, 64),
    }


def recording() -> Recording:
    """Four steps of one message."""
    eve = rows(RowChange(EVE, 1))
    joined = rows(RowChange(("Vegetable", 60), 1))
    pair = rows(RowChange(("Vegetable", 50), -1, "-U"), RowChange(("Vegetable", 60), 1, "+U"))
    first = Move(0, "visit", "j", "change", eve, sent=1, taken=2)
    second = Move(1, "j", "g", "change", joined, sent=2, taken=3)
    third = Move(2, "g", "result", "change", pair, sent=3, taken=4)
    asked = Question("What will MAX emit?", "rows", (("-U", "Vegetable", 50), ("+U", "Vegetable", 60)))
    steps = (
        RecordedStep(1, 1, 1, "arrive", "visit", "visit stores Potato, Eve, 60.", (), (first,)),
        RecordedStep(2, 1, 1, "change", "j", "JOIN looked up Potato in info.", (first,), (second,)),
        RecordedStep(3, 1, 1, "change", "g", "MAX kept 50 and added 60.", (second,), (third,), question=asked),
        RecordedStep(4, 1, 1, "change", "result", "result says 60.", (third,), emitted=pair),
    )
    operators = (
        RecordedOperator("info", "source", "info", "", ("info",), ""),
        RecordedOperator("visit", "source", "visit", "", ("visit",), ""),
        RecordedOperator("j", "join", "JOIN", "on product", ("j.left", "j.right"), "result"),
        RecordedOperator("g", "reduce", "max(length)", "by category", ("g",), "result"),
        RecordedOperator("result", "view", "result", "", ("result",), "result"),
    )
    edges = tuple(RecordedEdge(*e, "change") for e in [("info", "j"), ("visit", "j"), ("j", "g"), ("g", "result")])
    message = Epoch((("visit", EVE, 1),))
    told = RecordedMessage(1, message, message.text, 1, 4, 1)

    def totals(at: int) -> Totals:
        own = 14 + (at >= 2) + (at >= 3)
        return Totals(Amount(8 + (at > 0), 288), Amount(own, own * 30, 14))

    return Recording("full", (SQL,), operators, edges, (told,), steps, states, totals)
