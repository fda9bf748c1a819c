"""What a step of a partial engine emits for a key that the same step evicts: nothing, never half of the change.

A step evicts a key if a change that the key needs cannot be computed from what is cached (rule 20). Changes of the key
can reach the view before this is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import bag, examples, tuples

import sharedstate_lite as ss

PER = "CREATE VIEW per AS SELECT a, b AS bb, COUNT(*) AS n FROM s GROUP BY a, b"
V = "CREATE VIEW v AS SELECT s.b AS o FROM s JOIN per ON s.a = per.a"


def made(kind: str) -> Any:
    """An engine over a relation that is joined with a count of its own rows."""
    catalog = ss.Catalog(s="b INT, a INT")
    catalog.view(PER)
    return ss.engine(kind, [catalog.view(V)])


def test_a_key_that_the_step_evicts_emits_nothing() -> None:
    """One of five rows moves to a group that is a hole: the view's rows do not change, and none is emitted."""
    for kind in ("full", "partial"):
        with made(kind) as engine:
            engine.step({"s": [((-2, 7), 5)]})
            assert len(engine.read("v", -2)) == 5
            assert len(engine.step({"s": [((-2, 7), -1), ((-2, 3), 1)]})["v"]) == 0, kind
            assert len(engine.read("v", -2)) == 5


def contents(rows: Counter[Any]) -> Counter[Any]:
    """The rows of v: each row of s once for each b in its group."""
    groups: dict[int, set[int]] = {}
    for b, a in rows:
        groups.setdefault(a, set()).add(b)
    out: Counter[Any] = Counter()
    for (b, a), count in rows.items():
        out[(b,)] += count * len(groups[a])
    return out


def difference(before: Counter[Any], after: Counter[Any], keys: Iterable[Any]) -> dict[Any, int]:
    """The change of some keys of v."""
    return {key: after[key] - before[key] for key in keys if after[key] != before[key]}


@st.composite
def epochs(draw: Any) -> list[list[Any]]:
    """Epochs of s that move, insert and delete rows among few groups."""
    there: Counter[Any] = Counter()
    out = []
    for _ in range(draw(st.integers(2, 5))):
        epoch: list[Any] = []
        for _ in range(draw(st.integers(1, 3))):
            gone = draw(st.sampled_from(sorted(there))) if there and draw(st.booleans()) else None
            come = draw(st.tuples(st.integers(0, 2), st.integers(0, 3)))
            for row, diff in ((gone, -1), (come, 1)):
                if row is not None:
                    epoch.append((row, diff))
                    there[row] += diff
            there = +there
        out.append(epoch)
    return out


@given(st.data())
@examples(40)
def test_a_step_emits_the_whole_change_of_a_key_or_nothing(data: st.DataObject) -> None:
    """In any order of delivery, and with evictions in between, a key emits its change if it stays filled."""
    rows: Counter[Any] = Counter()
    with made("partial") as engine:
        for epoch in data.draw(epochs()):
            for b in data.draw(st.sets(st.integers(0, 2))):
                engine.read("v", b)
            before, held = contents(rows), set(engine.filled("v"))
            for row, diff in epoch:
                rows[row] += diff
            rows = +rows
            by_hand = data.draw(st.booleans())
            if by_hand:
                engine.pause()
            out = engine.step({"s": epoch})
            while by_hand and engine.messages():
                first = {m.edge: n for n, m in reversed(list(enumerate(engine.messages())))}
                engine.deliver(data.draw(st.sampled_from(sorted(first.values()))))
                if data.draw(st.integers(0, 5)) == 0:
                    engine.evict("v", data.draw(st.integers(0, 2)))
            if by_hand:
                engine.resume()
                out = out.result()
            stayed, emitted = held & set(engine.filled("v")), bag(out["v"])
            if by_hand:
                # A key that was evicted after the last change of the step had arrived emits its change.
                stayed |= held & emitted.keys()
            assert emitted == difference(before, contents(rows), stayed)
            for (b,) in engine.filled("v"):
                assert tuples(engine.read("v", b)) == [(b,)] * contents(rows)[(b,)]


@pytest.mark.parametrize("delivered", [False, True])
def test_an_eviction_after_a_step_leaves_what_the_step_emitted(delivered: bool) -> None:
    """On a paused engine, a call of evict drops the changes of a step that is under way, not of one that is done."""
    with made("partial") as engine:
        engine.step({"s": [((1, 7), 1)]})
        engine.read("v", 1)
        engine.pause()
        step = engine.step({"s": [((1, 7), 1)]})
        while engine.messages() and (delivered or not engine.nodes["reader", "v"].emitted):
            engine.deliver(0)
        assert step.done == delivered
        engine.evict("v", 1)
        engine.resume()
        assert bag(step.result()["v"]) == ({(1,): 1} if delivered else {})
