"""`why` and `why_not` against DuckDB, which computes the views' SQL with a hidden column of alternatives."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations
from typing import Any

import pandas as pd
import pytest
from froms import DOMAINS, query
from froms import RELATIONS as FROMS
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shop import CATALOG
from witnesses import TooManyError, Witnesses, near

import sharedstate_lite as ss
from sharedstate_lite.oracle import recompute
from sharedstate_lite.plan.nodes import Join, Reduce
from sharedstate_lite.plan.view import View
from sharedstate_lite.spark.driver.driver import EngineDriver
from sharedstate_lite.sql.catalog import Catalog
from sharedstate_lite.why import Reason

Tables = dict[str, list[tuple[Any, ...]]]
KEYS = Catalog(a="k INT, x INT", b="k INT, y INT")
"""Joins that show both keys, and a LEFT JOIN on another column."""
KEYS.view("CREATE VIEW both_keys AS SELECT a.k, a.x, b.k AS other, b.y FROM a JOIN b ON a.k = b.k")
KEYS.view("CREATE VIEW padded AS SELECT a.k, a.x, b.k AS other, b.y FROM a LEFT JOIN b ON a.x = b.k")
KEYS.view("CREATE VIEW most AS SELECT k, MAX(x) AS x, SUM(x) AS s FROM a GROUP BY k HAVING COUNT(*) > 1")
VALUES: dict[str, list[Any]] = {
    "STRING": ["a", "b", "c", None],
    "INT": [0, 1, 2, None],
    "BIGINT": [0, 1, 2, None],
    "DOUBLE": [0.5, 1.5, None],
}


def drawn(draw: random.Random, view: View, most: int = 12) -> Tables:
    """Up to ``most`` rows of the tables that a view reads, some of them twice."""
    names = sorted({node.relation for node in view.plan.walk() if not node.inputs})  # type: ignore[attr-defined]
    tables: Tables = {name: [] for name in names}
    for _ in range(most):
        name = draw.choice(names)
        again = tables[name] and draw.random() < 0.2
        row = draw.choice(tables[name]) if again else None
        tables[name].append(row or tuple(draw.choice(VALUES[c.type.value]) for c in view.catalog.schema(name)))
    return tables


def frames(view: View, tables: Tables) -> dict[str, pd.DataFrame]:
    """Tables as frames for the oracle."""
    return {
        name: pd.DataFrame(rows, columns=[c.name for c in view.catalog.schema(name)], dtype=object)
        for name, rows in tables.items()
    }


def answers(view: View, tables: Tables) -> list[tuple[Any, ...]]:
    """The rows of a view by DuckDB."""
    out = recompute(view, frames(view, tables)).astype(object)
    return [near(None if pd.isna(v) else v for v in row) for row in out.itertuples(index=False)]


def engine_of(view: View, tables: Tables, kind: str = "shared") -> Any:
    """An engine with this view and these rows."""
    engine = ss.engine(kind, [view])
    engine.step({name: [(row, +1) for row in rows] for name, rows in tables.items()})
    return engine


def rows_of(reason: Reason, others: bool = False) -> Tables:
    """The rows of a reason as tables, with those that keep others away."""
    found: Tables = {}
    for each in (*reason.rows, *(reason.others if others else ())):
        rows = [row for row in found.get(each.table, []) if row != each.values]
        found[each.table] = rows + [each.values] * each.copies
    return found


def monotone(view: View) -> bool:
    """Whether dropping a row of a reason loses the view's row: there is no COUNT, SUM, AVG and no LEFT JOIN."""
    return not any(
        (isinstance(node, Join) and node.outer)
        or (isinstance(node, Reduce) and any(agg.fn not in ("max", "min") for agg in node.aggs))
        for node in view.plan.walk()
    )


