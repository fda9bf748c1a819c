"""Rules 16, 17, 19 and 21 in drawn sequences of writes, reads and evictions, over every view of partial state.

test_partial_rules.py has one small example of each rule.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from cases import CASES
from hypothesis import given
from hypothesis import strategies as st
from support import (
    Fleet,
    Row,
    check_holes,
    entries,
    examples,
    filled,
    inputs,
    keys_of,
    own,
    pairs_of_a_chain,
    tuples,
)

import sharedstate_lite as ss
from sharedstate_lite.partial.messages import PendingResult
from sharedstate_lite.plan.nodes import Reduce

PARTIAL = [name for name, case in CASES.items() if case.partial]
FULL_AND_PARTIAL = ["full", "partial"]


def some_key(fleet: Fleet, view: ss.View) -> st.SearchStrategy[Row]:
    """A key of a view, mostly one with rows."""
    there = {tuple(row[i] for i in view.key) for row in tuples(fleet.truth(view))}
    return st.sampled_from(sorted(there, key=repr)) | keys_of(view) if there else keys_of(view)


def read(fleet: Fleet, key: Row, name: str) -> None:
    """A point read is right (rule 16); a hit sends no upquery, and after a miss the key is filled, empty or not."""
    engine = fleet.engines["partial"]
    hit = key in filled(engine, name)
    engine.trace.clear()
    fleet.read(key, name)
    asked = bool(engine.trace.rows_by_edge())
    assert asked is not hit
    assert key in filled(engine, name)
    engine.trace.clear()
    fleet.read(key, name)
    assert not engine.trace.rows_by_edge()


def evict(fleet: Fleet, data: st.DataObject) -> None:
    """Evict one key of a view, some at random, or all."""
    engine, name = fleet.engines["partial"], data.draw(st.sampled_from(list(fleet.engines["partial"].views)))
    action = data.draw(st.sampled_from(["key", "some", "all"]))
    if action == "key":
        key = data.draw(keys_of(engine.views[name]))
        gone = engine.evict(name, key=key)
        assert all(k not in filled(engine, operator) for operator, keys in gone.items() for k in keys)
        assert key not in filled(engine, name)
    elif action == "some":
        engine.evict(name, n=data.draw(st.integers(0, 3)))
    else:
        engine.evict(name)
        assert filled(engine, name) == []


@pytest.mark.parametrize("name", PARTIAL)
def test_rules_16_17_19_21_in_any_sequence(name: str) -> None:
    """Answers equal the oracle's, hits send no upquery, and holes store and emit nothing."""

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        fleet = Fleet(CASES[name], FULL_AND_PARTIAL)
        engine = fleet.engines["partial"]
        there: dict[str, Counter[Any]] = {}
        fleet.step(data.draw(inputs(fleet.relations, there)))
        # Nothing is filled, so nothing was kept or emitted.
        assert own(engine.state())["rows"].sum() == 0
        assert not sum(map(len, fleet.emitted["partial"].values()))
        for _ in range(data.draw(st.integers(2, 8))):
            action = data.draw(st.sampled_from(["step", "step", "read", "read", "evict"]))
            if action == "step":
                fleet.step(data.draw(inputs(fleet.relations, there)))
            elif action == "read":
                # Views below are read and evicted too: what stands on them has to follow.
                view = data.draw(st.sampled_from(list(engine.views.values())))
                read(fleet, data.draw(some_key(fleet, view)), view.name)
            else:
                evict(fleet, data)
            check_holes(engine)
            fleet.check()
        fleet.close()

    run()


def test_the_chains_are_there() -> None:
    """Rule 19 is not vacuous: most views have an aggregate below the reader, some have several."""
    found = {}
    for name in PARTIAL:
        with ss.engine("partial", [CASES[name].declare()[1][-1]]) as engine:
            found[name] = len(pairs_of_a_chain(engine.nodes.values()))  # type: ignore[attr-defined]
    grouped = [n for n in PARTIAL if any(isinstance(node, Reduce) for node in CASES[n].declare()[1][-1].plan.walk())]
    assert {name for name, chains in found.items() if chains} >= set(grouped) - {"union of aggregates", "incongruent"}
    assert found["view over views over views"] > 2


@pytest.mark.parametrize("budget", [{}, {"max_rows": 4}, {"max_bytes": 1500}], ids=str)
@pytest.mark.parametrize(
    "name", ["shopping", "left join of an aggregate", "union of aggregates", "view over views over views"]
)
def test_rule_21_random_evictions_never_change_an_answer(name: str, budget: dict[str, int]) -> None:
    """Random evictions, and those of a budget, never change an answer."""

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        fleet = Fleet(CASES[name], FULL_AND_PARTIAL)
        fleet.engines["partial"].close()
        fleet.engines["partial"] = engine = ss.engine("partial", [fleet.view], **budget)
        there: dict[str, Counter[Any]] = {}
        for _ in range(data.draw(st.integers(3, 10))):
            action = data.draw(st.sampled_from(["step", "step", "read", "read", "evict"]))
            if action == "step":
                fleet.step(data.draw(inputs(fleet.relations, there)))
            elif action == "read":
                fleet.read(data.draw(some_key(fleet, fleet.view)))
            else:
                evict(fleet, data)
            held = own(engine.state())
            assert sum(entries(engine)[name] for name in held.operator) <= budget.get("max_rows", 10**9)
            assert held["bytes"].sum() <= budget.get("max_bytes", 10**9)
            check_holes(engine)
            fleet.check()
        fleet.close()

    run()


def deliver_one(engine: Any, data: st.DataObject) -> None:
    """Deliver the oldest message of one of the edges."""
    first: dict[tuple[str, str], int] = {}
    for number, message in enumerate(engine.messages()):
        first.setdefault(message.edge, number)
    if first:
        engine.deliver(data.draw(st.sampled_from(list(first.values()))))


@pytest.mark.parametrize("name", PARTIAL)
def test_rule_18_in_drawn_orders(name: str) -> None:
    """Whatever order messages are delivered in, the answers are right once all are delivered."""

    @examples(2)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        fleet, there = Fleet(CASES[name], FULL_AND_PARTIAL), dict[str, Counter[Any]]()
        engine: Any = fleet.engines["partial"]
        fleet.step(data.draw(inputs(fleet.relations, there, 10)))
        # Keys that have rows, so that something is under way for them; the first is a hole at the start.
        keys = data.draw(st.lists(some_key(fleet, fleet.view), min_size=1, max_size=3, unique=True))
        for key in keys[1:]:
            fleet.read(key)
        engine.pause()
        del fleet.engines["partial"]
        waiting = []
        for _ in range(data.draw(st.integers(8, 24))):
            action = data.draw(st.sampled_from(["step", "read", *["deliver"] * 6, "evict"]))
            if action == "step":
                given_ = data.draw(inputs(fleet.relations, there, 4))
                fleet.step(given_)
                waiting.append(engine.step(given_))
            elif action == "read":
                key = data.draw(st.sampled_from(keys))
                answer = engine.read("result", key=key)
                waiting += [answer] if isinstance(answer, PendingResult) else []
            elif action == "deliver":
                deliver_one(engine, data)
            else:
                engine.evict("result", n=1)
        engine.resume()
        assert all(answer.done for answer in waiting)
        fleet.engines["partial"] = engine
        check_holes(engine)
        fleet.check()
        for key in keys:
            fleet.read(key)
        fleet.close()

    run()
