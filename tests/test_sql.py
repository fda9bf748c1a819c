"""SQL to plans: what binds means what DuckDB says it means, and has the shape that engines share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import interpret

from sharedstate_lite.catalog import Catalog
from sharedstate_lite.errors import Error, RelationError, SqlError, ViewError
from sharedstate_lite.oracle import Oracle, difference
from sharedstate_lite.plan import Agg, Call, Col, Filter, Join, Lit, Map, Node, Reduce, Scan, Type, Union, View

INT, BIG, DBL, TXT, BIT = Type.INT, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN

RELATIONS = {
    "info": "product STRING, category STRING, price DOUBLE",
    "visit": "product STRING, user STRING, length INT",
    "cat": "category STRING, boss STRING, rank BIGINT",
    "person": "user STRING, boss STRING, age INT",
}
VIEWS = [
    "CREATE VIEW result AS SELECT category, MAX(length) AS max_length FROM info JOIN visit USING (product) "
    "GROUP BY category",
    "CREATE VIEW wide AS SELECT * FROM info JOIN visit USING (product)",
    "CREATE VIEW starred AS SELECT v.*, price AS p FROM visit v JOIN info i ON v.product = i.product",
    "CREATE VIEW chain AS SELECT * FROM visit JOIN info USING (product) JOIN cat USING (category)",
    "CREATE VIEW four AS SELECT p.age, c.rank, SUM(i.price) AS s FROM info i JOIN visit v ON i.product = v.product "
    "JOIN cat c ON c.category = i.category JOIN person p ON p.user = v.user AND p.boss = c.boss GROUP BY p.age, c.rank",
    "CREATE VIEW comma AS SELECT boss, COUNT(*) AS n FROM info, cat, visit "
    "WHERE info.product = visit.product AND cat.category = info.category AND length > 0 GROUP BY boss",
    "CREATE VIEW reordered AS SELECT i.product, p.age FROM info i, person p, visit v "
    "WHERE v.user = p.user AND v.product = i.product AND p.age < v.length",
    "CREATE VIEW mixed AS SELECT c.boss, p.age FROM cat c, person p LEFT JOIN visit v ON v.user = p.user "
    "WHERE p.boss = c.boss AND (v.length > 1 OR v.length IS NULL)",
    "CREATE VIEW late AS SELECT c.rank, p.age FROM cat c, person p LEFT JOIN visit v ON v.user = p.user "
    "WHERE v.product = c.boss",
    "CREATE VIEW late2 AS SELECT c.rank, p.age, x.price FROM cat c, person p JOIN visit v USING (user) "
    "LEFT JOIN info x ON x.product = v.product AND x.category = p.boss WHERE v.product = c.category",
    "CREATE VIEW self AS SELECT a.user AS u1, b.user AS u2 FROM visit a JOIN visit b USING (product) "
    "WHERE a.user < b.user AND a.length <> b.length",
    "CREATE VIEW outer_join AS SELECT i.product, v.user, v.length FROM info i LEFT JOIN visit v USING (product)",
    "CREATE VIEW outer_chain AS SELECT * FROM visit LEFT JOIN info USING (product) LEFT JOIN cat USING (category)",
    "CREATE VIEW outer_inner AS SELECT v.user, i.price, c.boss FROM visit v LEFT JOIN info i ON v.product = i.product "
    "JOIN cat c ON c.category = i.category AND c.rank > v.length",
    "CREATE VIEW inner_outer AS SELECT v.user, i.price, c.boss FROM visit v JOIN info i ON v.product = i.product AND "
    "v.length > 1 LEFT JOIN cat c ON c.category = i.category AND c.boss = v.user",
    "CREATE VIEW no_partner AS SELECT v.user, v.length FROM visit v LEFT JOIN info i USING (product) "
    "WHERE i.product IS NULL",
    "CREATE VIEW two_keys AS SELECT COUNT(*) AS n FROM info i JOIN cat c ON i.category = c.category "
    "AND i.product = c.boss",
    "CREATE VIEW int_bigint AS SELECT v.user, c.boss FROM visit v JOIN cat c ON v.length = c.rank",
    "CREATE VIEW totals AS SELECT COUNT(*) AS n, COUNT(length) AS c, SUM(length) AS s, AVG(length) AS a, "
    "MIN(length) AS lo, MAX(user) AS hi FROM visit",
    "CREATE VIEW sums AS SELECT category, SUM(price) AS s, AVG(price) AS a, COUNT(*) * 2 AS n, "
    "MAX(price) - MIN(price) AS spread FROM info GROUP BY category",
    "CREATE VIEW computed AS SELECT length % 2 AS odd, COUNT(*) AS n, SUM(length / 2) AS s FROM visit "
    "GROUP BY length % 2 HAVING COUNT(*) > 1 AND odd IS NOT NULL",
    "CREATE VIEW unselected AS SELECT COUNT(*) AS n, MAX(length) + 1 AS m FROM visit GROUP BY user, product",
    "CREATE VIEW having_only AS SELECT user FROM visit GROUP BY user HAVING SUM(length) > 3",
    "CREATE VIEW having_all AS SELECT COUNT(*) AS n FROM visit HAVING MAX(length) > 2",
    "CREATE VIEW once AS SELECT DISTINCT product, user FROM visit",
    "CREATE VIEW once2 AS SELECT DISTINCT length / 2 AS half, user AS a, user AS b FROM visit WHERE length > 0",
    "CREATE VIEW once3 AS SELECT DISTINCT COUNT(*) AS n FROM visit GROUP BY user",
    "CREATE VIEW both AS SELECT product, length FROM visit UNION ALL SELECT category, rank FROM cat "
    "UNION ALL (SELECT user, AVG(age) AS a FROM person GROUP BY user)",
    "CREATE VIEW cases AS SELECT user, CASE WHEN length > 1 THEN 'long' WHEN length IS NULL THEN 'none' END AS kind, "
    "CASE product WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 0 END AS code, COALESCE(length, 0) AS l FROM visit",
    "CREATE VIEW logic AS SELECT user FROM visit WHERE NOT (length IN (1, NULL) OR user BETWEEN 'a' AND 'b') "
    "OR length NOT IN (2, 3) AND product <> 'a'",
    "CREATE VIEW over_view AS SELECT r.category, c.boss, r.max_length FROM result r JOIN cat c USING (category)",
    "CREATE VIEW over_self AS SELECT a.category AS c1, b.category AS c2 FROM result a JOIN result b USING (max_length)",
    "CREATE VIEW over_all AS SELECT SUM(n) AS s, COUNT(*) AS k FROM comma",
    "CREATE VIEW over_union AS SELECT product, SUM(length) AS s FROM both GROUP BY product",
    "CREATE VIEW over_deep AS SELECT o.category, u.s FROM over_view o LEFT JOIN over_union u ON o.boss = u.product",
]  # fmt: skip
NAMES = st.sampled_from([None, "a", "b", "c"])
SMALL = st.sampled_from([None, -1, 0, 1, 2, 3])
PRICE = st.sampled_from([None, -0.0, 0.1, 0.2, 2.5, 1e15])
ROWS = {
    "info": st.lists(st.tuples(NAMES, NAMES, PRICE), max_size=6),
    "visit": st.lists(st.tuples(NAMES, NAMES, SMALL), max_size=6),
    "cat": st.lists(st.tuples(NAMES, NAMES, SMALL), max_size=6),
    "person": st.lists(st.tuples(NAMES, NAMES, SMALL), max_size=6),
}


def shop() -> Catalog:
    """The catalog with every view of the list."""
    catalog = Catalog(**RELATIONS)
    for sql in VIEWS:
        catalog.view(sql)
    return catalog


CATALOG = shop()
INFO, VISIT, CAT = (Scan(CATALOG.schema(n), n) for n in ("info", "visit", "cat"))


def bound(select: str, catalog: Catalog | None = None, **options: Any) -> View:
    """A view over the shop's relations."""
    return (catalog or Catalog(**RELATIONS)).view(f"CREATE VIEW v AS {select}", **options)


