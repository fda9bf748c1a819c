"""Decodes, marks and sorts the rows of a piece of state.

Rows stay encoded as words until they are returned. A table of 100,000 rows therefore costs one sort, but
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
    """Decode rows int64[k, n] into a list of n tuples of Python values."""
    if not len(types):
        return [()] * words.shape[1]
    lines = [to_arrow(w, t, strings).to_pylist() for w, t in zip(words, types, strict=True)]
    return list(zip(*lines, strict=True))


@dataclass(frozen=True, eq=False)
class Content:
    """Consolidated ``rows`` int64[k, n], sorted in the same order as batches.

    ``counts`` are the multiplicities of the rows, and ``words`` are the sort words that determine their order.
    """

    layout: Layout
    rows: Words
    counts: npt.NDArray[np.int64]
    words: Words

    @classmethod
    def of(cls, batches: Sequence[Batch], layout: Layout, strings: Dictionary) -> Content:
        """Consolidate the rows of some batches."""
        body = merged(batches, layout, strings)
        return cls(layout, body[1 : 1 + layout.columns], body[1 + layout.columns], body[0])

    def __len__(self) -> int:
        return len(self.counts)

    def order(self, strings: Dictionary) -> npt.NDArray[np.intp]:
        """Return the positions of the rows sorted by value, with NULL last.

        The result is cached because sorting a large table is expensive.
        """
        if "_order" not in self.__dict__:
            self.__dict__["_order"] = _order(self.layout, self.rows, strings)
        found: npt.NDArray[np.intp] = self.__dict__["_order"]
        return found

    def places(self, rows: Words, strings: Dictionary) -> npt.NDArray[np.intp]:
        """Return the position of each of ``rows``, int64[k, q], or -1 for a row that does not occur."""
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
    """The rows of a piece of state during a message, including rows that the message has deleted.

    ``counts`` are the current multiplicities, and ``before`` those before the message. ``now`` is True for rows that
    the current step changed.
    """

    layout: Layout
    rows: Words
    counts: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    now: npt.NDArray[np.bool_]
    held: Content | None = None
    """The current rows, or None if the message has deleted some rows."""

    @classmethod
    def of(cls, held: Content, change: Content, last: Content, strings: Dictionary) -> MarkedRows:
        """Build the marked rows from the current rows, ``held``.

        ``change`` contains the changes of the current message so far, and ``last`` those of the current step.
        """
        places = held.places(change.rows, strings)
        gone = change.rows.compress(places < 0, axis=1)
        rows = np.concatenate([held.rows, gone], axis=1)
        counts = np.concatenate([held.counts, np.zeros(gone.shape[1], dtype=np.int64)])
        before = counts.copy()
        at = np.where(places < 0, len(held) + np.cumsum(places < 0) - 1, places)
        before[at] -= change.counts
        now = np.zeros(len(counts), dtype=bool)
        if len(last):
            # A row that this message inserted and then deleted does not occur in ``change``.
            found = change.places(last.rows, strings)
            now[at[found[found >= 0]]] = True
        return cls(held.layout, rows, counts, before, now, None if gone.shape[1] else held)

    def at(self, places: npt.NDArray[np.intp]) -> MarkedRows:
        """Return only the rows at some positions."""
        return MarkedRows(
            self.layout, self.rows.take(places, axis=1), self.counts[places], self.before[places], self.now[places]
        )

    def chosen(self, looked: npt.NDArray[np.bool_], strings: Dictionary, most: int = MOST) -> npt.NDArray[np.intp]:
        """Return the positions of at most ``most`` rows, sorted by value.

        Rows that were changed or looked up take precedence. ``looked`` is True for the rows that were looked up.
        """
        order = self.order(strings)
        if len(order) <= most:
            return order
        special = ((self.counts != self.before) | looked)[order]
        left = max(0, most - int(special.sum()))
        keep = special & (np.cumsum(special) <= most)
        keep |= ~special & (np.cumsum(~special) <= left)
        return order.compress(keep)

    def order(self, strings: Dictionary) -> npt.NDArray[np.intp]:
        """Return the positions of the rows sorted by value, with NULL last."""
        return _order(self.layout, self.rows, strings) if self.held is None else self.held.order(strings)

    def decoded(self, places: npt.NDArray[np.intp], looked: npt.NDArray[np.bool_], strings: Dictionary) -> list[Row]:
        """Decode the rows at some positions."""
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
    """Merge each deleted row of a table into the inserted row with the same unique key.

    The merged row has the values of the deleted row as its ``old`` values.
    """
    gone = {tuple(r.values[i] for i in key): r for r in rows if r.mark == "deleted"}
    out, used = [], set()
    for row in rows:
        at = tuple(row.values[i] for i in key)
        if row.mark == "inserted" and at in gone:
            used.add(id(gone[at]))
            row = Row(row.values, row.count, row.before, gone[at].values, row.now, row.looked_up)
        out.append(row)
    return [r for r in out if id(r) not in used]
