"""Conversion of the catalog and the views of an engine to text in a checkpoint's JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..plan.nodes import Column
from ..plan.view import View
from ..sql.catalog import Catalog


class HasViews(Protocol):
    """An object with a catalog and installed views, such as an engine."""

    catalog: Catalog
    views: dict[str, View]


def catalog_text(engine: HasViews) -> dict[str, Any]:
    """Return the declarations of the relations, the SQL of all views, and the names of the installed views.

    Each view is listed after the views that it reads.
    """
    views: dict[str, View] = {}

    def visit(view: View) -> None:
        for below in view.uses:
            visit(below)
        views.setdefault(view.name, view)

    for view in engine.views.values():
        visit(view)
    return {
        "catalog": {name: _declaration(schema) for name, schema in engine.catalog.relations.items()},
        "views": [_view_text(v) for v in views.values()],
        "installed": list(engine.views),
    }


def read_catalog(text: Mapping[str, Any]) -> tuple[Catalog, list[View]]:
    """Return the catalog and the installed views that :func:`catalog_text` converted to ``text``."""
    catalog = Catalog(**text["catalog"])
    views = {v["name"]: catalog.view(v["sql"], v["key"]) for v in text["views"]}
    return catalog, [views[name] for name in text["installed"]]


def _view_text(view: View) -> dict[str, Any]:
    # The key of an aggregate without GROUP BY is empty by default. It is stored as None, because key=[] is not allowed.
    key = [view.schema[i].name for i in view.key] or None
    return {"name": view.name, "sql": view.sql, "key": key}


def _declaration(schema: tuple[Column, ...]) -> str:
    quoted = ('"' + c.name.replace('"', '""') + '"' for c in schema)
    return ", ".join(f"{name} {c.type.value}" for name, c in zip(quoted, schema, strict=True))
