"""SQL to plans: answers equal DuckDB's; names, literals, types, and refusals."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import interpret
from shop import CATALOG, bound

from sharedstate_lite.errors import Error, RelationError, SqlError
from sharedstate_lite.oracle import Oracle, difference
from sharedstate_lite.plan.nodes import Call, Col, Filter, Lit, Map, Type
from sharedstate_lite.sql.catalog import Catalog

INT, BIG, DBL, TXT, BIT = Type.INT, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN

NAMES = st.sampled_from([None, "a", "b", "c"])
SMALL = st.sampled_from([None, -1, 0, 1, 2, 3])
PRICE = st.sampled_from([None, -0.0, 0.1, 0.2, 2.5, 1e15])
ROWS = {
    "info": st.lists(st.tuples(NAMES, NAMES, PRICE), max_size=6),
    "visit": st.lists(st.tuples(NAMES, NAMES, SMALL), max_size=6),
    "cat": st.lists(st.tuples(NAMES, NAMES, SMALL), max_size=6),
    "person": st.lists(st.tuples(NAMES, NAMES, SMALL), max_size=6),
}


def frames(tables: dict[str, list[tuple[Any, ...]]]) -> dict[str, pd.DataFrame]:
    """Return rows as frames of objects."""
    return {
        name: pd.DataFrame(rows, columns=[c.name for c in CATALOG.schema(name)], dtype=object)
        for name, rows in tables.items()
    }


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """One DuckDB for all examples; each removes its rows again."""
    with Oracle(CATALOG.views.values(), CATALOG.relations) as oracle:
        yield oracle


@settings(max_examples=settings().max_examples // 2)
@given(tables=st.fixed_dictionaries(ROWS))
def test_a_plan_equals_duckdb(oracle: Oracle, tables: dict[str, list[tuple[Any, ...]]]) -> None:
    """A view's plan, interpreted row by row, equals DuckDB on the view's text, with the same types."""
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


# --- names


def test_names_ignore_case_and_come_out_as_declared() -> None:
    """Names are found regardless of case, quoted or not; a column keeps its declared spelling, an alias its own."""
    catalog = Catalog(Visit='Product STRING, "The User" STRING')
    view = catalog.view('create view V as select PRODUCT, "the user", vIsIt.product as "P 2" from VISIT')
    assert [c.name for c in view.schema] == ["Product", "The User", "P 2"]
    assert catalog.view("CREATE VIEW w AS SELECT product FROM v").uses == (view,)


def test_reserved_words_may_be_names() -> None:
    """Columns may be called user, at, order or end without quotes."""
    catalog = Catalog(t="user STRING, at TIMESTAMP, end INT, order INT")
    view = catalog.view("CREATE VIEW v AS SELECT user, at, t.end, order FROM t WHERE order > 1")
    assert [c.name for c in view.schema] == ["user", "at", "end", "order"]


def test_text_may_have_comments_and_a_semicolon() -> None:
    """Comments and a final semicolon are ignored."""
    bound("/* a */ SELECT user -- b\n FROM visit; -- c\n")


def test_using_columns_come_first_and_once() -> None:
    """SELECT * has USING columns first, as in the standard; qualified names reach both sides."""
    names = [c.name for c in CATALOG.views["chain"].schema]
    assert names == ["category", "product", "user", "length", "price", "boss", "rank"]
    view = bound("SELECT v.product AS l, i.product AS r, product FROM visit v LEFT JOIN info i USING (product)")
    assert isinstance(view.plan, Map)
    assert view.plan.exprs == (Col(0, TXT), Col(3, TXT), Col(0, TXT))


# --- literals and types


def test_literals_take_the_type_beside_them() -> None:
    """A string compared with a DATE or TIMESTAMP is one; NULL has the type of the other side; numbers widen."""
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
    """A number is INT, BIGINT if it does not fit, DOUBLE with a point; / is DOUBLE."""
    assert bound(f"SELECT {text} AS y FROM visit").schema[0].type is kind


def test_aggregates_have_their_types() -> None:
    """COUNT and SUM of integers are BIGINT, AVG is DOUBLE, MAX and MIN have their argument's type."""
    catalog = Catalog(t="i INT, x DOUBLE, s STRING, p BOOLEAN, d DATE")
    view = catalog.view(
        "CREATE VIEW v AS SELECT COUNT(s) AS a, SUM(i) AS b, SUM(x) AS c, AVG(i) AS e, MAX(p) AS f, MIN(d) AS g FROM t"
    )
    assert [c.type for c in view.schema] == [BIG, BIG, DBL, DBL, BIT, Type.DATE]


