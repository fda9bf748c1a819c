"""The logical plan of a view: column types, expressions, and six operators.

A plan is an immutable tree. Trees are compared by value, so two views that contain equal subtrees can share the state
of these subtrees. A plan does not contain any data. `sql.compile` builds the plan, `kernels` computes its operators,
and each engine decides what an operator stores.

The operators are the relational core of differential dataflow (McSherry et al., CIDR 2013): filter, map and union are
linear, a join is bilinear, and a reduce needs entire groups. DISTINCT is a reduce without aggregates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any


class Type(Enum):
    """The type of a column. A value of any type is stored as one int64 word (see `storage.encoding`)."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"

    @property
    def numeric(self) -> bool:
        """Whether the type is INT, BIGINT or DOUBLE."""
        return self in (Type.INT, Type.BIGINT, Type.DOUBLE)


@dataclass(frozen=True)
class Column:
    """The name and type of a column. Every column can contain NULL."""

    name: str
    type: Type


Schema = tuple[Column, ...]
"""The columns of a relation or of an operator's output, from left to right."""


# --- expressions -------------------------------------------------------------


@dataclass(frozen=True)
class Col:
    """An expression that reads column number ``index`` of the operator's input."""

    index: int
    type: Type


@dataclass(frozen=True)
class Lit:
    """A constant. ``value`` is None for NULL, days since 1970-01-01 for a DATE, and microseconds for a TIMESTAMP."""

    value: str | int | float | bool | None
    type: Type


@dataclass(frozen=True)
class Call:
    """An operation on expressions.

    ``op`` is one of ``+ - * / % neg = <> < <= > >= and or not is_null case coalesce cast in``. The arguments of
    ``case`` are (condition, value, condition, value, ..., default). The arguments of ``in`` are the value and the
    candidates.
    """

    op: str
    args: tuple[Expr, ...]
    type: Type


Expr = Col | Lit | Call
"""A column, a constant, or an operation on expressions."""


# --- operators ---------------------------------------------------------------


@dataclass(frozen=True, eq=True)
class Node:
    """An operator of a plan. ``schema`` lists its output columns."""

    schema: Schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The operators whose output this operator reads, from left to right."""
        return ()

    @cached_property
    def _hash(self) -> int:
        # Engines look up trees by value at each install. Without this cache, the time is quadratic in the depth.
        return hash((type(self).__name__, *(getattr(self, f) for f in self.__dataclass_fields__)))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        # The hash of a string differs between Python processes, so the cached hash must not be pickled.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def walk(self) -> Iterator[Node]:
        """Yield every operator once. The inputs of an operator come before the operator itself."""
        seen: set[int] = set()
        ahead: list[tuple[Node, bool]] = [(self, False)]
        while ahead:
            node, below = ahead.pop()
            if below:
                yield node
            elif id(node) not in seen:
                # A view that is read twice is one object. Without ``seen``, nested self-joins take exponential time.
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
    """A base relation. ``relation`` is its name in its declared spelling."""

    relation: str
    __hash__ = Node.__hash__


@dataclass(frozen=True, eq=True)
class Filter(Node):
    """Keeps the rows of ``input`` for which ``predicate`` is true. Rows for which it is NULL are dropped."""

    input: Node
    predicate: Expr
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=True)
class Map(Node):
    """A projection. Its output has one column for each expression in ``exprs``."""

    input: Node
    exprs: tuple[Expr, ...]
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=True)
class Join(Node):
    """An equality join. The output columns are the left columns, followed by the right columns.

    Rows match if their columns ``left_keys[i]`` and ``right_keys[i]`` are equal for every i. NULL does not equal
    anything. There is at least one key. If ``outer`` is true, the join is a LEFT JOIN: a left row without a match is
    emitted once, padded with NULL.
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
    """The aggregate ``fn``: max, min, sum, count or avg. ``arg`` is an input column number, or None for COUNT(*)."""

    fn: str
    arg: int | None
    type: Type


@dataclass(frozen=True, eq=True)
class Reduce(Node):
    """Groups its input by the columns ``keys``. The output columns are the keys, followed by the aggregates.

    Without aggregates, it is a DISTINCT. Without keys, it is a global aggregate, which always outputs one row.
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
    """UNION ALL of its inputs: the multiplicities of equal rows are added. All inputs have the same column types."""

    parts: tuple[Node, ...]
    __hash__ = Node.__hash__

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


def digest(node: Node) -> str:
    """Return a hash of a plan as 16 hexadecimal digits. Equal plans have the same digest in every process."""
    return hashlib.sha256(repr(node).encode()).hexdigest()[:16]
