"""The tables of arrangements show what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import data
import sharedstate_lite as ss
from sharedstate_lite.lessons import arrangements, epochs

CATALOG = ss.Catalog(**data.SCHEMA, price="product STRING, cents INT")
TOP = CATALOG.view("CREATE VIEW top AS SELECT product, MAX(length) AS top FROM visit GROUP BY product")
THREE = CATALOG.view(
    "CREATE VIEW three AS SELECT category, user, cents FROM info JOIN visit USING (product) JOIN price USING (product)"
)
VISITS = [("visit", (p, u, n), 1) for p, u, n in [("Apple", "Alice", 10), ("Apple", "Bob", 20), ("Carrot", "Bob", 50)]]


def test_batches_are_those_of_the_arrangements() -> None:
    """One row for each batch; the batches of an arrangement are contiguous from 0 to its upper."""
    engine = epochs.engine_after("shared", [TOP])
    for start in range(0, 12_000, 3_000):
        engine.step({"visit": [((f"p{n % 7}", "u", n), 1) for n in range(start, start + 3_000 - start // 5)]})
    told = arrangements.batches(engine)
    spans = [s for a in engine.arrangements() for s in a.batches]
    assert told[["from", "to", "rows"]].values.tolist() == [[s.lower, s.upper, s.rows] for s in spans]
    assert len(told) > 1 and told["from"].tolist()[1:] == told["to"].tolist()[:-1]


def test_history_has_times_that_handles_keep() -> None:
    """Times after since are exact, earlier ones are shown as `≤ since`; cancelled pairs are gone."""
    engine = epochs.engine_after("shared", [TOP], VISITS[:1])
    handle = engine.handle()
    for relation, row, diff in [*VISITS[1:], ("visit", ("Apple", "Bob", 20), -1)]:
        engine.step({relation: [(row, diff)]})
    told = arrangements.history(engine, "visit[product]")
    assert told[["user", "time", "diff"]].values.tolist() == [
        ["Alice", "≤ 1", 1],
        ["Bob", "2", 1],
        ["Bob", "4", -1],
        ["Bob", "3", 1],
    ]
    handle.close()
    engine.compact()
    told = arrangements.history(engine, "visit[product]")
    assert told[["user", "time", "diff"]].values.tolist() == [["Alice", "≤ 4", 1], ["Bob", "≤ 4", 1]]
    assert arrangements.history(epochs.engine_after("shared", [TOP]), "visit[product]").empty
    with pytest.raises(ss.ViewError, match="nothing"):
        arrangements.history(engine, "nothing")


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "info": [("a", "x"), ("b", "y")],
    "visit": [("a", "u", 1), ("a", "w", 2), ("b", "u", 3)],
    "price": [("a", 5), ("b", 6)],
}
EPOCHS = st.fixed_dictionaries({r: st.lists(st.sampled_from(rows), max_size=3) for r, rows in ROWS.items()})


@settings(max_examples=25, derandomize=True, deadline=None)
@given(EPOCHS, EPOCHS)
def test_simultaneous_by_the_rule_is_the_true_change(first: Any, second: Any) -> None:
    """For any epoch, reading later inputs with `<=` and earlier ones with `<` gives the join's change."""
    engine = epochs.engine_after("shared", [THREE], join="delta")
    engine.step({r: [(row, 2) for row in set(rows)] for r, rows in first.items()})
    before = len(engine.read("three"))
    going = {r: [(row, -1 if row in first[r] else 1) for row in set(rows)] for r, rows in second.items()}
    told = arrangements.simultaneous(engine, going).set_index("reads the others")
    right = told.loc["later inputs <=, earlier ones <"]
    assert right["sum"] == right["true"] == len(engine.read("three")) - before


def test_simultaneous_shows_what_goes_wrong() -> None:
    """A new product with a visit and a price in one epoch: all `<=` counts three times, all `<` never."""
    engine = epochs.engine_after("shared", [THREE], join="delta")
    told = arrangements.simultaneous(engine, {r: [(rows[0], 1)] for r, rows in ROWS.items()})
    assert told[["info", "visit", "price", "sum", "true"]].values.tolist() == [
        [1, 0, 0, 1, 1],
        [1, 1, 1, 3, 1],
        [0, 0, 0, 0, 1],
    ]
    with pytest.raises(ss.ViewError, match="join='delta'"):
        arrangements.simultaneous(epochs.engine_after("shared", [THREE], join="linear"), {})