def frames(tables: dict[str, list[tuple[Any, ...]]]) -> dict[str, pd.DataFrame]:
    """Rows as frames of objects."""
    return {
        name: pd.DataFrame(rows, columns=[c.name for c in CATALOG.schema(name)], dtype=object)
        for name, rows in tables.items()
    }


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """One DuckDB for all examples; each takes its rows out again."""
    with Oracle(CATALOG.views.values(), CATALOG.relations) as oracle:
        yield oracle


@given(tables=st.fixed_dictionaries(ROWS))
def test_a_plan_means_what_duckdb_says_the_text_means(oracle: Oracle, tables: dict[str, list[tuple[Any, ...]]]) -> None:
    """A view's plan, interpreted row by row, equals DuckDB on the view's text, types included."""
    kinds = {INT: "Int32", BIG: "Int64", DBL: "Float64", TXT: "string", BIT: "boolean"}
    inputs = frames(tables)
    for name, frame in inputs.items():
        oracle.apply(name, frame)
    for name, view in CATALOG.views.items():
        wanted = oracle.recompute(view)
        assert (name, difference(interpret(view, tables), wanted)) == (name, None)
        assert [str(d) for d in wanted.dtypes] == [kinds[c.type] for c in view.schema]
    for name, frame in inputs.items():
        oracle.apply(name, frame.assign(diff=-1))