# --- refusals (docs/sql.md has the list)


REFUSALS = [
    (
        "SELECT user FROM info JOIN visit USING (product, product)",
        "USING (product, product) lists a column twice; list each column once",
    ),
    (
        "SELECT user FROM visit UNION ALL SELECT rank FROM cat",
        "UNION ALL mixes STRING and BIGINT in column user; CAST it to one type in every SELECT",
    ),
    (
        "SELECT user FROM visit UNION ALL SELECT boss, rank FROM cat",
        "the SELECTs of UNION ALL have 1 and 2 columns; select the same number in each",
    ),
    (
        "SELECT MAX(SUM(length)) AS m FROM visit",
        "SUM(length) is not allowed in the aggregate MAX(SUM(length)): use aggregates only in SELECT and HAVING",
    ),
    (
        "SELECT COUNT(*) AS n FROM visit GROUP BY SUM(length)",
        "SUM(length) is not allowed in GROUP BY: use aggregates only in SELECT and HAVING",
    ),
    (
        "SELECT COUNT(*) AS n FROM visit GROUP BY 'x'",
        "GROUP BY 'x' (a constant) is not supported: a key must use a column",
    ),
    ("SELECT user FROM visit HAVING length > 1", "HAVING needs GROUP BY or an aggregate; write WHERE instead"),
    ("SELECT +length AS p FROM visit", "a unary + is not supported: leave it out"),
    ("SELECT 0x10 FROM visit", "0x10 is not a valid number; write it in decimal digits"),
    (
        "SELECT 9223372036854775808 AS p FROM visit",
        "9223372036854775808 does not fit in a BIGINT, the widest integer type",
    ),
    ("SELECT 1e400 AS p FROM visit", "1e400 does not fit in a DOUBLE, the widest numeric type"),
    *(
        (
            f"SELECT i.product FROM info i JOIN visit v ON i.product = v.product {condition}",
            f"MAX(v.length) is not allowed in {clause}: use aggregates only in SELECT and HAVING",
        )
        for condition, clause in (
            ("AND MAX(v.length) > 1", "ON"),
            ("AND MAX(v.length) > 1 JOIN cat c ON c.category = i.category", "ON"),
            ("JOIN cat c ON c.category = i.category WHERE MAX(v.length) > 1", "WHERE"),
        )
    ),
    *(
        (f"SELECT user FROM visit WHERE {text}", f"{text} mixes {kinds}; CAST them to the same type")
        for text, kinds in (
            ("user = day", "STRING and DATE"),
            ("day IN ('2024-01-01', user)", "DATE and STRING"),
            ("user < CAST(day AS TIMESTAMP)", "STRING and TIMESTAMP"),
        )
    ),
    ("SELECT user FROM visit WHERE length IN ()", "the list in length IN () is empty, but a list needs a value"),
    (
        "SELECT user + 1 AS x FROM visit",
        "user in user + 1 has type STRING, but + needs numbers; CAST it to a numeric type",
    ),
    ("SELECT COALESCE(user, 1) AS x FROM visit", "COALESCE(user, 1) mixes STRING and INT; CAST them to the same type"),
    ("SELECT CAST(day AS INT) AS x FROM visit", "CAST(day AS INT) is not supported: DATE cannot be cast to INT"),
    (
        "SELECT DATE '2024-01-31'::STRING AS x FROM visit",
        "DATE '2024-01-31'::... is not supported: write (DATE '2024-01-31')::...",
    ),
    (
        "SELECT user AS select FROM visit",
        "the SQL does not parse at 'select', line 1; to use a reserved word as a name, put it in double quotes, "
        'as in AS "select"',
    ),
    (
        "SELECT `user` FROM visit",
        "the SQL does not parse at '`', line 1; to use a reserved word as a name, put it in double quotes, "
        'as in AS "select"',
    ),
    ("INSERT INTO visit VALUES (1)", "INSERT ... does not declare a view; write CREATE VIEW name AS SELECT ..."),
    (
        "SELECT X'ab' AS x FROM visit",
        "the SQL does not parse at \"'ab'\", line 1; docs/sql.md lists the supported SQL",
    ),
    (
        "SELECT MAX(length AS m FROM visit",
        'the SQL does not parse: syntax error at or near "AS", line 1; '
        "this is either a typo or unsupported SQL (docs/sql.md lists the supported SQL)",
    ),
]
"""Refusals that docs/sql.md does not list, and their messages."""


