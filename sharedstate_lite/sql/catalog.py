"""A catalog: the relations that rows come into, and the views declared over them.

Relations are declared as text, ``Catalog(visit="product STRING, length INT")``; views
as SQL. Names are case-insensitive and keep their spelling. Refuses, as RelationError,
a declaration that says nothing or says a thing twice, and, as ViewError, a name that
is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from types import MappingProxyType

from ..errors import RelationError, SqlError, ViewError, shorten
from ..plan.nodes import Column, Schema, Type
from ..plan.view import View
from .compile import RESERVED, bind
from .scope import MAX_COLUMNS, find_name

MAX_HEIGHT = 150
"""How many operators may stand one above the other, so that no recursion over a plan runs out."""
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
    """Relations by declaration, and the views over them.

    ``Catalog(info="product STRING, category STRING")``; types are STRING, INT, BIGINT,
    DOUBLE, BOOLEAN, DATE and TIMESTAMP, or their usual synonyms. Raises RelationError
    for a declaration that cannot be.
    """

    def __init__(self, /, **relations: str) -> None:
        self._relations: dict[str, Schema] = {}
        self._views: dict[str, View] = {}
        for name, declaration in relations.items():
            if find_name(name, self._relations) is not None:
                raise RelationError(f"relation {name}: the name is taken, but for case; choose another")
            self._relations[name] = parse_columns(name, declaration)

    @property
    def relations(self) -> Mapping[str, Schema]:
        """Relation name -> its columns, as declared."""
        return MappingProxyType(self._relations)

    @property
    def views(self) -> Mapping[str, View]:
        """View name -> view, in the order of declaration."""
        return MappingProxyType(self._views)

    def schema(self, relation: str) -> Schema:
        """The columns of a relation; RelationError where there is none of that name."""
        name = find_name(relation, self._relations) if isinstance(relation, str) else None
        if name is None:
            known = ", ".join(self._relations) or "none"
            raise RelationError(f"no relation is called {relation}; the catalog has: {known}")
        return self._relations[name]

    def view(self, sql: str, key: str | Sequence[str] | None = None) -> View:
        """Declare a view, ``CREATE VIEW name AS SELECT ...``; nothing is computed yet.

        ``key`` names the output columns that point reads and holes go by; by default
        the GROUP BY columns, else the first column. Raises SqlError for SQL that is
        wrong or not supported, ViewError for a name that is taken or a key that is not
        among the output columns.
        """
        view = replace(bind(sql, self._relations, self._views, key), catalog=self)
        if view.plan.height > MAX_HEIGHT:
            raise SqlError(
                f"view {view.name} stands on {view.plan.height - 1} operators, one above the other; "
                f"{MAX_HEIGHT} are the most, so state it over fewer views"
            )
        for kind, names in (("relation", self._relations), ("view", self._views)):
            if find_name(view.name, names) is not None:
                raise ViewError(f"view {view.name}: a {kind} of this catalog has that name; choose another")
        self._views[view.name] = view
        return view

    def owns(self, view: View) -> bool:
        """True where ``view`` was declared in this very catalog."""
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
    """The columns that ``"product STRING, length INT"`` declares for relation ``name``.

    Raises RelationError, naming the relation, where it declares none, one twice, or a
    type that there is not.
    """
    if not isinstance(declaration, str) or not declaration.strip():
        raise RelationError(f'relation {name}: no columns are declared; write {name}="column TYPE, column TYPE"')
    try:
        f"{name} {declaration}".encode()
    except UnicodeEncodeError:
        shown = name.encode(errors="backslashreplace").decode()
        raise RelationError(
            f"relation {shown}: {shorten(declaration)} or the name has a lone surrogate, which is not text; mend it first"
        ) from None
    columns: list[Column] = []
    for part in _split(declaration):
        found = _COLUMN.fullmatch(part)
        kind = None if found is None else _TYPES.get(" ".join(found[3].upper().split()))
        if found is None or kind is None:
            types = ", ".join(t.value for t in Type)
            raise RelationError(f"relation {name}: {part.strip()!r} is no column; write a name and one of {types}")
        column = found[2] or found[1].replace('""', '"')
        if find_name(column, (c.name for c in columns)) is not None:
            raise RelationError(f"relation {name}: column {column} is declared twice; names differ in more than case")
        if column.lower() in RESERVED:
            raise RelationError(f"relation {name}: a column is called {column}, as changes call theirs; rename it")
        columns.append(Column(column, kind))
    if len(columns) > MAX_COLUMNS:
        raise RelationError(f"relation {name}: {len(columns)} columns are more than {MAX_COLUMNS}; split it in two")
    return tuple(columns)


def _split(declaration: str) -> list[str]:
    """The parts between commas that are not inside double quotes."""
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