def every_row_is_explained(view: View, tables: Tables) -> None:
    """P1: the reasons are those of the oracle. P2: each gives the row. P3: none of its rows can be spared."""
    try:
        with Witnesses(view.catalog.relations, tables) as witnesses:
            expected = witnesses.of(view)
    except TooManyError:
        assume(False)
    engine = engine_of(view, tables)
    shown = engine.read(view).astype(object)
    rows = {tuple(None if pd.isna(v) else v for v in row) for row in shown.itertuples(index=False)}
    assert {near(row) for row in rows} == set(expected)
    for row in sorted(rows, key=repr):
        told = engine.why(view, row)
        found = [frozenset(((e.table, e.values), e.copies) for e in reason.rows) for reason in told.reasons]
        wanted = sorted(expected[near(row)], key=lambda bag: sum(n for _, n in bag))
        assert set(found) <= set(wanted) and len(set(found)) == len(found)
        assert [sum(n for _, n in bag) for bag in found] == [sum(n for _, n in bag) for bag in wanted[:10]]
        assert told.complete == (len(wanted) <= 10)
        for reason in told.reasons:
            assert near(row) in answers(view, rows_of(reason, others=True))
            if monotone(view) and not reason.others:
                for gone in reason.rows:
                    rest = rows_of(reason)
                    rest[gone.table].remove(gone.values)
                    assert near(row) not in answers(view, rest)


@settings(max_examples=40)
@given(draw=st.randoms(use_true_random=False), view=st.sampled_from([*CATALOG.views.values()]))
def test_reasons_of_the_views_of_the_shop(draw: random.Random, view: View) -> None:
    """Joins, LEFT JOINs, groups of groups, DISTINCT, UNION ALL, HAVING and views over views."""
    every_row_is_explained(view, drawn(draw, view))