def test_other_refusals() -> None:
    """Each has its message."""
    catalog = Catalog(
        info="product STRING, category STRING, price DOUBLE",
        visit="product STRING, user STRING, length INT, day DATE",
        cat="category STRING, boss STRING, rank BIGINT, open BOOLEAN",
    )
    for sql, says in REFUSALS:
        with pytest.raises(SqlError) as error:
            catalog.view(sql if sql.startswith("INSERT") else f"CREATE VIEW v AS {sql}")
        assert str(error.value).removeprefix("view v: ") == says


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("CREATE VIEW w AS SELECT qty FROM mine", "v: the query after AS must not begin with CREATE VIEW; write"),
        ("", "v: the query after AS is empty; write a SELECT there, such as SELECT a, b FROM t"),
        (" ; ", "v: the query after AS is empty"),
        ("-- all rows", "v: the query after AS is empty"),
        ("SELECT Order Date FROM mine", 'column Order Date needs double quotes, "Order Date" (view v: there is '),
        ("SELECT SUM(unit-price) AS s FROM mine", 'the column unit-price needs double quotes, "unit-price" ('),
        ('SELECT "Order Date" AS d, qty qty qty FROM mine', '^the SQL does not parse: syntax error at or near "qty"'),
    ],
)
def test_a_query_of_ones_own(query: str, says: str) -> None:
    """No query, a whole statement in place of one, and a file's column with a blank: the error says what to write."""
    catalog = Catalog(mine='"Order Date" DATE, "unit-price" DOUBLE, qty INT')
    with pytest.raises(SqlError, match=says if says[0] == "^" else re.escape(says)):
        catalog.view(f"CREATE VIEW v AS {query}")
    assert catalog.view('CREATE VIEW v AS SELECT "Order Date", "unit-price" FROM mine').schema[1].name == "unit-price"
    with pytest.raises(SqlError, match="the SQL is empty; write CREATE VIEW name AS SELECT"):
        catalog.view(" ")


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ("SELECT select, n FROM mine", '"select"'),
        ('SELECT "order", select, MAX(n) AS m FROM mine GROUP BY "order", select', '"select"'),
        ("SELECT from, to, COUNT(*) AS c FROM mine GROUP BY from, to", '"from" and "to"'),
        ("SELECT n, group FROM mine WHERE select = 'from'", '"group" and "select"'),
        ("SELECT n n n FROM mine GROUP BY n", ""),
    ],
)
def test_columns_that_are_words_of_sql(query: str, quoted: str) -> None:
    """An error of the parser names the columns of the query that need quotes, and no word of a clause."""
    catalog = Catalog(mine='order INT, "group" STRING, "select" STRING, "from" STRING, "to" STRING, n INT')
    with pytest.raises(SqlError, match="does not parse") as error:
        catalog.view(f"CREATE VIEW v AS {query}")
    assert str(error.value).partition("named like words of SQL in double quotes: ")[2] == quoted
    words = ("order", "group", "select", "from", "to")
    assert catalog.view("CREATE VIEW v AS SELECT " + ", ".join(f'"{word}"' for word in words) + " FROM mine").schema


