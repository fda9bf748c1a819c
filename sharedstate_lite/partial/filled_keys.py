"""The filled keys of a partial state. All other keys are holes.

A key can be filled even if it has no rows. In that case, the answer is known to be empty, and a lookup does not send an
upquery. For each filled key, the number of the last operation that used it is stored. Because this is a number and not
a clock time, every run evicts the same keys.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import loops
from ..plan.nodes import Type
from ..storage.batch import hash_rows
from ..storage.encoding import NULL, Dictionary, Words

Mask = npt.NDArray[np.bool_]


class FilledKeys:
    """A set of n keys, stored as words int64[len(types), n] and sorted by their hashes."""

    def __init__(self, types: tuple[Type, ...]) -> None:
        self.types = types
        self.keys: Words = np.empty((len(types), 0), dtype=np.int64)
        self.used: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._words: Words = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._words)

    @property
    def nbytes(self) -> int:
        """The size of the three arrays in bytes."""
        return int(self.keys.nbytes + self.used.nbytes + self._words.nbytes)

    def positions(self, keys: Words, strings: Dictionary) -> npt.NDArray[np.int64]:
        """Return the position of each of the keys int64[k, q] in this set, or -1 if it is a hole."""
        asked = self._words_of(keys, strings)
        out = np.empty(len(asked), dtype=np.int64)
        loops.find_keys(self.keys, self._words, keys, asked, out)
        return out

    def mask(self, keys: Words, strings: Dictionary) -> Mask:
        """Return which of the keys int64[k, q] are filled, as bool[q]."""
        return self.positions(keys, strings) >= 0

    def add(self, keys: Words, strings: Dictionary, now: int) -> None:
        """Add keys, with operation ``now`` as their last use. Keys that are already filled do not change."""
        asked = self._words_of(keys, strings)
        most = len(self) + len(asked)
        out = np.empty((len(keys), most), dtype=np.int64)
        words, used = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        count = loops.add_keys(self.keys, self._words, self.used, keys, asked, asked.argsort(), now, out, words, used)
        if count > len(self):
            self.keys, self._words, self.used = out[:, :count].copy(), words[:count].copy(), used[:count].copy()

    def put(self, keys: Words, used: npt.NDArray[np.int64], strings: Dictionary) -> None:
        """Replace the contents of the set with ``keys``. ``used`` are the operations that last used them."""
        words = self._words_of(keys, strings)
        order = words.argsort()
        self.keys, self.used, self._words = keys.take(order, axis=1), used.take(order), words.take(order)

    def remove(self, keys: Words, strings: Dictionary) -> Words:
        """Remove keys, and return those that were filled, int64[k, r]."""
        at, gone = self.positions(keys, strings), np.zeros(len(self), dtype=bool)
        gone[at[at >= 0]] = True
        removed = self.keys.compress(gone, axis=1)
        if removed.shape[1]:
            self.keys, self.used = self.keys.compress(~gone, axis=1), self.used.compress(~gone)
            self._words = self._words.compress(~gone)
        return removed

    def touch(self, keys: Words, strings: Dictionary, now: int) -> None:
        """Record that operation ``now`` used these keys."""
        at = self.positions(keys, strings)
        self.used[at[at >= 0]] = now

    def _words_of(self, keys: Words, strings: Dictionary) -> Words:
        # As signed numbers, these are in the order of the hashes, so the order of the keys does not change.
        return hash_rows(keys, self.types, strings).view(np.int64) ^ NULL

    def copy(self) -> FilledKeys:
        """Return a copy that can be restored later.

        The copy shares the arrays. ``touch`` writes to one of them in place, so a restored copy can evict keys in a
        different order.
        """
        out = FilledKeys(self.types)
        out.keys, out.used, out._words = self.keys, self.used, self._words
        return out

    def recode(self, moved: Words) -> None:
        """Replace each string code ``c`` with ``moved[c]``; see :meth:`~..storage.arrangement.Arrangement.recode`."""
        keys = self.keys.copy()
        for i, kind in enumerate(self.types):
            if kind is Type.STRING:
                keys[i] = np.where(keys[i] == NULL, NULL, moved.take(np.maximum(keys[i], 0)))
        self.keys = keys
