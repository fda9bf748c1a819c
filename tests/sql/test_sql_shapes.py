"""The shape of plans, and the keys of views."""

from __future__ import annotations

from typing import Any

import pytest
from shop import CATALOG, bound, shop

from sharedstate_lite.errors import ViewError
from sharedstate_lite.plan.nodes import Agg, Call, Col, Filter, Join, Lit, Map, Node, Reduce, Scan, Type, Union

INT, DBL, TXT, BIT = Type.INT, Type.DOUBLE, Type.STRING, Type.BOOLEAN
INFO, VISIT = (Scan(CATALOG.schema(n), n) for n in ("info", "visit"))


def test_the_seed_view_is_a_reduce_over_a_map_over_a_join_of_bare_scans() -> None:
    """A join reads bare relations, a map above keeps the keys and arguments, and the reduce has the output names."""
    view = CATALOG.views["result"]
    assert isinstance(view.plan, Reduce)
    assert (view.plan.keys, view.plan.aggs) == ((0,), (Agg("max", 1, INT),))
    narrowed = view.plan.input
    assert isinstance(narrowed, Map)
    assert narrowed.exprs == (Col(1, TXT), Col(5, INT))
    assert narrowed.input == Join(INFO.schema + VISIT.schema, INFO, VISIT, (0,), (0,))
    assert [(c.name, c.type) for c in view.schema] == [("category", TXT), ("max_length", INT)]
    assert (view.key, view.unique, view.uses) == ((0,), True, ())


def test_a_reduce_over_one_relation_reads_it_directly() -> None:
    """Plain keys and arguments over a relation or a filter need no map, so arrangements can be shared."""
    assert bound("SELECT user, SUM(length) AS s FROM visit GROUP BY user").plan.inputs == (VISIT,)
    assert bound("SELECT DISTINCT user FROM visit").plan == Reduce((VISIT.schema[1],), VISIT, (1,), ())
    assert bound("SELECT COUNT(*) AS n FROM visit").plan.inputs == (VISIT,)
    filtered = bound("SELECT user, COUNT(*) AS n FROM visit WHERE length > 1 GROUP BY user").plan.inputs[0]
    assert filtered == Filter(VISIT.schema, VISIT, Call(">", (Col(2, INT), Lit(1, INT)), BIT))
    assert isinstance(bound("SELECT length % 2 AS k, COUNT(*) AS n FROM visit GROUP BY k").plan.inputs[0], Map)


def test_conditions_stay_above_the_joins() -> None:
    """WHERE and the other conditions of ON become one filter above the joins."""
    for condition in ("ON i.product = v.product WHERE v.length > 1", "ON i.product = v.product AND v.length > 1"):
        plan = bound(f"SELECT i.price, v.user FROM info i JOIN visit v {condition}").plan
        above = plan.inputs[0]
        assert isinstance(above, Filter)
        assert isinstance(above.input, Join)
        assert above.input.inputs == (INFO, VISIT)


def test_comma_joins_reorder_only_where_they_must() -> None:
    """Tables keep their FROM order if each has an equality with an earlier one."""
    kept = bound(
        "SELECT boss FROM info, visit, cat WHERE info.product = visit.product AND cat.category = info.category"
    )
    moved = bound(
        "SELECT boss FROM visit, cat, info WHERE info.product = visit.product AND cat.category = info.category"
    )
    assert scans(kept.plan) == ["info", "visit", "cat"]
    assert scans(moved.plan) == ["visit", "info", "cat"]


def test_a_chain_keeps_its_keys_as_written() -> None:
    """With a.x = b.x and a.y = c.y, c is joined by the column of a."""
    plan = bound(
        "SELECT a.length FROM visit a JOIN info b ON a.product = b.product JOIN person c ON a.user = c.user"
    ).plan
    outer = plan.inputs[0]
    assert isinstance(outer, Join)
    assert outer.left_keys == (1,)


