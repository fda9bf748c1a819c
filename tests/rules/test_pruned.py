"""Full state with only the columns that a view reads, beside full state with all columns.

What a view answers and emits is the same, in the same order, and no join stores more rows.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cases import CASES
from froms import RELATIONS, changes, query
from hypothesis import given
from hypothesis import strategies as st
from rehearsal import Rehearsal
from support import epochs, examples, relations_of

import sharedstate_lite as ss
from sharedstate_lite.plan.nodes import Join, Map, Node, Scan
from sharedstate_lite.plan.prune import prune

VIEWS = 32


def same_step(one: Any, other: Any, epoch: Any) -> None:
    """Both engines emit the same changes, in the same order and with the same kinds, and give the same answers."""
    here, there = one.step(epoch), other.step(epoch)
    assert list(here) == list(there)
    for name, emitted in here.items():
        pd.testing.assert_frame_equal(emitted.to_pandas(), there[name].to_pandas())
        assert emitted.kinds() == there[name].kinds()
        pd.testing.assert_frame_equal(one.read(name), other.read(name))


def join_rows(engine: Any) -> dict[str, int]:
    """The rows that each side of a join stores, by its name without the operator's number."""
    table = engine.state()
    joins = table[table.kind == "join"]
    return dict(zip(joins["operator"], joins["rows"], strict=True))


def not_larger(pruned: Any, whole: Any) -> None:
    """No side of a join stores more rows than without pruning, and the working state is not larger in bytes."""
    less, more = join_rows(pruned), join_rows(whole)
    assert less.keys() == more.keys()
    assert all(less[side] <= more[side] for side in less)
    for engine in (pruned, whole):
        engine.compact()
    bytes_of = [engine.bill().loc["working state", "bytes"] for engine in (pruned, whole)]
    assert bytes_of[0] <= bytes_of[1]


def narrowed(draw: random.Random, text: str) -> str:
    """A drawn query with some of its columns, or with one aggregated by another."""
    columns, rest = text.removeprefix("SELECT ").split(" FROM ", 1)
    named = [c for c in columns.split(", ") if " AS " in c]
    if draw.random() < 0.4:
        (by, name), (value, _) = (c.split(" AS ") for c in draw.sample(named, 2))
        aggregate = draw.choice([f"MAX({value})", f"COUNT({value})", "COUNT(*)"])
        return f"SELECT {by} AS {name}, {aggregate} AS found FROM {rest} GROUP BY {by}"
    return f"SELECT {', '.join(draw.sample(named, draw.randint(1, 3)))} FROM {rest}"


