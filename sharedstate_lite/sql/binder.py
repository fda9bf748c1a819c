"""Binds scalar SQL to typed expressions: resolves names and checks types.

`Binder` has one method for each node class in `grammar.ALLOWED` that can occur in an expression. It collects the
aggregates and replaces each of them with a column that has a negative index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ..errors import SqlError
from ..kernels import casts
from ..plan.nodes import Call, Col, Expr, Lit, Type
from .grammar import REWRITE, TYPES, show
from .type_rules import NULL_LITERAL, WIDENING, coerce, common, number_literal, typed_literal

MAX_DEPTH = 100
"""The maximum depth of an expression. It is limited because kernels and plans process expressions recursively."""

_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Max: "max",
    exp.Min: "min",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Count: "count",
}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}


@dataclass(frozen=True)
class Aggregate:
    """The aggregate function ``fn`` over the expression ``arg``. For COUNT(*), ``arg`` is None."""

    fn: str
    arg: Expr | None
    type: Type


@dataclass
class Binder:
    """Binds the expressions of one clause.

    ``column`` is the function that resolves a column name. ``place`` is the clause's name, for error messages.
    ``aggregates`` collects the aggregates, which become columns -1, -2, and so on. It is None if the clause must not
    contain aggregates. ``aliases`` maps aliases to expressions. It is used only for a name that does not resolve to a
    column.
    """

    column: Callable[[exp.Column], Col]
    place: str
    aggregates: list[Aggregate] | None = None
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    depth: int = 0

    def bind(self, node: exp.Expr) -> Expr:
        """Return the typed expression for ``node``. It can be `NULL_LITERAL`.

        Raises SqlError for unknown names and for incompatible types.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SqlError(
                f"an expression in {self.place} is nested over {MAX_DEPTH} levels deep; split it into several views"
            )
        try:
            return self._bind(node)
        finally:
            self.depth -= 1

    def condition(self, nodes: Iterable[exp.Expr]) -> Expr | None:
        """Bind several conditions and combine them with AND. Return None if there are none."""
        return conjunction([self._condition(n) for n in nodes])

    def typed(self, node: exp.Expr) -> Expr:
        """Return the typed expression for ``node``, as `bind` does, but raise SqlError for a NULL without a type."""
        bound = self.bind(node)
        if bound is NULL_LITERAL:
            raise SqlError(f"NULL in {self.place} has no type; cast it, as in CAST(NULL AS STRING)")
        return bound

    def _bind(self, node: exp.Expr) -> Expr:
        kind = type(node)
        if kind is exp.Paren:
            return self.bind(node.this)
        if kind in _COMPARISONS:
            return self._compare(_COMPARISONS[kind], node, node.this, node.expression)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], node)
        if kind in _AGGREGATES:
            return self._aggregate(_AGGREGATES[kind], node)
        if isinstance(node, exp.Query):
            raise SqlError(f"a subquery in {self.place} is not supported: {REWRITE}")
        handler = getattr(self, f"on_{kind.__name__.lower()}", None)
        if handler is None:
            raise SqlError(f"{show(node)} is not allowed in {self.place}: write an expression")
        bound: Expr = handler(node)
        return bound

    # --- names and literals

    def on_column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            raise SqlError(f"{show(node)} is not allowed in {self.place}: list the columns")
        try:
            return self.column(node)
        except SqlError:
            alias = None if node.table else self.aliases.get(node.name.lower())
            if alias is None:
                raise
        return Binder(self.column, self.place, self.aggregates, depth=self.depth).bind(alias)

    def on_literal(self, node: exp.Literal) -> Expr:
        if node.is_string:
            return Lit(node.name, Type.STRING)
        return number_literal(node.name)

    def on_boolean(self, node: exp.Boolean) -> Expr:
        return Lit(bool(node.this), Type.BOOLEAN)

    def _condition(self, node: exp.Expr) -> Expr:
        bound = self.bind(node)
        if bound.type is not Type.BOOLEAN:
            rule = f"; write {show(node)} <> 0" if bound.type.numeric else ""
            raise SqlError(
                f"{show(node)} in {self.place} has type {bound.type.value}, but a condition must be BOOLEAN{rule}"
            )
        return Lit(None, Type.BOOLEAN) if bound is NULL_LITERAL else bound

    def on_null(self, _: exp.Null) -> Expr:
        return NULL_LITERAL

    # --- operators

    def _arithmetic(self, op: str, node: exp.Expr) -> Expr:
        args = [self.bind(node.this), self.bind(node.expression)]
        for arg, side in zip(args, (node.this, node.expression), strict=True):
            if arg is not NULL_LITERAL and not arg.type.numeric:
                raise SqlError(
                    f"{show(side)} in {show(node)} has type {arg.type.value}, but {op} needs numbers; "
                    "CAST it to a numeric type"
                )
        types = [a.type for a in args if a is not NULL_LITERAL] or [Type.INT]
        widest = Type.DOUBLE if op == "/" else max(types, key=WIDENING.index)
        return Call(op, tuple(coerce(a, widest) for a in args), widest)

    def on_neg(self, node: exp.Neg) -> Expr:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number_literal("-" + node.this.name)
        arg = self.bind(node.this)
        if arg is NULL_LITERAL:
            return Lit(None, Type.INT)
        if not arg.type.numeric:
            raise SqlError(
                f"{show(node.this)} has type {arg.type.value}, but - needs a number; CAST it to a numeric type"
            )
        return Call("neg", (arg,), arg.type)

    def _compare(self, op: str, node: exp.Expr, *sides: exp.Expr) -> Expr:
        args = self._alike([self.bind(s) for s in sides], node)
        return Call(op, tuple(args), Type.BOOLEAN)

    def on_and(self, node: exp.Expr) -> Expr:
        kind, parts, pending = type(node), list[exp.Expr](), [node]
        # A chain of ANDs becomes a single call with many arguments, so its depth stays 1.
        while pending:
            part = pending.pop()
            inner = part.unnest()
            if isinstance(inner, kind):
                pending += [inner.expression, inner.this]
            else:
                parts.append(part)
        return Call(kind.__name__.lower(), tuple(map(self._condition, parts)), Type.BOOLEAN)

    on_or = on_and

    def on_not(self, node: exp.Not) -> Expr:
        return Call("not", (self._condition(node.this),), Type.BOOLEAN)

    def on_is(self, node: exp.Is) -> Expr:
        arg = self.bind(node.this)
        return Call("is_null", (arg,), Type.BOOLEAN)

    def on_in(self, node: exp.In) -> Expr:
        args = self._alike([self.bind(a) for a in (node.this, *node.expressions)], node)
        return Call("in", tuple(args), Type.BOOLEAN)

    def on_between(self, node: exp.Between) -> Expr:
        # All three get one type. Otherwise a literal could be a DATE in one comparison and a STRING in the other.
        arg, low, high = self._alike([self.bind(a) for a in (node.this, node.args["low"], node.args["high"])], node)
        return Call("and", (Call(">=", (arg, low), Type.BOOLEAN), Call("<=", (arg, high), Type.BOOLEAN)), Type.BOOLEAN)

    def on_case(self, node: exp.Case) -> Expr:
        conditions, values = [], []
        for branch in node.args["ifs"]:
            if node.this is None:
                conditions.append(self._condition(branch.this))
            else:
                # Each pair of operands gets its own type, as in the SQL standard and in DuckDB.
                conditions.append(self._compare("=", node, node.this, branch.this))
            values.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        values.append(NULL_LITERAL if default is None else self.bind(default))
        values = self._alike(values, node)
        args = [a for pair in zip(conditions, values, strict=False) for a in pair]
        return Call("case", (*args, values[-1]), values[0].type)

    def on_coalesce(self, node: exp.Coalesce) -> Expr:
        args = self._alike([self.bind(a) for a in (node.this, *node.expressions)], node)
        return Call("coalesce", tuple(args), args[0].type)

    def on_cast(self, node: exp.Cast) -> Expr:
        target = TYPES[node.args["to"].this.name]
        arg = self.bind(node.this)
        if arg is NULL_LITERAL:
            return Lit(None, target)
        if target not in casts.ALLOWED[arg.type]:
            raise SqlError(
                f"{show(node)} is not supported: {arg.type.value} cannot be cast to {target.value}{_hint(arg.type)}"
            )
        if isinstance(arg, Lit) and arg.type is Type.STRING and target is not Type.STRING:
            return typed_literal(arg, target)
        return arg if arg.type is target else Call("cast", (arg,), target)

    def _aggregate(self, fn: str, node: exp.Expr) -> Expr:
        if self.aggregates is None:
            raise SqlError(f"{show(node)} is not allowed in {self.place}: use aggregates only in SELECT and HAVING")
        arg: Expr | None = None
        if not (isinstance(node.this, exp.Star) and fn == "count"):
            inside = Binder(self.column, f"the aggregate {show(node)}", depth=self.depth)
            if node.this is None or isinstance(node.this, exp.Star):
                raise SqlError(f"{show(node)} has no argument; only COUNT(*) is allowed without one")
            arg = inside.typed(node.this)
        if fn in ("sum", "avg") and arg is not None and not arg.type.numeric:
            raise SqlError(
                f"{show(node)} needs a number, but its argument has type {arg.type.value}; CAST it to a numeric type"
            )
        if fn == "count" and isinstance(arg, Lit) and arg.value is not None:
            arg = None  # COUNT of a constant other than NULL is the same as COUNT(*).
        aggregate = Aggregate(fn, arg, _result(fn, arg))
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return Col(-1 - self.aggregates.index(aggregate), aggregate.type)

    def _alike(self, args: Sequence[Expr], node: exp.Expr) -> list[Expr]:
        """Return ``args`` cast to their common type. Raises SqlError if there is none."""
        target = common(args)
        if target is None:
            names = " and ".join(dict.fromkeys(a.type.value for a in args if a is not NULL_LITERAL))
            raise SqlError(f"{show(node)} mixes {names}; CAST them to the same type")
        return [coerce(a, target) for a in args]


def conjunction(parts: Sequence[Expr]) -> Expr | None:
    """Return the conditions combined with AND, or None if there are none."""
    flat = [a for p in parts for a in (p.args if isinstance(p, Call) and p.op == "and" else (p,))]
    return Call("and", tuple(flat), Type.BOOLEAN) if len(flat) > 1 else flat[0] if flat else None


def _hint(source: Type) -> str:
    return ", because databases print floats differently" if source is Type.DOUBLE else ""


def _result(fn: str, arg: Expr | None) -> Type:
    """Return the result type of the aggregate ``fn`` over ``arg``."""
    if arg is None or fn == "count":
        return Type.BIGINT
    if fn == "avg":
        return Type.DOUBLE
    if fn == "sum":
        return Type.DOUBLE if arg.type is Type.DOUBLE else Type.BIGINT
    return arg.type
