"""Finding the largest or smallest value of a group in an arrangement without reading the entire group.

If the arrangement is ordered by the value, the best values of a group are at one end of its rows in each batch. A few
rows are read from that end, and their diffs are added up, because a newer batch can retract rows of an older one. If an
unread row could still be better than the best value left, the read is repeated with 8 times as many rows. If the
arrangement is not ordered by the value, the entire group is read, as in differential dataflow's reduce.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import loops
from ..loops.lookups import ALL
from ..plan.nodes import Type
from ..storage.arrangement import Arrangement, FoundRows
from ..storage.batch import KINDS
from ..storage.encoding import NULL, Dictionary, Words

Mask = npt.NDArray[np.bool_]


def ascending(kind: Type, strings: Dictionary, words: Words) -> Words:
    """Return numbers, int64[n], that sort a column by its values, with NULL last.

    >>> ascending(Type.INT, Dictionary(), np.array([3, NULL, 7])).argsort().tolist()
    [0, 2, 1]
    """
    if kind is Type.STRING:
        words = strings.ranks(words)[0]
    elif kind is Type.DOUBLE:
        words = np.where(words == NULL, NULL, words ^ ((words >> 63) & np.int64(2**63 - 1)))
    return words - 1  # NULL, the smallest word, becomes the largest


def extremes_after(
    old: Words, there: Mask, values: Words, change: tuple[Words, Words], kind: Type, least: bool, strings: Dictionary
) -> tuple[Words, Mask, Mask]:
    """Return the extreme value of each group after a change, whether the group exists, and whether it is unsure.

    ``old`` has the values of before, and ``change`` the diff and the group of each of the ``values``. A value is unsure
    if the old one was retracted, because other rows can still have it.
    """
    found = np.empty_like(old, order="C"), np.empty(len(old), dtype=bool), np.empty(len(old), dtype=bool)
    loops.extremes_after(
        values, change[0], old, change[1], there, KINDS[kind], least, strings.known, strings.arena, *found
    )
    return found


def best_values(
    owner: npt.NDArray[np.intp], values: Words, diffs: Words, edge: Words, kind: Type, least: bool, strings: Dictionary
) -> tuple[Words, Mask, Mask]:
    """Return the best value of each owner, whether it has rows, and whether an unread row can be better.

    ``edge`` has the best order code among the unread rows of each owner, or -1. The value is NULL if all are NULL.
    """
    found = np.full(len(edge), NULL), np.zeros(len(edge), dtype=bool), np.empty(len(edge), dtype=bool)
    how = np.empty_like(owner), KINDS[kind], least, strings.known, strings.arena
    loops.best_values(owner, values, diffs, edge, *how, *found)
    return found


class Source:
    """The stored values of the groups: column number ``column`` of an arrangement that is keyed by group."""

    def __init__(self, arrangement: Arrangement, column: int) -> None:
        self.arrangement, self.column = arrangement, column
        self.ordered = arrangement.layout.order == column

    def extremes(self, groups: Words, least: bool, strings: Dictionary) -> tuple[Words, Mask]:
        """Return the largest value of each group of int64[g, q] (the smallest if ``least``), and whether it has rows.

        The value is NULL if all values of the group are NULL. Both arrays have shape (q,).
        """
        layout = self.arrangement.layout
        best, exists = np.empty(groups.shape[1], dtype=np.int64), np.empty(groups.shape[1], dtype=bool)
        ask, take = np.arange(len(best)), 4 if self.ordered else ALL
        while len(ask):
            keys, edge = groups.take(ask, axis=1), np.full(len(ask), -1)
            rows = FoundRows(layout, keys, layout.key_words(keys, strings))
            for batch in self.arrangement.runs:
                self.arrangement.read(rows, batch, None, take, least, edge)
            kept = rows.kept
            found = rows.owner[:kept], rows.lines[1 + self.column, :kept], rows.lines[1 + layout.columns, :kept]
            # Rows read in this round can cancel values that were found in the previous round.
            best[ask], exists[ask], unsure = best_values(*found, edge, layout.types[self.column], least, strings)
            ask, take = ask[unsure], take * 8
        return best, exists
