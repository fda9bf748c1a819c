"""Rules 10 to 15: shared arrangements, as in differential dataflow and Materialize."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import CASES, RELATIONS
from hypothesis import given
from hypothesis import strategies as st
from places import ON_SPARK, make
from support import Input, epochs, examples, relations_of, tuples

import sharedstate_lite as ss
from sharedstate_lite.kernels.join import Matches, delta_path
from sharedstate_lite.kernels.join_order import flatten
from sharedstate_lite.plan.nodes import Join, Type
from sharedstate_lite.storage.arrangement import Arrangement
from sharedstate_lite.storage.batch import Delta, Layout
from sharedstate_lite.storage.encoding import Dictionary, Words

SHARED = ["shared", "shared linear", "shared delta"]
every_shared = pytest.mark.parametrize("label", [*SHARED, "shared in bins"])

SAME_KEY = [
    "SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category",
    "SELECT category, user FROM info JOIN visit USING (product) WHERE length > 1",
    "SELECT user, length + 1 AS more FROM info JOIN visit USING (product) WHERE category = 'x' AND user <> 'w'",
    "SELECT length, COUNT(*) AS n FROM visit JOIN info USING (product) WHERE length BETWEEN 1 AND 4 GROUP BY length",
    "SELECT product, MAX(length) AS top, MIN(length) AS low FROM visit GROUP BY product",
    "SELECT product, MAX(length) AS top FROM visit WHERE user = 'u' GROUP BY product",
]
"""Views over visit by product and info by product."""


def arranged(engine: ss.Engine) -> dict[tuple[str, tuple[str, ...]], int]:
    """(relation, key) -> rows, of the arrangements of base relations; each exists once."""
    table = engine.state()
    table = table[(table.kind == "arrangement") & table.relation.isin(list(RELATIONS))]
    found = list(zip(table.relation, table.key, strict=True))
    assert len(set(found)) == len(found)
    return dict(zip(found, table["rows"].tolist(), strict=True))


@pytest.mark.parametrize("label", [*SHARED, "shared in bins", "shared on Spark"])
def test_rule_10_one_arrangement_serves_all_views(label: str) -> None:
    """N views over one (relation, key) share one arrangement; another view adds no arranged row."""
    catalog = ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW w{n} AS {sql}") for n, sql in enumerate(SAME_KEY)]
    if "Spark" in label:
        # There each one takes seconds.
        views = views[:2]
    visits = [(("ab"[n % 2], "uvw"[n % 3], n % 6), 1) for n in range(60)]
    with make(label, views[:1]) as engine:
        engine.step({"visit": visits, "info": [(("a", "x"), 1), (("b", "y"), 1)]})
        before = arranged(engine)
        assert set(before) == {("visit", ("product",)), ("info", ("product",))}
        objects = identities(engine)
        for view in views[1:]:
            engine.install(view)
            assert arranged(engine) == before
        assert objects <= identities(engine)
        engine.step({"visit": [(("a", "u", 77), 1)]})
        assert arranged(engine)["visit", ("product",)] == before["visit", ("product",)] + 1
        if "Spark" not in label:
            for view in views[:-1]:
                engine.drop(view)
            assert engine.read(views[-1].name, key="a")["top"].tolist() == [77]


def identities(engine: ss.Engine) -> set[int]:
    """The ids of the arrangements of visit and info by product; in bins every bin has its own."""
    if not isinstance(engine, ss.Engine):
        return set()
    return {id(a) for a in engine.arrangements() if a.name in ("visit[product]", "info[product]")}


@every_shared
def test_rule_10_views_installed_together_share_too(label: str) -> None:
    """Views share arrangements whether they are installed together or one by one, in any order."""
    for order in (SAME_KEY, SAME_KEY[::-1]):
        catalog = ss.Catalog(**RELATIONS)
        views = [catalog.view(f"CREATE VIEW w{n} AS {sql}") for n, sql in enumerate(order)]
        with make(label, views) as engine:
            engine.step({"visit": [(("a", "u", 2), 1)]})
            assert set(arranged(engine)) == {("visit", ("product",)), ("info", ("product",))}


@pytest.mark.parametrize(("shared", "full"), [("shared", "full"), ("shared in bins", "full in bins")])
def test_rule_10_another_key_is_another_arrangement(shared: str, full: str) -> None:
    """Another key costs another arrangement of all rows; full state shares nothing."""
    catalog = ss.Catalog(**RELATIONS)
    by_product = catalog.view(f"CREATE VIEW one AS {SAME_KEY[0]}")
    by_user = catalog.view(
        "CREATE VIEW two AS SELECT city, COUNT(*) AS n FROM visit JOIN person USING (user) GROUP BY city"
    )
    visits = [(("a", "u", n), 1) for n in range(9)]
    with make(shared, [by_product]) as engine:
        engine.step({"visit": visits})
        engine.install(by_user)
        assert arranged(engine)["visit", ("product",)] == arranged(engine)["visit", ("user",)] == 9
    same = [catalog.view(f"CREATE VIEW again{n} AS {SAME_KEY[0]}") for n in range(3)]
    with make(full, same) as engine:
        engine.step({"visit": visits})
        table = engine.state()
        assert table[(table.relation == "π(visit)") & (table.kind == "join")]["rows"].tolist() == [9, 9, 9]


# --- time -----------------------------------------------------------------------


@examples(15)
@given(st.sampled_from(list(CASES)), st.data())
def test_rules_12_and_13_reads_in_the_past(name: str, data: st.DataObject) -> None:
    """A read at t in [since, upper) gives what was read then, compacted or not; since is the slowest handle's time."""
    view = CASES[name].declare()[1][-1]
    with make("shared", [view]) as engine:
        history: list[Any] = [tuples(engine.read("result"))]
        handles: list[Any] = []
        for step in data.draw(epochs(relations_of(view), least=3, most=8)):
            engine.step(step)
            history.append(tuples(engine.read("result")))
            act_on_handles(engine, handles, data)
            since = min([h.time for h in handles], default=engine.epoch)
            assert {a.since for a in engine.arrangements()} == {since}
            check_history(engine, history, since)
            if data.draw(st.booleans()):
                engine.compact()
                check_history(engine, history, since)
        for handle in handles:
            handle.close()
        check_history(engine, history, engine.epoch)


