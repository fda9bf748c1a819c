"""`why_not`: where the candidates of a row that a view does not have ended.

The values that are wanted of the row go down from the view to the tables, through columns that are copies, through MAX
and MIN, and from one side of a join to the other. The candidates of an operator are the rows of its inputs that have
the values which are wanted of them. The first operator with candidates in its inputs and none in its output is where
the row ended.

Source: Chapman and Jagadish, Why not?, SIGMOD 2009.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import Any

import numpy as np

from ..kernels import evaluate
from ..plan.explain import aggregate, expression
from ..plan.nodes import Call, Filter, Join, Map, Node, Reduce, Scan, Union
from ..plan.view import View
from ..storage.batch import Delta
from ..storage.encoding import NULL, Dictionary
from . import tables as computed
from .reasons import BaseRow, Reasons
from .tables import Wanted, below
from .words import names, row_shown, shown, source, value, values, wanted_shown

MOST, SORTED = 3, 1_000
"""How many rows are named where many ended in the same way, and among how many they are the first ones."""


@dataclass(frozen=True)
class Ended:
    """Where candidates ended: the operator, and a sentence.

    ``asks_for`` is a row that would be a candidate: a table, and pairs of a column and its value. It is None if no
    table lacks a row.
    """

    operator: str
    sentence: str
    asks_for: tuple[str, tuple[tuple[str, Any], ...]] | None = None

    def __str__(self) -> str:
        return f"{self.operator}: {self.sentence}"


@dataclass(frozen=True)
class WhyNot:
    """Why a view has no row with these values; ``...`` stands for any value, and None is NULL.

    ``there`` is true if it has one. Then ``rows`` has the first of them, and ``more`` is the number of the others.
    """

    view: str
    row: tuple[Any, ...]
    epoch: int
    there: bool
    ended: tuple[Ended, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    more: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the row with "..." for any value, the epoch, whether it is there, where it ended, and ``rows``."""
        ended = [
            {
                "operator": e.operator,
                "sentence": e.sentence,
                "asks_for": e.asks_for and [e.asks_for[0], dict(e.asks_for[1])],
            }
            for e in self.ended
        ]
        row = ["..." if each is ... else each for each in self.row]
        rows = {"rows": [*map(list, self.rows)], "more": self.more}
        return {"row": row, "epoch": self.epoch, "there": self.there, "ended": ended, **rows}

    def __str__(self) -> str:
        row = row_shown(self.row)
        if self.there:
            found = ", ".join(map(row_shown, self.rows)) + f" and {self.more:,} more" * bool(self.more)
            return f"{row} is there: {self.view} has {found} as of epoch {self.epoch}"
        return "\n".join([f"{self.view} has no {row} as of epoch {self.epoch}:", *(f"  {e}" for e in self.ended)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def why_not(
    view: View, wanted: Wanted, bases: Mapping[str, Delta], epoch: int, strings: Dictionary, force: bool = False
) -> WhyNot:
    """Return where the candidates of a row of a view ended.

    ``wanted`` has the words of some columns; the others may have any value. ``bases`` has the rows of every base table,
    each once, with its copies. Raises Error if more than a million rows would be computed, unless ``force`` is true.
    """
    made = computed.Tables(bases, strings, float("inf") if force else computed.MOST)
    search = _Search(made, strings)
    asked = tuple(value(wanted[i], column, strings) if i in wanted else ... for i, column in enumerate(view.schema))
    if made.table(view.plan, wanted).below:
        first, more = search.first(view.plan, wanted)
        rows = tuple(values(row, view.schema, strings) for row in first)
        return WhyNot(view.name, asked, epoch, there=True, rows=rows, more=more)
    return WhyNot(view.name, asked, epoch, False, tuple(dict.fromkeys(search.ended(view.plan, wanted))))


class _Search:
    """Goes down to where candidates ended. ``made`` computes the tables of the operators."""

    def __init__(self, made: computed.Tables, strings: Dictionary) -> None:
        self.made, self.strings = made, strings

    def ended(self, node: Node, wanted: Wanted) -> list[Ended]:
        """Where the candidates ended of an operator whose output has no row with the wanted values."""
        if isinstance(node, Scan):
            return [self._scan(node, wanted)]
        if isinstance(node, Join):
            return self._join(node, wanted)
        if isinstance(node, Reduce):
            return self._reduce(node, wanted)
        needs = below(node, wanted)
        found = [each for source, need in zip(node.inputs, needs, strict=True) for each in self._empty(source, need)]
        if found or isinstance(node, Union):
            return found
        (source,), (need,) = node.inputs, needs
        candidates, more = self.first(source, need)
        if isinstance(node, Filter):
            said = [self._filtered(node, row) for row in candidates]
            return [Ended(_condition(node), each) for each in (*said, *_others(source, more))]
        assert isinstance(node, Map)
        said = [self._computed(node, wanted, row) for row in candidates]
        return [Ended("SELECT", each) for each in (*said, *_others(source, more))]

    def _empty(self, node: Node, wanted: Wanted) -> list[Ended]:
        return [] if self.made.table(node, wanted).below else self.ended(node, wanted)

    def first(self, node: Node, wanted: Wanted) -> tuple[list[Any], int]:
        """A few different rows of an operator's output, and how many others there are.

        They are in the order of their values unless there are many.
        """
        different = dict.fromkeys(map(tuple, self.made.table(node, wanted).rows.T.tolist()))
        rows = [np.array(row, dtype=np.int64) for row in islice(different, SORTED + 1)]
        if len(rows) <= SORTED:
            rows.sort(key=lambda row: [(each is None, each) for each in values(row, node.schema, self.strings)])
        return rows[:MOST], max(len(different) - MOST, 0)

    def _row(self, node: Node, row: Any) -> str:
        return row_shown(values(row, node.schema, self.strings))

    def _from(self, table: computed.Table) -> str:
        """The base rows from which a row of an operator is computed."""
        bags = Reasons(self.made.bases, self.strings).of(table, range(min(len(table.below), SORTED)))
        schemas = {node.relation: node.schema for node in table.node.walk() if isinstance(node, Scan)}

        def said(row: BaseRow) -> str:
            name, at = row
            return f"{name} {row_shown(values(self.made.bases[name].rows[:, at], schemas[name], self.strings))}"

        return min((len(bag.rows), ", ".join(sorted(map(said, bag.rows)))) for bag in bags)[1]

    def _scan(self, node: Scan, wanted: Wanted) -> Ended:
        columns = ((node.schema[i], word) for i, word in sorted(wanted.items()))
        asks = tuple((column.name, value(word, column, self.strings)) for column, word in columns)
        lacks = f" with {wanted_shown(node, wanted, self.strings)}" if wanted else ""
        return Ended(f"table {node.relation}", f"no row of {node.relation}{lacks}", (node.relation, asks))

    def _filtered(self, node: Filter, row: Any) -> str:
        parts = node.predicate.args if isinstance(node.predicate, Call) and node.predicate.op == "and" else ()
        for part in parts or (node.predicate,):
            (word,) = evaluate(part, row[:, None], self.strings).tolist()
            if word != 1:
                text = expression(part, names(node.input))
                return f"{text} is {'NULL' if word == NULL else 'false'} for {self._row(node.input, row)}"
        raise AssertionError("a filter drops a row only if a condition is not true")

    def _computed(self, node: Map, wanted: Wanted, row: Any) -> str:
        for column, word in wanted.items():
            (is_now,) = evaluate(node.exprs[column], row[:, None], self.strings).tolist()
            if is_now != word:
                now, asked = (shown(value(each, node.schema[column], self.strings)) for each in (is_now, word))
                text = expression(node.exprs[column], names(node.input))
                return f"{text} is {now}, not {asked}, for {self._row(node.input, row)}"
        raise AssertionError("a projection has a row for each of its input")

    def _join(self, node: Join, wanted: Wanted) -> list[Ended]:
        width = len(node.left.schema)
        left, right = below(node, wanted)
        asked = {column - width: word for column, word in wanted.items() if column >= width}
        on = f"{'LEFT ' * node.outer}JOIN on {', '.join(names(node.left)[a] for a in node.left_keys)}"
        if node.outer and all(word == NULL for word in asked.values()):
            return self._empty(node.left, left) or [Ended(on, each) for each in self._padded(node, left)]
        right = asked | right
        for a, b in zip(node.left_keys, node.right_keys, strict=True):
            both = {column: wanted[column] for column in (a, width + b) if column in wanted}
            if NULL in both.values():
                empty = next(names(node)[column] for column, word in both.items() if word == NULL)
                return [Ended(on, f"{empty} is NULL, and NULL equals nothing")]
            if len({*both.values()}) == 2:
                return [Ended(on, f"{wanted_shown(node, both, self.strings)} are not equal")]
            if b in right:
                left.setdefault(a, right[b])
        if found := [*self._empty(node.left, left), *self._empty(node.right, right)]:
            return found
        sides = [
            (node.left, left, node.left_keys, node.right, right, node.right_keys),
            (node.right, right, node.right_keys, node.left, left, node.left_keys),
        ]
        return [Ended(on, sentence, asks) for side in sides for sentence, asks in self._partners(*side)]

    def _padded(self, node: Join, wanted: Wanted) -> Iterable[str]:
        """Say which partners some left rows of a LEFT JOIN have, so that they are not padded with NULL."""
        rows, more = self.first(node.left, wanted)
        for row in rows:
            key = {b: int(row[a]) for a, b in zip(node.left_keys, node.right_keys, strict=True)}
            (partner, *_), _ = self.first(node.right, key)
            yield f"{self._row(node.left, row)} has a partner: {self._row(node.right, partner)}"
        yield from _others(node.left, more)

    def _partners(
        self, node: Node, wanted: Wanted, keys: Any, other: Node, need: Wanted, other_keys: Any
    ) -> Iterable[tuple[str, Any]]:
        """Say of some candidates of one side why they have no partner on the other."""
        rows, more = self.first(node, wanted)
        for row in rows:
            key = {b: int(row[a]) for a, b in zip(keys, other_keys, strict=True)}
            if NULL in key.values():
                empty = next(names(node)[a] for a in keys if row[a] == NULL)
                yield f"{self._row(node, row)} has no partner: {empty} is NULL, and NULL equals nothing", None
                continue
            for each in self.ended(other, {**need, **key}):
                yield f"{self._row(node, row)} has no partner: {each.sentence}", each.asks_for
        yield from ((each, None) for each in _others(node, more))

    def _reduce(self, node: Reduce, wanted: Wanted) -> list[Ended]:
        known = {column: word for column, word in wanted.items() if column < len(node.keys) or word != NULL}
        (need,), (nearer,) = below(node, wanted), below(node, known, extremes=True)
        if node.keys and not self.made.table(node.input, need).below:
            return self.ended(node.input, nearer)
        keys = {column: word for column, word in wanted.items() if column < len(node.keys)}
        groups, more = self.first(node, keys)
        said = [self._value(node, wanted, row) for row in groups]
        said += [Ended(said[-1].operator, each) for each in _others(node, more)]
        if nearer != need and not self.made.table(node.input, nearer).below:
            said = [*said, *self.ended(node.input, nearer)]
        return said

    def _value(self, node: Reduce, wanted: Wanted, group: Any) -> Ended:
        """Say which value of a group is not the wanted one, and for MAX and MIN which row is in its way."""
        known, k = names(node.input), len(node.keys)
        keys = {column: int(group[i]) for i, column in enumerate(node.keys)}
        of = f" of {wanted_shown(node.input, keys, self.strings)}" if keys else ""
        for i, agg in enumerate(node.aggs, k):
            if i not in wanted or group[i] == wanted[i]:
                continue
            now, asked = (value(int(each), node.schema[i], self.strings) for each in (group[i], wanted[i]))
            text = aggregate(agg, known).upper() if agg.arg is None else f"{agg.fn.upper()}({known[agg.arg]})"
            sentence = f"{text}{of} is {shown(now)}, not {shown(asked)}"
            if agg.fn in ("max", "min") and agg.arg is not None and asked is not None:
                there = self.made.table(node.input, keys | {agg.arg: wanted[i]}).below
                if there and now is not None:
                    size = "larger" if agg.fn == "max" else "smaller"
                    rows = self._from(self.made.table(node.input, keys | {agg.arg: int(group[i])}))
                    what = f"{shown(asked)} is there, but {shown(now)} is {size}: {rows}"
                    return Ended(f"{text}{of}", what)
            return Ended(f"GROUP BY{' ' * bool(keys)}{', '.join(known[c] for c in node.keys)}", sentence)
        raise AssertionError("a group without the wanted values has another value")


def _condition(node: Filter) -> str:
    """A condition in words. One on the output of a reduce with aggregates is that of HAVING."""
    text, source = expression(node.predicate, names(node.input)), node.input
    while isinstance(source, Filter):
        source = source.input
    grouped = isinstance(source, Reduce) and source.aggs
    return f"condition after grouping ({text})" if grouped else f"WHERE {text}"


def _others(node: Node, more: int) -> list[str]:
    """Say how many rows of an operator's output are not named."""
    return [f"and {more:,} more row{'s' * (more != 1)} of {source(node)}"] if more else []


__all__ = ["Ended", "WhyNot", "why_not"]
