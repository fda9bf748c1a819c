"""Plans as text: expressions as SQL, operators as an indented tree."""

from __future__ import annotations

from collections.abc import Sequence

from . import casts
from .plan import Agg, Call, Col, Expr, Filter, Join, Lit, Map, Node, Reduce, Scan, Schema, Type, Union

_INFIX = frozenset({"+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">="})


def expression(expr: Expr, names: Sequence[str]) -> str:
    """``expr`` as SQL, with column i called ``names[i]``."""
    if isinstance(expr, Col):
        return names[expr.index]
    if isinstance(expr, Lit):
        return _literal(expr)
    args = [expression(a, names) for a in expr.args]
    if expr.op in _INFIX:
        left, right = (
            f"({t})" if isinstance(a, Call) and a.op in _INFIX else t for a, t in zip(expr.args, args, strict=True)
        )
        return f"{left} {expr.op} {right}"
    if expr.op in ("and", "or"):
        return f" {expr.op.upper()} ".join(
            f"({t})" if isinstance(a, Call) and a.op in ("and", "or") else t
            for a, t in zip(expr.args, args, strict=True)
        )
    return _call(expr, args)


def _call(expr: Call, args: list[str]) -> str:
    if expr.op == "case":
        whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(args[:-1:2], args[1::2], strict=True))
        return f"CASE {whens} ELSE {args[-1]} END"
    if expr.op == "cast":
        return f"CAST({args[0]} AS {expr.type.value})"
    if expr.op == "is_null":
        return f"({args[0]}) IS NULL" if isinstance(expr.args[0], Call) else f"{args[0]} IS NULL"
    if expr.op == "in":
        return f"{args[0]} IN ({', '.join(args[1:])})"
    if expr.op in ("not", "neg"):
        sign = "NOT " if expr.op == "not" else "-"
        return f"{sign}({args[0]})" if isinstance(expr.args[0], Call) else sign + args[0]
    return f"{expr.op.upper()}({', '.join(args)})"


def _literal(lit: Lit) -> str:
    if lit.value is None:
        return "NULL"
    if lit.type is Type.STRING:
        return "'" + str(lit.value).replace("'", "''") + "'"
    if lit.type in (Type.DATE, Type.TIMESTAMP):
        return f"{lit.type.value} '{casts.text(int(lit.value), lit.type)}'"
    return str(lit.value).upper() if lit.type is Type.BOOLEAN else str(lit.value)


def aggregate(agg: Agg, names: Sequence[str]) -> str:
    """An aggregate as SQL."""
    return f"{agg.fn}({'*' if agg.arg is None else names[agg.arg]})"


def explain(plan: Node) -> str:
    """The operator tree of a plan, one operator a line, inputs indented below the operator that reads them."""
    lines: list[str] = []
    pending = [(plan, 0)]
    while pending:
        node, depth = pending.pop()
        lines.append("  " * depth + _operator(node))
        pending += [(n, depth + 1) for n in reversed(node.inputs)]
    return "\n".join(lines)


def _operator(node: Node) -> str:
    if isinstance(node, Scan):
        return f"scan {node.relation}({_columns(node.schema)})"
    if isinstance(node, Union):
        return "union all"
    names = _qualified(node) if isinstance(node, Join) else [c.name for c in node.inputs[0].schema]
    if isinstance(node, Filter):
        return f"filter {expression(node.predicate, names)}"
    if isinstance(node, Map):
        return "map " + ", ".join(
            _as(expression(e, names), c.name) for e, c in zip(node.exprs, node.schema, strict=True)
        )
    if isinstance(node, Join):
        width = len(node.left.schema)
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        on = " AND ".join(f"{names[a]} = {names[width + b]}" for a, b in pairs)
        return f"{'left join' if node.outer else 'join'} on {on}"
    assert isinstance(node, Reduce)
    aggs = [_as(aggregate(a, names), c.name) for a, c in zip(node.aggs, node.schema[len(node.keys) :], strict=True)]
    keys = ", ".join(names[k] for k in node.keys)
    if not aggs:
        return f"distinct {keys}"
    return f"reduce {', '.join(aggs)}" + (f" by {keys}" if keys else "")


def _qualified(join: Join) -> list[str]:
    names = [c.name for c in join.schema]
    width = len(join.left.schema)
    both = {n.lower() for n in names[:width]} & {n.lower() for n in names[width:]}
    left, right = _source(join.left, "left"), _source(join.right, "right")
    if left == right:
        left, right = "left", "right"
    return [f"{left if i < width else right}.{n}" if n.lower() in both else n for i, n in enumerate(names)]


def _source(node: Node, other: str) -> str:
    return node.relation if isinstance(node, Scan) else other


def _as(text: str, name: str) -> str:
    return text if text == name else f"{text} AS {name}"


def _columns(schema: Schema) -> str:
    return ", ".join(f"{c.name} {c.type.value}" for c in schema)
