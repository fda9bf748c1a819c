"""The logical plan of a view: column types, expressions, and six operators.

A plan is an immutable tree, and a tree equals another one by value. So two views that contain the same subtree can
share its state. A plan holds no data: `sql.compile` builds it, `kernels` compute its operators, and each engine decides
what an operator stores.

The operators are the relational core of differential dataflow (McSherry et al., CIDR 2013): filter, map and union are
linear, a join is bilinear, and a reduce needs whole groups. DISTINCT is a reduce without aggregates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any


class Type(Enum):
    """A column type. A value of any type is stored as one int64 word (see `storage.encoding`)."""

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
    """A constant. None is NULL; a DATE counts days and a TIMESTAMP microseconds since 1970-01-01."""

    value: str | int | float | bool | None
    type: Type


@dataclass(frozen=True)
class Call:
    """An operation on expressions.

    ``op`` is one of ``+ - * / % neg = <> < <= > >= and or not is_null case coalesce cast in``. The arguments of
    ``case`` are (condition, value, condition, value, ..., default), those of ``in`` are (needle, candidate, ...).
    """

    op: str
    args: tuple[Expr, ...]
    type: Type


Expr = Col | Lit | Call


# --- operators ---------------------------------------------------------------


@dataclass(frozen=True, eq=True)
class Node:
    """An operator. ``schema`` lists the columns of its output."""

    schema: Schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The operators whose output this one reads, left to right."""
        return ()

    @cached_property
    def _hash(self) -> int:
        # Engines look trees up by value at each install. Without this cache that is quadratic in the depth.
        return hash((type(self).__name__, *(getattr(self, f) for f in self.__dataclass_fields__)))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        # Python hashes strings differently in each process, so the cached hash must not be pickled.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def walk(self) -> Iterator[Node]:
        """Yield every operator once, inputs before the operators that read them."""
        seen: set[int] = set()
        ahead: list[tuple[Node, bool]] = [(self, False)]
        while ahead:
            node, below = ahead.pop()
            if below:
                yield node
            elif id(node) not in seen:
                # A view that is read twice is one object. Self-joins of self-joins have exponentially many paths.
                seen.add(id(node))
                ahead += [(node, True), *((each, False) for each in reversed(node.inputs))]

    @property
    def height(self) -> int:
        """The number of operators on the longest path from a base relation to this one."""
        heights: dict[int, int] = {}
        for node in self.walk():
            heights[id(node)] = 1 + max((heights[id(each)] for each in node.inputs), default=0)
        return heights[id(self)]


@dataclass(frozen=True, eq=True)
class Scan(Node):
    """A base relation, under its name as declared."""

    relation: str
    __hash__ = Node.__hash__


@dataclass(frozen=True, eq=True)
class Filter(Node):
    """The rows of ``input`` for which ``predicate`` (BOOLEAN) is true. NULL is not true."""

    input: Node
    predicate: Expr
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=True)
class Map(Node):
    """A projection: one output column per expression."""

    input: Node
    exprs: tuple[Expr, ...]
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=True)
class Join(Node):
    """An equality join. The output is the left columns, then the right columns.

    Rows match if ``left_keys[i] = right_keys[i]`` for every i; NULL equals nothing. There is at least one key. With
    ``outer``, a left row without a match is emitted once, padded with NULL (LEFT JOIN).
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
    """An aggregate: ``fn`` is max, min, sum, count or avg, ``arg`` an input column or None for COUNT(*)."""

    fn: str
    arg: int | None
    type: Type


@dataclass(frozen=True, eq=True)
class Reduce(Node):
    """GROUP BY the input columns ``keys``. The output is the keys, then the aggregates.

    Without aggregates it is a DISTINCT. Without keys it is a global aggregate, whose output is always one row.
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
    """UNION ALL: the rows of all inputs, multiplicities added. The inputs have the same column types."""

    parts: tuple[Node, ...]
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


def digest(node: Node) -> str:
    """Return a short name of a plan, the same in every process."""
    return hashlib.sha256(repr(node).encode()).hexdigest()[:16]
