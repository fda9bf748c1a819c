"""The greatest or least value of a group, found in an arrangement without reading the group.

Where the arrangement is ordered by the value, a group's best values stand at one end of
its rows in each batch. A few are taken from there; retractions in newer batches may have
cancelled them, so the diffs are added up, and if no survivor is certain to be the best,
more are taken, eight times as many each round. Where it is not ordered by that value the
whole group is read, as differential dataflow's reduce does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..plan.nodes import Type
from ..storage.arrangement import Arrangement
from ..storage.batch import LOW_BITS, distinct, prefix, ranges
from ..storage.encoding import NULL, Strings, Words
from ..storage.multiplicity import add_up


class Ordinals(NamedTuple):
    """Values of one type as integers that compare as the values do; NULL is the least of all."""

    ranks: tuple[npt.NDArray[np.int64], ...]
    kind: Type
    reverse: bool
    codes: Words

    def words(self, ranks: npt.NDArray[np.int64]) -> Words:
        """The words of ranks, int64[n]."""
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


def ordinals(kind: Type, reverse: bool, strings: Strings, *columns: Words) -> Ordinals:
    """Ranks of the columns' words, comparable among each other; ``reverse`` makes the least value the greatest rank.

    To reverse is to negate, not to complement: ``~(2**63 - 1)`` is NULL's word, and ``-w`` of a value never is.
    """
    codes = np.empty(0, dtype=np.int64)
    if kind is Type.STRING:
        # Codes are in order of arrival; only the strings in question are ranked by text.
        used = np.unique(np.concatenate(columns))
        used = used[used != NULL]
        text: list[Any] = strings.to_list(used)
        turn = np.array(sorted(range(len(used)), key=text.__getitem__), dtype=np.intp)
        codes, place = used[turn], turn.argsort()
    ranks = []
    for words in columns:
        rank = words
        if kind is Type.DOUBLE:
            rank = _flip(words)
        elif kind is Type.STRING and len(codes):
            rank = place[np.minimum(used.searchsorted(words), len(used) - 1)]
        if reverse or rank is not words:  # else they are integers, and their own ranks, NULL included
            rank = np.where(words == NULL, NULL, -rank if reverse else rank)
        ranks.append(rank)
    return Ordinals(tuple(ranks), kind, reverse, codes)


class Source:
    """Where a reduce finds a group's remaining values: ``column`` of an arrangement by group."""

    def __init__(self, arrangement: Arrangement, column: int) -> None:
        self.arrangement, self.column = arrangement, column
        self.ordered = arrangement.layout.order == column

    def extremes(self, groups: Words, least: bool, strings: Strings) -> tuple[Words, npt.NDArray[np.bool_]]:
        """For each group of int64[g, q]: its greatest (or least) value, NULL if all are, and whether it has a row."""
        layout = self.arrangement.layout
        kind = layout.types[self.column]
        best = np.full(groups.shape[1], NULL, dtype=np.int64)
        exists = np.zeros(groups.shape[1], dtype=bool)
        ask = np.arange(groups.shape[1])
        take = 4 if self.ordered else 1 << 62
        while len(ask):
            keys = groups.take(ask, axis=1)
            owner, words, diffs, edge = self._ends(keys, take, least, strings)
            first, same = distinct(np.stack([owner, words]), (Type.BIGINT, Type.BIGINT), strings)
            total = add_up(same, diffs, len(first))
            owner, words = owner[first[total > 0]], words[first[total > 0]]
            order = ordinals(kind, least, strings, words)
            rank = np.full(len(ask), NULL, dtype=np.int64)
            np.maximum.at(rank, owner, order.ranks[0])
            # What survived of fewer rows may have been cancelled by those read now.
            exists[ask] = False
            exists[ask[owner]] = True
            found = order.words(rank)
            best[ask] = found
            code = prefix(found, kind, strings).astype(np.int64)
            beyond = code < edge if least else code > edge
            # A NULL, and a value that only ties with what was not read, prove nothing while rows are left.
            sure = (edge == -1) | ((found != NULL) & beyond)
            ask, take = ask[~sure], take * 8
        return best, exists

    def _ends(
        self, keys: Words, take: int, least: bool, strings: Strings
    ) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Up to ``take`` rows of each group from each batch; ``edge`` is the next one's code, -1 where none is left."""
        layout = self.arrangement.layout
        low = layout.key_words(keys, strings)
        edge = np.full(len(low), -1, dtype=np.int64)
        owners, values, weights = [], [], []
        for batch in self.arrangement.runs:
            word = batch.body[0]
            start, stop = word.searchsorted(low), word.searchsorted(low | LOW_BITS, side="right")
            size = np.minimum(stop - start, take)
            if not np.count_nonzero(size):
                continue
            left = np.flatnonzero(stop - start > size)
            if len(left):
                code = word[(start + size if least else stop - size - 1)[left]] & LOW_BITS
                best = np.minimum(np.where(edge[left] == -1, LOW_BITS + 1, edge[left]), code) if least else code
                edge[left] = best if least else np.maximum(edge[left], code)
            index, owner = ranges(start if least else stop - size, size)
            part, owner = self.arrangement.verify(batch, index, owner, keys)
            owners.append(owner)
            values.append(part[1 + self.column])
            weights.append(part[1 + layout.columns])
        if not owners:
            nothing = np.empty(0, dtype=np.int64)
            return np.empty(0, dtype=np.intp), nothing, nothing, edge
        return np.concatenate(owners), np.concatenate(values), np.concatenate(weights), edge