def test_identity_maps_are_left_out_and_renames_kept() -> None:
    """SELECT * of a relation is its scan; a new name needs a map."""
    assert bound("SELECT * FROM visit").plan == VISIT
    renamed = bound("SELECT product, user, length AS l FROM visit").plan
    assert isinstance(renamed, Map)
    assert [c.name for c in renamed.schema] == ["product", "user", "l"]


def test_a_view_over_a_view_holds_the_same_operators() -> None:
    """A view in FROM is inlined as the same object, even twice, and listed once in uses."""
    view, used = CATALOG.views["over_self"], CATALOG.views["result"].plan
    assert [u.name for u in view.uses] == ["result"]
    nodes = list(view.plan.walk())
    assert sum(node is used for node in nodes) == 1
    (join,) = [node for node in nodes if isinstance(node, Join) and node not in list(used.walk())]
    assert all(any(node is used for node in side.walk()) for side in join.inputs)


def test_union_all_is_flat_and_widens() -> None:
    """Nested UNION ALLs are one operator, with the widest numeric types and the names of the first branch."""
    plan = CATALOG.views["both"].plan
    assert isinstance(plan, Union)
    assert len(plan.parts) == 3
    assert [(c.name, c.type) for c in plan.schema] == [("product", TXT), ("length", DBL)]
    assert all([c.type for c in p.schema] == [TXT, DBL] for p in plan.parts)


def scans(node: Node) -> list[str]:
    """Return the relations of a plan, left to right."""
    return [n.relation for n in node.walk() if isinstance(n, Scan)]


# --- keys


@pytest.mark.parametrize(
    ("select", "key", "unique"),
    [
        ("SELECT user, product FROM visit", (0,), False),
        ("SELECT COUNT(*) AS n, user, product FROM visit GROUP BY product, user", (2, 1), True),
        ("SELECT COUNT(*) AS n, user FROM visit GROUP BY product, user", (0,), False),
        ("SELECT COUNT(*) AS n FROM visit", (), True),
        ("SELECT COUNT(*) AS n FROM visit HAVING COUNT(*) > 3", (), True),
        ("SELECT DISTINCT user FROM visit", (0,), True),
        ("SELECT DISTINCT user, product FROM visit", (0,), False),
        ("SELECT DISTINCT user, COUNT(*) AS n FROM visit GROUP BY user", (0,), True),
        ("SELECT DISTINCT COUNT(*) AS n FROM visit GROUP BY user", (0,), True),
        ("SELECT length % 2 AS odd, COUNT(*) AS n FROM visit GROUP BY length % 2", (0,), True),
        ("SELECT user FROM visit UNION ALL SELECT product FROM info", (0,), False),
        ("SELECT category, max_length FROM result", (0,), False),
    ],
)
def test_the_default_key(select: str, key: tuple[int, ...], unique: bool) -> None:
    """The GROUP BY columns if all are selected, () for an aggregate without GROUP BY, else the first column."""
    view = bound(select, shop())
    assert (view.key, view.unique) == (key, unique)


def test_a_given_key() -> None:
    """Key columns are found regardless of case; a key is unique if it contains the unique columns."""
    grouped = "SELECT user, product, COUNT(*) AS n FROM visit GROUP BY user, product"
    assert (bound(grouped, key=["N", "User"]).key, bound(grouped, key=["N", "User"]).unique) == ((2, 0), False)
    assert bound(grouped, key=("product", "user")).unique
    assert bound(grouped, key="user").key == (0,)
    assert bound("SELECT DISTINCT user, product FROM visit", key=["user", "product"]).unique
    assert bound("SELECT COUNT(*) AS n FROM visit", key=["n"]).unique


@pytest.mark.parametrize("key", [["nobody"], ["user", "USER"], [], [1], "length "])
def test_an_invalid_key(key: Any) -> None:
    """An unknown column, a column twice, or no column is a ViewError."""
    with pytest.raises(ViewError, match="view v: its key"):
        bound("SELECT user FROM visit", key=key)
