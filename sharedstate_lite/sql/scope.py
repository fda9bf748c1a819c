"""Name resolution in one SELECT: its tables, their columns, and ``*``.

A `ColumnRef` is a column of one table in FROM. Its position in the joined row depends on the join order, which `joins`
chooses later. Names are case-insensitive and keep their declared spelling. The unqualified name of a USING column is
the left table's column (SQL:2016, 7.10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import RelationError, SqlError
from ..plan.nodes import Column, Node, Scan, Schema
from ..plan.view import View

MAX_COLUMNS = 60
"""The largest number of columns of a relation, and of the output of an operator."""


class UnknownRelation(SqlError, RelationError):
    """SQL that names an unknown relation. It is both a SqlError and a RelationError."""


@dataclass(frozen=True, order=True)
class ColumnRef:
    """Column ``column`` of table number ``source``, in FROM order."""

    source: int
    column: int


@dataclass(frozen=True)
class FromTable:
    """A table in FROM: its name or alias, its plan, and the view if it is one."""

    name: str
    node: Node
    view: View | None

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return self.node.schema


@dataclass
class Scope:
    """The tables of one FROM clause, added from left to right."""

    relations: Mapping[str, Schema]
    views: Mapping[str, View]
    sources: list[FromTable] = field(default_factory=list)
    merged: set[ColumnRef] = field(default_factory=set)
    """The right-hand columns of USING, which only a qualified name refers to."""
    stars: list[list[ColumnRef]] = field(default_factory=list)
    """The columns of ``*``, one list per comma-separated item of FROM."""

    def add(self, table: exp.Expr) -> int:
        """Add the table of a FROM or JOIN, and return its number."""
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise SqlError("a subquery in FROM is not supported: declare it as a view and name that here")
        name = table.name
        node, view = self._node(name)
        alias = table.alias or node_name(node, view, name)
        if any(s.name.lower() == alias.lower() for s in self.sources):
            raise SqlError(f"two tables are called {alias}; give one an alias: {name} AS other")
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
        raise UnknownRelation(f"no relation or view is called {name}; the catalog has: {known}")

    def places(self, source: int) -> list[ColumnRef]:
        """Return all columns of a table."""
        return [ColumnRef(source, i) for i in range(len(self.sources[source].schema))]

    def column(self, place: ColumnRef) -> Column:
        """Return the name and type of a column."""
        return self.sources[place.source].schema[place.column]

    def label(self, place: ColumnRef) -> str:
        """Return a column's qualified name, for messages."""
        return f"{self.sources[place.source].name}.{self.column(place).name}"

    def find(self, name: str, table: str = "", among: Iterable[int] | None = None) -> ColumnRef:
        """Find the column ``name``, of ``table`` if given, in the tables numbered ``among`` (None: all).

        Raises SqlError if there is none, or more than one.
        """
        numbers = range(len(self.sources)) if among is None else list(among)
        if table:
            numbers = [n for n in numbers if self.sources[n].name.lower() == table.lower()]
            if not numbers:
                raise SqlError(f"no table is called {table} here; the tables are: {self._names(among)}")
        found = [p for n in numbers for p in self.places(n) if self.column(p).name.lower() == name.lower()]
        if not table:
            found = [p for p in found if p not in self.merged]
        if not found:
            known = ", ".join(dict.fromkeys(self.column(p).name for n in numbers for p in self.places(n)))
            raise SqlError(f"no column is called {table + '.' if table else ''}{name} here; the columns are: {known}")
        if len(found) > 1:
            raise SqlError(f"{name} is ambiguous: {' or '.join(map(self.label, found))}; qualify it")
        return found[0]

    def _names(self, among: Iterable[int] | None) -> str:
        return ", ".join(self.sources[n].name for n in (range(len(self.sources)) if among is None else among))

    def star(self, table: str = "") -> list[ColumnRef]:
        """Return the columns of ``*`` or ``table.*``."""
        if not table:
            return [p for item in self.stars for p in item]
        for number, source in enumerate(self.sources):
            if source.name.lower() == table.lower():
                return self.places(number)
        raise SqlError(f"no table is called {table} here; the tables are: {self._names(None)}")


def check_width(schema: Schema) -> Schema:
    """Return ``schema``. Raises SqlError if it has more than `MAX_COLUMNS` columns."""
    if len(schema) > MAX_COLUMNS:
        raise SqlError(f"{len(schema)} columns are more than {MAX_COLUMNS}; select fewer, in a view of each table")
    return schema


def find_name(name: str, names: Iterable[str]) -> str | None:
    """Return the element of ``names`` that equals ``name`` regardless of case, or None."""
    return next((n for n in names if n.lower() == name.lower()), None)


def node_name(node: Node, view: View | None, name: str) -> str:
    """Return a table's name as declared."""
    return view.name if view is not None else node.relation if isinstance(node, Scan) else name