OWN_WORDS = [
    ("SELECT {}(user) AS x FROM visit", "the function {}", ["LEN", "char_length", "UCASE", "ltrim", "md5", "nvl"]),
    ("SELECT {}('day', day) AS x FROM visit", "the function {}", ["date_trunc", "DateTrunc", "strftime", "datediff"]),
    ("SELECT {}(user, ',') AS x FROM visit", "the aggregate {}", ["string_agg", "listagg", "group_concat", "arg_max"]),
    ("SELECT {}(user) AS x FROM visit", "the aggregate {}", ["any_value", "bool_or", "array_agg", "list", "stddev"]),
    ("SELECT CAST(user AS {}) AS x FROM visit", "the type {}", ["DECIMAL", "numeric", "DECIMAL(10,2)", "VARCHAR(3)"]),
    ("SELECT user::{} AS x FROM visit", "the type {}", ["REAL", "hugeint", "TIMESTAMP WITH TIME ZONE", "INT[]", "foo"]),
    ("SELECT user FROM visit {} JOIN info USING (product)", "{} JOIN", ["LEFT ANTI", "LEFT SEMI", "RIGHT SEMI"]),
    (
        "SELECT user FROM visit {} JOIN info USING (product)",
        "{} JOIN",
        ["LEFT ASOF", "ASOF LEFT", "ANY LEFT", "FULL OUTER"],
    ),
    ("SELECT user FROM visit {} (SIZE 1 HOUR) GROUP BY user", "{}", ["WINDOW TUMBLING", "window hopping"]),
    ("SELECT user FROM visit WHERE length > 1 {}", "{}", ["EMIT CHANGES", "emit final", "EMIT ON WINDOW CLOSE"]),
    ("SELECT user FROM TABLE({}(TABLE visit, DESCRIPTOR(day), INTERVAL '1' HOUR))", "{}", ["TUMBLE", "HOP"]),
    ("SELECT user FROM visit {} SELECT boss FROM cat", "{}", ["MINUS", "EXCEPT ALL"]),
    ("SELECT user FROM visit WHERE length = {} (SELECT length FROM visit)", "{}", ["SOME", "ANY", "all"]),
    ("SELECT {}(length, 2) AS x FROM visit", "{}", ["POW", "power", "IIF", "unnest", "json_extract"]),
]
"""Templates of queries, how their refusals begin, and words that sqlglot replaces by others or does not parse."""


@pytest.mark.parametrize(("query", "begins", "words"), OWN_WORDS)
def test_a_refusal_uses_the_words_of_the_query(query: str, begins: str, words: list[str]) -> None:
    """The message has the word of the text, even if another word means the same."""
    for word in words:
        with pytest.raises(SqlError) as error:
            bound(query.format(word))
        assert f"{begins.format(word)} is not supported: " in str(error.value)


def test_what_the_parser_drops_is_refused() -> None:
    """Text that sqlglot misreads or corrects by itself is an error."""
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


@pytest.mark.parametrize(
    "literal",
    ["DATE '2024-01-31'", "TIMESTAMP WITHOUT TIME ZONE '2024-01-31 12:30:00'", "DOUBLE PRECISION '5'"],
)
def test_a_typed_literal_is_cast_between_parentheses(literal: str) -> None:
    """sqlglot reads TYPE 'text'::T as TYPE ('text'::T), unlike SQL, so it is refused."""
    with pytest.raises(SqlError, match=r"::\.\.\. is not supported: write \(") as caught:
        bound(f"SELECT CASE WHEN length > 1 THEN {literal} :: /* as text */ STRING END AS x FROM visit")
    assert f"'{literal.split(chr(39))[1]}'" in str(caught.value)
    for text in ("'a'::STRING", "length + '1'::INT", "(DATE '2024-01-31')::STRING::DATE", "'2024-01-31'::DATE::STRING"):
        bound(f"SELECT DISTINCT {text} AS x FROM visit WHERE NOT '1'::INT = length AND 'x'::STRING = user")