def act_on_handles(engine: ss.Engine, handles: list[Any], data: st.DataObject) -> None:
    """Open, advance or close a handle."""
    action = data.draw(st.sampled_from(["open", "advance", "close", "nothing"]))
    if action == "open" and len(handles) < 3:
        since = min([h.time for h in handles], default=engine.epoch)
        handles.append(engine.handle(data.draw(st.integers(since, engine.epoch))))
    elif action == "advance" and handles:
        handle = data.draw(st.sampled_from(handles))
        handle.advance(data.draw(st.integers(handle.time, engine.epoch)))
    elif action == "close" and handles:
        handles.pop(data.draw(st.integers(0, len(handles) - 1))).close()


def check_history(engine: ss.Engine, history: list[Any], since: int) -> None:
    """Every readable time gives what was read then; every other time raises TimeError."""
    for time in range(-1, engine.epoch + 2):
        if since <= time <= engine.epoch:
            assert tuples(engine.read("result", at=time)) == history[time], time
        else:
            with pytest.raises(ss.TimeError, match=f"{time}"):
                engine.read("result", at=time)


def test_rule_12_a_point_read_in_the_past() -> None:
    """A point read at t is the key's part of the whole read at t."""
    view = CASES["shopping"].declare()[1][-1]
    with make("shared", [view]) as engine:
        engine.step({"info": [(("a", "x"), 1)], "visit": [(("a", "u", 1), 1)]})
        with engine.handle():
            engine.step({"visit": [(("a", "u", 9), 1)]})
            engine.compact()
            assert tuples(engine.read("result", key="x", at=1)) == [("x", 1)]
            assert tuples(engine.read("result", key="x", at=2)) == [("x", 9)]
        with pytest.raises(ss.TimeError, match="since=2"):
            engine.read("result", key="x", at=1)


def test_rule_13_the_slowest_reader_decides() -> None:
    """since is the smallest time of the open handles; closing the slowest lets since advance, and rows go."""
    view = CASES["shopping"].declare()[1][-1]
    with make("shared", [view]) as engine:
        engine.step({"visit": [(("a", "u", n), 1) for n in range(10)]})
        base = next(a for a in engine.arrangements() if a.name == "visit[product]")
        slow, fast = base.handle(1), base.handle(1)
        for n in range(10):
            engine.step({"visit": [(("a", "u", n), -1)]})
            fast.advance(engine.epoch)
            assert base.since == 1
        engine.compact()
        assert (base.since, base.rows) == (1, 20)
        slow.close()
        assert base.since == 11
        engine.compact()
        assert base.rows == 0
        assert base.since == base.upper - 1
        # The engine's other arrangements were never held.
        assert {a.since for a in engine.arrangements()} == {11}


def test_rule_13_closing_twice_and_after_a_drop() -> None:
    """Closing a handle twice is no error; dropping a view closes the handles on what only it needed."""
    catalog = ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW w{n} AS {SAME_KEY[n]}") for n in (0, 4)]
    with make("shared", views) as engine:
        engine.step({"visit": [(("a", "u", 1), 1)]})
        held = engine.handle()
        engine.drop(views[0])
        engine.step({"visit": [(("a", "u", 2), 1)]})
        assert tuples(engine.read("w4", at=1)) == [("a", 1, 1)]
        held.close()
        held.close()
        with pytest.raises(ss.TimeError):
            engine.read("w4", at=1)


# --- joins ----------------------------------------------------------------------


