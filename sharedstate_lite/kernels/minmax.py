"""Finding the largest or smallest value of a group in an arrangement without reading the entire group.

If the arrangement is ordered by the value, the best values of a group are at one end of its rows in each batch. A few
rows are read from that end, and their diffs are added up, because a newer batch can retract rows of an older one. If an
unread row could still be better than the best value left, the read is repeated with 8 times as many rows. If the
arrangement is not ordered by the value, the entire group is read, as in differential dataflow's reduce.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import loops
from ..loops.lookups import ALL
from ..plan.nodes import Type
from ..storage.arrangement import Arrangement, FoundRows
from ..storage.batch import prefix
from ..storage.encoding import NULL, Dictionary, Words

_NO_CODES = np.empty(0, dtype=np.int64)


class Ordinals(NamedTuple):
    """Columns of one type as ranks, which are integers in the order of the values. NULL has the smallest rank."""

    ranks: tuple[npt.NDArray[np.int64], ...]
    kind: Type
    reverse: bool
    codes: Words

    def words(self, ranks: npt.NDArray[np.int64]) -> Words:
        """Convert ranks int64[n] back to words."""
        if not self.reverse and self.kind not in (Type.DOUBLE, Type.STRING):
            return ranks
        null = ranks == NULL
        words = -ranks if self.reverse else ranks
        if self.kind is Type.DOUBLE:
            words = _flip(words)
        elif self.kind is Type.STRING:
            words = self.codes[np.where(null, 0, words)] if len(self.codes) else words
        return np.where(null, NULL, words)


def _flip(words: Words) -> Words:
    return words ^ ((words >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))


def ordinals(kind: Type, reverse: bool, strings: Dictionary, *columns: Words) -> Ordinals:
    """Return the ranks of several columns of one type. With ``reverse``, the smallest value has the largest rank.

    >>> ordinals(Type.INT, True, Dictionary(), np.array([3, 7, NULL])).ranks[0].tolist() == [-3, -7, NULL]
    True
    """
    codes = _NO_CODES
    if kind is Type.STRING:
        # The order of codes is not the order of the strings, so the strings of these columns are sorted.
        ranked, codes = strings.ranks(np.concatenate(columns))
        ends = np.cumsum([len(each) for each in columns]).tolist()
        columns = tuple(ranked[end - len(each) : end] for each, end in zip(columns, ends, strict=True))
    elif kind is Type.DOUBLE:
        columns = tuple(np.where(words == NULL, NULL, _flip(words)) for words in columns)
    if reverse:
        # Negate instead of taking the complement, because ~(2**63 - 1) is the word for NULL. -NULL is NULL.
        columns = tuple(-ranks for ranks in columns)
    return Ordinals(columns, kind, reverse, codes)


def ascending(kind: Type, strings: Dictionary, words: Words) -> Words:
    """Return numbers, int64[n], that sort a column by its values, with NULL last."""
    ranks = strings.ranks(words)[0] if kind is Type.STRING else ordinals(kind, False, strings, words).ranks[0]
    return ranks - 1  # NULL, the smallest word, becomes the largest


class Source:
    """The stored values of the groups: column number ``column`` of an arrangement that is keyed by group."""

    def __init__(self, arrangement: Arrangement, column: int) -> None:
        self.arrangement, self.column = arrangement, column
        self.ordered = arrangement.layout.order == column

    def extremes(self, groups: Words, least: bool, strings: Dictionary) -> tuple[Words, npt.NDArray[np.bool_]]:
        """Return the largest value of each group of int64[g, q] (the smallest if ``least``), and whether it has rows.

        The value is NULL if all values of the group are NULL. Both arrays have shape (q,).
        """
        layout = self.arrangement.layout
        kind = layout.types[self.column]
        best = np.full(groups.shape[1], NULL, dtype=np.int64)
        exists = np.zeros(groups.shape[1], dtype=bool)
        ask = np.arange(groups.shape[1])
        take = 4 if self.ordered else ALL
        while len(ask):
            keys = groups.take(ask, axis=1)
            owner, words, diffs, edge = self._ends(keys, take, least, strings)
            order = ordinals(kind, least, strings, words)
            rank, live = np.full(len(ask), NULL, dtype=np.int64), np.zeros(len(ask), dtype=bool)
            value = np.ascontiguousarray(order.ranks[0])
            loops.best_values(np.lexsort((value, owner)), owner, value, diffs, rank, live)
            # FoundRows read in this round can cancel values that were found in the previous round.
            exists[ask] = live
            found = order.words(rank)
            best[ask] = found
            code = prefix(found, kind, strings).astype(np.int64)
            beyond = code < edge if least else code > edge
            # While some rows are unread, the best value is certain only if its code is better than all of theirs.
            sure = (edge == -1) | ((found != NULL) & beyond)
            ask, take = ask[~sure], take * 8
        return best, exists

    def _ends(
        self, keys: Words, take: int, least: bool, strings: Dictionary
    ) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Read up to ``take`` rows of each group from each batch.

        Returns four arrays: the group, the value and the diff of each row, and for each group the best code among its
        unread rows, or -1 if all of them were read.
        """
        low = self.arrangement.layout.key_words(keys, strings)
        edge = np.full(len(low), -1, dtype=np.int64)
        rows = FoundRows(self.arrangement.layout, keys, low)
        for batch in self.arrangement.runs:
            self.arrangement.read(rows, batch, None, take, least, edge)
        columns, kept = self.arrangement.layout.columns, rows.kept
        return rows.owner[:kept], rows.lines[1 + self.column, :kept], rows.lines[1 + columns, :kept], edge
