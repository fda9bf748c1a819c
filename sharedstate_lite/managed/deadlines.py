"""An index of what happens when the watermark reaches a time: expiries, timers and waiting rows."""

from __future__ import annotations

import numpy as np

from ..storage.encoding import Words


class Deadlines:
    """The keys that have something to do at a time, sorted by time in a few runs.

    The keys and times are those of a relation's rows: the first ``key`` columns, and the column ``line``.

    An entry is a hint: it stays if the entry of the state is changed or removed. The caller reads the state of the keys
    that `due` returns, and does what is due there.
    """

    def __init__(self, key: int, line: int) -> None:
        self._key, self.line = key, line
        self._runs: list[Words] = []

    def add(self, rows: Words) -> None:
        """Add the rows int64[k, n]."""
        if not rows.shape[1]:
            return
        self._runs.append(_sorted(rows.take([self.line, *range(self._key)], axis=0)))
        while len(self._runs) > 1 and 2 * self._runs[-1].shape[1] > self._runs[-2].shape[1]:
            last = self._runs.pop()
            self._runs[-1] = _sorted(np.hstack([self._runs[-1], last]))

    def due(self, time: int) -> Words:
        """Return the keys with an entry at or before ``time``, int64[k, m]. A key can occur twice."""
        parts = [run[1:, : run[0].searchsorted(time, side="right")] for run in self._runs]
        return np.hstack([np.empty((self._key, 0), dtype=np.int64), *parts])

    def drop(self, time: int) -> None:
        """Remove the entries at or before ``time``."""
        cut = [run[:, run[0].searchsorted(time, side="right") :] for run in self._runs]
        self._runs = [run for run in cut if run.shape[1]]


def _sorted(run: Words) -> Words:
    order = run[0].argsort(kind="stable")
    return np.array(run.take(order, axis=1))
