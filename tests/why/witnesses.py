"""The reasons of rows, from the SQL text alone: DuckDB computes a view together with a hidden column of alternatives.

Each copy of a base row has a number. The hidden column ``_w`` of a row has its alternatives as JSON: lists of the
copies from which the row can be computed. A join has every union of an alternative of each side; a group has what its
aggregates need. The plan, the operators and the kernels of the kit are not used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import sqlglot
from duckdb.func import PythonUDFType
from sqlglot import exp

from sharedstate_lite.oracle import ADAPTATIONS
from sharedstate_lite.plan.nodes import Column
from sharedstate_lite.plan.view import View

Bag = frozenset[tuple[tuple[str, tuple[Any, ...]], int]]
"""Base rows with their copies."""
TOO_MANY = 3_000
TYPES = {"STRING": "VARCHAR", "INT": "INTEGER"}


class TooManyError(Exception):
    """A row has so many alternatives that the test takes another example."""


def _unions(parts: Iterable[list[list[int]]]) -> str:
    found: set[tuple[int, ...]] = {()}
    for part in parts:
        found = {tuple(sorted({*one, *other})) for one in found for other in part}
        if len(found) > TOO_MANY:
            raise TooManyError
    return json.dumps(sorted(found))


def _cross(sides: list[str | None]) -> str:
    return _unions(json.loads(side) for side in sides if side is not None)


def _grouped(members: str | None, kinds: str) -> str:
    rows = [each | {"w": json.loads(each["w"])} for each in json.loads(members or "[]")]
    needed: dict[int, None] = {}
    choices = [] if json.loads(kinds) else [rows]
    for number, kind in enumerate(json.loads(kinds)):
        there = [i for i, each in enumerate(rows) if kind == "rows" or each[f"a{number}"] is not None]
        if kind in ("max", "min") and there:
            best = (max if kind == "max" else min)(rows[i][f"a{number}"] for i in there)
            choices.append([rows[i] for i in there if rows[i][f"a{number}"] == best])
        elif kind not in ("max", "min"):
            needed |= dict.fromkeys(there)
    if not needed and not choices:
        choices = [rows] if rows else []
    parts = [rows[i]["w"] for i in needed]
    return _unions([*parts, *([w for each in chosen for w in each["w"]] for chosen in choices)])


def _text(node: exp.Expr | str) -> str:
    return node if isinstance(node, str) else node.sql(dialect="duckdb", identify=True, comments=False)


def _kind(node: exp.Expr) -> str:
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "rows"
    return {exp.Max: "max", exp.Min: "min"}.get(type(node), "values")


def rewritten(query: exp.Expr) -> str:
    """A query with the hidden column."""
    if isinstance(query, exp.Subquery):
        return f"({rewritten(query.this)})"
    if isinstance(query, exp.Union):
        return f"{rewritten(query.this)} UNION ALL {rewritten(query.expression)}"
    assert isinstance(query, exp.Select)
    select = query.copy()
    if select.args.get("distinct"):
        select.set("distinct", None)
        inner = rewritten(select)
        rows = "CAST(to_json(list({'w': _w})) AS VARCHAR)"
        return f"SELECT * EXCLUDE (_w), grouped({rows}, '[]') AS _w FROM ({inner}) GROUP BY ALL"
    for star in select.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count):
            star.set("except_", [exp.to_identifier("_w")])
    sources = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    cross = f"crossed([{', '.join(f'{_text(exp.to_identifier(each.alias_or_name))}._w' for each in sources)}])"
    sums = [each for each in query.find_all(exp.AggFunc) if each.parent_select is query]
    if sums or select.args.get("group"):
        args = [f"'a{i}': {_text(each.this)}" for i, each in enumerate(sums) if _kind(each) != "rows"]
        members = f"CAST(to_json(list({{{', '.join([f''' 'w': {cross}''', *args])}}})) AS VARCHAR)"
        cross = f"grouped({members}, '{json.dumps(list(map(_kind, sums)))}')"
    return _text(select.select(sqlglot.parse_one(f"{cross} AS _w", dialect="duckdb")))


class Witnesses:
    """Base tables, and the rows of views over them with their alternatives."""

    def __init__(self, relations: Mapping[str, Sequence[Column]], tables: Mapping[str, list[tuple[Any, ...]]]) -> None:
        self._db = duckdb.connect(config={"threads": 1})
        self._db.create_function(
            "crossed", _cross, ["VARCHAR[]"], "VARCHAR", type=PythonUDFType.NATIVE, null_handling="special"
        )
        self._db.create_function(
            "grouped", _grouped, ["VARCHAR", "VARCHAR"], "VARCHAR", type=PythonUDFType.NATIVE, null_handling="special"
        )
        self._rows: list[tuple[str, tuple[Any, ...]]] = []
        self._made: set[str] = set()
        for name, schema in relations.items():
            columns = ", ".join(f'"{c.name}" {TYPES.get(c.type.value, c.type.value)}' for c in schema)
            self._db.execute(f'CREATE TABLE "{name}" ({columns}, _w VARCHAR)')
            for row in tables.get(name, ()):
                words = ", ".join("?" * (len(row) + 1))
                self._db.execute(f'INSERT INTO "{name}" VALUES ({words})', [*row, json.dumps([[len(self._rows)]])])
                self._rows.append((name, row))

    def __enter__(self) -> Witnesses:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def of(self, view: View) -> dict[tuple[Any, ...], list[Bag]]:
        """Each row of a view with its reasons: the bags that contain no other one."""
        self._make(view)
        found: dict[tuple[Any, ...], set[Bag]] = {}
        for *row, alternatives in self._db.execute(f'SELECT * FROM "{view.name}"').fetchall():
            bags = {frozenset(Counter(self._rows[i] for i in each).items()) for each in json.loads(alternatives)}
            found.setdefault(near(row), set()).update(bags)
        return {row: smallest(bags) for row, bags in found.items()}

    def _make(self, view: View) -> None:
        for used in view.uses:
            self._make(used)
        if view.name in self._made:
            return
        self._made.add(view.name)
        query = sqlglot.parse_one(view.sql, dialect="duckdb").expression
        for change in ADAPTATIONS:
            query = query.transform(change)
        names = ", ".join(f'"{c.name}"' for c in view.schema)
        try:
            self._db.execute(f'CREATE TABLE "{view.name}" AS SELECT * FROM ({rewritten(query)}) AS q({names}, _w)')
        except duckdb.InvalidInputException as error:
            if "TooManyError" in str(error):
                raise TooManyError from error
            raise


def smallest(bags: Iterable[Bag]) -> list[Bag]:
    """The bags that contain no other one."""
    every = [Counter(dict(bag)) for bag in bags]
    return [frozenset(one.items()) for one in every if not any(other < one for other in every)]


def near(row: Iterable[Any]) -> tuple[Any, ...]:
    """A row whose doubles are rounded, since DuckDB adds them in any order."""
    return tuple(round(each, 6) if isinstance(each, float) else each for each in row)


__all__ = ["Bag", "TooManyError", "Witnesses", "near", "smallest"]
