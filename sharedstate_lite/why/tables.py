"""Computes the output of every operator of a plan from the base tables, with the input rows of each output row.

A row is a position in a :class:`Table`. Equal rows are not merged, except in the groups of a reduce, so a position
knows exactly which positions of the operator's inputs it was computed from. Only rows that can contribute are computed:
a value that is wanted of an output column is also wanted of the input columns that it copies, and of the columns that a
join compares with these.

Source: Cui, Widom and Wiener, Tracing the lineage of view data in a warehousing environment, TODS 2000.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from ..errors import Error
from ..kernels import ReduceState, evaluate
from ..plan.nodes import Col, Filter, Join, Map, Node, Reduce, Scan, Union
from ..storage.batch import Delta
from ..storage.encoding import NULL, Dictionary, Words

MOST = 1_000_000
"""The most rows of all operators together, unless the caller insists."""
Wanted = Mapping[int, int]
"""The word that is wanted of some columns, by column number."""


@dataclass
class Table:
    """The output of an operator: n rows int64[k, n], and how often each of them is there, int64[n].

    ``below[i]`` lists the positions of the input rows from which row i was computed: for a join one of each side (only
    the left one if the row is padded), for a union the number of the part and the position in it, for a reduce all rows
    of the group. A scan has the position of the row in its base table.
    """

    node: Node
    rows: Words
    copies: Words
    below: list[Any]
    inputs: list[Table] = field(default_factory=list)

    def where(self, wanted: Wanted) -> list[int]:
        """The positions of the rows that have the wanted values."""
        keep = np.ones(len(self.copies), dtype=bool)
        for column, word in wanted.items():
            keep &= self.rows[column] == word
        return np.flatnonzero(keep).tolist()

    def only(self, keep: list[int]) -> Table:
        """The table with only the rows at these positions."""
        if len(keep) == len(self.below):
            return self
        return Table(self.node, self.rows[:, keep], self.copies[keep], [self.below[i] for i in keep], self.inputs)


class Tables:
    """The tables of the operators of one plan, over base tables ``bases``, each int64[k, n] with copies int64[n].

    Raises Error if more than ``most`` rows are computed.
    """

    def __init__(self, bases: Mapping[str, Delta], strings: Dictionary, most: float = MOST) -> None:
        self.bases, self.strings, self.most = bases, strings, most
        self._made: dict[tuple[Node, frozenset[tuple[int, int]]], Table] = {}

    def table(self, node: Node, wanted: Wanted) -> Table:
        """The output rows of an operator that have the wanted values."""
        key = node, frozenset(wanted.items())
        if key not in self._made:
            self._made[key] = made = self._table(node, wanted)
            self.most -= len(made.below)
            if self.most < 0:
                raise Error(
                    "why: the operators of this view compute more than a million rows. Ask for a row whose columns "
                    "copy base columns, or pass force=True (--force), which takes more time and memory"
                )
        return self._made[key]

    def _table(self, node: Node, wanted: Wanted) -> Table:
        if isinstance(node, Scan):
            found = Table(node, *self.bases[node.relation], list(range(len(self.bases[node.relation].diffs))))
        elif isinstance(node, Join):
            found = self._join(node, *(self.table(i, w) for i, w in zip(node.inputs, below(node, wanted), strict=True)))
        else:
            inputs = [self.table(each, want) for each, want in zip(node.inputs, below(node, wanted), strict=True)]
            found = self._alone(node, inputs)
        return found.only(found.where(wanted))

    def _alone(self, node: Node, inputs: list[Table]) -> Table:
        if isinstance(node, Union):
            rows = np.concatenate([each.rows for each in inputs], axis=1)
            copies = np.concatenate([each.copies for each in inputs])
            parts = [(part, i) for part, each in enumerate(inputs) for i in range(len(each.below))]
            return Table(node, rows, copies, parts, inputs)
        (source,) = inputs
        every = list(range(len(source.below)))
        if isinstance(node, Filter):
            kept = np.flatnonzero(evaluate(node.predicate, source.rows, self.strings) == 1)
            return Table(node, source.rows[:, kept], source.copies[kept], kept.tolist(), inputs)
        if isinstance(node, Map):
            lines = [evaluate(each, source.rows, self.strings) for each in node.exprs]
            return Table(node, np.array(lines).reshape(len(lines), len(every)), source.copies, every, inputs)
        assert isinstance(node, Reduce)
        members: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i, group in enumerate(_tuples(source.rows, node.keys)):
            members[group].append(i)
        state = ReduceState(node, "why", 1)
        body = state.plan.input.body(source.rows, source.copies, self.strings)
        out = state.reduce_core(body, None, self.strings).delta.rows
        groups = [members[group] for group in _tuples(out, range(len(node.keys)))]
        return Table(node, out, np.ones(len(groups), dtype=np.int64), groups, inputs)

    def _join(self, node: Join, left: Table, right: Table) -> Table:
        partners: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for j, key in enumerate(_tuples(right.rows, node.right_keys)):
            if NULL not in key:
                partners[key].append(j)
        pairs: list[tuple[int, ...]] = []
        for i, key in enumerate(_tuples(left.rows, node.left_keys)):
            found = partners.get(key, ())
            pairs += [(i, j) for j in found]
            if node.outer and not found:
                pairs.append((i,))
        lefts = np.array([pair[0] for pair in pairs], dtype=np.intp)
        whole = np.array([len(pair) == 2 for pair in pairs], dtype=bool)
        rights = np.array([pair[1] for pair in compress(pairs, whole)], dtype=np.intp)
        rows = np.full((len(node.schema), len(pairs)), NULL, dtype=np.int64)
        rows[: len(left.rows)] = left.rows[:, lefts]
        rows[len(left.rows) :, whole] = right.rows[:, rights]
        copies = left.copies[lefts]
        copies[whole] *= right.copies[rights]
        return Table(node, rows, copies, pairs, [left, right])


def below(node: Node, wanted: Wanted, extremes: bool = False) -> list[dict[int, int]]:
    """The values that are wanted of each input of an operator, if values are wanted of its output.

    With ``extremes``, a wanted MAX or MIN is wanted of the column that it is taken of, too.
    """
    if isinstance(node, Union):
        return [dict(wanted) for _ in node.parts]
    if isinstance(node, Map):
        copied = ((node.exprs[column], word) for column, word in wanted.items())
        return [{expr.index: word for expr, word in copied if isinstance(expr, Col)}]
    if isinstance(node, Reduce):
        columns: list[int | None] = [*node.keys]
        columns += [each.arg if extremes and each.fn in ("max", "min") else None for each in node.aggs]
        found = {columns[column]: word for column, word in wanted.items()}
        return [{column: word for column, word in found.items() if column is not None}]
    if not isinstance(node, Join):
        return [dict(wanted) for _ in node.inputs]
    width = len(node.left.schema)
    left = {column: word for column, word in wanted.items() if column < width}
    right = {} if node.outer else {column - width: word for column, word in wanted.items() if column >= width}
    for a, b in zip(node.left_keys, node.right_keys, strict=True):
        if a in left:
            right.setdefault(b, left[a])
        elif b in right and not node.outer:
            left[a] = right[b]
    return [left, right]


def _tuples(rows: Words, columns: Any) -> list[tuple[int, ...]]:
    chosen = [rows[column].tolist() for column in columns]
    return list(zip(*chosen, strict=True)) if chosen else [()] * rows.shape[1]


__all__ = ["MOST", "Table", "Tables", "Wanted", "below"]
