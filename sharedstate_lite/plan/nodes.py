"""A view as a tree of operators: what SQL becomes, and what every engine runs.

Holds the column types, the expressions and the six operators. Holds no data and
computes nothing: :mod:`..sql.compile` builds these trees, :mod:`..kernels.expr` evaluates the
expressions, the three strategies turn the operators into state. Trees are
immutable and compare by value, so two views that ask for the same subtree can be
seen to do so (that is all that sharing needs).

The operator set is the relational core of a differential dataflow (McSherry et
al., CIDR 2013): linear operators (filter, map, union), bilinear ones (join), and
those that need whole groups (reduce). DISTINCT is a reduce without aggregates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any


class Type(Enum):
    """A column type. Values of every type are carried as one int64 word (see :mod:`..storage.encoding`)."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"

    @property
    def numeric(self) -> bool:
        """True for INT, BIGINT and DOUBLE."""
        return self in (Type.INT, Type.BIGINT, Type.DOUBLE)


@dataclass(frozen=True)
class Column:
    """A named, typed column. Every column may hold NULL."""

    name: str
    type: Type


Schema = tuple[Column, ...]


# --- expressions -------------------------------------------------------------


@dataclass(frozen=True)
class Col:
    """Column ``index`` of the operator's input."""

    index: int
    type: Type


@dataclass(frozen=True)
class Lit:
    """A constant: str, int, float, bool, or None for NULL. Dates count days, timestamps microseconds, since 1970."""

    value: str | int | float | bool | None
    type: Type


@dataclass(frozen=True)
class Call:
    """An operation on expressions.

    ``op`` is one of ``+ - * / % neg = <> < <= > >= and or not is_null case coalesce
    cast in``. ``case`` has (condition, value, condition, value, ..., otherwise);
    ``in`` has (needle, candidate, ...).
    """

    op: str
    args: tuple[Expr, ...]
    type: Type


Expr = Col | Lit | Call


# --- operators ---------------------------------------------------------------


@dataclass(frozen=True, eq=True)
class Node:
    """An operator. ``schema`` is what it emits; ``inputs`` are the operators it reads."""

    schema: Schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The operators this one reads, left to right."""
        return ()

    @cached_property
    def _hash(self) -> int:
        # Trees are looked up by value at every install; without a cache that is quadratic in depth.
        return hash((type(self).__name__, *(getattr(self, f) for f in self.__dataclass_fields__)))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        # Strings hash differently in each process, so a hash does not travel.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def walk(self) -> Iterator[Node]:
        """Every operator of the tree once, inputs before the operators that read them."""
        seen: set[int] = set()
        ahead: list[tuple[Node, bool]] = [(self, False)]
        while ahead:
            node, below = ahead.pop()
            if below:
                yield node
            elif id(node) not in seen:
                # A view that is read twice is one object: a tree of self-joins would double with each level.
                seen.add(id(node))
                ahead += [(node, True), *((each, False) for each in reversed(node.inputs))]

    @property
    def height(self) -> int:
        """Operators on the longest way from a relation up to this one."""
        heights: dict[int, int] = {}
        for node in self.walk():
            heights[id(node)] = 1 + max((heights[id(each)] for each in node.inputs), default=0)
        return heights[id(self)]


@dataclass(frozen=True, eq=True)
class Scan(Node):
    """A base relation."""

    relation: str
    __hash__ = Node.__hash__


@dataclass(frozen=True, eq=True)
class Filter(Node):
    """Rows of ``input`` for which ``predicate`` (BOOLEAN) is true; NULL is not true."""

    input: Node
    predicate: Expr
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=True)
class Map(Node):
    """One output column per expression (SQL's projection)."""

    input: Node
    exprs: tuple[Expr, ...]
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=True)
class Join(Node):
    """Equality join; the output is the left columns, then the right ones.

    ``left_keys[i] = right_keys[i]`` for every i; NULL equals nothing. ``outer``
    keeps left rows without a partner, padded with NULL (LEFT JOIN). Empty keys are
    refused by :mod:`..sql.compile`.
    """

    left: Node
    right: Node
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    outer: bool = False
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Agg:
    """An aggregate: ``fn`` is max, min, sum, count or avg; ``arg`` an input column, None for COUNT(*)."""

    fn: str
    arg: int | None
    type: Type


@dataclass(frozen=True, eq=True)
class Reduce(Node):
    """GROUP BY input columns ``keys``: the output is the keys, then the aggregates.

    No aggregates make a DISTINCT. No keys make a global aggregate, which always has
    one row.
    """

    input: Node
    keys: tuple[int, ...]
    aggs: tuple[Agg, ...]
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=True)
class Union(Node):
    """UNION ALL: the inputs' rows, multiplicities added. All inputs have equal column types."""

    parts: tuple[Node, ...]
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


def digest(node: Node) -> str:
    """A short name for a tree, the same in every process."""
    return hashlib.sha256(repr(node).encode()).hexdigest()[:16]
