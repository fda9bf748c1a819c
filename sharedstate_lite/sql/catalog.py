"""Contains `Catalog`, which stores relations and the views that are declared over them.

Names are case-insensitive and keep their declared spelling.
"""

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
from .parse import reserved
from .scope import MAX_COLUMNS, find_name

MAX_HEIGHT = 150
"""The maximum height of a plan, in operators. It is limited because engines process plans recursively."""
TYPES = {t.value: t for t in Type} | {
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
    """A set of relations and the views that are declared over them.

    Each keyword argument declares a relation: its name, and its columns as a string. The column types are STRING, INT,
    BIGINT, DOUBLE, BOOLEAN, DATE and TIMESTAMP, and common synonyms of these. Raises RelationError for an invalid
    declaration.

    >>> catalog = Catalog(visit="product STRING, length INT")
    >>> catalog.view("CREATE VIEW longest AS SELECT product, MAX(length) AS top FROM visit GROUP BY product").schema
    (Column(name='product', type=<Type.STRING: 'STRING'>), Column(name='top', type=<Type.INT: 'INT'>))
    """

    def __init__(self, /, **relations: str) -> None:
        self._relations: dict[str, Schema] = {}
        self._views: dict[str, View] = {}
        for name, declaration in relations.items():
            if not name:
                raise RelationError("relation '': a relation must have a name; write name=\"column TYPE, column TYPE\"")
            if find_name(name, self._relations) is not None:
                raise RelationError(
                    f"relation {name}: another relation has this name (case is ignored); rename one of them"
                )
            self._relations[name] = parse_columns(name, declaration)

    @property
    def relations(self) -> Mapping[str, Schema]:
        """The relations: a read-only mapping from each name, in its declared spelling, to the columns."""
        return MappingProxyType(self._relations)

    @property
    def views(self) -> Mapping[str, View]:
        """The views: a read-only mapping from each name to the view, in order of declaration."""
        return MappingProxyType(self._views)

    def schema(self, relation: str) -> Schema:
        """Return the columns of a relation. Raises RelationError if the catalog does not contain it."""
        name = find_name(relation, self._relations) if isinstance(relation, str) else None
        if name is None:
            known = ", ".join(self._relations) or "none"
            raise RelationError(f"there is no relation named {relation}; the catalog contains: {known}")
        return self._relations[name]

    def view(self, sql: str, key: str | Sequence[str] | None = None) -> View:
        """Declare a view with a statement ``CREATE VIEW name AS SELECT ...``, and return it.

        This only plans the view. An engine computes its rows.

        ``key`` names the output columns that a point read looks up. The default is the GROUP BY columns if all of them
        are selected, no column for an aggregate without GROUP BY, and the first column otherwise.

        Raises SqlError if the SQL is invalid or not supported, and ViewError if the name is already declared or the key
        is invalid.
        """
        try:
            view = replace(bind(sql, self._relations, self._views, key), catalog=self)
        except SqlError as error:
            if unquoted := self._unquoted(sql):
                says = f'the column {unquoted} needs double quotes, "{unquoted}" ({error})'
            elif "does not parse" in str(error) and (words := self._reserved(sql)):
                quoted = " and ".join(f'"{word}"' for word in words)
                says = f"{error}; write columns that are named like words of SQL in double quotes: {quoted}"
            else:
                raise
            raise SqlError(says) from error.__cause__
        if view.plan.height > MAX_HEIGHT:
            raise SqlError(
                f"view {view.name}: its plan is {view.plan.height} operators high, but the limit is {MAX_HEIGHT}; "
                "stack fewer views on top of each other"
            )
        for kind, names in (("relation", self._relations), ("view", self._views)):
            if find_name(view.name, names) is not None:
                raise ViewError(f"view {view.name}: a {kind} in the catalog already has that name; choose another")
        self._views[view.name] = view
        return view

    def _unquoted(self, sql: str) -> str:
        """Return the first column with a blank or the like in its name that is not in double quotes; "" if all are."""
        schemas = [*self._relations.values(), *(view.schema for view in self._views.values())]
        odd = (c.name for schema in schemas for c in schema if not re.fullmatch(r"\w+", c.name))
        found = (n for n in odd if re.search(rf'(?<!["\w]){re.escape(n)}(?!["\w])', str(sql), re.IGNORECASE))
        return next(found, "")

    def _reserved(self, sql: str) -> list[str]:
        """Return the columns that are words of SQL and stand in the text without quotes, apart from its clauses."""
        tables = "|".join(map(re.escape, [*self._relations, *self._views]))
        clauses = rf'"[^"]*"|\'[^\']*\'|\bas\s+select\b|\b(?:group|order)\s+by\b|\bfrom\s+(?=(?:{tables})\b)'
        words = {*re.findall(r"\w+", re.sub(clauses, " ", str(sql).casefold(), flags=re.IGNORECASE))}
        schemas = [*self._relations.values(), *(view.schema for view in self._views.values())]
        names = dict.fromkeys(c.name for schema in schemas for c in schema if c.name.casefold() in words)
        return [name for name in names if reserved(name)]

    def owns(self, view: View) -> bool:
        """Return whether ``view`` was declared in this catalog."""
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
    """Return the columns of relation ``name`` from their declaration, such as ``"product STRING, length INT"``.

    Raises RelationError for an invalid declaration.
    """
    if not isinstance(declaration, str) or not declaration.strip():
        raise RelationError(
            f'relation {name}: its columns must be declared in a string; write {name}="column TYPE, column TYPE"'
        )
    columns: list[Column] = []
    for part in _split(declaration):
        found = _COLUMN.fullmatch(part)
        kind = None if found is None else TYPES.get(" ".join(found[3].upper().split()))
        if found is None or kind is None:
            types = ", ".join(t.value for t in Type)
            raise RelationError(
                f"relation {name}: {part.strip()!r} does not declare a column; write a name and one of {types}"
            )
        column = found[2] or found[1].replace('""', '"')
        if find_name(column, (c.name for c in columns)) is not None:
            raise RelationError(f"relation {name}: column {column} is declared twice (case is ignored); rename one")
        if column.lower() in RESERVED:
            raise RelationError(f"relation {name}: the column name {column} is reserved; rename it")
        columns.append(Column(column, kind))
    if len(columns) > MAX_COLUMNS:
        raise RelationError(
            f"relation {name}: {len(columns)} columns exceed the limit of {MAX_COLUMNS}; split the relation"
        )
    return tuple(columns)


def _split(declaration: str) -> list[str]:
    """Split a declaration at the commas that are not inside double quotes, or brackets as in DECIMAL(10,2)."""
    parts, quoted, depth = [""], False, 0
    for character in declaration:
        quoted ^= character == '"'
        depth += 0 if quoted else (character in "(<") - (character in ")>")
        if character == "," and not quoted and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _text(schema: Schema) -> str:
    return ", ".join(f"{c.name} {c.type.value}" for c in schema)
