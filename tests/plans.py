"""An interpreter of plans for tests: rows are tuples, operators are loops, and there is no state.

It shares only `kernels.expr` with the engines. If its answer is right and an engine's is not, the plan is right.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from sqlgen import value, word

from sharedstate_lite.kernels.expr import evaluate
from sharedstate_lite.plan.nodes import Agg, Expr, Filter, Join, Map, Node, Reduce, Scan, Type, Union
from sharedstate_lite.plan.view import View
from sharedstate_lite.storage.encoding import NULL, Dictionary

Row = tuple[int, ...]


def interpret(view: View, tables: dict[str, list[tuple[Any, ...]]]) -> pd.DataFrame:
    """Return the view over rows of Python values, as a frame of objects."""
    strings = Dictionary()
    rows = _run(view.plan, tables, strings)
    values = [[value(w, c.type, strings) for w, c in zip(row, view.schema, strict=True)] for row in rows]
    return pd.DataFrame(values, columns=[c.name for c in view.schema], dtype=object)


def _run(node: Node, tables: dict[str, list[tuple[Any, ...]]], strings: Dictionary) -> list[Row]:
    inputs = [_run(n, tables, strings) for n in node.inputs]
    if isinstance(node, Scan):
        kinds = [c.type for c in node.schema]
        return [tuple(word(v, k, strings) for v, k in zip(row, kinds, strict=True)) for row in tables[node.relation]]
    if isinstance(node, Union):
        return [row for part in inputs for row in part]
    if isinstance(node, Filter):
        keep = _values(node.predicate, inputs[0], node.input, strings)
        return [row for row, word in zip(inputs[0], keep, strict=True) if word == 1]
    if isinstance(node, Map):
        columns = [_values(e, inputs[0], node.input, strings) for e in node.exprs]
        return list(zip(*columns, strict=True))
    if isinstance(node, Join):
        return _join(node, *inputs)
    assert isinstance(node, Reduce)
    groups: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for row in inputs[0]:
        groups.setdefault(tuple(row[k] for k in node.keys), []).append(row)
    return [key + tuple(_aggregate(a, rows, node.input, strings) for a in node.aggs) for key, rows in groups.items()]


def _values(expr: Expr, rows: list[Row], source: Node, strings: Dictionary) -> list[int]:
    matrix = np.array(rows, dtype=np.int64).reshape(len(rows), len(source.schema)).T.copy()
    return evaluate(expr, matrix, strings).tolist()


def _join(node: Join, left: list[Row], right: list[Row]) -> list[Row]:
    out = []
    for a in left:
        key = [a[k] for k in node.left_keys]
        found = [b for b in right if [b[k] for k in node.right_keys] == key and NULL not in key]
        padding = [(NULL,) * len(node.right.schema)] if node.outer and not found else []
        out += [a + b for b in found + padding]
    return out


def _aggregate(agg: Agg, rows: list[Row], source: Node, strings: Dictionary) -> int:
    if agg.arg is None:
        return len(rows)
    kind = source.schema[agg.arg].type
    values = [value(r[agg.arg], kind, strings) for r in rows if r[agg.arg] != NULL]
    if agg.fn == "count":
        return len(values)
    if not values:
        return NULL
    if agg.fn in ("max", "min"):
        return word((max if agg.fn == "max" else min)(values), kind, strings)
    total = math.fsum(values) if kind is Type.DOUBLE else sum(values)
    return word(total / len(values) if agg.fn == "avg" else total, agg.type, strings)
