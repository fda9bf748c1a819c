"""Merging the batches of an arrangement, a bounded share of work at a time.

The oldest batch and all that are newer become one batch as soon as the newer ones weigh
two thirds of it. A newer row weighs one, or three if it may cancel: then it stands for two rows
that are stored in vain, itself and the one that it takes back. Any other batch waits until
the newer ones have twice its rows. So

- what is stored stays below twice what is there: rows stored in vain are at most those
  beside the oldest batch and those of it that they cancel;
- a row is copied once each time that its surroundings have tripled, not more often;
- each batch has more rows than half of all newer ones; their number is logarithmic.

A merge runs for a while: each epoch pays ``EFFORT`` rows of merging for each row that
it brought, to every merge that is under way, so no epoch pays for the size of the
state. That is enough for the oldest batch to be written anew before the newer ones
weigh as much as it does, even if all that comes is deletions: a merge begins at a weight
of two thirds, reads at most five rows for each three of the oldest batch, and meanwhile
lets in five for each forty-eight, which weigh fifteen: 32/48 + 15/48 < 1. Readers keep
using the inputs until the output is complete; a merge that falls due above one under way
takes over its inputs.

The bound on effort per update is Differential Dataflow's fueled spine; the weights are
ours, because we promise a bound on stored rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .batch import Batch, Layout, consolidate, write_rows
from .encoding import Words


class Spine(Protocol):
    """The batches that are merged, oldest first, and what about them is kept apart."""

    layout: Layout
    runs: list[Batch]
    merges: list[Merge]

    @property
    def since(self) -> int: ...


EFFORT = 16
"""Rows merged for each row that an epoch brings, in each merge that is under way."""
CHUNK = 1 << 15
"""Rows of each input merged in one stroke: what fits a processor's cache."""
STROKE = 1 << 12
"""Effort is saved up to this many rows, because a short stroke costs as much as a longer one."""
SMALL = 2048
"""Batches that together have no more rows than this are merged at once."""
YOUNG = 100
"""A newest batch of no more rows than this waits for its like, so that short epochs share a merge;"""
SOME = 256
"""and it does so beside more rows than this, since where little is stored the number of batches has to be small."""
FEW = 4
"""As many as this are not kept waiting: each costs every look-up a search.

What waits may do so beside a merge under way too: (FEW - 1) * YOUNG rows that all cancel weigh 900,
and the bound on stored rows leaves 1,000 for them."""


class _Progress(NamedTuple):
    """How far a merge has come: exchanged as a whole, so that an interrupted stroke never happened."""

    filled: int
    at: list[int]
    left: int


