"""Resolves the names in one SELECT: its tables, their columns, and ``*``.

A `ColumnRef` identifies a column of one table in FROM. It is not a position in the joined row, because that depends on
the join order, which `joins` chooses later. Names are case-insensitive and keep their declared spelling. The
unqualified name of a USING column refers to the left table's column (SQL:2016, 7.10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import RelationError, SqlError
from ..plan.nodes import Column, Node, Scan, Schema
from ..plan.view import View

MAX_COLUMNS = 60
"""The maximum number of columns in a relation, and in the output of an operator."""


class UnknownRelation(SqlError, RelationError):
    """The error for SQL that names an unknown relation. It is both a SqlError and a RelationError."""


@dataclass(frozen=True, order=True)
class ColumnRef:
    """A reference to column number ``column`` of table number ``source``. Tables are numbered in FROM order."""

    source: int
    column: int


@dataclass(frozen=True)
class FromTable:
    """A table in FROM: its name or alias, its plan, and its `View` (None for a base relation)."""

    name: str
    node: Node
    view: View | None

    @property
    def schema(self) -> Schema:
        """The names and types of the table's columns."""
        return self.node.schema


@dataclass
class Scope:
    """The tables of one FROM clause, added from left to right."""

    relations: Mapping[str, Schema]
    views: Mapping[str, View]
    sources: list[FromTable] = field(default_factory=list)
    merged: set[ColumnRef] = field(default_factory=set)
    """The columns on the right side of a USING. Only a qualified name can refer to them."""
    stars: list[list[ColumnRef]] = field(default_factory=list)
    """The columns that ``*`` expands to, as one list per comma-separated item of FROM."""

    def add(self, table: exp.Expr) -> int:
        """Add a table of a FROM or JOIN, and return its number. Raises SqlError for an unknown or duplicate name."""
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise SqlError("a subquery in FROM is not supported: declare it as a view and use it in FROM")
        name = table.name
        node, view = self._node(name)
        alias = table.alias or node_name(node, view, name)
        if any(s.name.lower() == alias.lower() for s in self.sources):
            raise SqlError(f"two tables are called {alias}; give one of them an alias, as in {name} AS other")
        self.sources.append(FromTable(alias, node, view))
        return len(self.sources) - 1

    def _node(self, name: str) -> tuple[Node, View | None]:
        view = find_name(name, self.views)
        if view is not None:
            return self.views[view].plan, self.views[view]
        relation = find_name(name, self.relations)
        if relation is not None:
            return Scan(self.relations[relation], relation), None
        known = ", ".join([*self.relations, *self.views]) or "none"
        raise UnknownRelation(f"there is no relation or view named {name}; the catalog contains: {known}")

    def places(self, source: int) -> list[ColumnRef]:
        """Return references to all columns of table number ``source``."""
        return [ColumnRef(source, i) for i in range(len(self.sources[source].schema))]

    def column(self, place: ColumnRef) -> Column:
        """Return the name and type of the column that ``place`` refers to."""
        return self.sources[place.source].schema[place.column]

    def label(self, place: ColumnRef) -> str:
        """Return the column's qualified name, ``table.column``, for error messages."""
        return f"{self.sources[place.source].name}.{self.column(place).name}"

    def find(self, name: str, table: str = "", among: Iterable[int] | None = None) -> ColumnRef:
        """Return a reference to the column ``name``.

        If ``table`` is given, only that table is searched. If ``among`` is not None, only the tables with these numbers
        are searched. Raises SqlError if no column or several columns have that name.
        """
        numbers = range(len(self.sources)) if among is None else list(among)
        if table:
            numbers = [n for n in numbers if self.sources[n].name.lower() == table.lower()]
            if not numbers:
                raise SqlError(f"there is no table named {table} in scope; the tables are: {self._names(among)}")
        found = [p for n in numbers for p in self.places(n) if self.column(p).name.lower() == name.lower()]
        if not table:
            found = [p for p in found if p not in self.merged]
        if not found:
            known = ", ".join(dict.fromkeys(self.column(p).name for n in numbers for p in self.places(n)))
            shown = f"{table}.{name}" if table else name
            raise SqlError(f"there is no column named {shown} in scope; the columns are: {known}")
        if len(found) > 1:
            raise SqlError(f"{name} is ambiguous; write {' or '.join(map(self.label, found))}")
        return found[0]

    def _names(self, among: Iterable[int] | None) -> str:
        return ", ".join(self.sources[n].name for n in (range(len(self.sources)) if among is None else among))

    def star(self, table: str = "") -> list[ColumnRef]:
        """Return the columns that ``*`` expands to, or ``table.*`` if ``table`` is given."""
        if not table:
            return [p for item in self.stars for p in item]
        for number, source in enumerate(self.sources):
            if source.name.lower() == table.lower():
                return self.places(number)
        raise SqlError(f"there is no table named {table} in scope; the tables are: {self._names(None)}")


def check_width(schema: Schema) -> Schema:
    """Return ``schema`` unchanged. Raises SqlError if it has more than `MAX_COLUMNS` columns."""
    if len(schema) > MAX_COLUMNS:
        raise SqlError(f"{len(schema)} columns exceed the limit of {MAX_COLUMNS}; select fewer of them")
    return schema


def find_name(name: str, names: Iterable[str]) -> str | None:
    """Return the element of ``names`` that equals ``name`` when case is ignored, or None."""
    return next((n for n in names if n.lower() == name.lower()), None)


def node_name(node: Node, view: View | None, name: str) -> str:
    """Return the declared name of ``view``, or of the relation that ``node`` scans if ``view`` is None.

    Return ``name`` if ``node`` is not a scan either.
    """
    return view.name if view is not None else node.relation if isinstance(node, Scan) else name
