"""Column pruning: a join's inputs are projected to the columns that are read above it.

Full state stores the inputs of each join. A column that the rest of the plan does not read would only make that state
larger, and rows that are equal without it are stored once, with a count. Flink's planner projects in the same way
(``ProjectJoinTransposeRule`` of Apache Calcite). Shared state does not prune, because the readers that may come later
need all columns.

>>> from sharedstate_lite.plan.explain import explain
>>> from sharedstate_lite.sql.catalog import Catalog
>>> catalog = Catalog(info="product STRING, category STRING", visit="product STRING, user STRING, length INT")
>>> view = catalog.view('''CREATE VIEW v AS SELECT category, MAX(length) AS top
...                        FROM info JOIN visit USING (product) GROUP BY category''')
>>> print(explain(prune(view.plan)))
reduce max(length) AS top by category
  map category, length
    join on info.product = visit.product
      scan info(product STRING, category STRING)
      map product, length
        scan visit(product STRING, user STRING, length INT)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .nodes import Call, Col, Expr, Filter, Join, Map, Node, Reduce, Scan, Union


def prune(plan: Node, kept: Iterable[Node] = (), chains: bool = True) -> Node:
    """Return an equivalent plan in which the inputs of each join have only the columns that are read above.

    The output has the columns of ``plan``, in the same order. The subtrees ``kept`` stay as they are, because they are
    views of their own. If ``chains`` is false, a join directly below another inner join is not projected: a multi-way
    join does not store its output.
    """
    return _prune(plan, frozenset(range(len(plan.schema))), frozenset(kept), chains)[0]


Moved = dict[int, int]
"""Maps the position of a column before pruning to its position afterwards."""


def _prune(node: Node, needed: frozenset[int], kept: frozenset[Node], chains: bool) -> tuple[Node, Moved]:
    """Return the pruned ``node``, which has at least the columns ``needed``, and where its columns have moved."""
    if node in kept or isinstance(node, Scan):
        return node, {i: i for i in range(len(node.schema))}
    if isinstance(node, Filter):
        below, moved = _prune(node.input, needed | _columns(node.predicate), kept, chains)
        return Filter(below.schema, below, _renumber(node.predicate, moved)), moved
    if isinstance(node, Map):
        used = sorted(needed) or [0]
        read = frozenset[int]().union(*(_columns(node.exprs[i]) for i in used))
        below, moved = _prune(node.input, read, kept, chains)
        exprs = tuple(_renumber(node.exprs[i], moved) for i in used)
        return Map(tuple(node.schema[i] for i in used), below, exprs), {old: new for new, old in enumerate(used)}
    if isinstance(node, Join):
        return _join(node, needed, kept, chains)
    if isinstance(node, Reduce):
        read = frozenset(node.keys) | {a.arg for a in node.aggs if a.arg is not None}
        below, moved = _prune(node.input, read, kept, chains)
        aggs = tuple(a if a.arg is None else replace(a, arg=moved[a.arg]) for a in node.aggs)
        return Reduce(node.schema, below, tuple(moved[k] for k in node.keys), aggs), _same(node)
    assert isinstance(node, Union)
    return Union(node.schema, tuple(prune(part, kept, chains) for part in node.parts)), _same(node)


def _join(node: Join, needed: frozenset[int], kept: frozenset[Node], chains: bool) -> tuple[Node, Moved]:
    width = len(node.left.schema)
    left_needed = frozenset(i for i in needed if i < width) | frozenset(node.left_keys)
    right_needed = frozenset(i - width for i in needed if i >= width) | frozenset(node.right_keys)
    left, left_moved = _prune(node.left, left_needed, kept, chains)
    right, right_moved = _prune(node.right, right_needed, kept, chains)
    if chains or node.outer or not isinstance(left, Join) or left.outer:
        left, left_moved = _project(left, left_moved, left_needed)
    right, right_moved = _project(right, right_moved, right_needed)
    moved = left_moved | {width + old: len(left.schema) + new for old, new in right_moved.items()}
    schema = tuple(node.schema[old] for old in sorted(moved, key=moved.__getitem__))
    left_keys = tuple(left_moved[k] for k in node.left_keys)
    right_keys = tuple(right_moved[k] for k in node.right_keys)
    return Join(schema, left, right, left_keys, right_keys, node.outer), moved


def _project(node: Node, moved: Moved, needed: frozenset[int]) -> tuple[Node, Moved]:
    """Put a projection to the columns ``needed`` above ``node``, unless it has no others."""
    if len(needed) == len(node.schema):
        return node, moved
    columns = [moved[i] for i in sorted(needed)]
    exprs = tuple(Col(i, node.schema[i].type) for i in columns)
    schema = tuple(node.schema[i] for i in columns)
    return Map(schema, node, exprs), {old: new for new, old in enumerate(sorted(needed))}


def _columns(expr: Expr) -> frozenset[int]:
    if isinstance(expr, Call):
        return frozenset[int]().union(*map(_columns, expr.args))
    return frozenset([expr.index]) if isinstance(expr, Col) else frozenset()


def _renumber(expr: Expr, moved: Moved) -> Expr:
    if isinstance(expr, Call):
        return replace(expr, args=tuple(_renumber(each, moved) for each in expr.args))
    return Col(moved[expr.index], expr.type) if isinstance(expr, Col) else expr


def _same(node: Node) -> Moved:
    return {i: i for i in range(len(node.schema))}