# --- shapes


def test_the_seed_view_is_a_reduce_over_a_map_over_a_join_of_bare_scans() -> None:
    """Joins read bare relations; a map above narrows to group keys and arguments; names settle in the reduce."""
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
    """Plain group keys and arguments over a scan or a filtered scan need no map, so arrangements can be shared."""
    assert bound("SELECT user, SUM(length) AS s FROM visit GROUP BY user").plan.inputs == (VISIT,)
    assert bound("SELECT DISTINCT user FROM visit").plan == Reduce((VISIT.schema[1],), VISIT, (1,), ())
    assert bound("SELECT COUNT(*) AS n FROM visit").plan.inputs == (VISIT,)
    filtered = bound("SELECT user, COUNT(*) AS n FROM visit WHERE length > 1 GROUP BY user").plan.inputs[0]
    assert filtered == Filter(VISIT.schema, VISIT, Call(">", (Col(2, INT), Lit(1, INT)), BIT))
    assert isinstance(bound("SELECT length % 2 AS k, COUNT(*) AS n FROM visit GROUP BY k").plan.inputs[0], Map)


def test_conditions_stay_above_the_joins() -> None:
    """WHERE and what ON says beyond column equality become one filter above the join tree."""
    for condition in ("ON i.product = v.product WHERE v.length > 1", "ON i.product = v.product AND v.length > 1"):
        plan = bound(f"SELECT i.price, v.user FROM info i JOIN visit v {condition}").plan
        above = plan.inputs[0]
        assert isinstance(above, Filter)
        assert isinstance(above.input, Join)
        assert above.input.inputs == (INFO, VISIT)


def test_comma_joins_reorder_only_where_they_must() -> None:
    """FROM order is kept where each table has an equality with those before it, and is left where not."""
    kept = bound(
        "SELECT boss FROM info, visit, cat WHERE info.product = visit.product AND cat.category = info.category"
    )
    moved = bound(
        "SELECT boss FROM visit, cat, info WHERE info.product = visit.product AND cat.category = info.category"
    )
    assert scans(kept.plan) == ["info", "visit", "cat"]
    assert scans(moved.plan) == ["visit", "info", "cat"]


def test_a_chain_keeps_its_keys_as_written() -> None:
    """a.x = b.x, then a.x = c.x, joins c by a's column, not by b's."""
    plan = bound(
        "SELECT a.length FROM visit a JOIN info b ON a.product = b.product JOIN person c ON a.user = c.user"
    ).plan
    outer = plan.inputs[0]
    assert isinstance(outer, Join)
    assert outer.left_keys == (1,)


def test_identity_maps_are_left_out_and_renames_kept() -> None:
    """SELECT * of a relation is its scan; a new name alone makes a map that computes nothing."""
    assert bound("SELECT * FROM visit").plan == VISIT
    renamed = bound("SELECT product, user, length AS l FROM visit").plan
    assert isinstance(renamed, Map)
    assert [c.name for c in renamed.schema] == ["product", "user", "l"]


def test_a_view_over_a_view_holds_the_same_operators() -> None:
    """A used view's plan is inlined as the same object, and named in uses once."""
    view = CATALOG.views["over_self"]
    assert [u.name for u in view.uses] == ["result"]
    assert sum(node is CATALOG.views["result"].plan for node in view.plan.walk()) == 2


def test_views_stand_on_views_a_hundred_deep() -> None:
    """Depth of views is limited by nothing that a person would reach."""
    catalog = Catalog(t="a INT, b INT")
    catalog.view("CREATE VIEW v0 AS SELECT a, b FROM t WHERE a > 0")
    for i in range(1, 101):
        catalog.view(f"CREATE VIEW v{i} AS SELECT a + 1 AS a, b FROM v{i - 1} WHERE b <> {i}")
    assert "filter" in catalog.views["v100"].explain()
    assert len(list(catalog.views["v100"].plan.walk())) == 202


def test_union_all_is_flat_and_widens() -> None:
    """Nested UNION ALLs are one operator, its columns of the widest number type, named by the first branch."""
    plan = CATALOG.views["both"].plan
    assert isinstance(plan, Union)
    assert len(plan.parts) == 3
    assert [(c.name, c.type) for c in plan.schema] == [("product", TXT), ("length", DBL)]
    assert all([c.type for c in p.schema] == [TXT, DBL] for p in plan.parts)


