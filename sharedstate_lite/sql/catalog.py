"""A catalog: relations, and the views declared over them. Names are case-insensitive and keep their spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from types import MappingProxyType

from ..errors import RelationError, SqlError, ViewError
from ..plan.nodes import Column, Schema, Type
from ..plan.view import View
from .compile import RESERVED, bind
from .scope import MAX_COLUMNS, find_name

MAX_HEIGHT = 150
"""The largest height of a plan, in operators. Engines recurse over plans."""
_TYPES = {t.value: t for t in Type} | {
    "TEXT": Type.STRING,
    "VARCHAR": Type.STRING,
    "INTEGER": Type.INT,
    "LONG": Type.BIGINT,
    "FLOAT8": Type.DOUBLE,
    "DOUBLE PRECISION": Type.DOUBLE,
    "BOOL": Type.BOOLEAN,
    "DATETIME": Type.TIMESTAMP,
}
_COLUMN = re.compile(r'\s*(?:"((?:[^"]|"")+)"|(\w+))\s+(\w+(?:\s+\w+)?)\s*')


class Catalog:
    """Relations, and the views over them.

    The types are STRING, INT, BIGINT, DOUBLE, BOOLEAN, DATE and TIMESTAMP, or their usual synonyms. Raises
    RelationError for an invalid declaration.

    >>> catalog = Catalog(visit="product STRING, length INT")
    >>> catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product").schema
    (Column(name='product', type=<Type.STRING: 'STRING'>), Column(name='top', type=<Type.INT: 'INT'>))
    """

    def __init__(self, /, **relations: str) -> None:
        self._relations: dict[str, Schema] = {}
        self._views: dict[str, View] = {}
        for name, declaration in relations.items():
            if find_name(name, self._relations) is not None:
                raise RelationError(f"relation {name}: another relation has that name, apart from case; choose another")
            self._relations[name] = parse_columns(name, declaration)

    @property
    def relations(self) -> Mapping[str, Schema]:
        """Relation name to columns, as declared."""
        return MappingProxyType(self._relations)

    @property
    def views(self) -> Mapping[str, View]:
        """View name to view, in order of declaration."""
        return MappingProxyType(self._views)

    def schema(self, relation: str) -> Schema:
        """Return the columns of a relation. Raises RelationError for an unknown name."""
        name = find_name(relation, self._relations) if isinstance(relation, str) else None
        if name is None:
            known = ", ".join(self._relations) or "none"
            raise RelationError(f"no relation is called {relation}; the catalog has: {known}")
        return self._relations[name]

    def view(self, sql: str, key: str | Sequence[str] | None = None) -> View:
        """Declare a view, ``CREATE VIEW name AS SELECT ...``. An engine computes it.

        ``key`` names the output columns that a point read looks up, by default the GROUP BY columns, else the first
        column. Raises SqlError for SQL that is wrong or not supported, ViewError for a name that exists or an invalid
        key.
        """
        view = replace(bind(sql, self._relations, self._views, key), catalog=self)
        if view.plan.height > MAX_HEIGHT:
            raise SqlError(
                f"view {view.name}: its plan is {view.plan.height} operators high and the limit is {MAX_HEIGHT}; "
                "declare it over fewer views"
            )
        for kind, names in (("relation", self._relations), ("view", self._views)):
            if find_name(view.name, names) is not None:
                raise ViewError(f"view {view.name}: a {kind} of this catalog has that name; choose another")
        self._views[view.name] = view
        return view

    def owns(self, view: View) -> bool:
        """Whether ``view`` was declared in this catalog."""
        return self._views.get(view.name) is view

    def __repr__(self) -> str:
        names = [f"{n}={_text(s)!r}" for n, s in self._relations.items()]
        return f"Catalog({', '.join(names)})" + (f" with views {', '.join(self._views)}" if self._views else "")

    def _repr_html_(self) -> str:
        rows = [("relation", n, _text(s)) for n, s in self._relations.items()]
        rows += [("view", n, _text(v.schema)) for n, v in self._views.items()]
        cells = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
        return f"<table><thead><tr><th></th><th>name</th><th>columns</th></tr></thead><tbody>{cells}</tbody></table>"


def parse_columns(name: str, declaration: str) -> Schema:
    """Parse the declaration of relation ``name``, such as ``"product STRING, length INT"``. Raises RelationError."""
    if not isinstance(declaration, str) or not declaration.strip():
        raise RelationError(f'relation {name}: it has no columns; write {name}="column TYPE, column TYPE"')
    columns: list[Column] = []
    for part in _split(declaration):
        found = _COLUMN.fullmatch(part)
        kind = None if found is None else _TYPES.get(" ".join(found[3].upper().split()))
        if found is None or kind is None:
            types = ", ".join(t.value for t in Type)
            raise RelationError(f"relation {name}: {part.strip()!r} is not a column; write a name and one of {types}")
        column = found[2] or found[1].replace('""', '"')
        if find_name(column, (c.name for c in columns)) is not None:
            raise RelationError(f"relation {name}: column {column} is declared twice (case is ignored); rename one")
        if column.lower() in RESERVED:
            raise RelationError(f"relation {name}: the column name {column} is reserved; rename it")
        columns.append(Column(column, kind))
    if len(columns) > MAX_COLUMNS:
        raise RelationError(f"relation {name}: {len(columns)} columns are more than {MAX_COLUMNS}; split it in two")
    return tuple(columns)


def _split(declaration: str) -> list[str]:
    """Split a declaration at commas outside double quotes."""
    parts, quoted = [""], False
    for character in declaration:
        quoted ^= character == '"'
        if character == "," and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _text(schema: Schema) -> str:
    return ", ".join(f"{c.name} {c.type.value}" for c in schema)
