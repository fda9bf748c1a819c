"""The rows of a piece of state with their marks, in order.

They stay encoded as words until they are returned: a table of 100,000 rows costs one sort and
not 100,000 tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..changelog.changes import value_order
from ..changelog.convert import to_arrow
from ..plan.nodes import Column, Type
from ..storage.batch import Batch, Layout, merged, ranges
from ..storage.encoding import Dictionary, Words
from .messages import Values
from .recording import MOST, Row


def decode(words: Words, types: Sequence[Type], strings: Dictionary) -> list[Values]:
    """Encoded rows int64[k, n] as tuples of Python values."""
    if not len(types):
        return [()] * words.shape[1]
    lines = [to_arrow(w, t, strings).to_pylist() for w, t in zip(words, types, strict=True)]
    return list(zip(*lines, strict=True))


@dataclass(frozen=True, eq=False)
class Content:
    """Consolidated rows int64[k, n] in the order of the batches, their multiplicities and sort words."""

    layout: Layout
    rows: Words
    counts: npt.NDArray[np.int64]
    words: Words

    @classmethod
    def of(cls, batches: Sequence[Batch], layout: Layout, strings: Dictionary) -> Content:
        """The consolidated rows of some batches."""
        body = merged(batches, layout, strings)
        return cls(layout, body[1 : 1 + layout.columns], body[1 + layout.columns], body[0])

    def __len__(self) -> int:
        return len(self.counts)

    def order(self, strings: Dictionary) -> npt.NDArray[np.intp]:
        """The order of the rows by value, NULL last. Cached, because sorting a large table is expensive."""
        if "_order" not in self.__dict__:
            self.__dict__["_order"] = _order(self.layout, self.rows, strings)
        found: npt.NDArray[np.intp] = self.__dict__["_order"]
        return found

    def places(self, rows: Words, strings: Dictionary) -> npt.NDArray[np.intp]:
        """The position of each of rows int64[k, q]; -1 for a row that is not here."""
        out = np.full(rows.shape[1], -1, dtype=np.intp)
        if len(self) and rows.shape[1]:
            words = self.layout.sort_words(rows, strings)
            start = np.searchsorted(self.words, words)
            index, owner = ranges(start, np.searchsorted(self.words, words, side="right") - start)
            good = (self.rows[:, index] == rows[:, owner]).all(axis=0)
            out[owner[good]] = index[good]
        return out


@dataclass(frozen=True, eq=False)
class MarkedRows:
    """Rows now and before the message, deleted ones included, with both multiplicities."""

    layout: Layout
    rows: Words
    counts: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    now: npt.NDArray[np.bool_]
    held: Content | None = None
    """The current rows, if none of the rows is deleted."""

    @classmethod
    def of(cls, held: Content, change: Content, last: Content, strings: Dictionary) -> MarkedRows:
        """Marks from the rows now (``held``), the changes of the message and those of this step (``last``)."""
        places = held.places(change.rows, strings)
        gone = change.rows.compress(places < 0, axis=1)
        rows = np.concatenate([held.rows, gone], axis=1)
        counts = np.concatenate([held.counts, np.zeros(gone.shape[1], dtype=np.int64)])
        before = counts.copy()
        at = np.where(places < 0, len(held) + np.cumsum(places < 0) - 1, places)
        before[at] -= change.counts
        now = np.zeros(len(counts), dtype=bool)
        if len(last):
            # A row that this message inserted and deleted again is not a change of it.
            found = change.places(last.rows, strings)
            now[at[found[found >= 0]]] = True
        return cls(held.layout, rows, counts, before, now, None if gone.shape[1] else held)

    def at(self, places: npt.NDArray[np.intp]) -> MarkedRows:
        """The rows at some positions."""
        return MarkedRows(
            self.layout, self.rows.take(places, axis=1), self.counts[places], self.before[places], self.now[places]
        )

    def chosen(self, looked: npt.NDArray[np.bool_], strings: Dictionary, most: int = MOST) -> npt.NDArray[np.intp]:
        """The positions of the rows to return, in order of value: all, or the marked ones and some others."""
        order = self.order(strings)
        if len(order) <= most:
            return order
        special = ((self.counts != self.before) | looked)[order]
        left = max(0, most - int(special.sum()))
        keep = special & (np.cumsum(special) <= most)
        keep |= ~special & (np.cumsum(~special) <= left)
        return order.compress(keep)

    def order(self, strings: Dictionary) -> npt.NDArray[np.intp]:
        """The order of the rows by value, NULL last."""
        return _order(self.layout, self.rows, strings) if self.held is None else self.held.order(strings)

    def decoded(self, places: npt.NDArray[np.intp], looked: npt.NDArray[np.bool_], strings: Dictionary) -> list[Row]:
        """The rows at some positions, decoded."""
        values = decode(self.rows.take(places, axis=1), self.layout.types, strings)
        facts = zip(
            values,
            self.counts[places].tolist(),
            self.before[places].tolist(),
            self.now[places].tolist(),
            looked[places].tolist(),
            strict=True,
        )
        return [Row(v, count, before, None, now, look) for v, count, before, now, look in facts]


def _order(layout: Layout, rows: Words, strings: Dictionary) -> npt.NDArray[np.intp]:
    return value_order(tuple(Column("", t) for t in layout.types), rows, strings)


def paired(rows: Sequence[Row], key: Sequence[int]) -> list[Row]:
    """Rows of a table with a unique key, where an inserted row replaces the deleted one and has its old values."""
    gone = {tuple(r.values[i] for i in key): r for r in rows if r.mark == "deleted"}
    out, used = [], set()
    for row in rows:
        at = tuple(row.values[i] for i in key)
        if row.mark == "inserted" and at in gone:
            used.add(id(gone[at]))
            row = Row(row.values, row.count, row.before, gone[at].values, row.now, row.looked_up)
        out.append(row)
    return [r for r in out if id(r) not in used]
