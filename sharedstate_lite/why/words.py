"""Rows, columns and operators in words, for the explanations of `why` and `why_not`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..changelog.convert import to_arrow
from ..plan.explain import column_names
from ..plan.nodes import Column, Filter, Join, Map, Node, Scan
from ..storage.encoding import NULL, Dictionary, Words


def values(words: Words, schema: Sequence[Column], strings: Dictionary) -> tuple[Any, ...]:
    """Return a row int64[k] as Python values; NULL is None."""
    return tuple(value(int(word), column, strings) for word, column in zip(words, schema, strict=True))


def value(word: int, column: Column, strings: Dictionary) -> Any:
    """Return one word of a column as a Python value; NULL is None."""
    return to_arrow(np.array([word], dtype=np.int64), column.type, strings)[0].as_py()


def shown(each: Any) -> str:
    """Return a value in words. A text has no quotes, and ``...`` is any value.

    >>> shown(None), shown("Nut"), shown(True), shown(...)
    ('NULL', 'Nut', 'true', 'any')
    """
    if each is ...:
        return "any"
    if each is None:
        return "NULL"
    return str(each).lower() if isinstance(each, bool) else str(each)


def row_shown(row: Sequence[Any]) -> str:
    """Return a row in words, such as "(Potato, Ann, 60)"."""
    return f"({', '.join(map(shown, row))})"


def names(node: Node) -> list[str]:
    """The names of an operator's output columns."""
    return column_names(node) if isinstance(node, Join | Filter) else [column.name for column in node.schema]


def wanted_shown(node: Node, wanted: Mapping[int, int], strings: Dictionary) -> str:
    """Return the values that are wanted of an operator's columns in words, such as "product = Nut and length = 60"."""
    known = names(node)
    parts = (
        f"{known[i]} IS NULL" if word == NULL else f"{known[i]} = {shown(value(word, node.schema[i], strings))}"
        for i, word in sorted(wanted.items())
    )
    return " and ".join(parts)


def source(node: Node) -> str:
    """Return the name of the table that a filter or a projection reads, or words for the output of an operator."""
    while isinstance(node, Filter | Map):
        node = node.input
    return node.relation if isinstance(node, Scan) else f"the {type(node).__name__.lower()}'s output"


def no_partner(node: Join, left: Words, strings: Dictionary) -> str:
    """Say why a left row int64[k] of a LEFT JOIN has no partner.

    For example, "no row of visit with product = Pea".
    """
    keys = {b: int(left[a]) for a, b in zip(node.left_keys, node.right_keys, strict=True)}
    if NULL in keys.values():
        empty = [names(node.left)[a] for a in node.left_keys if left[a] == NULL]
        return f"{empty[0]} is NULL, and NULL equals nothing"
    return f"no row of {source(node.right)} with {wanted_shown(node.right, keys, strings)}"
