"""The filled keys of a partial state. All other keys are holes.

A key can be filled even if it has no rows. In that case, the answer is known to be empty, and a lookup does not send an
upquery. For each filled key, the number of the last operation that used it is stored. Because this is a number and not
a clock time, every run evicts the same keys.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..plan.nodes import Type
from ..storage.batch import distinct, hash_rows, ranges
from ..storage.encoding import NULL, Dictionary, Words

Mask = npt.NDArray[np.bool_]


class FilledKeys:
    """A set of n keys, stored as words int64[len(types), n] and sorted by their hashes."""

    def __init__(self, types: tuple[Type, ...]) -> None:
        self.types = types
        self.keys: Words = np.empty((len(types), 0), dtype=np.int64)
        self.used: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._hash: npt.NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._hash)

    @property
    def nbytes(self) -> int:
        """The size of the three arrays in bytes."""
        return int(self.keys.nbytes + self.used.nbytes + self._hash.nbytes)

    def positions(self, keys: Words, strings: Dictionary) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Find the filled keys in ``keys``, int64[k, q]. Return their positions in ``keys`` and in this set."""
        words = hash_rows(keys, self.types, strings)
        start = self._hash.searchsorted(words)
        index, owner = ranges(start, self._hash.searchsorted(words, side="right") - start)
        good = (self.keys.take(index, axis=1) == keys.take(owner, axis=1)).all(axis=0)
        return owner[good], index[good]

    def mask(self, keys: Words, strings: Dictionary) -> Mask:
        """Return which of the keys int64[k, q] are filled, as bool[q]."""
        out = np.zeros(keys.shape[1], dtype=bool)
        if len(self):
            out[self.positions(keys, strings)[0]] = True
        return out

    def add(self, keys: Words, strings: Dictionary, now: int) -> None:
        """Add keys, with operation ``now`` as their last use. Keys that are already filled do not change."""
        keys = keys.compress(~self.mask(keys, strings), axis=1)
        if not keys.shape[1]:
            return
        first, _ = distinct(keys, self.types, strings)
        keys = keys.take(first, axis=1)
        words = hash_rows(keys, self.types, strings)
        order = np.argsort(words)
        keys, words = keys.take(order, axis=1), words.take(order)
        at = np.searchsorted(self._hash, words)
        self._hash = np.insert(self._hash, at, words)
        self.keys = np.insert(self.keys, at, keys, axis=1)
        self.used = np.insert(self.used, at, now)

    def put(self, keys: Words, used: npt.NDArray[np.int64], strings: Dictionary) -> None:
        """Replace the contents of the set with ``keys``. ``used`` are the operations that last used them."""
        words = hash_rows(keys, self.types, strings)
        order = np.argsort(words)
        self.keys, self.used, self._hash = keys.take(order, axis=1), used.take(order), words.take(order)

    def remove(self, keys: Words, strings: Dictionary) -> Words:
        """Remove keys, and return those that were filled, int64[k, r]."""
        if not len(self) or not keys.shape[1]:
            return keys[:, :0]
        # ``keys`` can contain the same key twice.
        index = np.unique(self.positions(keys, strings)[1])
        removed = self.keys.take(index, axis=1)
        self.keys = np.delete(self.keys, index, axis=1)
        self.used = np.delete(self.used, index)
        self._hash = np.delete(self._hash, index)
        return removed

    def touch(self, keys: Words, strings: Dictionary, now: int) -> None:
        """Record that operation ``now`` used these keys."""
        if len(self):
            self.used[self.positions(keys, strings)[1]] = now

    def copy(self) -> FilledKeys:
        """Return a copy that can be restored later.

        The copy shares the arrays. ``touch`` writes to one of them in place, so a restored copy can evict keys in a
        different order.
        """
        out = FilledKeys(self.types)
        out.keys, out.used, out._hash = self.keys, self.used, self._hash
        return out

    def recode(self, moved: Words) -> None:
        """Replace each string code ``c`` with ``moved[c]``; see :meth:`~..storage.arrangement.Arrangement.recode`."""
        keys = self.keys.copy()
        for i, kind in enumerate(self.types):
            if kind is Type.STRING:
                keys[i] = np.where(keys[i] == NULL, NULL, moved.take(np.maximum(keys[i], 0)))
        self.keys = keys
