"""Compiles ``CREATE VIEW name AS SELECT ...`` into a plan.

The clauses of a SELECT become operators, from the bottom up: joins, a filter for WHERE, a reduce for GROUP BY, a filter
for HAVING, a map for the SELECT list, and a reduce for DISTINCT. A map is added below a reduce only if the reduce reads
a join or computed columns. A view in FROM is replaced by its own operators, so all views over it share its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import SqlError, ViewError
from ..kernels.expr import remap
from ..plan import explain
from ..plan.nodes import Agg, Call, Col, Column, Expr, Filter, Join, Lit, Map, Node, Reduce, Schema, Type, Union
from ..plan.view import View
from .binder import Aggregate, Binder, conjunction
from .grammar import show
from .joins import FromClause
from .parse import TOO_DEEP, parse
from .scope import ColumnRef, Scope, check_width
from .type_rules import coerce, common

RESERVED = ("time", "diff")
"""Column names that are reserved, because a DataFrame of changes has these columns in addition to the relation's."""


@dataclass(frozen=True)
class Bound:
    """A bound query: its plan and what is known about its key.

    ``key`` lists the output columns that are the GROUP BY columns. It is empty for an aggregate without GROUP BY. It is
    None for other queries without GROUP BY, and for queries that do not select all GROUP BY columns.
    """

    node: Node
    key: tuple[int, ...] | None = None
    distinct: tuple[int, ...] | None = None
    """Output columns whose combination is unique, or None if no such columns are known."""


def bind(
    text: str,
    relations: Mapping[str, Schema],
    views: Mapping[str, View],
    key: str | Sequence[str] | None = None,
) -> View:
    """Return the view that ``text`` declares over ``relations`` and ``views``.

    ``key`` names the output columns that point reads look up. The default is the GROUP BY columns if all of them are
    selected, no column for an aggregate without GROUP BY, and the first column otherwise. Raises SqlError or ViewError.
    """
    try:
        name, query = parse(text)
    except RecursionError as error:
        raise SqlError(TOO_DEEP) from error
    try:
        reader = _Reader(relations, views)
        bound = reader.query(query)
        _check_output(bound.node)
        # Compute the hash now, so that it is cached for the views that are declared over this one.
        hash(bound.node)
    except RecursionError as error:
        raise SqlError(f"view {name}: {TOO_DEEP}") from error
    except SqlError as error:
        raise type(error)(f"view {name}: {error}") from error.__cause__
    columns, unique = _key(name, bound, key)
    return View(name, text, bound.node, columns, unique, tuple(reader.uses.values()))


def _check_output(plan: Node) -> None:
    for column in plan.schema:
        if column.name.lower() in RESERVED:
            raise SqlError(f"the output column name {column.name} is reserved; rename the column with AS")


def _key(name: str, bound: Bound, key: str | Sequence[str] | None) -> tuple[tuple[int, ...], bool]:
    schema = bound.node.schema
    if key is None:
        columns = (0,) if bound.key is None else bound.key
    else:
        named = key if isinstance(key, Iterable) and not isinstance(key, str) else [key]
        columns = tuple(_position(name, schema, k) for k in named)
        if len(set(columns)) < len(columns):
            raise ViewError(f"view {name}: its key lists a column twice; list each column once")
        if not columns and bound.key != ():
            raise ViewError(
                f"view {name}: its key is empty; name a column (only an aggregate without GROUP BY needs none)"
            )
    return columns, bound.distinct is not None and set(bound.distinct) <= set(columns)


def _position(name: str, schema: Schema, column: str) -> int:
    for i, c in enumerate(schema):
        if isinstance(column, str) and c.name.lower() == column.lower():
            return i
    known = ", ".join(c.name for c in schema)
    raise ViewError(f"view {name}: its key lists {column!r}, which is not an output column; the columns are: {known}")


