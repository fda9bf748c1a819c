"""The reasons of a row: the smallest bags of base rows from which the operators compute it.

A *derivation* of a row says which input rows it was computed from, down to the base tables. A filter, a projection and
a union have one input row, and a join has one of each side. A row of a LEFT JOIN without a partner has only its left
row. A DISTINCT has any one row of its group, and MAX and MIN any one row with the value. COUNT(*), and COUNT, SUM and
AVG of a column, have all rows of the group, or all that are not NULL in the column. If an aggregate has none of these,
as for NULL and 0, any one row of the group is enough; a global aggregate over nothing needs no row.

A *reason* is the bag of base rows of a derivation: all copies of a row that COUNT, SUM or AVG counts, else one copy. A
reason that contains another one is left out.

Source: Cheney, Chiticariu and Tan, Provenance in databases: why, how, and where, 2009 (minimal witnesses).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..plan.nodes import Join, Reduce, Scan, Union
from ..storage.batch import Delta
from ..storage.encoding import NULL, Dictionary
from .tables import Table
from .words import no_partner

MOST = 10
"""How many reasons are returned."""
KEPT, TRIED = 300, 20_000
"""The most reasons of one row of an operator, and the most bags that are compared, so that looking for them ends."""

BaseRow = tuple[str, int]
"""A relation, and the position of a row in it."""


@dataclass(frozen=True)
class Bag:
    """Base rows of one derivation. All copies of the rows in ``whole`` are in it, and one copy of the others.

    The rows in ``counted`` are there because COUNT, SUM or AVG has all rows of a group; ``whole`` are those of them
    with several copies. ``notes`` has a sentence for each left row of a LEFT JOIN that has no partner.
    """

    rows: frozenset[BaseRow] = frozenset()
    whole: frozenset[BaseRow] = frozenset()
    counted: frozenset[BaseRow] = frozenset()
    notes: frozenset[str] = frozenset()

    @staticmethod
    def union(bags: Sequence[Bag]) -> Bag:
        """All rows and notes of some bags."""
        parts = zip(*((bag.rows, bag.whole, bag.counted, bag.notes) for bag in bags), strict=True)
        return Bag(*(frozenset().union(*sets) for sets in parts))

    def __le__(self, other: Bag) -> bool:
        return self.rows <= other.rows and self.whole <= other.whole


class Reasons:
    """Finds the reasons of the rows of one plan's tables. ``complete`` is false if there may be others."""

    def __init__(self, bases: Mapping[str, Delta], strings: Dictionary) -> None:
        self._bases, self._strings, self._left, self.complete = bases, strings, TRIED, True
        self._found: dict[tuple[int, int, bool], list[Bag]] = {}

    def of(self, table: Table, positions: Iterable[int]) -> list[Bag]:
        """The reasons of the equal rows at these positions, the smallest first."""
        return self._smallest(bag for position in positions for bag in self._at(table, position, False))

    def size(self, bag: Bag) -> int:
        """The number of rows of a reason, with copies."""
        return sum(self.copies(bag, row) for row in bag.rows)

    def copies(self, bag: Bag, row: BaseRow) -> int:
        """How many copies of a row a reason has."""
        return int(self._bases[row[0]].diffs[row[1]]) if row in bag.whole else 1

    def _at(self, table: Table, position: int, whole: bool) -> list[Bag]:
        key = id(table), position, whole
        if key not in self._found:
            self._found[key] = self._derived(table, position, whole)
        return self._found[key]

    def _derived(self, table: Table, position: int, whole: bool) -> list[Bag]:
        node, source = table.node, table.below[position]
        if isinstance(node, Scan):
            row = frozenset([(node.relation, source)])
            several = self._bases[node.relation].diffs[source] > 1  # one copy is all copies if there are no others
            return [Bag(row, row if whole and several else frozenset(), row if whole else frozenset())]
        if isinstance(node, Reduce):
            return self._group(table, node, position)
        if isinstance(node, Join):
            found = self._at(table.inputs[0], source[0], whole)
            if len(source) == 1:
                note = Bag(notes=frozenset([no_partner(node, table.inputs[0].rows[:, source[0]], self._strings)]))
                return [Bag.union([bag, note]) for bag in found]
            return self._each([found, self._at(table.inputs[1], source[1], whole)])
        part, below = source if isinstance(node, Union) else (0, source)
        return self._at(table.inputs[part], below, whole)

    def _group(self, table: Table, node: Reduce, position: int) -> list[Bag]:
        (source,), group = table.inputs, table.below[position]
        counted: set[int] = set()
        choices: list[list[int]] = [] if node.aggs else [group]
        for column, agg in enumerate(node.aggs, len(node.keys)):
            if agg.arg is None:
                counted.update(group)
            elif agg.fn not in ("max", "min"):
                counted.update(i for i in group if source.rows[agg.arg, i] != NULL)
            elif (value := table.rows[column, position]) != NULL:
                choices.append([i for i in group if source.rows[agg.arg, i] == value])
        if not counted and not choices:
            choices = [group] if group else []
        parts = [self._at(source, i, True) for i in sorted(counted)]
        parts += [self._smallest(bag for i in chosen for bag in self._at(source, i, False)) for chosen in choices]
        return self._each(parts)

    def _each(self, parts: list[list[Bag]]) -> list[Bag]:
        """Every union of one bag of each part."""
        found = [Bag.union([part[0] for part in parts if len(part) == 1])]
        for part in parts:
            if len(part) > 1:
                found = self._smallest(Bag.union([one, other]) for one in found for other in part)
        return found

    def _smallest(self, bags: Iterable[Bag]) -> list[Bag]:
        """The bags that contain no other one, the smallest first, at most `KEPT` of them."""
        seen: dict[Bag, None] = {}
        most = min(5 * KEPT, max(self._left, KEPT))
        for number, bag in enumerate(bags):
            if number == most:
                self.complete = False
                break
            seen[bag] = None
        self._left -= len(seen)
        kept: list[Bag] = []
        for bag in sorted(seen, key=lambda each: (self.size(each), sorted(each.rows))):
            if not any(other <= bag for other in kept):
                if len(kept) == KEPT:
                    self.complete = False
                    break
                kept.append(bag)
        return kept


__all__ = ["MOST", "Bag", "BaseRow", "Reasons"]
