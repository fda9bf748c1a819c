"""Merging the batches of an arrangement, a bounded share of work at a time.

Two rules say which neighbours merge:

- the oldest batch takes in the next as soon as that has a sixth of its rows. So all
  rows beside the oldest are at most a third of it, and since each can cancel at most
  one of its rows, what is stored is at most twice what is there;
- any other batch takes in the next as soon as that has half of its rows. So their
  number is logarithmic.

A merge runs for a while: each epoch pays ``EFFORT`` rows of merging for each row that
it brought (and for small batches the whole merge). That is enough for every merge to
end before its inputs would be due again, and no epoch pays for the size of the state.
Readers keep using the two inputs until the output is complete.

The bound on effort per update is Differential Dataflow's fueled spine; the sixth is
ours, because we promise a bound on stored rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .batch import Batch, fold
from .words import Words

if TYPE_CHECKING:
    from .arrangement import Arrangement

EFFORT = 12
"""Rows merged for each row that an epoch brings."""
CHUNK = 1 << 15
"""Rows of each input merged in one stroke: what fits a processor's cache."""
SMALL = 2048
"""Two neighbours that together have no more rows than this are merged at once."""


class Merge:
    """The merge of two neighbours, resumable; folds times at or before ``since``."""

    def __init__(self, arrangement: Arrangement, older: Batch, newer: Batch) -> None:
        self.arrangement, self.older, self.newer = arrangement, older, newer
        layout = arrangement.layout
        since = arrangement.since
        # With every time let go of there is nothing left to tell apart, and no need for a row of times.
        self.timed = max(_latest(older), _latest(newer)) > since
        self.since = since
        rows = 1 + layout.columns + layout.width + self.timed
        self._out = np.empty((rows, len(older) + len(newer)), dtype=np.int64)
        self._filled = self._i = self._j = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the output buffer."""
        return int(self._out.nbytes)

    @property
    def done(self) -> bool:
        """True when both inputs are used up."""
        return self._i == len(self.older) and self._j == len(self.newer)

    def advance(self, fuel: int) -> int:
        """Merge about ``fuel`` rows (never splitting rows of equal sort words); returns the rows read."""
        read = 0
        while read < fuel and not self.done:
            read += self._chunk(min(max(fuel - read, 256), CHUNK))
        return read

    def _chunk(self, fuel: int) -> int:
        a, b, i, j = self.older.body, self.newer.body, self._i, self._j
        i2, j2 = min(i + fuel, a.shape[1]), min(j + fuel, b.shape[1])
        cuts = [run[0, end] for run, end in ((a, i2), (b, j2)) if end < run.shape[1]]
        if cuts:
            cut = min(cuts)
            i2, j2 = (int(np.searchsorted(run[0], cut)) for run in (a, b))
            if (i2, j2) == (i, j):
                # All of the share is one sort word: take the whole of it, or the merge would stand still.
                i2, j2 = (int(np.searchsorted(run[0], cut, side="right")) for run in (a, b))
        out = self._out[:, self._filled : self._filled + (i2 - i) + (j2 - j)]
        _zip(self._slice(self.older, i, i2), self._slice(self.newer, j, j2), out)
        folded = fold(out, self.arrangement.layout)
        if folded is not out:
            out[:, : folded.shape[1]] = folded
        self._filled += folded.shape[1]
        self._i, self._j = i2, j2
        return (i2 - i) + (j2 - j)

    def _slice(self, batch: Batch, start: int, stop: int) -> Words:
        part = batch.body[:, start:stop]
        if not self.timed:
            return part[:-1] if batch.timed else part
        times = part[-1] if batch.timed else np.full(stop - start, batch.lower, dtype=np.int64)
        facts = part[:-1] if batch.timed else part
        return np.concatenate([facts, np.maximum(times, self.since)[None, :]])

    def result(self) -> Batch:
        """The merged batch. A buffer that cancellation left mostly unused is exchanged for one that fits."""
        body = self._out[:, : self._filled]
        if self._filled < 0.75 * self._out.shape[1] or self._out.shape[1] <= SMALL:
            body = body.copy()
        return Batch(body, self.older.lower, self.timed)


def _zip(a: Words, b: Words, out: Words) -> None:
    """Write the columns of two sorted bodies into ``out`` in order."""
    if not a.shape[1] or not b.shape[1]:
        out[:] = a if a.shape[1] else b
        return
    at = np.searchsorted(a[0], b[0], side="right") + np.arange(b.shape[1])
    rest = np.ones(out.shape[1], dtype=bool)
    rest[at] = False
    others = np.flatnonzero(rest)
    for line, ours, theirs in zip(out, a, b, strict=True):
        line[others] = ours
        line[at] = theirs


def _latest(batch: Batch) -> int:
    return int(batch.body[-1].max(initial=batch.lower)) if batch.timed else batch.lower


def work(arrangement: Arrangement, fresh: int) -> None:
    """Start the merges that are due and give each a share of work for ``fresh`` new rows."""
    _merge_small(arrangement)
    _start_due(arrangement)
    for merge in list(arrangement.merges):
        merge.advance(EFFORT * fresh)
        if merge.done:
            _replace(arrangement, merge)
            _start_due(arrangement)
    _drop_empty(arrangement)


def complete(arrangement: Arrangement) -> None:
    """Run the merges that are under way to their end."""
    for merge in list(arrangement.merges):
        merge.advance(len(merge.older) + len(merge.newer))
        _replace(arrangement, merge)


def finish(arrangement: Arrangement) -> None:
    """Merge everything into one batch, with the times that since allows."""
    complete(arrangement)
    refold(arrangement)
    while len(arrangement.runs) > 1:
        # Smallest neighbours first, so that the large ones are copied once.
        sizes = [len(a) + len(b) for a, b in zip(arrangement.runs, arrangement.runs[1:], strict=False)]
        _merge_now(arrangement, sizes.index(min(sizes)))
    _trim(arrangement)


def refold(arrangement: Arrangement) -> None:
    """Rewrite each batch that keeps times apart which since has passed."""
    since = arrangement.since
    if not any(b.timed and (int(b.body[-1].min(initial=since)) < since or _latest(b) <= since) for b in arrangement.runs):
        return
    complete(arrangement)
    for at, batch in enumerate(arrangement.runs):
        if batch.timed:
            nothing = Batch(batch.body[:, :0], batch.lower, True)
            merge = Merge(arrangement, batch, nothing)
            merge.advance(len(batch))
            arrangement.runs[at] = merge.result()
    _start_due(arrangement)
    complete(arrangement)
    _drop_empty(arrangement)


def _merge_small(arrangement: Arrangement) -> None:
    runs = arrangement.runs
    busy = _busy(arrangement)
    while len(runs) >= 2 and len(runs[-2]) + len(runs[-1]) <= SMALL and not {id(runs[-2]), id(runs[-1])} & busy:
        _merge_now(arrangement, len(runs) - 2)


def _start_due(arrangement: Arrangement) -> None:
    busy = _busy(arrangement)
    for at, (older, newer) in enumerate(zip(arrangement.runs, arrangement.runs[1:], strict=False)):
        due = len(newer) * (6 if at == 0 else 2) >= len(older)
        if due and not {id(older), id(newer)} & busy:
            arrangement.merges.append(Merge(arrangement, older, newer))
            busy |= {id(older), id(newer)}


def _busy(arrangement: Arrangement) -> set[int]:
    return {id(batch) for merge in arrangement.merges for batch in (merge.older, merge.newer)}


def _merge_now(arrangement: Arrangement, at: int) -> None:
    merge = Merge(arrangement, arrangement.runs[at], arrangement.runs[at + 1])
    merge.advance(len(merge.older) + len(merge.newer))
    arrangement.merges.append(merge)
    _replace(arrangement, merge)


def _replace(arrangement: Arrangement, merge: Merge) -> None:
    at = next(i for i, batch in enumerate(arrangement.runs) if batch is merge.older)
    arrangement.runs[at : at + 2] = [merge.result()]
    arrangement.merges.remove(merge)


def _drop_empty(arrangement: Arrangement) -> None:
    # An empty batch covers its epochs by the neighbour that grows over them: batches store only where they begin.
    busy = _busy(arrangement)
    arrangement.runs[:] = [b for b in arrangement.runs if len(b) or id(b) in busy]


def _trim(arrangement: Arrangement) -> None:
    _drop_empty(arrangement)
    for at, batch in enumerate(arrangement.runs):
        if batch.nbytes > batch.body.size * 8:
            arrangement.runs[at] = Batch(batch.body.copy(), batch.lower, batch.timed)