@dataclass
class _Reader:
    """Binds the query of one view. ``uses`` collects the views that the query names."""

    relations: Mapping[str, Schema]
    views: Mapping[str, View]
    uses: dict[str, View] = field(default_factory=dict)

    def query(self, node: exp.Expr) -> Bound:
        """Bind a SELECT or a UNION ALL, with or without parentheses around it."""
        if isinstance(node, exp.Subquery):
            return self.query(node.this)
        if isinstance(node, exp.Union):
            return self._union(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        raise SqlError(f"{show(node)} is not a query; write a SELECT, or several with UNION ALL")

    # --- UNION ALL

    def _union(self, node: exp.Union) -> Bound:
        branches, pending = list[exp.Expr](), [node]
        while pending:
            part = pending.pop()
            while isinstance(part, exp.Subquery):
                part = part.this
            if isinstance(part, exp.Union):
                pending += [part.expression, part.this]
            else:
                branches.append(part)
        parts = [self.query(b).node for b in branches]
        first = parts[0].schema
        if any(len(p.schema) != len(first) for p in parts):
            counts = " and ".join(str(len(p.schema)) for p in parts)
            raise SqlError(f"the SELECTs of UNION ALL have {counts} columns; select the same number in each")
        types = []
        for i, column in enumerate(first):
            kinds = [p.schema[i].type for p in parts]
            target = common([Col(i, t) for t in kinds])
            if target is None or target not in kinds or (len(set(kinds)) > 1 and not target.numeric):
                names = " and ".join(dict.fromkeys(t.value for t in kinds))
                raise SqlError(f"UNION ALL mixes {names} in column {column.name}; CAST it to one type in every SELECT")
            types.append(target)
        schema = tuple(Column(c.name, t) for c, t in zip(first, types, strict=True))
        return Bound(Union(schema, tuple(_widened(p, types) for p in parts)))

    # --- SELECT

    def _select(self, node: exp.Select) -> Bound:
        if node.args.get("from_") is None:
            raise SqlError("a SELECT without FROM is not supported: a view must read at least one relation")
        source = FromClause(Scope(self.relations, self.views))
        source.read(node)
        scope = source.scope
        for used in scope.sources:
            if used.view is not None:
                self.uses[used.view.name] = used.view
        where = node.args.get("where")
        source.where(None if where is None else where.this)
        tree, offsets, unchecked = source.tree()
        select = _Select(tree, scope, offsets)
        parts: list[Expr] = [Call("=", (select.col(e.left), select.col(e.right)), Type.BOOLEAN) for e in unchecked]
        for condition in source.rest:
            bound = select.binder(condition.clause, condition.among).condition([condition.node])
            parts += [] if bound is None else [bound]
        predicate = conjunction(parts)
        if predicate is not None:
            select.input = Filter(tree.schema, tree, predicate)
        return select.read(node)


@dataclass
class _Select:
    """Binds one SELECT.

    ``input`` is the plan of its FROM and WHERE. ``offsets`` maps each table's number to the position of its first
    column in the output of ``input``.
    """

    input: Node
    scope: Scope
    offsets: Mapping[int, int]
    aggregates: list[Aggregate] = field(default_factory=list)

    def col(self, place: ColumnRef) -> Col:
        """Return the column of the input that ``place`` refers to."""
        return Col(self.offsets[place.source] + place.column, self.scope.column(place).type)

    def binder(self, clause: str, among: range | None = None) -> Binder:
        """Return a binder for ``clause``, which can use columns of the tables numbered ``among`` (None means all)."""
        return Binder(lambda c: self.col(self.scope.find(c.name, c.table, among)), clause)

    def read(self, node: exp.Select) -> Bound:
        """Bind the SELECT list, GROUP BY, HAVING and DISTINCT, and return the bound query."""
        items = self._items(node)
        names = [name for name, _ in items]
        _check_names(names)
        aliases = {e.alias.lower(): e.this for e in node.expressions if isinstance(e, exp.Alias)}
        keys = self._keys(node, aliases)
        having = node.args.get("having")
        condition = None
        if having is not None:
            binder = self.binder("HAVING")
            binder.aggregates, binder.aliases = self.aggregates, aliases
            condition = binder.condition([having.this])
        exprs = [expr for _, expr in items]
        distinct = node.args.get("distinct") is not None
        if not keys and not self.aggregates:
            if having is not None:
                raise SqlError("HAVING needs GROUP BY or an aggregate; write WHERE instead")
            if not distinct:
                return Bound(_map(self.input, exprs, names))
            keys = list(dict.fromkeys(exprs))
            after = [self._after(e, keys) for e in exprs]
            return Bound(_map(self._reduce(keys, names, after), after, names), distinct=tuple(range(len(names))))
        after = [self._after(e, keys) for e in exprs]
        reduced = self._reduce(keys, names, after)
        if condition is not None:
            reduced = Filter(reduced.schema, reduced, self._after(condition, keys))
        out = _map(reduced, after, names)
        groups = [after.index(k) for i, e in enumerate(keys) if (k := Col(i, e.type)) in after]
        if len(groups) == len(keys):
            return Bound(out, tuple(groups), tuple(groups))
        if distinct:
            every = tuple(range(len(names)))
            return Bound(Reduce(out.schema, out, every, ()), distinct=every)
        return Bound(out)

    def _items(self, node: exp.Select) -> list[tuple[str, Expr]]:
        """Return the name and the expression of each output column, with ``*`` expanded."""
        items: list[tuple[str, Expr]] = []
        for item in node.expressions:
            bare = item.unnest()
            if isinstance(item, exp.Star):
                items += [(self.scope.column(p).name, self.col(p)) for p in self.scope.star()]
            elif isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star):
                items += [(self.scope.column(p).name, self.col(p)) for p in self.scope.star(bare.table)]
            elif isinstance(bare, exp.Column):
                place = self.scope.find(bare.name, bare.table)
                items.append((self.scope.column(place).name, self.col(place)))
            elif isinstance(item, exp.Alias):
                binder = self.binder("SELECT")
                binder.aggregates = self.aggregates
                items.append((item.alias, binder.typed(item.this)))
            else:
                raise SqlError(f"{show(item)} has no name; write {show(item)} AS name")
        return items

    def _keys(self, node: exp.Select, aliases: Mapping[str, exp.Expr]) -> list[Expr]:
        """Return the GROUP BY expressions without duplicates."""
        keys: list[Expr] = []
        group = node.args.get("group")
        for item in [] if group is None else group.expressions:
            bare = item.unnest()
            if isinstance(bare, exp.Literal) and not bare.is_string:
                raise SqlError(f"GROUP BY {show(item)} (a position) is not supported: name the column")
            binder = self.binder("GROUP BY")
            if isinstance(bare, exp.Column):
                binder.aliases = aliases
            key = binder.typed(bare)
            if isinstance(key, Lit):
                raise SqlError(f"GROUP BY {show(item)} (a constant) is not supported: a key must use a column")
            keys.append(key)
        return list(dict.fromkeys(keys))

    def _after(self, expr: Expr, keys: list[Expr]) -> Expr:
        """Return ``expr`` rewritten to read the output of the reduce, whose columns are the keys and the aggregates."""
        if expr in keys:
            return Col(keys.index(expr), expr.type)
        if isinstance(expr, Col):
            if expr.index < 0:
                return Col(len(keys) - 1 - expr.index, expr.type)
            name = self.input.schema[expr.index].name
            raise SqlError(
                f"{name} is neither in GROUP BY nor in an aggregate, so a group can have several values of it"
            )
        if isinstance(expr, Call):
            return Call(expr.op, tuple(self._after(a, keys) for a in expr.args), expr.type)
        return expr

    def _reduce(self, keys: list[Expr], names: list[str], after: Sequence[Expr]) -> Node:
        """Return the reduce. It reads a map if keys or aggregate arguments are computed, or if the input is a join."""
        needed = list(dict.fromkeys([*keys, *(a.arg for a in self.aggregates if a.arg is not None)]))
        base = self.input
        while isinstance(base, Filter):
            base = base.input
        bare = all(isinstance(e, Col) for e in needed)
        text = [c.name for c in self.input.schema]
        if needed and (not bare or isinstance(base, Join)):
            below = _map(self.input, needed, [explain.expression(e, text) for e in needed])
            at = {e: i for i, e in enumerate(needed)}
        else:
            below = self.input
            at = {e: e.index for e in needed if isinstance(e, Col)}
        aggs = tuple(Agg(a.fn, None if a.arg is None else at[a.arg], a.type) for a in self.aggregates)
        inner = [c.name for c in below.schema]
        columns = [
            *(Column(inner[at[k]], k.type) for k in keys),
            *(Column(explain.aggregate(a, inner), a.type) for a in aggs),
        ]
        # The reduce gets the output names, so that it does not need a map above it just to rename columns.
        for i, column in enumerate(columns):
            named = [n for n, e in zip(names, after, strict=True) if e == Col(i, column.type)]
            if named:
                columns[i] = Column(named[0], column.type)
        return Reduce(check_width(tuple(columns)), below, tuple(at[k] for k in keys), aggs)


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise SqlError(f"two output columns are called {name}; rename one with AS")
        seen.add(name.lower())


def _map(node: Node, exprs: Sequence[Expr], names: Sequence[str]) -> Node:
    """Return a map of ``node`` to ``exprs``, or ``node`` itself if the map would not change anything."""
    schema = check_width(tuple(Column(n, e.type) for n, e in zip(names, exprs, strict=True)))
    same = all(isinstance(e, Col) and e.index == i for i, e in enumerate(exprs))
    return node if same and schema == node.schema else Map(schema, node, tuple(exprs))


def _widened(node: Node, types: Sequence[Type]) -> Node:
    """Return ``node``, a branch of a UNION ALL, with its columns cast to ``types``."""
    if [c.type for c in node.schema] == list(types):
        return node
    casts = [coerce(Col(i, c.type), t) for i, (c, t) in enumerate(zip(node.schema, types, strict=True))]
    names = [c.name for c in node.schema]
    if isinstance(node, Map):
        return _map(node.input, [remap(c, node.exprs) for c in casts], names)
    return _map(node, casts, names)