def scans(node: Node) -> list[str]:
    """The relations of a plan, left to right."""
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
    """The GROUP BY columns where all are selected, () for a global aggregate, else the first column."""
    view = bound(select, shop())
    assert (view.key, view.unique) == (key, unique)


def test_a_given_key() -> None:
    """Key columns are found whatever their case; the key is unique only while it covers the unique columns."""
    grouped = "SELECT user, product, COUNT(*) AS n FROM visit GROUP BY user, product"
    assert (bound(grouped, key=["N", "User"]).key, bound(grouped, key=["N", "User"]).unique) == ((2, 0), False)
    assert bound(grouped, key=("product", "user")).unique
    assert bound(grouped, key="user").key == (0,)
    assert bound("SELECT DISTINCT user, product FROM visit", key=["user", "product"]).unique
    assert bound("SELECT COUNT(*) AS n FROM visit", key=["n"]).unique


@pytest.mark.parametrize("key", [["nobody"], ["user", "USER"], [], [1], "length "])
def test_a_key_that_is_none(key: Any) -> None:
    """A key that names no output column, one twice, or none at all is a ViewError."""
    with pytest.raises(ViewError, match="view v: its key"):
        bound("SELECT user FROM visit", key=key)


# --- names


def test_names_ignore_case_and_come_out_as_declared() -> None:
    """Look-up ignores case, quoted or not; a bare column keeps its declared spelling, an alias its own."""
    catalog = Catalog(Visit='Product STRING, "The User" STRING')
    view = catalog.view('create view V as select PRODUCT, "the user", vIsIt.product as "P 2" from VISIT')
    assert [c.name for c in view.schema] == ["Product", "The User", "P 2"]
    assert catalog.view("CREATE VIEW w AS SELECT product FROM v").uses == (view,)


def test_reserved_words_may_be_names() -> None:
    """A column may be called user, at, order or end without quotes."""
    catalog = Catalog(t="user STRING, at TIMESTAMP, end INT, order INT")
    view = catalog.view("CREATE VIEW v AS SELECT user, at, t.end, order FROM t WHERE order > 1")
    assert [c.name for c in view.schema] == ["user", "at", "end", "order"]


def test_text_may_have_comments_and_a_semicolon() -> None:
    """What SQL ignores is ignored."""
    bound("/* a */ SELECT user -- b\n FROM visit; -- c\n")


def test_using_columns_come_first_and_once() -> None:
    """SELECT * puts USING columns first, as the standard does; qualified names still reach both sides."""
    names = [c.name for c in CATALOG.views["chain"].schema]
    assert names == ["category", "product", "user", "length", "price", "boss", "rank"]
    view = bound("SELECT v.product AS l, i.product AS r, product FROM visit v LEFT JOIN info i USING (product)")
    assert isinstance(view.plan, Map)
    assert view.plan.exprs == (Col(0, TXT), Col(3, TXT), Col(0, TXT))


# --- literals and types


def test_literals_take_the_type_beside_them() -> None:
    """A string beside a DATE or TIMESTAMP is one; NULL is of the type of its neighbours; numbers widen."""
    catalog = Catalog(t="d DATE, m TIMESTAMP, i INT, b BIGINT, x DOUBLE")
    cases = {
        "d = '1970-01-02'": Lit(1, Type.DATE),
        "m < '1970-01-01 00:00:01'": Lit(1_000_000, Type.TIMESTAMP),
        "b = 3": Lit(3, BIG),
        "x > 3": Lit(3.0, DBL),
        "i = NULL": Lit(None, INT),
    }
    for i, (condition, literal) in enumerate(cases.items()):
        plan = catalog.view(f"CREATE VIEW v{i} AS SELECT * FROM t WHERE {condition}").plan
        assert isinstance(plan, Filter)
        assert isinstance(plan.predicate, Call)
        assert plan.predicate.args[1] == literal


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2147483647", INT),
        ("-2147483648", INT),
        ("2147483648", BIG),
        ("1 + 3000000000", BIG),
        ("length / 2", DBL),
        ("length % 2", INT),
        ("length * 1.5", DBL),
        ("CAST(length AS BIGINT) - 1", BIG),
        ("COALESCE(length, 3000000000)", BIG),
        ("CASE WHEN length > 1 THEN 1 ELSE 2.5 END", DBL),
        ("length > 1", BIT),
        ("CAST('2024-01-01' AS DATE)", Type.DATE),
        ("TIMESTAMP '2024-01-01 10:00:00'", Type.TIMESTAMP),
    ],
)
def test_the_type_of_an_expression(text: str, kind: Type) -> None:
    """INT until it does not fit, then BIGINT; / and fractions are DOUBLE."""
    assert bound(f"SELECT {text} AS y FROM visit").schema[0].type is kind