@settings(max_examples=20)
@given(draw=st.randoms(use_true_random=False))
def test_reasons_of_drawn_from_clauses(draw: random.Random) -> None:
    """Commas, JOIN and LEFT JOIN in any order."""
    catalog = Catalog(**FROMS)
    view = catalog.view(f"CREATE VIEW v AS {query(draw)}")
    names = sorted({node.relation for node in view.plan.walk() if not node.inputs})  # type: ignore[attr-defined]
    tables = {name: [tuple(map(draw.choice, DOMAINS.values())) for _ in range(12 // len(names))] for name in names}
    every_row_is_explained(view, tables)


@pytest.mark.parametrize("name", ["wide", "self", "both_plain"])
def test_reasons_are_the_minimal_subsets(name: str) -> None:
    """Without groups and LEFT JOIN: the subsets of the rows that give a row, and no part of which does."""
    catalog = CATALOG
    if name == "both_plain":
        catalog = Catalog(a="k INT", b="k INT")
        catalog.view("CREATE VIEW both_plain AS SELECT k FROM a UNION ALL SELECT b.k FROM b JOIN a ON a.k = b.k")
    view = catalog.views[name]
    draws = (drawn(random.Random(seed), view, 7) for seed in range(100))
    tables = next(tables for tables in draws if answers(view, tables))
    copies = [(table, row) for table, rows in tables.items() for row in dict.fromkeys(rows)]
    giving: dict[tuple[Any, ...], list[frozenset[Any]]] = {}
    for size in range(len(copies) + 1):
        for some in combinations(copies, size):
            part: Tables = {table: [row for t, row in some if t == table] for table in tables}
            for row in set(answers(view, part)):
                known = giving.setdefault(row, [])
                if not any(each <= set(some) for each in known):
                    known.append(frozenset(some))
    engine = engine_of(view, tables)
    assert giving
    for row, expected in giving.items():
        found = {frozenset((e.table, e.values) for e in reason.rows) for reason in engine.why(view, row).reasons}
        assert found == set(expected)


@settings(max_examples=40)
@given(
    draw=st.randoms(use_true_random=False), view=st.sampled_from([*CATALOG.views.values(), *3 * [*KEYS.views.values()]])
)
def test_a_missing_row_ended_somewhere(draw: random.Random, view: View) -> None:
    """It is there exactly if DuckDB has it. The table lacks the row asked for; with it, it did not end there."""
    tables = drawn(draw, view)
    there = answers(view, tables)
    engine = engine_of(view, tables)
    for _ in range(4):
        row = tuple(draw.choice([*VALUES[c.type.value], ...]) for c in view.schema)
        told = engine.why_not(view, row)
        matching = {each for each in there if all(w in (..., v) for w, v in zip(row, each, strict=True))}
        assert told.there == bool(matching) and told.there != bool(told.ended)
        assert {near(each) for each in told.rows} <= matching and len(told.rows) + told.more == len(matching)
        for each in told.ended:
            assert str(each)
            if each.asks_for is None:
                continue
            table, values = each.asks_for
            schema, asked = view.catalog.schema(table), dict(values)
            known = ({c.name: v for c, v in zip(schema, each, strict=True)} for each in tables[table])
            assert not any(asked.items() <= each.items() for each in known)
            new = tuple(asked.get(c.name, draw.choice(VALUES[c.type.value])) for c in schema)
            after = engine_of(view, tables | {table: [*tables[table], new]}).why_not(view, row)
            assert each not in after.ended


def test_the_same_under_every_strategy_and_as_of_an_epoch() -> None:
    """Base tables explain a row, so the strategy does not matter; shared state also explains an earlier epoch."""
    catalog = Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view(
        "CREATE VIEW result AS SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) "
        "GROUP BY category"
    )
    told = []
    for kind in ("full", "shared", "partial"):
        engine = ss.engine(kind, [view])
        engine.step({"info": [(("Nut", "Snack"), 1)], "visit": [(("Nut", "Ann", 60), 2)]})
        handle = engine.handle() if kind == "shared" else None
        engine.step({"visit": [(("Nut", "Eve", 70), 1)]})
        strings = len(engine.dictionary.strings)
        told.append(engine.why("result", ("Snack", 70)).as_json())
        assert not engine.why_not("result", ("Grain", ...)).there
        assert len(engine.dictionary.strings) == strings
        if handle:
            assert engine.why("result", ("Snack", 60), at=1).as_json() == {
                "row": ["Snack", 60],
                "epoch": 1,
                "reasons": [[["info", ["Nut", "Snack"], 1], ["visit", ["Nut", "Ann", 60], 1]]],
                "complete": True,
            }
        else:
            with pytest.raises(ss.TimeError, match="last epoch, 2"):
                engine.why("result", ("Snack", 60), at=1)
    assert told[0] == told[1] == told[2]


def test_rows_that_keep_others_away() -> None:
    """A reason that cuts a group is replayed with the rest of that group."""
    catalog = Catalog(a="k INT, x INT", b="k INT")
    catalog.view("CREATE VIEW n AS SELECT k, COUNT(*) AS n FROM a GROUP BY k")
    view = catalog.view(
        "CREATE VIEW v AS SELECT a.x FROM a JOIN n ON a.k = n.k LEFT JOIN b ON b.k = n.n WHERE b.k IS NULL"
    )
    engine = ss.engine("full", [view])
    engine.step({"a": [((1, 5), 1), ((1, 6), 1)], "b": [((1,), 1)]})
    (reason,) = engine.why(view, (5,)).reasons
    assert [each.values for each in reason.rows] == [(1, 5), (1, 6)] and not reason.others
    cut = catalog.view("CREATE VIEW c AS SELECT MAX(n) AS most FROM n")
    engine.install(cut)
    assert [len(each.rows) for each in engine.why(cut, (2,)).reasons] == [2]
    few = catalog.view(
        "CREATE VIEW few AS SELECT a.x FROM a LEFT JOIN b ON b.k = a.k WHERE b.k IS NULL UNION ALL SELECT k FROM b"
    )
    engine.install(few)
    assert [each.rows[0].table for each in engine.why(few, (1,)).reasons] == ["b"]


def test_many_reasons_and_long_ones() -> None:
    """Ten are shown, the smallest; of a long one its first 20 rows, and how many there are."""
    catalog = Catalog(v="k INT, x INT")
    top = catalog.view("CREATE VIEW top AS SELECT MAX(k) AS k FROM v")
    n = catalog.view("CREATE VIEW n AS SELECT COUNT(*) AS n FROM v")
    engine = ss.engine("shared", [top, n])
    engine.step({"v": [((7, x), 1) for x in range(30)]})
    told = engine.why(top, (7,))
    assert (len(told.reasons), told.complete, told.at_least) == (10, False, 30)
    assert "10 of at least 30 reasons" in str(told)
    assert [reason.rows[0].values for reason in told.reasons] == [(7, x) for x in range(10)]
    text = str(engine.why(n, (30,)))
    assert "and 10 more: 30 rows in all" in text and text.count("all of the group") == 20


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("padded", (1, ..., None, ...), ["LEFT JOIN on x: (1, 5) has a partner: (5, NULL)"]),
        ("padded", (1, ..., 7, ...), ["table a: no row of a with k = 1 and x = 7"]),
        ("padded", (1, 5, 7, ...), ["LEFT JOIN on x: x = 5 and b.k = 7 are not equal"]),
        ("both_keys", (1, ..., 5, ...), ["JOIN on k: a.k = 1 and b.k = 5 are not equal"]),
        ("both_keys", (None, ..., ..., ...), ["JOIN on k: a.k is NULL, and NULL equals nothing"]),
        ("both_keys", (7, ..., ..., None), ["table b: no row of b with k = 7 and y IS NULL"]),
        ("most", (2, None, ...), ["GROUP BY k: MAX(x) of k = 2 is 3, not NULL"]),
        ("most", (1, ..., ...), ["condition after grouping (count(*) > 1): count(*) > 1 is false for (1, 5, 5, 1)"]),
        ("most", (None, ..., ...), ["table a: no row of a with k IS NULL"]),
    ],
)  # fmt: skip
def test_null_is_a_value_and_an_ellipsis_is_any(name: str, row: tuple[Any, ...], said: list[str]) -> None:
    """A row with NULL is not there only because one with another value is; each sentence is true of the tables."""
    engine = ss.engine("shared", [*KEYS.views.values()])
    a, b = [(1, 5), (2, 3), (2, 3), (2, None), (7, 3)], [(5, None), (7, 2)]
    engine.step({"a": [(each, 1) for each in a], "b": [(each, 1) for each in b]})
    told = engine.why_not(name, row)
    assert [*map(str, told.ended)] == said
    assert told.as_json()["row"] == ["..." if each is ... else each for each in row]


def test_the_rows_that_are_not_named_are_counted() -> None:
    """Three are named where many ended in the same way, and three of many rows that are there."""
    catalog = Catalog(v="k INT, g INT", w="g INT")
    catalog.view("CREATE VIEW low AS SELECT k FROM v WHERE k > 7")
    catalog.view("CREATE VIEW twice AS SELECT 2 * k AS d FROM v")
    catalog.view("CREATE VIEW pairs AS SELECT v.k FROM v JOIN w USING (g)")
    catalog.view("CREATE VIEW left_alone AS SELECT v.k, w.g FROM v LEFT JOIN w ON v.k = w.g")
    catalog.view("CREATE VIEW n AS SELECT k, COUNT(*) AS n FROM v GROUP BY k")
    engine = ss.engine("shared", [*catalog.views.values()])
    engine.step({"v": [((k, None), 2) for k in range(6)], "w": [((k,), 1) for k in range(6)]})
    asked = {"low": (...,), "twice": (13,), "pairs": (...,), "left_alone": (..., None), "n": (..., 1)}
    for view, row in asked.items():
        ended = [str(each) for each in engine.why_not(view, row).ended]
        assert ended and 4 * len([each for each in ended if "and 3 more rows of " in each]) == len(ended), ended
    there = engine.why_not("twice", (...,))
    assert there.rows == ((0,), (2,), (4,)) and there.more == 3
    assert str(there) == "(any) is there: twice has (0), (2), (4) and 3 more as of epoch 1"


def test_what_is_refused() -> None:
    """Each error says what was wrong and what to do; a view too large asks to be forced."""
    catalog = Catalog(v="k INT, g INT")
    view = catalog.view("CREATE VIEW pairs AS SELECT a.k + b.k AS s FROM v a JOIN v b USING (g)")
    engine = ss.engine("shared", [view])
    engine.step({"v": [((k, 0), 1) for k in range(3)]})
    with pytest.raises(ss.ViewError, match="there is no view named none; installed views: pairs"):
        engine.why("none", (1,))
    with pytest.raises(ss.ViewError, match=r"a value for each column \(s INT\), but \(1, 2\) has 2 of them"):
        engine.why("pairs", (1, 2))
    with pytest.raises(ss.RowError, match="row of pairs: column s INT"):
        engine.why_not("pairs", ("one",))
    with pytest.raises(ss.ViewError, match=r"has no row \(9,\); why_not\(\) says where it ended"):
        engine.why("pairs", (9,))
    with pytest.raises(ss.ViewError, match=r"\.\.\. is any value; why_not\(\) lists the rows that match"):
        engine.why("pairs", (...,))
    engine.step({"v": [((k, 0), 1) for k in range(3, 1_100)]})
    with pytest.raises(ss.Error, match="more than a million rows"):
        engine.why("pairs", (0,))
    assert Counter(each.copies for each in engine.why("pairs", (0,), force=True).reasons[0].rows) == {1: 1}


def test_an_engine_on_spark_says_where_to_ask() -> None:
    """Its tables are in bins of other processes."""
    with pytest.raises(
        ss.ViewError, match=r"ss\.engine\('shared', views\), or your files to the command sharedstate why"
    ):
        EngineDriver.why(None, "result", (1,), at=2)  # type: ignore[arg-type]
