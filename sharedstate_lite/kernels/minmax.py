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


def ranks(kind: Type, least: bool, strings: Dictionary, *columns: Words) -> tuple[Words, ...]:
    """Return the ranks of one or two columns of one type: numbers in the order of the values, or reversed if ``least``.

    The rank of NULL is the smallest in any case.

    >>> ranks(Type.INT, True, Dictionary(), np.array([3, 7, NULL]))[0].tolist() == [-3, -7, NULL]
    True
    """
    if kind is Type.STRING:
        # The order of codes is not the order of the strings, so the strings of these columns are sorted.
        ranked, _ = strings.ranks(np.concatenate(columns))
        columns = ranked[: len(columns[0])], ranked[len(columns[0]) :]
    elif kind is Type.DOUBLE:
        columns = tuple(np.where(w == NULL, NULL, w ^ ((w >> 63) & np.int64(2**63 - 1))) for w in columns)
    # Negate instead of taking the complement, because ~(2**63 - 1) is the word for NULL. -NULL is NULL.
    return tuple(-words for words in columns) if least else columns


def ascending(kind: Type, strings: Dictionary, words: Words) -> Words:
    """Return numbers, int64[n], that sort a column by its values, with NULL last."""
    return ranks(kind, False, strings, words)[0] - 1  # NULL, the smallest word, becomes the largest


def new_extremes(
    old: Words, there: Mask, values: Words, change: tuple[Words, Words], kind: Type, least: bool, strings: Dictionary
) -> tuple[Words, Mask, Mask]:
    """Return the extreme value of each group after a change, whether the group exists, and whether it is unsure.

    ``old`` has the values of before, and ``change`` the diff and the group of each of the ``values``. A value is unsure
    if the old one was retracted, because other rows can still have it.
    """
    (old_ranks, ranked), (diffs, group) = ranks(kind, least, strings, old, values), change
    (rank, best), (exists, unsure) = np.empty((2, len(old)), dtype=np.int64), np.empty((2, len(old)), dtype=bool)
    loops.extremes_after(ranked, values, diffs, old_ranks, old, group, there, rank, best, exists, unsure)
    return best, exists, unsure


def stored_extremes(
    owner: npt.NDArray[np.intp], values: Words, diffs: Words, edge: Words, kind: Type, least: bool, strings: Dictionary
) -> tuple[Words, Mask, Mask]:
    """Return the best value of each owner, whether it has rows, and whether an unread row can be better.

    ``edge`` has the best order code among the unread rows of each owner, or -1. The value is NULL if all are NULL.
    """
    (best, ends), (exists, unsure) = np.zeros((2, len(edge)), dtype=np.int64), np.empty((2, len(edge)), dtype=bool)
    ranked, order = ranks(kind, least, strings, values)[0], np.empty_like(owner)
    how = edge, ends, order, KINDS[kind], least, strings.known
    loops.best_values(owner, ranked, values, diffs, *how, best, exists, unsure)
    return best, exists, unsure


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
            best[ask], exists[ask], unsure = stored_extremes(*found, edge, layout.types[self.column], least, strings)
            ask, take = ask[unsure], take * 8
        return best, exists
