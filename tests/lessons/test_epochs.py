"""The tables of epochs show what the engine did."""

from __future__ import annotations

import pandas as pd
import pytest

import sharedstate_lite as ss
from sharedstate_lite import data
from sharedstate_lite.lessons import epochs

SENT = epochs.messages(data.seed())


def view() -> ss.View:
    """The shopping view."""
    return ss.Catalog(**data.SCHEMA).view(
        "CREATE VIEW result AS SELECT category, MAX(length) AS top FROM info JOIN visit USING (product) "
        "GROUP BY category"
    )


def test_messages_are_the_rows_in_order() -> None:
    """Every row of every table is one message, in order, with the given diff."""
    assert SENT[0] == ("info", ("Apple", "Fruit"), 1) and SENT[-1] == ("visit", ("Potato", "Eve", 60), 1)
    assert [d for _, _, d in epochs.messages(data.seed(), -1)] == [-1] * len(SENT) == [-1] * 9


@pytest.mark.parametrize("kind", ["full", "shared"])
def test_log_says_what_was_emitted_and_is_held(kind: str) -> None:
    """Each line says what left the joins, what the view emitted, and the rows of each piece of state."""
    engine = epochs.engine_after(kind, [view()])
    lines = epochs.log(engine, SENT)
    assert lines["epoch"].tolist() == list(range(1, 10))
    assert lines["message"].iloc[-1] == "+ visit Potato Eve 60"
    assert lines["emitted"].tolist()[4:] == [
        "+I Fruit 10",
        "-U Fruit 10, +U Fruit 20",
        "+I Vegetable 50",
        "-U Fruit 20, +U Fruit 40",
        "-U Vegetable 50, +U Vegetable 60",
    ]
    sent = {"full": "+ Apple Fruit Apple 10", "shared": "+ Apple Fruit Apple Alice 10"}  # full state prunes the user
    assert lines["joins send"].tolist()[3:5] == ["", sent[kind]]
    state = engine.state()
    own = state[state["bill"] != "durable"].set_index("operator")["rows"]
    assert lines[list(own.index)].iloc[-1].tolist() == own.tolist()
    assert own.sum() == engine.bill()["rows"]["working state"] == 16


@pytest.mark.parametrize("kind", ["full", "shared"])
def test_trace_epoch_follows_the_edges(kind: str) -> None:
    """One row for each message and each write to state, in order; the trace's setting is restored."""
    engine = epochs.engine_after(kind, [view()], SENT[:-1])
    told = epochs.trace_epoch(engine, {"visit": [(("Potato", "Eve", 60), 1), (("Carrot", "Bob", 50), -1)]})
    assert told["from"].iloc[0] == "visit" and told["to"].iloc[-1] == "result"
    assert told["what"].iloc[-1] == "-U Vegetable 50, +U Vegetable 60"
    assert sum(told["to"] == "") == len(engine.trace.named("state"))
    assert not engine.trace.keep_rows


def test_rows_with_other_diffs_and_nulls() -> None:
    """A diff other than 1 is shown as a number, and NULL as NULL."""
    changes = ss.Changes.from_pandas(pd.DataFrame({"a": ["x", None], "diff": [3, -2]}))
    assert epochs.rows(changes) == "+3 × x, −2 × NULL"
    assert epochs.kinds(changes) == "+I x, -D NULL"


def test_log_restores_the_trace_when_a_message_is_refused() -> None:
    """A refused message raises the engine's error, and the trace's setting is restored."""
    engine = epochs.engine_after("full", [view()])
    with pytest.raises(ss.RowError):
        epochs.log(engine, [("visit", ("Kiwi", "Dan", 1), -1)])
    assert not engine.trace.keep_rows and engine.epoch == 0


def test_a_table_with_signs_says_them_itself() -> None:
    """A diff column becomes the messages' diff; an empty table gives no messages."""
    table = pd.DataFrame({"a": [1, 2], "diff": [1, -1]})
    assert epochs.messages({"t": table}) == [("t", (1,), 1), ("t", (2,), -1)]
    assert epochs.messages({"t": table[["a"]]}, diff=-1) == [("t", (1,), -1), ("t", (2,), -1)]
    assert epochs.messages({"t": table.head(0)}) == []
