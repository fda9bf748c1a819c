"""docs/sql.md: every row of its tables is true, and the tables are complete."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from sqlglot import exp

import sharedstate_lite as ss
from sharedstate_lite.errors import RowError, SqlError, ViewError
from sharedstate_lite.oracle import recompute
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.sql.catalog import Catalog
from sharedstate_lite.sql.grammar import ALLOWED, REFUSED
from sharedstate_lite.sql.parse import parse

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def cells(title: str) -> list[list[str]]:
    """Return the rows of the table under a heading."""
    section = re.split("\n###? ", PAGE.read_text().split(f" {title}\n")[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    return [[c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def table(title: str) -> list[list[str]]:
    """Return the rows of the table under a heading, without markup."""
    return [[c.strip("`") for c in row] for row in cells(title)]


def codes(cell: str) -> list[str]:
    """Return the code spans of a cell."""
    return re.findall("`([^`]+)`", cell)


SUPPORTED, REFUSALS = table("Supported"), table("Not supported")
REWRITES = [(codes(old)[0], codes(new), partial) for old, new, partial in cells("Rewrites")]


def shop() -> Catalog:
    """Return the catalog that the page declares."""
    code = PAGE.read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Catalog] = {}
    exec(code.replace("ss.Catalog", "Catalog"), {"Catalog": Catalog}, names)
    return names["catalog"]


def statement(sql: str) -> str:
    """Return a row's SQL as a complete statement."""
    whole = sql.startswith(("CREATE", "INSERT"))
    return sql if whole else f"CREATE VIEW v AS {sql}"


@pytest.mark.parametrize("sql", [row[1] for row in SUPPORTED])
def test_what_is_supported_binds(sql: str) -> None:
    """A supported row binds, and DuckDB finds the same columns and types."""
    catalog = shop()
    view = catalog.view(statement(sql))
    dtypes = {
        Type.STRING: "string",
        Type.INT: "Int32",
        Type.BIGINT: "Int64",
        Type.DOUBLE: "Float64",
        Type.BOOLEAN: "boolean",
        Type.DATE: "date32[day][pyarrow]",
        Type.TIMESTAMP: "timestamp[us][pyarrow]",
    }
    frame = recompute(view, {})
    assert {str(n): str(d) for n, d in frame.dtypes.items()} == {c.name: dtypes[c.type] for c in view.schema}


@pytest.mark.parametrize(("sql", "says"), REFUSALS)
def test_what_is_refused_says_so(sql: str, says: str) -> None:
    """A refused row raises a SqlError with these words, and the catalog is unchanged."""
    catalog = shop()
    before = list(catalog.views)
    with pytest.raises(SqlError) as caught:
        catalog.view(statement(sql))
    assert str(caught.value).removeprefix("view v: ") == says
    assert list(catalog.views) == before


def test_every_named_refusal_has_a_row() -> None:
    """The page shows each name of `REFUSED` with its advice."""
    said = [row[1] for row in REFUSALS]
    for name, rule in REFUSED.values():
        shown = {"the type": "the type FLOAT", "the function": "the function NVL"}.get(name, name)
        assert f"{shown} is not supported: {rule}" in said


@pytest.mark.parametrize(("sql", "says"), REFUSALS)
def test_a_refusal_names_nothing_that_the_query_lacks(sql: str, says: str) -> None:
    """The words in capitals before "is not supported" are in the query. Of two names with "or", one is enough."""
    if " is not supported: " in says:
        names = says.split(" is not supported: ")[0].split("without")[0].split("or ")
        words = [re.findall(r"\b[A-Z_]{2,}\b|<=>", name) for name in names]
        assert any(all(word in sql.upper() for word in each) for each in words)


def test_all_supported_syntax_has_a_row() -> None:
    """Each node class and argument of `ALLOWED` occurs in a supported example."""
    seen: set[tuple[type[exp.Expr], str]] = set()
    for row in SUPPORTED:
        _, query = parse(statement(row[1]))
        create = query.parent
        assert create is not None
        for node in create.walk():
            seen |= {(type(node), name) for name, value in node.args.items() if value not in (None, False, [])}
            seen.add((type(node), ""))
    by_value = {(exp.Join, "method")}
    wanted = {(kind, name) for kind, names in ALLOWED.items() for name in ["", *names]} - by_value
    optional = {(kind, "big_int") for kind in ALLOWED}
    assert wanted - optional - seen == set()


def test_a_refused_part_is_found_anywhere() -> None:
    """A refused part is refused in a branch, in parentheses, and inside an expression."""
    catalog = shop()
    for sql in (
        "SELECT user FROM visit UNION ALL (SELECT boss FROM cat ORDER BY boss)",
        "(SELECT user FROM visit LIMIT 1) UNION ALL SELECT boss FROM cat",
        "((SELECT user FROM visit)) LIMIT 1",
        "SELECT CASE WHEN UPPER(user) = 'X' THEN 1 END AS x FROM visit",
        "SELECT MAX(CASE WHEN length > 1 THEN LENGTH(user) END) AS x FROM visit",
    ):
        with pytest.raises(SqlError, match="is not supported"):
            catalog.view(statement(sql))


# --- text in a CAST