class Merge:
    """The merge of neighbours, oldest first; resumable; folds times at or before ``since``."""

    def __init__(self, arrangement: Spine, inputs: Sequence[Batch]) -> None:
        self.arrangement, self.inputs = arrangement, tuple(inputs)
        layout = arrangement.layout
        self.since = arrangement.since
        # With every time let go of there is nothing left to tell apart, and no need for a row of times.
        self.timed = max(map(_latest, self.inputs)) > self.since
        self.credit = 0
        rows = 1 + layout.columns + layout.width + self.timed
        self._out = np.empty((rows, sum(map(len, self.inputs))), dtype=np.int64)
        self._done = _Progress(0, [0] * len(self.inputs), self._out.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the output buffer."""
        return int(self._out.nbytes)

    @property
    def left(self) -> int:
        """Rows of the inputs that are not merged yet."""
        return self._done.left

    def advance(self) -> None:
        """Spend the credit that has been saved; rows of equal sort words are never split."""
        if self.credit < min(STROKE, self.left):
            return
        while self.credit > 0 and self.left:
            self.credit -= self._chunk(min(self.credit, CHUNK))

    def finish(self) -> Batch:
        """Merge what is left, and give the result."""
        while self.left:
            self._chunk(CHUNK)
        return self.result()

    def _chunk(self, fuel: int) -> int:
        filled, start, left = self._done
        words = [batch.body[0] for batch in self.inputs]
        ends = [min(at + fuel, len(word)) for at, word in zip(start, words, strict=True)]
        cuts = [word[end] for word, end in zip(words, ends, strict=True) if end < len(word)]
        if cuts:
            cut = min(cuts)
            ends = _until(words, start, cut, "left")
            if ends == start:
                # All of the share is one sort word: take the whole of it, or the merge would stand still.
                ends = _until(words, start, cut, "right")
        parts = zip(self.inputs, start, ends, strict=True)
        lines, order = _zip([self._slice(batch, at, end) for batch, at, end in parts if at < end])
        read = len(order)
        index, diffs = consolidate(lines, order, self.arrangement.layout)
        kept = filled + len(index)
        write_rows(lines, index, diffs, self._out[:, filled:kept], self.arrangement.layout)
        self._done = _Progress(kept, ends, left - read)
        return read

    def _slice(self, batch: Batch, start: int, stop: int) -> Words:
        part = batch.body[:, start:stop]
        if not self.timed:
            return part[:-1] if batch.timed else part
        times = part[-1] if batch.timed else np.full(stop - start, batch.lower, dtype=np.int64)
        facts = part[:-1] if batch.timed else part
        return np.concatenate([facts, np.maximum(times, self.since)[None, :]])

    def result(self) -> Batch:
        """The merged batch. A buffer that cancellation left mostly unused is exchanged for one that fits."""
        filled = self._done.filled
        body = self._out[:, :filled]
        if filled < 0.75 * self._out.shape[1] or self._out.shape[1] <= SMALL:
            body = body.copy()
        return Batch(body, self.inputs[0].lower, self.timed)


def _until(words: list[Words], start: list[int], cut: np.int64, side: Literal["left", "right"]) -> list[int]:
    return [at + int(word[at:].searchsorted(cut, side=side)) for at, word in zip(start, words, strict=True)]


def _zip(parts: Sequence[Words]) -> tuple[Words, npt.NDArray[np.intp]]:
    """The rows of several sorted bodies, one after the other, and the order that sorts them."""
    if len(parts) == 1:
        return parts[0], np.arange(parts[0].shape[1])
    lines = np.concatenate(parts, axis=1)
    # The stable sort finds the runs that are in order already and merges them (timsort).
    return lines, np.argsort(lines[0], kind="stable")


def _latest(batch: Batch) -> int:
    return int(batch.body[-1].max(initial=batch.lower)) if batch.timed else batch.lower


def merge_some(arrangement: Spine, fresh: int) -> None:
    """Start the merges that are due and pay each its share for ``fresh`` new rows."""
    merges = arrangement.merges
    if not _waits(arrangement.runs):
        _start(arrangement)
    elif not merges:
        return
    for merge in merges:
        merge.credit += EFFORT * fresh
    at = 0
    while at < len(merges):
        merge = merges[at]
        merge.advance()
        if merge.left:
            at += 1
            continue
        _replace(arrangement, merge)
        # What came while it ran may be due already, and has what is left of this epoch's effort.
        _start(arrangement, max(merge.credit, 0))
    _drop_empty(arrangement)


def _waits(runs: Sequence[Batch]) -> bool:
    """Whether the newest batches are so small, and so few of them are, that their merge waits for the next epoch's."""
    young = 0
    while young < min(FEW, len(runs)) and len(runs[-1 - young]) <= YOUNG:
        young += 1
    return 0 < young < FEW and (len(runs[0]) > SOME or sum(map(len, runs)) > SOME)


def finish_merges(arrangement: Spine) -> None:
    """Run the merges that are under way to their end."""
    for merge in list(arrangement.merges):
        merge.finish()
        _replace(arrangement, merge)


def compact(arrangement: Spine) -> None:
    """Merge everything into one batch, with the times that since allows."""
    finish_merges(arrangement)
    fold_times(arrangement)
    if len(arrangement.runs) > 1:
        arrangement.runs[:] = [Merge(arrangement, arrangement.runs).finish()]
    _trim(arrangement)


def fold_times(arrangement: Spine) -> None:
    """Rewrite each batch that keeps times apart which since has passed."""
    since = arrangement.since
    if not any(
        b.timed and (int(b.body[-1].min(initial=since)) < since or _latest(b) <= since) for b in arrangement.runs
    ):
        return
    finish_merges(arrangement)
    for at, batch in enumerate(arrangement.runs):
        if batch.timed:
            arrangement.runs[at] = Merge(arrangement, [batch]).finish()
    _drop_empty(arrangement)
    _start(arrangement)
    finish_merges(arrangement)
    _drop_empty(arrangement)


def _start(arrangement: Spine, credit: int = 0) -> None:
    """Begin the merge of the oldest batch that is due with all that are newer."""
    runs, merges = arrangement.runs, arrangement.merges
    busy = {id(batch) for merge in merges for batch in merge.inputs}
    due, newer = len(runs), 0
    for at in range(len(runs) - 1, -1, -1):
        rows = len(runs[at])
        if at < len(runs) - 1 and id(runs[at]) not in busy:
            heavy = newer >= 2 * rows if at else _outweighed(runs, newer, 1 + arrangement.layout.columns)
            if heavy or newer + rows <= SMALL:
                due = at
        newer += rows
    if due < len(runs):
        merge = Merge(arrangement, runs[due:])
        merge.credit = merge.left if merge.left <= SMALL else credit
        taken = {id(batch) for batch in merge.inputs}
        merges[:] = [*(m for m in merges if id(m.inputs[0]) not in taken), merge]


def _outweighed(runs: Sequence[Batch], newer: int, line: int) -> bool:
    """Whether the oldest batch is due, with so many newer rows; ``line`` is the place of the diffs."""
    rows = len(runs[0])
    if 9 * newer < 2 * rows:
        return False  # though every newer row may cancel; most epochs end here, uncounted
    minus = sum(batch.retractions(line) for batch in runs[1:])
    cancel = minus + min(newer - minus, runs[0].retractions(line))
    return 3 * (newer + 2 * cancel) >= 2 * rows


def _replace(arrangement: Spine, merge: Merge) -> None:
    at = next(i for i, batch in enumerate(arrangement.runs) if batch is merge.inputs[0])
    result = merge.result()
    # In this order an interrupt loses a merge, never a batch.
    arrangement.merges.remove(merge)
    arrangement.runs[at : at + len(merge.inputs)] = [result]


def _drop_empty(arrangement: Spine) -> None:
    # An empty batch covers its epochs by the neighbour that grows over them: batches store only where they begin.
    if all(map(len, arrangement.runs)):
        return
    busy = {id(batch) for merge in arrangement.merges for batch in merge.inputs}
    arrangement.runs[:] = [b for b in arrangement.runs if len(b) or id(b) in busy]


def _trim(arrangement: Spine) -> None:
    _drop_empty(arrangement)
    for at, batch in enumerate(arrangement.runs):
        if batch.nbytes > batch.body.size * 8:
            arrangement.runs[at] = Batch(batch.body.copy(), batch.lower, batch.timed)