class Shifted:
    """A side that answers every lookup as of one time, whatever time is asked for."""

    def __init__(self, arrangement: Arrangement, strings: Dictionary, at: int | None) -> None:
        self.arrangement, self.strings, self.at, self.columns, self.stored = arrangement, strings, at, 2, None

    def match(self, keys: Words, at: int | None) -> Matches:
        return self.arrangement.match(keys, self.strings, at if self.at == -1 else self.at)


@pytest.mark.parametrize(("at", "times"), [(-1, 1), (None, 3), (0, 0)], ids=["<= later, < earlier", "all <=", "all <"])
def test_rule_14_simultaneous_changes_count_once(at: int | None, times: int) -> None:
    """Changes to all three inputs of a delta join count once; with <= everywhere three times, with < never."""
    catalog = ss.Catalog(r="k INT, a INT", s="k INT, b INT", t="k INT, c INT")
    view = catalog.view("CREATE VIEW v AS SELECT * FROM r JOIN s USING (k) JOIN t USING (k)")
    joined = flatten(next(n for n in view.plan.walk() if isinstance(n, Join) and isinstance(n.left, Join)))
    strings, layout = Dictionary(), Layout((Type.INT, Type.INT), (0,))
    delta = Delta(np.array([[1], [7]]), np.array([1]))
    sides = []
    for _ in joined.inputs:
        arrangement = Arrangement("side", layout)
        arrangement.insert(delta.rows, delta.diffs, strings)
        sides.append(Shifted(arrangement, strings, at))
    total = 0
    for start, path in enumerate(joined.paths):
        out = delta_path(delta, start, [(step, sides[step.input]) for step in path], 0, strings)
        total += int(out.diffs.sum())
    assert total == times


@pytest.mark.parametrize(
    "label",
    [
        *["full", "full multi", *SHARED, "partial", "full in bins", "full multi in bins", "shared in bins"],
        "full on Spark",
        *(pytest.param(label, marks=pytest.mark.slow) for label in ON_SPARK if label != "full on Spark"),
    ],
)
def test_rule_14_in_every_engine(label: str) -> None:
    """Insertions, updates and deletions of all inputs in one epoch count once, in every engine."""
    view = CASES["chain of three, one key"].declare()[1][-1]
    with make(label, [view]) as engine:
        engine.read("result", key="x")
        engine.step({"info": [(("a", "x"), 1)], "visit": [(("a", "u", 1), 2)], "price": [(("a", 5), 3)]})
        assert len(engine.read("result", key="x")) == 6
        change: Input = {
            "info": [(("a", "x"), -1), (("a", "x"), 2)],
            "visit": [(("a", "u", 1), -1), (("a", "w", 1), 1)],
            "price": [(("a", 5), -2)],
        }
        engine.step(change)
        assert tuples(engine.read("result", key="x")) == [("x", "u", 5)] * 2 + [("x", "w", 5)] * 2
        engine.step(
            {"info": [(("a", "x"), -2)], "visit": [(("a", "u", 1), -1), (("a", "w", 1), -1)], "price": [(("a", 5), -1)]}
        )
        assert tuples(engine.read("result", key="x")) == []


def count_arrangements(n: int, label: str, one_key: bool) -> int:
    """The number of arrangements of a chain of n inputs, without the reduce's own."""
    names = [f"r{i}" for i in range(n)]
    catalog = ss.Catalog(**{name: f"k INT, c{i} INT, c{i + 1} INT, d{i} INT" for i, name in enumerate(names)})
    on = [f"r{i}.k = r0.k" if one_key else f"r{i - 1}.c{i} = r{i}.c{i}" for i in range(1, n)]
    joins = " ".join(f"JOIN {name} ON {condition}" for name, condition in zip(names[1:], on, strict=True))
    view = catalog.view(f"CREATE VIEW v AS SELECT r0.d0, COUNT(*) AS n FROM r0 {joins} GROUP BY r0.d0")
    with make(label, [view]) as engine:
        return int((engine.state().kind == "arrangement").sum())


@pytest.mark.parametrize("linear", ["shared linear", "shared in bins"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_rule_15_arrangements_of_a_chain(n: int, linear: str) -> None:
    """A linear join of n inputs has 2n - 2 arrangements, a delta join one for each (relation, key)."""
    for one_key in (True, False):
        assert count_arrangements(n, linear, one_key) == 2 * n - 2
    assert count_arrangements(n, "shared delta", one_key=True) == n
    # The inner inputs of a chain on different keys are looked up by two keys each.
    assert count_arrangements(n, "shared delta", one_key=False) == 2 * n - 2


def test_rule_15_auto_takes_the_plan_with_fewer_new_arrangements() -> None:
    """On one key auto is a delta join; it stores no intermediate result."""
    assert count_arrangements(4, "shared", one_key=True) == 4
    view = CASES["chain of three, one key"].declare()[1][-1]
    with make("shared delta", [view]) as engine:
        assert set(engine.state().relation) == {"info", "visit", "price", "result"}
