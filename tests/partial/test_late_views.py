"""A view that is installed over rows that its expressions cannot take, under partial state.

Full and shared state refuse to install such a view. Partial state computes nothing yet, so it takes the view. The key
of a bad row cannot be read, and every change that removes the bad row or goes around it is taken. On Spark, all views
are there from the start, so a bad row is refused.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import installs, make
from support import bag, examples, tuples, unchanged

import sharedstate_lite as ss

BAD = ("x", 1_000_000, "abc")
LATE = {
    "a computed column": "SELECT k, a * a AS q FROM t",
    "a condition": "SELECT k FROM t WHERE CAST(s AS INT) > 1",
    "an aggregate of a computed column": "SELECT k, MAX(a * a) AS q FROM t GROUP BY k",
    "an aggregate of everything": "SELECT SUM(a * a) AS q FROM t",
    "distinct values": "SELECT DISTINCT k, a * a AS q FROM t",
    "a union": "SELECT k, a AS q FROM t UNION ALL SELECT k, a * a AS q FROM t",
    "a left join": "SELECT t.k, a * a + CAST(s AS INT) AS q FROM t LEFT JOIN u USING (k)",
}


def begun(label: str, late: str, rows: list[Any]) -> Any:
    """An engine with rows of t, and then the view ``late`` over them."""
    catalog = ss.Catalog(t="k STRING, a INT, s STRING", u="k STRING, b INT")
    plain = catalog.view("CREATE VIEW plain AS SELECT k, a, s FROM t")
    engine = make(label, [plain])
    engine.step({"t": rows, "u": [(("x", 1), 1), (("y", 2), 1)]})
    engine.install(catalog.view(f"CREATE VIEW late AS {late}"))
    return engine


def key(engine: Any, value: str) -> Any:
    """The key of ``late`` for a value of k."""
    return value if engine.views["late"].key else ()


@pytest.mark.parametrize("late", LATE)
def test_a_bad_row_can_be_deleted_and_updated(late: str) -> None:
    """Deleting or updating the row is taken, and the key can then be read."""
    for change, after in (
        ([(BAD, -1)], []),
        ([(BAD, -1), (("x", 3, "2"), 1)], [("x", 3, "2")]),
    ):
        right = begun("full", LATE[late], [(row, 1) for row in after])
        with begun("partial", LATE[late], [(BAD, 1)]) as engine:
            with unchanged(engine, ss.RowError, "overflow|not a valid INT"):
                engine.read("late", key(engine, "x"))
            engine.step({"t": change})
            assert tuples(engine.read("late", key(engine, "x"))) == tuples(right.read("late", key(engine, "x")))
            engine.step({"t": [(("x", 5, "7"), 1)]})
            right.step({"t": [(("x", 5, "7"), 1)]})
            assert tuples(engine.read("late", key(engine, "x"))) == tuples(right.read("late", key(engine, "x")))


def test_a_new_bad_row_is_refused_as_before() -> None:
    """A bad row for another key is refused, one of two bad rows can be deleted, and the rest stays bad."""
    with begun("partial", LATE["a computed column"], [(BAD, 2)]) as engine:
        with pytest.raises(ss.RowError, match="overflow"):
            engine.step({"t": [(("y", 1_000_000, "1"), 1)]})
        engine.step({"t": [(BAD, -1), (("y", 2, "1"), 1)]})
        assert tuples(engine.read("late", "y")) == [("y", 4)]
        with pytest.raises(ss.RowError, match="overflow"):
            engine.read("late", "x")
        engine.step({"t": [(BAD, -1)]})
        assert tuples(engine.read("late", "x")) == []


@pytest.mark.parametrize("label", ["partial", "partial in bins"])
def test_a_group_that_an_expression_cannot_take_goes_on(label: str) -> None:
    """A group whose total is too large for the late view takes further rows, and is read when the total fits."""
    catalog = ss.Catalog(t="k STRING, a BIGINT")
    total = catalog.view("CREATE VIEW total AS SELECT k, SUM(a) AS n FROM t GROUP BY k")
    late = "CREATE VIEW late AS SELECT k, CAST(n AS INT) AS n FROM total"
    with make(label, [total] if installs(label) else [total, catalog.view(late)]) as engine:
        engine.step({"t": [(("x", 2**31), 1), (("y", 1), 1)]})
        for k in "xy":
            engine.read("total", k)
        if installs(label):
            engine.install(catalog.view(late))
        assert tuples(engine.read("late", "y")) == [("y", 1)]
        out = engine.step({"t": [(("x", 5), 1), (("y", 1), 1)]})
        assert out["total"].kinds() == ["-U", "+U", "-U", "+U"]
        assert out["late"].to_pandas()["k"].tolist() == ["y", "y"]
        with pytest.raises(ss.RowError, match="out of range for INT"):
            engine.read("late", "x")
        engine.step({"t": [(("x", 2**31), -1)]})
        assert tuples(engine.read("late", "x")) == [("x", 5)]
        with pytest.raises(ss.RowError, match="out of range for INT"):
            engine.step({"t": [(("x", 2**31), 1)]})


JOINED = {
    "bad rows on the right": "SELECT l.k, r.q FROM l JOIN bad r ON l.j = r.j",
    "bad rows on the left": "SELECT l.k, r.q FROM bad r JOIN l ON l.j = r.j",
    "bad rows without a partner": "SELECT l.k, r.q FROM l LEFT JOIN bad r ON l.j = r.j",
    "pairs": "SELECT l.k, r.a * r.a * l.j AS q FROM l JOIN b r ON l.j = r.j",
    "groups of pairs": "SELECT l.k, SUM(r.q) AS q FROM l JOIN bad r ON l.j = r.j GROUP BY l.k",
}
LARGE = 100_000


@st.composite
def histories(draw: Any) -> list[Any]:
    """Epochs of l and b, with evictions and reads between them; the first epoch can contain bad rows.

    An epoch has a seed for the order of its messages, or None if the engine is not paused.
    """
    there: dict[str, Counter[Any]] = {"l": Counter(), "b": Counter()}
    rows = {
        "l": st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([1, 2, None])),
        "b": st.tuples(st.sampled_from([1, 2, None]), st.sampled_from([1, 2, LARGE])),
    }
    out: list[Any] = []
    for turn in range(draw(st.integers(2, 6))):
        epoch: dict[str, list[Any]] = {"l": [], "b": []}
        for _ in range(draw(st.integers(1, 4))):
            relation = draw(st.sampled_from("lb"))
            held = there[relation]
            if held and draw(st.booleans()):
                row, diff = draw(st.sampled_from(sorted(held, key=repr))), -1
            else:
                row, diff = draw(rows[relation]), 1
                if turn and row[1] == LARGE:
                    row = (row[0], 3)
            epoch[relation].append((row, diff))
            held[row] += diff
            there[relation] = +held
        out.append((epoch, draw(st.none() | st.integers(0, 9)) if turn else None))
        for k in draw(st.lists(st.sampled_from([0, 1, 2]), max_size=2)):
            out.append((draw(st.sampled_from(["read", "read", "evict"])), k))
    return out


def expected(name: str, there: dict[str, Counter[Any]], k: int) -> list[Any] | None:
    """The rows of key k of a view in JOINED, computed row by row; None if they need a bad row."""
    values: list[Any] = []
    for (key_, j), n in there["l"].items():
        if key_ == k:
            met = [(a, m) for (j2, a), m in there["b"].items() if j is not None and j == j2]
            if any(a == LARGE for a, _ in met):
                return None
            factor = j if name == "pairs" else 1
            values += [a * a * factor for a, m in met for _ in range(n * m)]
            if "without" in name and not met:
                values += [None] * n
    if name == "groups of pairs":
        return [(k, sum(values))] if values else []
    return sorted(((k, q) for q in values), key=lambda row: (row[1] is None, row[1] or 0))


def rows_by_key(name: str, there: dict[str, Counter[Any]]) -> dict[int, list[Any] | None]:
    """Key -> its rows; see `expected`."""
    return {k: expected(name, there, k) for k in range(3)}


def step(engine: Any, epoch: Any, seed: int | None) -> dict[str, ss.Changes]:
    """Run an epoch, whose messages are delivered in a random order if there is a seed."""
    if seed is None:
        return engine.step(epoch)
    engine.pause()
    out, order = engine.step(epoch), random.Random(seed)
    while engine.messages():
        first = {m.edge: n for n, m in reversed(list(enumerate(engine.messages())))}
        engine.deliver(order.choice(sorted(first.values())))
    engine.resume()
    return out.result()


@pytest.mark.parametrize("name", JOINED)
@given(history=histories())
@examples(15)
def test_a_bad_row_never_spoils_another_key(name: str, history: list[Any]) -> None:
    """Every change around bad rows is taken; a key is right if it needs no bad row, and raises if it does.

    Only one change is refused: one that makes a new bad row for the late view, which is a pair of two good rows here.
    """
    catalog = ss.Catalog(l="k INT, j INT", b="j INT, a INT")
    catalog.view("CREATE VIEW bad AS SELECT j, a * a AS q FROM b")
    late = catalog.view(f"CREATE VIEW late AS {JOINED[name]}", key=["k"])
    there: dict[str, Counter[Any]] = {"l": Counter(), "b": Counter()}
    with make("partial", [catalog.view("CREATE VIEW plain AS SELECT k FROM l")]) as engine:
        for act in history:
            if isinstance(act[0], dict):
                before, filled = rows_by_key(name, there), engine.filled("late") if engine.epoch else []
                for relation, rows in act[0].items():
                    for row, diff in rows:
                        there[relation][row] += diff
                    there[relation] = +there[relation]
                after = rows_by_key(name, there)
                try:
                    out = step(engine, act[0], act[1])
                except ss.RowError:
                    assert name == "pairs" and None in after.values()
                    return
                if engine.epoch == 1:
                    engine.install(late)
                    continue
                stayed = set(filled) & set(engine.filled("late"))
                wanted: Counter[Any] = Counter()
                for (k,) in stayed:
                    wanted.update(after[k] or [])
                    wanted.subtract(before[k] or [])
                assert bag(out["late"]) == {row: diff for row, diff in wanted.items() if diff}
            elif act[0] == "evict":
                engine.evict("late", act[1])
            elif (right := expected(name, there, act[1])) is None:
                with pytest.raises(ss.RowError, match="overflow"):
                    engine.read("late", act[1])
            else:
                assert tuples(engine.read("late", act[1])) == right
