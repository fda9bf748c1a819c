"""Mutated SQL binds to DuckDB's columns, or it is a SqlError."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharedstate_lite.errors import SqlError
from sharedstate_lite.oracle import Oracle
from sharedstate_lite.sql.catalog import Catalog

RELATIONS = {
    "info": "product STRING, category STRING, price DOUBLE",
    "visit": "product STRING, user STRING, length INT, big BIGINT, moment TIMESTAMP, day DATE, ok BOOLEAN",
}
SEEDS = [
    "SELECT category, MAX(length) AS m FROM info JOIN visit USING (product) GROUP BY category",
    "SELECT i.category, COUNT(*) AS n, SUM(v.length) AS s FROM info i LEFT JOIN visit AS v ON i.product = v.product "
    "WHERE v.length > 3 OR v.length IS NULL GROUP BY i.category HAVING COUNT(*) > 1 AND SUM(v.length) BETWEEN 1 AND 10",
    "SELECT DISTINCT product, length % 7 AS m, CASE WHEN length > 0 THEN 'x' ELSE 'y' END AS k FROM visit "
    "WHERE product IN ('a', 'b') AND NOT ok",
    "SELECT product, length FROM visit UNION ALL (SELECT category, 1 AS one FROM info)",
    "SELECT a.user AS u, COALESCE(a.length, b.length, 0) AS l FROM visit a, visit b WHERE a.product = b.product",
    "SELECT CAST(length AS DOUBLE) / 2 AS half, -length AS neg, day = '2024-01-01' AS d FROM visit",
]
WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT RIGHT FULL CROSS NATURAL USING ON AND OR NOT IN IS NULL "
    "LIKE BETWEEN CASE WHEN THEN ELSE END CAST AS DISTINCT UNION ALL EXCEPT WITH OVER ( ) , . * + - / % = < > <> :: || "
    "; 1 2.5 'a' \"user\" product length user a b v i info visit COUNT SUM MAX AVG ABS COALESCE DATE INTERVAL FILTER "
    "EXISTS VALUES INTO LATERAL UNNEST TABLESAMPLE QUALIFY OFFSET ANY [ ] { } ? $1 : @ # ! ~ ^ & | -> := /* */ -- ASC "
    "NULLS ROLLUP CUBE INNER OUTER SEMI ANTI ASOF STRUCT ARRAY TRUE FALSE INT STRING DECIMAL EXCLUDE REPLACE COLUMNS"
).split()
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|\d+\.\d+|\w+|<>|>=|::|[^\s\w]")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """DuckDB with the relations, empty."""
    with Oracle([], Catalog(**RELATIONS).relations) as oracle:
        yield oracle


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A query with up to 3 words dropped, replaced, inserted, swapped or doubled."""
    tokens = TOKEN.findall(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 3))):
        i, j = (draw(st.integers(0, len(tokens) - 1)) for _ in range(2))
        change = draw(st.sampled_from(["drop", "put", "insert", "swap", "double"]))
        if change == "drop" and len(tokens) > 1:
            del tokens[i]
        elif change == "put":
            tokens[i] = draw(st.sampled_from(WORDS))
        elif change == "insert":
            tokens.insert(i, draw(st.sampled_from(WORDS)))
        elif change == "swap":
            tokens[i], tokens[j] = tokens[j], tokens[i]
        else:
            tokens[i:i] = tokens[j : j + 3]
    return " ".join(tokens)


COUNT = iter(range(10**9))


@settings(max_examples=15 * settings().max_examples)
@given(text=texts())
def test_any_text_binds_or_is_refused(oracle: Oracle, text: str) -> None:
    """Any text is a view with the columns that DuckDB finds, or a SqlError, and no other error."""
    name = f"v{next(COUNT)}"
    try:
        view = Catalog(**RELATIONS).view(f"CREATE VIEW {name} AS {text}")
    except SqlError as error:
        assert str(error).isprintable()
        return
    assert list(oracle.recompute(view).columns) == [c.name for c in view.schema]


@given(text=st.text(max_size=40))
def test_any_characters_are_refused(text: str) -> None:
    """Any other characters are a SqlError."""
    with pytest.raises(SqlError):
        Catalog(**RELATIONS).view(f"CREATE VIEW v AS {text}")
    with pytest.raises(SqlError):
        Catalog(**RELATIONS).view(text)
