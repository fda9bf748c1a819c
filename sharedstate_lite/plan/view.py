"""A named view."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from .explain import explain
from .nodes import Node, Schema


@dataclass(frozen=True)
class View:
    """A named view.

    ``key`` are the output columns (by position) that point reads and holes go by;
    ``unique`` says that no two output rows share a key (it is the GROUP BY list);
    ``uses`` are the views it names, whose plans are subtrees of ``plan``.
    """

    name: str
    sql: str
    plan: Node
    key: tuple[int, ...]
    unique: bool
    uses: tuple[View, ...] = ()
    catalog: Any = field(default=None, compare=False, repr=False)
    """The catalog that declared it: the relations an engine over this view accepts."""

    @property
    def schema(self) -> Schema:
        """The output columns in SELECT order."""
        return self.plan.schema

    def explain(self) -> str:
        """The view in words: its columns and key, then its operators, inputs below the operator that reads them."""
        columns = ", ".join(f"{c.name} {c.type.value}" for c in self.schema)
        key = ", ".join(self.schema[k].name for k in self.key)
        unique = "unique" if self.unique else "not unique"
        return f"view {self.name}({columns}), key ({key}), {unique}\n{explain(self.plan)}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.explain())}</pre>"
