"""Contains `View`, which combines the name, the SQL, the plan and the key of a view."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from .explain import explain
from .nodes import Node, Schema


@dataclass(frozen=True)
class View:
    """A named view. Call ``catalog.view(sql)`` to create one.

    ``key`` lists the positions of the output columns that a point read looks up. ``unique`` is True if it is known that
    no two output rows have the same key. ``uses`` contains the views that the SQL names. Their plans are subtrees of
    ``plan``.
    """

    name: str
    sql: str
    plan: Node
    key: tuple[int, ...]
    unique: bool
    uses: tuple[View, ...] = ()
    catalog: Any = field(default=None, compare=False, repr=False)
    """The catalog in which the view was declared. An engine with this view accepts rows for the catalog's relations."""

    @property
    def schema(self) -> Schema:
        """The names and types of the output columns, in SELECT order."""
        return self.plan.schema

    def explain(self) -> str:
        """Return the view's columns, its key and its plan as text. The inputs of an operator are indented below it."""
        columns = ", ".join(f"{c.name} {c.type.value}" for c in self.schema)
        key = ", ".join(self.schema[k].name for k in self.key)
        unique = "unique" if self.unique else "not unique"
        return f"view {self.name}({columns}), key ({key}), {unique}\n{explain(self.plan)}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.explain())}</pre>"
