"""Finding the views that a call refers to: the views to install, a view by name, or the view to drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..changelog import convert
from ..errors import RowError, ViewError, shorten
from ..plan.nodes import Scan
from ..plan.view import View
from ..sql.catalog import Catalog
from ..sql.scope import find_name
from ..storage.arrangement import Arrangement
from ..storage.batch import Delta
from ..storage.encoding import Dictionary, Words


def missing_views(views: Sequence[View], installed: Mapping[str, View], catalog: Catalog | None) -> list[View]:
    """Return ``views`` and the views that they read, except those that are installed already.

    Each view is listed after the views that it reads. Raises ViewError if ``views`` contains a view twice, or a view of
    another catalog.
    """
    out: list[View] = []

    def visit(view: View) -> None:
        for below in view.uses:
            visit(below)
        if view.name not in installed and view not in out:
            out.append(view)

    names: set[str] = set()
    for view in views:
        if view.name in names:
            raise ViewError(f"view {view.name} is listed twice; list it once")
        if view.catalog is not catalog:
            raise ViewError(
                f"view {view.name} belongs to another catalog; create all views of an engine in the same catalog"
            )
        names.add(view.name)
        visit(view)
    return out


def views_to_install(view: object, installed: Mapping[str, View], catalog: Catalog | None) -> list[View]:
    """Return the views that must be added to install ``view``, which is the last of them. Raises ViewError.

    ``view`` is a view of the catalog or its name.
    """
    found = _find(view, {} if catalog is None else catalog.views, catalog, "views of the catalog")
    if found.name in installed:
        raise ViewError(f"view {found.name} is already installed; drop it first, or choose another name")
    return missing_views([found], installed, catalog)


def installed_view(view: object, installed: Mapping[str, View], catalog: Catalog | None) -> View:
    """Return the installed view that ``view``, a view or its name, refers to. Raises ViewError if there is none."""
    return _find(view, installed, catalog, "installed views")


def _find(view: object, views: Mapping[str, View], catalog: Catalog | None, what: str) -> View:
    if isinstance(view, View) and view.catalog is not catalog:
        raise ViewError(
            f"view {view.name} belongs to another catalog; pass a name, one of engine.views (a restored engine has "
            "views of its own), or a view created with engine.catalog.view(...)"
        )
    name = view.name if isinstance(view, View) else view
    found = find_name(name, views) if isinstance(name, str) else None
    if found is None:
        raise ViewError(f"there is no view named {name}; {what}: {', '.join(views) or 'none'}")
    return views[found]


def view_to_drop(view: object, installed: Mapping[str, View], catalog: Catalog | None) -> View:
    """Return the installed view to drop. ``view`` is a view or a name. Raises ViewError if another view reads it."""
    found = installed_view(view, installed, catalog)
    above = [v.name for v in installed.values() if found in v.uses]
    if above:
        raise ViewError(f"view {found.name} is read by {', '.join(above)}; drop those views first")
    return found


def key_words(view: View, key: Any, strings: Dictionary) -> Words:
    """Return a key of a view as words int64[len(view.key), 1]. Raises ViewError or RowError if it is not valid."""
    values = tuple(key) if isinstance(key, tuple | list) else (key,)
    columns = [view.schema[i] for i in view.key]
    if len(values) != len(columns):
        names = ", ".join(c.name for c in columns)
        raise ViewError(f"view {view.name}: {shorten(key)} has {len(values)} values, but the key is ({names})")
    name = f"key of {view.name}"
    words = [convert.from_values([v], c, name, strings) for v, c in zip(values, columns, strict=True)]
    return np.stack(words) if words else np.empty((0, 1), dtype=np.int64)


def row_words(view: View, row: Any, strings: Dictionary) -> dict[int, int]:
    """Return the words of a row of a view by column number, without the columns that are ``...``.

    Raises ViewError or RowError if the row does not fit the view's columns.
    """
    names = ", ".join(f"{c.name} {c.type.value}" for c in view.schema)
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(view.schema):
        many = f"has {len(row)} of them" if isinstance(row, tuple | list) else "is no tuple"
        raise ViewError(f"view {view.name}: a row has a value for each column ({names}), but {shorten(row)} {many}")
    name = f"row of {view.name}"
    return {
        i: int(convert.from_values([value], column, name, strings)[0])
        for i, (value, column) in enumerate(zip(row, view.schema, strict=True))
        if value is not ...
    }


def base_rows(view: View, bases: Mapping[str, Arrangement], at: int | None, strings: Dictionary) -> dict[str, Delta]:
    """Return the rows of each base table that a view reads, as of epoch ``at``, each once with its copies."""
    found = {}
    for node in view.plan.walk():
        if isinstance(node, Scan):
            base = bases.get(node.relation)
            found[node.relation] = Delta.empty(len(node.schema)) if base is None else base.contents(at, strings)
    return found


def unreadable(view: View, keys: Words, strings: Dictionary, why: object) -> str:
    """Return an error message for a read of ``keys``, words int64[len(view.key), q], whose rows cannot be computed."""
    columns = [view.schema[i] for i in view.key]
    shown = ", ".join(convert.format_row(key, columns, strings) for key in keys.T[:3])
    more = ", ..." if keys.shape[1] > 3 else ""
    which = f"key {shown}" if keys.shape[1] == 1 else f"one of the keys {shown}{more}"
    return f"view {view.name}: {which} cannot be read: {why}"


def read_error(view: View, keys: Words, strings: Dictionary, why: object) -> RowError:
    """Return the error for such a read if no other call is affected."""
    return RowError(f"{unreadable(view, keys, strings, why)}. No step was lost, and the other keys can be read")
