"""`why`: the reasons of a row, each replayed, as an object that prints itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..plan.nodes import Join, Reduce, Scan, Union
from ..plan.view import View
from ..storage.batch import Delta
from ..storage.encoding import Dictionary
from . import tables as computed
from .reasons import MOST, Bag, BaseRow, Reasons
from .tables import Wanted
from .words import row_shown, values

LONG = 20
"""How many rows of a reason are shown."""


@dataclass(frozen=True)
class Because:
    """One base row of a reason.

    ``copies`` is how many copies the reason has, and ``stored`` how many the table has. ``all`` is true if every copy
    in the group counts, and false if the row is a choice: another one would do, or one copy is enough.
    """

    table: str
    values: tuple[Any, ...]
    copies: int
    stored: int
    all: bool

    def __str__(self) -> str:
        part = "all of the group" if self.all else "this one"
        times = f" x {self.stored}" if self.stored > 1 else ""
        enough = ", one copy is enough" if self.stored > self.copies else ""
        return f"{self.table} {row_shown(self.values)}{times}  {part}{enough}"


@dataclass(frozen=True)
class Reason:
    """A smallest bag of base rows from which the view computes the row.

    ``notes`` says which left rows of a LEFT JOIN have no partner. With the rows alone, the view may compute another
    row, because a group is cut or a partner appears. Then ``others`` are the rows that keep this away.
    """

    rows: tuple[Because, ...]
    notes: tuple[str, ...] = ()
    others: tuple[Because, ...] = ()

    def __str__(self) -> str:
        lines = [*map(str, self.rows[:LONG])]
        if len(self.rows) > LONG:
            lines.append(f"and {len(self.rows) - LONG:,} more: {len(self.rows):,} rows in all")
        lines += self.notes
        if self.others:
            lines += ["and these keep others away:", *(f"  {each}" for each in map(str, self.others[:LONG]))]
        if len(self.others) > LONG:
            lines.append(f"  and {len(self.others) - LONG:,} more")
        return "\n".join(lines or ["no row is needed"])


@dataclass(frozen=True)
class Why:
    """The reasons of a row of a view, as of an epoch; at most 10, the smallest first.

    ``complete`` is true if there are no others. ``at_least`` is the number of reasons that were found.
    """

    view: str
    row: tuple[Any, ...]
    epoch: int
    reasons: tuple[Reason, ...]
    complete: bool
    at_least: int

    def as_json(self) -> dict[str, Any]:
        """Return the row, the epoch, the reasons as lists of [table, [values], copies], and whether these are all."""
        reasons = [[[each.table, list(each.values), each.copies] for each in reason.rows] for reason in self.reasons]
        return {"row": list(self.row), "epoch": self.epoch, "reasons": reasons, "complete": self.complete}

    def __str__(self) -> str:
        n = len(self.reasons)
        many = f"{n} reason{'s' * (n != 1)}" if self.complete else f"{n} of at least {self.at_least} reasons"
        lines = [f"{self.view} has {row_shown(self.row)} as of epoch {self.epoch}: {many}"]
        for number, reason in enumerate(self.reasons, 1):
            first, *rest = str(reason).splitlines()
            lines += [f"{number:3}  {first}", *(f"     {line}" for line in rest)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def why(
    view: View, wanted: Wanted, bases: Mapping[str, Delta], epoch: int, strings: Dictionary, force: bool = False
) -> Why | None:
    """Return the reasons of a row of a view, or None if the view does not have it.

    ``wanted`` has the word of each column in order. ``bases`` has the rows of every base table, each once, with its
    copies. Raises Error if more than a million rows would be computed, unless ``force`` is true.
    """
    most = float("inf") if force else computed.MOST
    made = computed.Tables(bases, strings, most)
    top = made.table(view.plan, wanted)
    if not top.below:
        return None
    finder = Reasons(bases, strings)
    found = finder.of(top, range(len(top.below)))
    schemas = {node.relation: node.schema for node in view.plan.walk() if isinstance(node, Scan)}

    def order(row: BaseRow) -> tuple[Any, ...]:
        shown = values(bases[row[0]].rows[:, row[1]], schemas[row[0]], strings)
        return row[0], [(each is None, each) for each in shown]

    def said(bag: Bag, rows: frozenset[BaseRow]) -> tuple[Because, ...]:
        return tuple(
            Because(
                name,
                values(bases[name].rows[:, at], schemas[name], strings),
                finder.copies(bag, (name, at)),
                int(bases[name].diffs[at]),
                (name, at) in bag.counted,
            )
            for name, at in sorted(rows, key=order)
        )

    found.sort(key=lambda bag: (finder.size(bag), sorted(map(order, bag.rows))))
    reasons = []
    for bag in found[:MOST]:
        more = _kept_away(view, wanted, bag, bases, strings, most)
        others = said(Bag(more, more, more), more)
        reasons.append(Reason(said(bag, bag.rows), tuple(sorted(bag.notes)), others))
    complete = finder.complete and len(found) <= MOST
    row = values(np.array([*wanted.values()], dtype=np.int64), view.schema, strings)
    return Why(view.name, row, epoch, tuple(reasons), complete, len(found))


def _kept_away(
    view: View, wanted: Wanted, bag: Bag, bases: Mapping[str, Delta], strings: Dictionary, most: float
) -> frozenset[BaseRow]:
    """The rows that a reason needs beside it, so that the view over nothing else has the wanted row.

    A row of the reason may be in a group whose other rows are not in the reason, or may have lost its partner of a LEFT
    JOIN. These groups and partners are added until the view has the row.
    """
    rows, whole = bag.rows, bag.whole
    if _replayed(view, wanted, rows, whole, bases, strings, most):
        return frozenset()
    made = computed.Tables(bases, strings, most)
    groups = _groups(made.table(view.plan, {}))
    while True:
        more = rows.union(*(group for group in groups if group & rows))
        if more == rows:  # no group is cut, so the rest is added
            more = frozenset((name, at) for name, base in bases.items() for at in range(len(base.diffs)))
        rows = whole = more
        if _replayed(view, wanted, rows, whole, bases, strings, most):
            return rows - bag.rows


def _replayed(
    view: View,
    wanted: Wanted,
    rows: frozenset[BaseRow],
    whole: frozenset[BaseRow],
    bases: Mapping[str, Delta],
    strings: Dictionary,
    most: float,
) -> bool:
    """Whether the view over these rows alone has the wanted row."""
    part = {}
    for name, base in bases.items():
        chosen = sorted(at for table, at in rows if table == name)
        copies = [int(base.diffs[at]) if (name, at) in whole else 1 for at in chosen]
        part[name] = Delta(base.rows[:, chosen], np.array(copies, dtype=np.int64))
    return bool(computed.Tables(part, strings, most).table(view.plan, wanted).below)


def _groups(top: computed.Table) -> set[frozenset[BaseRow]]:
    """The base rows of each group of a reduce, and of each left row of a LEFT JOIN with its partners."""
    supports: dict[int, list[frozenset[BaseRow]]] = {}
    groups: set[frozenset[BaseRow]] = set()

    def support(table: computed.Table) -> list[frozenset[BaseRow]]:
        if id(table) in supports:
            return supports[id(table)]
        node, inputs = table.node, [support(each) for each in table.inputs]
        if isinstance(node, Scan):
            found = [frozenset([(node.relation, at)]) for at in table.below]
        elif isinstance(node, Reduce):
            found = [frozenset().union(*(inputs[0][i] for i in group)) for group in table.below]
            groups.update(found)
        elif isinstance(node, Join):
            found = [frozenset().union(*(inputs[side][i] for side, i in enumerate(pair))) for pair in table.below]
            partners: dict[int, frozenset[BaseRow]] = {}
            for pair, rows in zip(table.below, found, strict=True) if node.outer else ():
                partners[pair[0]] = partners.get(pair[0], frozenset()) | rows
            groups.update(partners.values())
        elif isinstance(node, Union):
            found = [inputs[part][i] for part, i in table.below]
        else:
            found = [inputs[0][i] for i in table.below]
        supports[id(table)] = found
        return found

    support(top)
    return groups


__all__ = ["Because", "Reason", "Why", "why"]
