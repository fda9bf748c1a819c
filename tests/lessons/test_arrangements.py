"""The tables of arrangements show what is stored."""

from __future__ import annotations

from typing import Any

import pytest

import sharedstate_lite as ss
from sharedstate_lite import data
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


def test_entries_have_times_that_handles_keep() -> None:
    """Times after since are exact, earlier ones have become since; cancelled pairs are gone."""
    engine = epochs.engine_after("shared", [TOP], VISITS[:1])
    handle = engine.handle()
    for relation, row, diff in [*VISITS[1:], ("visit", ("Apple", "Bob", 20), -1)]:
        engine.step({relation: [(row, diff)]})
    alice, bob, carrot = (row for _, row, _ in VISITS)
    told = arrangements.entries(engine, "visit[product]")
    assert told == [(alice, 1, 1), (bob, 2, 1), (bob, 4, -1), (carrot, 3, 1)]
    handle.close()
    engine.compact()
    told = arrangements.entries(engine, "visit[product]")
    assert told == [(alice, 4, 1), (carrot, 4, 1)]
    assert arrangements.entries(epochs.engine_after("shared", [TOP]), "visit[product]") == []
    with pytest.raises(ss.ViewError, match="nothing"):
        arrangements.entries(engine, "nothing")


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "info": [("a", "x"), ("b", "y")],
    "visit": [("a", "u", 1), ("a", "w", 2), ("b", "u", 3)],
    "price": [("a", 5), ("b", 6)],
}


def test_paths_carry_what_the_lookups_find() -> None:
    """If a row is new in all inputs, only the first path finds it: the others read info without this epoch."""
    engine = epochs.engine_after("shared", [THREE], join="delta")
    (operators, edges), carried = arrangements.paths(engine, {r: [(rows[0], 1)] for r, rows in ROWS.items()})
    assert list(zip(edges["source"], edges["target"], strict=True)) == list(carried)
    assert len(operators) == 3 + 3 * 2 + 2 and set(edges["target"]) <= set(operators["name"])
    into = {source: n for (source, target), n in carried.items() if target == "union"}
    assert list(into.values()) == [1, 0, 0] and carried["union", "three"] == 1
    assert carried["Δ price", "Δ price info"] == 1 and carried["Δ price info", "Δ price info visit"] == 0
    visit = arrangements.paths(engine, {"visit": [(ROWS["visit"][1], 1)]})[1]
    assert visit["Δ visit info price", "union"] == visit["union", "three"] == 1
    update = arrangements.paths(engine, {"price": [(ROWS["price"][0], -1), (("a", 7), 1)]})[1]
    assert update["Δ price", "Δ price info"] == 2 and update["union", "three"] == 2 * 2  # two visits, each changed
    with pytest.raises(ss.ViewError, match="join='delta'"):
        arrangements.paths(epochs.engine_after("shared", [THREE], join="linear"), {})
