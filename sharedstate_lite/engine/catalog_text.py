"""The catalog and the views of an engine as JSON-ready text, and back: the part of a checkpoint that is SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..plan.nodes import Column
from ..plan.view import View
from ..sql.catalog import Catalog


class HasViews(Protocol):
    """An engine, with or without rows: a catalog and the installed views."""

    catalog: Catalog
    views: dict[str, View]


def catalog_text(engine: HasViews) -> dict[str, Any]:
    """The declarations of the relations, the SQL of all views (lower ones first), and the names of the installed."""
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
    """The catalog and the installed views of :func:`catalog_text`."""
    catalog = Catalog(**text["catalog"])
    views = {v["name"]: catalog.view(v["sql"], v["key"]) for v in text["views"]}
    return catalog, [views[name] for name in text["installed"]]


def _view_text(view: View) -> dict[str, Any]:
    # A global aggregate has a key of no columns by default; key=[] cannot be declared.
    key = [view.schema[i].name for i in view.key] or None
    return {"name": view.name, "sql": view.sql, "key": key}


def _declaration(schema: tuple[Column, ...]) -> str:
    quoted = ('"' + c.name.replace('"', '""') + '"' for c in schema)
    return ", ".join(f"{name} {c.type.value}" for name, c in zip(quoted, schema, strict=True))
