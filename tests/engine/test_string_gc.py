"""Handles while views are installed and dropped, what a closed engine releases, and what its trace keeps."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from places import ENGINES, make
from support import unchanged

import sharedstate_lite as ss

RELATIONS = {"a": "s STRING, x INT", "b": "s STRING, y INT", "d": "y INT, z INT"}
TOP = "CREATE VIEW v AS SELECT s, MAX(x + 1) AS m, SUM(x) AS total FROM a GROUP BY s"


def engine_of(label: str, *sql: str) -> Any:
    """An engine over views, after one epoch."""
    catalog = ss.Catalog(**RELATIONS)
    engine = make(label, [catalog.view(text) for text in sql])
    if engine.kind == "partial":
        engine.read("v", key="p")
    engine.step({"a": [(("p", 1), 1)], "d": [((1, 2), 1)]})
    return engine


@pytest.mark.parametrize("label", ENGINES)
def test_a_handle_outlives_the_views_that_it_held(label: str) -> None:
    """It goes on with the arrangements that are left; a time that one of them refuses moves none."""
    engine = engine_of(label, TOP, "CREATE VIEW w AS SELECT s, y FROM b")
    hold = engine.handle()
    engine.step({"a": [(("p", 2), 1)]})
    engine.drop("w")
    for odd in (0, 3, True, 1.0):
        with pytest.raises(ss.TimeError):
            hold.advance(odd)
        assert {h.time for h in hold._handles if h.open} == {hold.time} == {1}
    hold.advance(2)
    assert {h.time for h in hold._handles if h.open} == {hold.time} == {2}
    hold.close()
    with pytest.raises(ss.TimeError, match="closed"):
        hold.advance(2)


@pytest.mark.parametrize("join", ["linear", "delta"])
def test_a_base_table_that_a_handle_holds_keeps_its_past(join: str) -> None:
    """A view that wants it by another key has an arrangement beside it; without a handle the base goes by that key."""
    late = "CREATE VIEW late AS SELECT s, z FROM b JOIN d USING (y)"
    for held in (True, False):
        engine = engine_of("shared", TOP)
        engine.step({"d": [((3, 4), 1)]})
        engine.step({"d": [((1, 2), -1)]})
        base = engine.bases["d"]
        hold = base.handle(3) if held else None
        every = engine.handle(3)
        engine.step({"d": [((5, 6), 1)]})
        if not held:
            every.close()
        engine.install(engine.catalog.view(late))
        assert (engine.bases["d"] is base) == held
        if hold is not None:
            assert len(base.contents(3, engine.dictionary.strings).diffs) == 1
            every.advance(4)
            hold.close()
            every.close()
        engine.step({"b": [(("q", 5), 1)], "d": [((5, 7), 1)]})
        engine.compact()
        assert engine.read("late", key="q")["z"].tolist() == [6, 7]


@pytest.mark.parametrize("label", ENGINES)
def test_a_closed_engine_holds_nothing(label: str) -> None:
    """Its arrangements and its dictionary are released; emitted Changes stay readable."""
    engine = engine_of(label, TOP, "CREATE VIEW w AS SELECT s, y FROM a JOIN b USING (s)")
    out = engine.step({"a": [(("p", 7), 1)]})["v"]
    kept = [weakref.ref(a) for a in engine.all_arrangements()]
    assert kept
    engine.close()
    engine.close()
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
    assert out.to_pandas()["total"].tolist() == [1, 8]
    for call in (engine.state, engine.compact, engine.handle, engine.graph, lambda: engine.read("v")):
        with pytest.raises(ss.Error, match="this engine is closed"):
            call()


def test_a_closed_engine_owes_no_answer() -> None:
    """Closing a paused engine makes open results raise; available ones stay."""
    engine = engine_of("partial", TOP)
    engine.pause()
    there, waits, done = engine.read("v", key="q"), engine.read("v", key="r"), engine.step({})
    while not there.done:
        engine.deliver(0)
    engine.close()
    assert there.result().empty
    for pending in (waits, done):
        with pytest.raises(ss.Error, match="closed before"):
            pending.result()


@pytest.mark.parametrize("label", ENGINES)
def test_a_trace_shows_the_rows_of_a_step_that_was_refused(label: str) -> None:
    """What its payloads say stays true when the engine has forgotten the strings and gives their codes to others."""
    engine = engine_of(label, TOP)
    engine.trace.keep_rows = True
    if engine.kind == "partial":
        engine.read("v", key="omega")
    engine.trace.clear()
    with unchanged(engine, ss.RowError, "INT"):
        engine.step({"a": [(("omega", 1), 1), (("p", 2**31 - 1), 1)]})
    engine.step({"a": [(("newer", 1), 1), (("newest", 1), 1)]})
    sent = [e for e in engine.trace if e.name == "message" and e.epoch == 2]
    payloads = [e.payload["rows"] if engine.kind == "partial" else e.payload for e in sent]
    assert "'omega'" in repr(payloads[0])
    assert "'newe" not in repr(payloads[0])
    assert {p.time for p in payloads} == {2}
    assert engine.dictionary.strings.find("omega") is None or engine.kind == "partial"
