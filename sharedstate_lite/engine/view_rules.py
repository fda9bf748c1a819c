"""Finding the views that a call refers to: the views to install, a view by name, or the view to drop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..changelog import convert
from ..errors import ViewError, shorten
from ..plan.view import View
from ..sql.catalog import Catalog
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
            raise ViewError(f"view {view.name} belongs to another catalog; create it in the catalog of this engine")
        names.add(view.name)
        visit(view)
    return out


def views_to_install(view: object, installed: Mapping[str, View], catalog: Catalog | None) -> list[View]:
    """Return the views that must be added to install ``view``, each after the views that it reads. Raises ViewError."""
    if not isinstance(view, View):
        raise ViewError(f"install needs a view made by catalog.view(...), not {type(view).__name__}")
    if view.name in installed:
        raise ViewError(f"view {view.name} is already installed; drop it first, or choose another name")
    return missing_views([view], installed, catalog)


def view_named(name: object, installed: Mapping[str, View]) -> View:
    """Return the installed view with this name, ignoring case. Raises ViewError if there is none."""
    for view in installed.values():
        if isinstance(name, str) and view.name.lower() == name.lower():
            return view
    raise ViewError(f"there is no view named {name}; installed views: {', '.join(installed) or 'none'}")


def view_to_drop(view: object, installed: Mapping[str, View], catalog: Catalog | None) -> View:
    """Return the installed view to drop. ``view`` is a view or a name. Raises ViewError if another view reads it."""
    if isinstance(view, View) and view.catalog is not catalog:
        raise ViewError(f"view {view.name} belongs to another catalog; to drop the view installed here, pass its name")
    found = view_named(view.name if isinstance(view, View) else view, installed)
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
