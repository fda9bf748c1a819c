"""What names mean inside one SELECT: its tables, their columns, and what ``*`` is.

A :class:`ColumnRef` is a column of one of the FROM clause's sources; where that column
stands in the joined row is settled only when the join order is (:mod:`.joins`).
Names are case-insensitive and come out as declared. A column named by USING is one
column when it is not qualified: the left side's (SQL:2016, 7.10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import RelationError, SqlError
from ..plan.nodes import Column, Node, Scan, Schema
from ..plan.view import View

MAX_COLUMNS = 60
"""How many columns a relation, and any operator of a view, may have."""


class UnknownRelation(SqlError, RelationError):
    """SQL that names a relation which the catalog does not know."""


@dataclass(frozen=True, order=True)
class ColumnRef:
    """Column ``column`` of source number ``source``, counted in FROM order."""

    source: int
    column: int


@dataclass(frozen=True)
class FromTable:
    """A table of the FROM clause: the operator behind it, and the name it goes by."""

    name: str
    node: Node
    view: View | None

    @property
    def schema(self) -> Schema:
        """The columns that it brings."""
        return self.node.schema


@dataclass
class Scope:
    """The sources of one FROM clause, added left to right, and look-up by name."""

    relations: Mapping[str, Schema]
    views: Mapping[str, View]
    sources: list[FromTable] = field(default_factory=list)
    merged: set[ColumnRef] = field(default_factory=set)
    """Right-hand columns of USING: they answer to a qualified name only."""
    stars: list[list[ColumnRef]] = field(default_factory=list)
    """What ``*`` stands for, one list for each comma-separated item of FROM."""

    def add(self, table: exp.Expr) -> int:
        """Add the table of a FROM or JOIN as the next source; returns its number."""
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise SqlError("a subquery in FROM is not supported: make it a view of its own and name that here")
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
        """All columns of one source."""
        return [ColumnRef(source, i) for i in range(len(self.sources[source].schema))]

    def column(self, place: ColumnRef) -> Column:
        """The name and type of a column."""
        return self.sources[place.source].schema[place.column]

    def label(self, place: ColumnRef) -> str:
        """A column's qualified name, for messages."""
        return f"{self.sources[place.source].name}.{self.column(place).name}"

    def find(self, name: str, table: str = "", among: Iterable[int] | None = None) -> ColumnRef:
        """The column called ``name``, of ``table`` where that is given, among some sources only where those are.

        Raises SqlError where there is none, or more than one.
        """
        numbers = range(len(self.sources)) if among is None else list(among)
        if table:
            numbers = [n for n in numbers if self.sources[n].name.lower() == table.lower()]
            if not numbers:
                raise SqlError(f"no table is called {table} here; there are: {self._names(among)}")
        found = [p for n in numbers for p in self.places(n) if self.column(p).name.lower() == name.lower()]
        if not table:
            found = [p for p in found if p not in self.merged]
        if not found:
            known = ", ".join(dict.fromkeys(self.column(p).name for n in numbers for p in self.places(n)))
            raise SqlError(f"no column is called {table + '.' if table else ''}{name} here; there are: {known}")
        if len(found) > 1:
            raise SqlError(f"{name} is ambiguous: {' or '.join(map(self.label, found))}; say which")
        return found[0]

    def _names(self, among: Iterable[int] | None) -> str:
        return ", ".join(self.sources[n].name for n in (range(len(self.sources)) if among is None else among))

    def star(self, table: str = "") -> list[ColumnRef]:
        """What ``*`` or ``table.*`` stands for."""
        if not table:
            return [p for item in self.stars for p in item]
        for number, source in enumerate(self.sources):
            if source.name.lower() == table.lower():
                return self.places(number)
        raise SqlError(f"no table is called {table} here; there are: {self._names(None)}")


def check_width(schema: Schema) -> Schema:
    """``schema``, where it is no wider than :data:`MAX_COLUMNS`; else SqlError."""
    if len(schema) > MAX_COLUMNS:
        raise SqlError(
            f"{len(schema)} columns side by side are more than {MAX_COLUMNS}; select fewer, in views of single tables"
        )
    return schema


def find_name(name: str, names: Iterable[str]) -> str | None:
    """The one of ``names`` that is ``name`` but for case, as declared."""
    return next((n for n in names if n.lower() == name.lower()), None)


def node_name(node: Node, view: View | None, name: str) -> str:
    """The declared spelling of a table's name."""
    return view.name if view is not None else node.relation if isinstance(node, Scan) else name
