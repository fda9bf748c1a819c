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
from typing import Any

from ..kernels import evaluate
from ..plan.explain import aggregate, expression
from ..plan.nodes import Call, Filter, Join, Map, Node, Reduce, Scan, Union
from ..plan.view import View
from ..storage.batch import Delta
from ..storage.encoding import NULL, Dictionary, Words
from . import tables as computed
from .reasons import BaseRow, Reasons
from .tables import Wanted, below
from .words import names, row_shown, shown, value, values, wanted_shown

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
    """Why a view has no row with these values; None stands for any value. ``there`` is true if it has one."""

    view: str
    row: tuple[Any, ...]
    epoch: int
    there: bool
    ended: tuple[Ended, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the row, the epoch, whether it is there, and where it ended as a list of objects."""
        ended = [
            {
                "operator": e.operator,
                "sentence": e.sentence,
                "asks_for": e.asks_for and [e.asks_for[0], dict(e.asks_for[1])],
            }
            for e in self.ended
        ]
        return {"row": list(self.row), "epoch": self.epoch, "there": self.there, "ended": ended}

    def __str__(self) -> str:
        row = f"({', '.join('any' if each is None else shown(each) for each in self.row)})"
        if self.there:
            return f"{row} is there: {self.view} has it as of epoch {self.epoch}"
        return "\n".join([f"{self.view} has no {row} as of epoch {self.epoch}:", *(f"  {e}" for e in self.ended)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def why_not(
    view: View, row: Words, bases: Mapping[str, Delta], epoch: int, strings: Dictionary, force: bool = False
) -> WhyNot:
    """Return where the candidates of a row int64[k] of a view ended. A word that is NULL stands for any value.

    ``bases`` has the rows of every base table, each once, with its copies. Raises Error if more than a million rows
    would be computed, unless ``force`` is true.
    """
    made = computed.Tables(bases, strings, float("inf") if force else computed.MOST)
    wanted, asked = {i: word for i, word in enumerate(row.tolist()) if word != NULL}, values(row, view.schema, strings)
    if made.table(view.plan, wanted).below:
        return WhyNot(view.name, asked, epoch, there=True)
    return WhyNot(view.name, asked, epoch, False, tuple(dict.fromkeys(_Search(made, strings).ended(view.plan, wanted))))


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
        candidates = self._first(source, need)
        if isinstance(node, Filter):
            said = [self._filtered(node, row) for row in candidates]
            return [Ended(f"WHERE {expression(node.predicate, names(source))}", each) for each in said]
        assert isinstance(node, Map)
        said = [self._computed(node, wanted, row) for row in candidates]
        return [Ended("SELECT", each) for each in said]

    def _empty(self, node: Node, wanted: Wanted) -> list[Ended]:
        return [] if self.made.table(node, wanted).below else self.ended(node, wanted)

    def _first(self, node: Node, wanted: Wanted) -> list[Any]:
        """A few rows of an operator's output, in the order of their values unless there are many."""
        rows = list(self.made.table(node, wanted).rows.T)
        if len(rows) <= SORTED:
            rows.sort(key=lambda row: [(each is None, each) for each in values(row, node.schema, self.strings)])
        return rows[:MOST]

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
        right = {column - width: word for column, word in wanted.items() if column >= width} | right
        if found := [*self._empty(node.left, left), *self._empty(node.right, right)]:
            return found
        sides = [
            (node.left, left, node.left_keys, node.right, right, node.right_keys),
            (node.right, right, node.right_keys, node.left, left, node.left_keys),
        ]
        on = ", ".join(names(node.left)[a] for a in node.left_keys)
        return [
            Ended(f"{'LEFT ' * node.outer}JOIN on {on}", sentence, asks)
            for side in sides
            for sentence, asks in self._partners(*side)
        ]

    def _partners(
        self, node: Node, wanted: Wanted, keys: Any, other: Node, need: Wanted, other_keys: Any
    ) -> Iterable[tuple[str, Any]]:
        """Say of some candidates of one side why they have no partner on the other."""
        for row in self._first(node, wanted):
            key = {b: int(row[a]) for a, b in zip(keys, other_keys, strict=True)}
            if NULL in key.values():
                empty = next(names(node)[a] for a in keys if row[a] == NULL)
                yield f"{self._row(node, row)} has no partner: {empty} is NULL, and NULL equals nothing", None
                continue
            for each in self.ended(other, {**need, **key}):
                yield f"{self._row(node, row)} has no partner: {each.sentence}", each.asks_for

    def _reduce(self, node: Reduce, wanted: Wanted) -> list[Ended]:
        (need,), (nearer,) = below(node, wanted), below(node, wanted, extremes=True)
        if node.keys and not self.made.table(node.input, need).below:
            return self.ended(node.input, nearer)
        keys = {column: word for column, word in wanted.items() if column < len(node.keys)}
        said = [self._value(node, wanted, row) for row in self._first(node, keys)]
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
            if agg.fn in ("max", "min") and agg.arg is not None:
                there = self.made.table(node.input, keys | {agg.arg: wanted[i]}).below
                if there and now is not None:
                    size = "larger" if agg.fn == "max" else "smaller"
                    rows = self._from(self.made.table(node.input, keys | {agg.arg: int(group[i])}))
                    what = f"{shown(asked)} is there, but {shown(now)} is {size}: {rows}"
                    return Ended(f"{text}{of}", what)
            return Ended(f"GROUP BY{' ' * bool(keys)}{', '.join(known[c] for c in node.keys)}", sentence)
        raise AssertionError("a group without the wanted values has another value")


__all__ = ["Ended", "WhyNot", "why_not"]