def test_drawn_joins_with_few_columns() -> None:
    """Views over 2 to 4 tables that read some of the columns, and views over these."""
    draw, catalog = random.Random("columns"), ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW v{n} AS {narrowed(draw, query(draw))}") for n in range(VIEWS)]
    for n, below in enumerate(views[: VIEWS // 4]):
        column = below.schema[0].name
        kind = "s" if below.schema[0].type.value == "STRING" else "n"
        sql = f"SELECT r.k AS k, COUNT(*) AS many FROM v{n} x JOIN r ON r.{kind} = x.{column} GROUP BY r.k"
        views.append(catalog.view(f"CREATE VIEW w{n} AS {sql}"))
    there: dict[str, list[Any]] = {relation: [] for relation in RELATIONS}
    pruned, whole = ss.engine("full", views), ss.engine("full", views, columns="all")
    for _ in range(3):
        same_step(pruned, whole, changes(draw, there))
    not_larger(pruned, whole)
    less, more = (sum(join_rows(engine).values()) for engine in (pruned, whole))
    assert less < 0.8 * more
    assert sum(len(pruned.read(view.name)) > 0 for view in views) > 0.7 * len(views)


JOINS = [(name, "linear") for name, case in CASES.items() if any("JOIN" in sql for sql in case.sql)]
JOINS += [(name, "multi") for name in ("chain of three, one key", "triangle", "left join")]


@pytest.mark.parametrize(("name", "join"), JOINS)
def test_each_view_of_the_tests(name: str, join: str) -> None:
    """Every view of the tests with a join, after drawn histories; some of them in a multi-way join, too."""

    @examples(3)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        catalog, views = CASES[name].declare()
        engines = [ss.engine("full", [views[-1]], join=join, columns=which) for which in ("used", "all")]
        for epoch in data.draw(epochs(relations_of(views[-1]))):
            same_step(*engines, epoch)
        not_larger(*engines)

    check()


def test_in_bins() -> None:
    """Over the bins of Spark, too, with the same rows in each join as in one process."""
    draw, catalog = random.Random("bins"), ss.Catalog(**RELATIONS)
    views = [catalog.view(f"CREATE VIEW v{n} AS {narrowed(draw, query(draw))}") for n in range(10)]
    there: dict[str, list[Any]] = {relation: [] for relation in RELATIONS}
    here, bins = ss.engine("full", views), Rehearsal("full", views, bins=3)
    for _ in range(2):
        same_step(here, bins, changes(draw, there))
    assert join_rows(here) == join_rows(bins)


def kept_columns(plan: Node) -> list[list[str]]:
    """The columns of each join's inputs, from left to right."""
    return [[c.name for c in side.schema] for node in plan.walk() if isinstance(node, Join) for side in node.inputs]


def test_what_is_kept() -> None:
    """A join keeps its key and what is read above, a LEFT JOIN too; a view that is read below stays as it is."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    joined = "info JOIN visit USING (product)"
    read = {
        f"SELECT category, MAX(length) AS top FROM {joined} GROUP BY category": [
            ["product", "category"],
            ["product", "length"],
        ],
        f"SELECT COUNT(*) AS n FROM {joined}": [["product"], ["product"]],
        f"SELECT category FROM {joined} WHERE length > 3": [["product", "category"], ["product", "length"]],
        "SELECT length + 1 AS n FROM info LEFT JOIN visit USING (product)": [["product"], ["product", "length"]],
        f"SELECT * FROM {joined}": [["product", "category"], ["product", "user", "length"]],
    }
    for n, (sql, kept) in enumerate(read.items()):
        assert kept_columns(prune(catalog.view(f"CREATE VIEW v{n} AS {sql}").plan)) == kept
    below = catalog.views["v0"]
    above = catalog.view("CREATE VIEW w AS SELECT top FROM v0 JOIN visit ON visit.user = v0.category")
    plan = prune(above.plan, [below.plan])
    assert below.plan in set(plan.walk())
    assert kept_columns(plan)[-2:] == [["category", "top"], ["user"]]


def test_equal_rows_are_one_row_with_a_count() -> None:
    """Visits of several users that are equal without the user are stored once; the changes still count."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view(
        "CREATE VIEW v AS SELECT category, COUNT(*) AS n, MAX(length) AS top "
        "FROM info JOIN visit USING (product) GROUP BY category"
    )
    with ss.engine("full", [view]) as engine:
        engine.step({"info": [(("Kale", "Vegetable"), 1)], "visit": [(("Kale", f"u{n}", 60), 1) for n in range(5)]})
        side = next(o for o in engine.state()["operator"] if o.endswith(".right"))
        assert engine.state(side)["diff"].tolist() == [5]
        engine.step({"visit": [(("Kale", "u0", 60), -1)]})
        assert engine.read("v").to_numpy().tolist() == [["Vegetable", 4, 60]]


def test_a_checkpoint_keeps_its_columns(tmp_path: Path) -> None:
    """An engine that stores all columns stores them after a restore; another value is refused by name."""
    catalog = ss.Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
    view = catalog.view("CREATE VIEW v AS SELECT category, length FROM info JOIN visit USING (product)")
    for columns, wide in (("used", 2), ("all", 3)):
        with ss.engine("full", [view], columns=columns) as engine:
            engine.step({"visit": [(("Kale", "Eve", 60), 1)]})
            engine.checkpoint(tmp_path / columns)
        with ss.restore(tmp_path / columns) as again:
            assert len(again.state("v.join1.right").columns) == wide + 1
            assert again.settings()["options"]["columns"] == columns
    with pytest.raises(ss.ViewError, match="columns='few'.*'used' or 'all'"):
        ss.engine("full", [view], columns="few")
    with pytest.raises(ss.ViewError, match="option columns"):
        ss.engine("shared", [view], columns="all")


def test_projections_are_only_where_they_drop_a_column() -> None:
    """A plan whose columns are all read is left as it is."""
    for case in CASES.values():
        for view in case.declare()[1]:
            pruned = prune(view.plan)
            assert pruned.schema == view.plan.schema
            for node in pruned.walk():
                if isinstance(node, Map) and isinstance(node.input, Scan) and node not in set(view.plan.walk()):
                    assert len(node.schema) < len(node.input.schema)