def test_aggregates_have_their_types() -> None:
    """COUNT is BIGINT, SUM of whole numbers BIGINT, AVG DOUBLE, MAX and MIN are as their argument."""
    catalog = Catalog(t="i INT, x DOUBLE, s STRING, p BOOLEAN, d DATE")
    view = catalog.view(
        "CREATE VIEW v AS SELECT COUNT(s) AS a, SUM(i) AS b, SUM(x) AS c, AVG(i) AS e, MAX(p) AS f, MIN(d) AS g FROM t"
    )
    assert [c.type for c in view.schema] == [BIG, BIG, DBL, DBL, BIT, Type.DATE]


# --- refusals (docs/sql.md has the list; these are the ways around it)


def test_what_the_parser_drops_is_refused() -> None:
    """Text that sqlglot reads as something else, or mends by itself, is an error."""
    for select in (
        "SELECT 0x10 FROM visit",
        "SELECT COUNT(+user) AS n FROM visit",
        "SELECT MAX(length AS m FROM visit",
        "SELECT length BETWEEN 1 10 AS m FROM visit",
        "SELECT CASE WHEN length > 1 'x' END AS m FROM visit",
        "SELECT user AS, length FROM visit",
        "SELECT user FROM visit ORDER",
        "SELECT user FROM visit JOIN info USING (info.product)",
        "SELECT user FROM visit JOIN info USING ()",
        "SELECT user FROM visit JOIN info",
        "SELECT CAST(user AS VARCHAR(3)) AS u FROM visit",
        "SELECT FROM visit",
        "SELECT user FROM visit GROUP BY DISTINCT user",
        "SELECT",
        "",
    ):
        with pytest.raises(SqlError):
            bound(select)


def test_a_refusal_names_the_view_and_prints_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The culprit comes first; neither the parser's log nor its escape codes reach the reader."""
    with caplog.at_level(logging.DEBUG), pytest.raises(SqlError, match="^view v: ORDER BY is not supported: ") as error:
        bound("SELECT user FROM visit ORDER BY user")
    assert error.value.__cause__ is None
    with caplog.at_level(logging.DEBUG), pytest.raises(SqlError) as error:
        bound("SELECT user FRO visit WITH NO DATA")
    assert "\x1b" not in str(error.value)
    assert (caplog.records, capfd.readouterr()) == ([], ("", ""))


def test_an_unknown_relation_is_a_sql_error_and_a_relation_error() -> None:
    """Whoever catches either finds it; the message lists what there is."""
    for kind in (SqlError, RelationError):
        with pytest.raises(kind, match="no relation or view is called nowhere; the catalog has: info, visit"):
            bound("SELECT a FROM nowhere")


def test_depth_is_refused_not_run_into() -> None:
    """Nesting that recursion would not survive is an error of the text; a long chain is none."""
    for select in (
        f"SELECT {'(' * 2000}length{')' * 2000} AS l FROM visit",
        f"SELECT {'- ' * 500}length AS l FROM visit",
        f"SELECT {' + '.join(['length'] * 3000)} AS l FROM visit",
        f"SELECT {'CASE WHEN length > 1 THEN ' * 150} 1 {'END ' * 150} AS l FROM visit",
    ):
        with pytest.raises(SqlError, match="nested"):
            bound(select)
    long = " AND ".join(f"length <> {i}" for i in range(500))
    bound(f"SELECT user FROM visit WHERE {long} AND length IN ({', '.join(map(str, range(5000)))})")


def test_width_is_refused() -> None:
    """More than 60 columns side by side, in a relation, a join or a view, are refused by name."""
    wide = {n: ", ".join(f"{n}{i} INT" for i in range(40)) for n in "ab"}
    catalog = Catalog(**wide)
    with pytest.raises(SqlError, match="80 columns side by side are more than 60"):
        catalog.view("CREATE VIEW v AS SELECT a1 FROM a JOIN b ON a0 = b0")
    with pytest.raises(SqlError, match="61 columns"):
        catalog.view(f"CREATE VIEW v AS SELECT {', '.join(f'a1 + {i} AS x{i}' for i in range(61))} FROM a")
    with pytest.raises(RelationError, match="61 columns"):
        Catalog(t=", ".join(f"a{i} INT" for i in range(61)))


@pytest.mark.parametrize("sql", [None, 3, b"CREATE VIEW v AS SELECT 1", ["x"]])
def test_text_that_is_no_text(sql: Any) -> None:
    """SQL is given as text."""
    with pytest.raises(Error):
        Catalog(t="a INT").view(sql)
