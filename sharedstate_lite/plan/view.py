"""A view: a name, its SQL, its plan and its key."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from .explain import explain
from .nodes import Node, Schema


@dataclass(frozen=True)
class View:
    """A named view. ``catalog.view(sql)`` makes one.

    ``key`` lists the positions of the output columns that a point read looks up. ``unique`` is True if no two output
    rows have the same key. ``uses`` are the views that the SQL names; their plans are subtrees of ``plan``.
    """

    name: str
    sql: str
    plan: Node
    key: tuple[int, ...]
    unique: bool
    uses: tuple[View, ...] = ()
    catalog: Any = field(default=None, compare=False, repr=False)
    """The catalog that declared the view. An engine over the view accepts rows for the catalog's relations."""

    @property
    def schema(self) -> Schema:
        """The output columns in SELECT order."""
        return self.plan.schema

    def explain(self) -> str:
        """Return the columns, the key and the plan as text, inputs indented below the operator that reads them."""
        columns = ", ".join(f"{c.name} {c.type.value}" for c in self.schema)
        key = ", ".join(self.schema[k].name for k in self.key)
        unique = "unique" if self.unique else "not unique"
        return f"view {self.name}({columns}), key ({key}), {unique}\n{explain(self.plan)}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.explain())}</pre>"
