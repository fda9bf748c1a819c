"""graph(), state() and the trace of an engine agree, for every view and every engine."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from cases import CASES
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support import ENGINES, Input, epochs, keys_of, labels, make, relations_of

import sharedstate_lite as ss
from sharedstate_lite.engine import events
from sharedstate_lite.engine.events import EventLog
from sharedstate_lite.plan.graph import EDGES, OPERATORS

EVENTS = set(re.findall(r"^    (\w+) {2,}", events.__doc__ or "", re.MULTILINE))
KINDS = {"source", "arrange", "join", "reduce", "distinct", "filter", "map", "union", "view"}


def drawn(name: str) -> tuple[list[Input], list[Any]]:
    """A few epochs and keys of a case, the same in every run."""
    view, out = CASES[name].declare()[1][-1], []

    @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(epochs(relations_of(view), least=3, most=3), st.lists(keys_of(view), min_size=2, max_size=3))
    def take(steps: list[Input], keys: list[Any]) -> None:
        out.append((steps, keys))

    take()
    return max(out, key=lambda found: sum(len(rows) for step in found[0] for rows in step.values()))


@pytest.mark.parametrize("name", CASES)
def test_trace_state_and_graph_agree(name: str) -> None:
    """Each event has a documented name, each message follows an edge, each row of state belongs to one operator."""
    steps, keys = drawn(name)
    view = CASES[name].declare()[1][-1]
    for label in labels(CASES[name], view):
        with make(label, [view]) as engine:
            for step in steps:
                engine.read("result", key=keys[0])
                engine.step(step)
            if label == "partial":
                engine.evict("result")
                engine.read("result", key=keys[1])
            operators, edges = engine.graph()
            assert (list(operators.columns), list(edges.columns)) == (OPERATORS, EDGES)
            assert operators.name.is_unique
            assert set(operators.kind) <= KINDS
            assert {*edges.source, *edges.target} <= set(operators.name)
            placed = Counter(table for tables in operators.tables for table in tables)
            assert placed == dict.fromkeys(engine.state().operator, 1), label
            ways = set(zip(edges.source, edges.target, strict=True))
            told = list(engine.trace)
            assert {e.name for e in told} <= EVENTS
            assert {e.edge for e in told if e.name in ("message", "response", "upquery")} <= ways, label
            assert {e.source for e in told if e.name == "state"} <= set(operators.name), label
            if label != "partial":
                assert {e.target for e in told if e.name == "state"} <= set(engine.state().operator), label
            assert [e.number for e in told] == list(range(told[0].number, told[0].number + len(told)))
            assert [e.epoch for e in told] == sorted(e.epoch for e in told)


@pytest.mark.parametrize("select", ["product, MAX(length) AS top", "product, MAX(length) + 1 AS top"])
def test_a_view_that_changes_is_written(select: str) -> None:
    """A trace names the rows of a view as state() does, wherever they are stored."""
    view = ss.Catalog(visit="product STRING, length INT").view(
        f"CREATE VIEW v AS SELECT {select} FROM visit GROUP BY product"
    )
    for kind in ("full", "shared"):
        engine = ss.engine(kind, [view])
        engine.step({"visit": [(("Potato", 50), 1)]})
        assert [e.rows for e in engine.trace if e.name == "state" and e.target == "v"] == [1]


def test_a_trace_keeps_the_newest() -> None:
    """A trace keeps its newest events with their numbers, rows if asked to, and calls its watcher for each event."""
    some, seen = EventLog(limit=3), list[Any]()
    for n in range(5):
        some.record("message", "a", "b", rows=n, payload=lambda: pytest.fail("rows are not kept"))
    assert [(e.number, e.rows, e.payload) for e in some] == [(2, 2, None), (3, 3, None), (4, 4, None)]
    some.keep_rows, some.watch = True, seen.append
    some.record("upquery", "b", "a", rows=1, payload=lambda: "keys")
    assert (seen[0].payload, seen[0].edge, list(some)[-1]) == ("keys", ("b", "a"), seen[0])
    assert some.rows_by_edge() == {("a", "b"): 7, ("b", "a"): 1}
    assert some.rows_by_edge("message") == {("a", "b"): 7}
    assert some.frame()["number"].tolist() == [3, 4, 5]
    some.clear()
    some.record("hit", "a")
    assert [e.number for e in some] == [6]
    assert not some.named("upquery")


@pytest.mark.parametrize("label", ENGINES)
def test_a_refusal_is_in_the_trace(label: str) -> None:
    """An operation that raises leaves one event, with its message."""
    view = CASES["shopping"].declare()[1][-1]
    with make(label, [view]) as engine:
        engine.step({"visit": [(("a", "u", 1), 1)]})
        engine.trace.clear()
        with pytest.raises(ss.RowError):
            engine.step({"visit": [(("a", "u", 2), 1), (("a", "u", 9), -1)]})
        told = list(engine.trace)
        assert [e.name for e in told] == ["refused"]
        assert "retracted" in told[0].note