def test_a_refusal_names_the_view_and_prints_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The message begins with the view; the parser's log and escape codes are not shown."""
    with caplog.at_level(logging.DEBUG), pytest.raises(SqlError, match="^view v: ORDER BY is not supported: ") as error:
        bound("SELECT user FROM visit ORDER BY user")
    assert error.value.__cause__ is None
    with caplog.at_level(logging.DEBUG), pytest.raises(SqlError) as error:
        bound("SELECT user FRO visit WITH NO DATA")
    assert "\x1b" not in str(error.value)
    assert (caplog.records, capfd.readouterr()) == ([], ("", ""))


def test_an_unknown_relation_is_a_sql_error_and_a_relation_error() -> None:
    """Either class catches it, and the message lists the relations."""
    for kind in (SqlError, RelationError):
        with pytest.raises(kind, match="there is no relation or view named nowhere; the catalog contains: info, visit"):
            bound("SELECT a FROM nowhere")


def test_deep_nesting_is_refused() -> None:
    """Deep nesting is a SqlError and not a RecursionError; a long chain of ANDs is supported."""
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


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0" * 50 + "7", 7),
        ("-" + "0" * 5000 + "7", -7),
        ("0" * 5000, 0),
        ("0" * 40 + "2147483648", 2**31),
        ("0" * 40 + ".5", 0.5),
        ("0" * 39 + "_1_000", 1000),
        ("1" + "_1" * 18, 1111111111111111111),
    ],
)
def test_zeros_and_underscores_do_not_change_a_number(literal: str, value: float) -> None:
    """However many zeros lead, a number has the value that DuckDB reads."""
    assert duckdb.sql(f"SELECT {literal}").fetchall() == [(value,)]
    plan = bound(f"SELECT {literal} AS x FROM visit").plan
    assert isinstance(plan, Map) and plan.exprs == (Lit(value, plan.schema[0].type),)


@pytest.mark.parametrize("literal", ["9" * 5000, "-" + "9" * 5000, "1" + "_1" * 30, "1" * 5000 + ".5", "1e" + "9" * 50])
def test_a_very_long_number_is_refused(literal: str) -> None:
    """A number that exceeds its type is a SqlError that shows only its beginning."""
    with pytest.raises(SqlError, match="does not fit") as error:
        bound(f"SELECT {literal} AS x FROM visit")
    assert len(str(error.value)) < 200


def test_width_is_refused() -> None:
    """More than 60 columns in a relation, a join or a view are refused."""
    wide = {n: ", ".join(f"{n}{i} INT" for i in range(40)) for n in "ab"}
    catalog = Catalog(**wide)
    with pytest.raises(SqlError, match="80 columns exceed the limit of 60"):
        catalog.view("CREATE VIEW v AS SELECT a1 FROM a JOIN b ON a0 = b0")
    with pytest.raises(SqlError, match="61 columns"):
        catalog.view(f"CREATE VIEW v AS SELECT {', '.join(f'a1 + {i} AS x{i}' for i in range(61))} FROM a")
    with pytest.raises(RelationError, match="61 columns"):
        Catalog(t=", ".join(f"a{i} INT" for i in range(61)))


@pytest.mark.parametrize("sql", [None, 3, b"CREATE VIEW v AS SELECT 1", ["x"]])
def test_sql_that_is_no_text(sql: Any) -> None:
    """SQL must be text."""
    with pytest.raises(Error):
        Catalog(t="a INT").view(sql)