@pytest.mark.parametrize(("types", "texts", "value"), cells("Text in a CAST"))
def test_text_in_a_cast(types: str, texts: str, value: str) -> None:
    """Each text has this value, or the error says that it is not valid or out of range; literals and rows agree."""
    for kind in types.split(", "):
        for text in codes(texts):
            catalog = Catalog(t="s STRING")
            row = {"t": [((text[1:-1],), +1)]}
            column = catalog.view(f"CREATE VIEW c AS SELECT CAST(s AS {kind}) AS x FROM t")
            literal = f"CREATE VIEW l AS SELECT CAST({text} AS {kind}) AS x FROM t"
            if not value.startswith("`"):
                says = re.escape(f"{text} is {value.replace('valid', f'a valid {kind}')}")
                with pytest.raises(SqlError, match=says):
                    catalog.view(literal)
                with ss.engine("full", [column]) as engine, pytest.raises(RowError, match=says):
                    engine.step(row)
                continue
            with ss.engine("full", [column, catalog.view(literal)]) as engine:
                engine.step(row)
                assert [str(engine.read(view).x[0]) for view in ("c", "l")] == [value.strip("`")] * 2, text


# --- rewrites

EPOCHS: list[dict[str, list[tuple[tuple[int | None, int | None], int]]]] = [
    {"a": [((1, 5), +1), ((2, 0), +1), ((None, 7), +1)], "b": [((1, 1), +1), ((1, 2), +1), ((None, 9), +1)]},
    {
        "a": [((1, 5), +1), ((3, None), +1), ((None, None), +1), ((0, 3), +1), ((2, 8), +1)],
        "b": [((2, 1), +1), ((3, None), +1), ((0, 0), +1), ((3, 4), +1), ((None, None), +1)],
    },
    {"b": [((None, 9), -1), ((None, None), -1), ((2, 1), -1)]},
    {"a": [((1, 5), -2), ((2, 0), -1), ((None, 7), -1)]},
    {"b": [((1, 1), -1), ((1, 2), -1), ((3, None), -1), ((0, 0), -1), ((3, 4), -1)]},
]
"""Changes of a(k, x) and b(k, y), with NULLs, duplicates, 0, and in the end an empty b."""


def bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Return rows as a bag, with None for every NULL."""
    return Counter(tuple(None if pd.isna(v) else v for v in row) for row in rows)


Databases = dict[str, list[Any]]


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    """The tables in SQLite and in DuckDB, one database per epoch."""
    out: Databases = {"SQLite": [], "DuckDB": []}
    rows: dict[str, Counter[Any]] = {"a": Counter(), "b": Counter()}
    for epoch in EPOCHS:
        for name, connect in (("SQLite", sqlite3.connect), ("DuckDB", duckdb.connect)):
            database: Any = connect(":memory:")
            database.execute("CREATE TABLE a (k INTEGER, x INTEGER)")
            database.execute("CREATE TABLE b (k INTEGER, y INTEGER)")
            out[name].append(database)
        for relation in "ab":
            for row, diff in epoch.get(relation, []):
                rows[relation][row] += diff
            for row in rows[relation].elements():
                for name in out:
                    out[name][-1].execute(f"INSERT INTO {relation} VALUES (?, ?)", row)
    yield out
    for each in (*out["SQLite"], *out["DuckDB"]):
        each.close()


def answers(sql: str, databases: Databases) -> list[list[Counter[tuple[Any, ...]]]]:
    """Return the rows of ``sql`` after each epoch in each database that accepts the query."""
    out = []
    for each in databases.values():
        try:
            out.append([bag(database.execute(sql).fetchall()) for database in each])
        except (sqlite3.Error, duckdb.Error):
            continue
    return out


@pytest.mark.parametrize(("old", "new", "partial"), REWRITES)
def test_a_rewrite_returns_the_same_rows(databases: Databases, old: str, new: list[str], partial: str) -> None:
    """After each epoch, the rewrite has the rows of the refused query in SQLite and in DuckDB, in every engine."""
    catalog = Catalog(a="k INT, x INT", b="k INT, y INT")
    with pytest.raises(SqlError):
        catalog.view(f"CREATE VIEW refused AS {old}")
    for sql in new:
        view = catalog.view(sql if sql.startswith("CREATE") else f"CREATE VIEW rewritten AS {sql}")
    wanted = answers(old, databases)
    assert wanted
    for kind in ss.KINDS:
        if kind == "partial" and partial == "no":
            with pytest.raises(ViewError):
                ss.engine(kind, [view])
            continue
        with ss.engine(kind, [view]) as engine:
            for epoch, *rows in zip(EPOCHS, *wanted, strict=True):
                engine.step(epoch)
                for answer in rows:
                    keys = {tuple(row[i] for i in view.key) for row in answer} if kind == "partial" else [None]
                    frames = [engine.read(view.name, key=key) for key in keys]
                    assert bag([row for f in frames for row in f.itertuples(index=False, name=None)]) == answer, kind


def test_all_advice_has_a_rewrite() -> None:
    """Advice that says how to write a query has a row in the table of rewrites."""
    catalog = Catalog(a="k INT, x INT", b="k INT, y INT")
    said = []
    for old, _, _ in REWRITES:
        with pytest.raises(SqlError) as caught:
            catalog.view(f"CREATE VIEW refused AS {old}")
        said.append(str(caught.value))
    verb = re.compile(r"\b(add|combine|declare|leave|list|name|rename|shows how|swap|write)\b")
    advice = {rule for _, rule in REFUSED.values() if verb.search(rule)}
    assert advice - DECLARATIONS - {rule for rule in advice for message in said if message.endswith(rule)} == set()


DECLARATIONS = {
    "a name can be declared only once; choose another name",
    "a name can be declared only once; leave out IF NOT EXISTS",
    "the engine decides what to materialise; leave out MATERIALIZED",
    "name the columns with AS in the SELECT",
    "write a comment after -- instead",
    "write the value as a literal",
}
"""Advice about a declaration or a parameter. No query without it can be run elsewhere."""
