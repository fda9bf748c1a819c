"""docs/sql.md: every row of both tables is true, and the tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlglot import exp

from sharedstate_lite.errors import SqlError
from sharedstate_lite.oracle import recompute
from sharedstate_lite.plan.nodes import Type
from sharedstate_lite.sql.catalog import Catalog
from sharedstate_lite.sql.grammar import ALLOWED, REFUSED
from sharedstate_lite.sql.parse import parse

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def table(title: str) -> list[list[str]]:
    """Return the rows of the table under a heading, without markup."""
    section = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    cells = ([c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [[c.strip("`").replace("\\|", "|") for c in row] for row in cells]


SUPPORTED, REFUSALS = table("Supported"), table("Not supported")


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
    assert [n for n, way_out in REFUSED.values() if f"{n} is not supported: {way_out}" not in said] == []


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
