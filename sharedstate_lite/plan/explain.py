"""Converts plans to text: an expression becomes SQL, and a plan becomes an indented tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

from ..errors import RowError
from .nodes import Agg, Call, Col, Expr, Filter, Join, Lit, Map, Node, Reduce, Scan, Type, Union

_INFIX = frozenset({"+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">="})


def expression(expr: Expr, names: Sequence[str]) -> str:
    """Return ``expr`` as SQL text. ``names[i]`` is the name of input column i."""
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
        return f"{lit.type.value} '{value_text(int(lit.value), lit.type)}'"
    return str(lit.value).upper() if lit.type is Type.BOOLEAN else str(lit.value)


def aggregate(agg: Agg, names: Sequence[str]) -> str:
    """Return an aggregate as SQL text. ``names[i]`` is the name of input column i."""
    return f"{agg.fn}({'*' if agg.arg is None else names[agg.arg]})"


def explain(plan: Node) -> str:
    """Return a plan as text with one operator per line. The inputs of an operator are indented below it."""
    lines: list[str] = []
    pending = [(plan, 0)]
    while pending:
        node, depth = pending.pop()
        lines.append("  " * depth + _operator(node))
        pending += [(n, depth + 1) for n in reversed(node.inputs)]
    return "\n".join(lines)


def _operator(node: Node) -> str:
    if isinstance(node, Scan):
        return f"scan {node.relation}({', '.join(f'{c.name} {c.type.value}' for c in node.schema)})"
    if isinstance(node, Union):
        return "union all"
    names = column_names(node if isinstance(node, Join) else node.inputs[0])
    if isinstance(node, Filter):
        return f"filter {expression(node.predicate, names)}"
    if isinstance(node, Map):
        parts = (_as(expression(e, names), c.name) for e, c in zip(node.exprs, node.schema, strict=True))
        return f"map {', '.join(parts)}"
    if isinstance(node, Join):
        width = len(node.left.schema)
        pairs = zip(node.left_keys, node.right_keys, strict=True)
        on = " AND ".join(f"{names[a]} = {names[width + b]}" for a, b in pairs)
        return f"{'left join' if node.outer else 'join'} on {on}"
    assert isinstance(node, Reduce)
    aggs = [_as(aggregate(a, names), c.name) for a, c in zip(node.aggs, node.schema[len(node.keys) :], strict=True)]
    keys = ", ".join(_as(names[k], c.name) for k, c in zip(node.keys, node.schema, strict=False))
    if not aggs:
        return f"distinct {keys}"
    return f"reduce {', '.join(aggs)}" + (f" by {keys}" if keys else "")


def column_names(node: Node) -> list[str]:
    """Return the names of the output columns. Columns with the same name are prefixed with their table."""
    names = [c.name for c in node.schema]
    count = Counter(n.lower() for n in names)
    seen: Counter[str] = Counter()
    tables: list[str] = []
    for leaf in _leaves(node):
        seen[leaf_name := _kind(leaf)] += 1
        number = f"#{seen[leaf_name]}" if seen[leaf_name] > 1 else ""
        tables += [leaf_name + number] * len(leaf.schema)
    return [f"{t}.{n}" if count[n.lower()] > 1 else n for t, n in zip(tables, names, strict=True)]


def _leaves(node: Node) -> Iterator[Node]:
    """Yield the operators below the joins and filters of ``node``, from left to right."""
    if isinstance(node, (Join, Filter)):
        for source in node.inputs:
            yield from _leaves(source)
    else:
        yield node


def _kind(node: Node) -> str:
    if isinstance(node, Map) and isinstance(node.input, Scan):
        return node.input.relation
    return node.relation if isinstance(node, Scan) else type(node).__name__.lower()


def _as(text: str, name: str) -> str:
    return text if text == name else f"{text} AS {name}"


def value_text(value: int, source: Type) -> str:
    """Convert an int64 word of type ``source``, which must not be STRING or DOUBLE, to text.

    Raises RowError for a DATE or TIMESTAMP outside the years 1 to 9999.
    """
    if source is Type.BOOLEAN:
        return "true" if value else "false"
    try:
        if source is Type.DATE:
            return str(date(1970, 1, 1) + timedelta(days=value))
        if source is Type.TIMESTAMP:
            whole, dot, fraction = str(datetime(1970, 1, 1) + timedelta(microseconds=value)).partition(".")
            return whole + dot + fraction.rstrip("0")
    except OverflowError as error:
        raise RowError(
            f"{source.value} {value} is outside the years 1 to 9999, so it cannot be converted to text"
        ) from error
    return str(value)
