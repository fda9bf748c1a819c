"""The merge policy of an arrangement: when batches are merged, and how much of a merge runs in each epoch.

The oldest batch is merged with all newer ones as soon as the newer rows weigh two thirds as much as the oldest batch. A
row normally weighs 1. A newer row that may cancel another row weighs 3, because both rows may be stored unnecessarily.
Any other batch is merged with all newer ones as soon as they have twice as many rows. This policy has three effects:

- The arrangement stores fewer than twice as many rows as the relation has.
- A row is copied once each time the number of rows around it triples.
- Each batch has more than half as many rows as all newer ones together, so the number of batches is logarithmic.

Merges are resumable. Each row that arrives in an epoch pays for ``EFFORT`` (16) rows of every merge in progress, so the
work of an epoch is never proportional to the state. This is enough to finish a merge of the oldest batch before the
newer ones weigh as much as the oldest, even if every change is a deletion. For example, let the oldest batch have 48
rows. Its merge starts when the newer rows weigh 32, so it reads at most 80 rows. During the merge, 80 / 16 = 5 more
rows arrive. They weigh 15, and 32 + 15 < 48.

Readers use the inputs of a merge until its output is complete. If a larger merge becomes necessary in the meantime, it
replaces the smaller one and also merges its inputs.

Source: the idea of *fuel*, which limits the effort per update, comes from differential dataflow's spine. The weights
are our own. They bound the number of stored rows as rule 3 of docs/rules.md requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .. import loops
from .batch import Batch, Layout
from .encoding import Words


class Spine(Protocol):
    """The part of an arrangement that merging uses: its batches ``runs``, oldest first, and the merges in progress."""

    layout: Layout
    runs: list[Batch]
    merges: list[Merge]

    @property
    def since(self) -> int: ...


EFFORT = 16
"""The number of rows that each merge in progress reads for every row that arrives in an epoch."""
CHUNK = 1 << 15
"""The number of rows of each input that are merged at a time. They fit in a processor's cache."""
MIN_CREDIT = 1 << 12
"""A merge waits until its credit is worth this many rows, because a NumPy call costs almost as much for few rows as for
many."""
SMALL = 2048
"""A merge of at most this many rows in total is completed immediately."""
WAIT_ROWS = 100
"""A new batch with at most this many rows waits for others of this size, so that several small epochs share a merge."""
WAIT_BESIDE = 256
"""A new batch waits only if the arrangement has more rows than this. A small arrangement must have few batches."""
WAIT_BATCHES = 4
"""Waiting batches are merged as soon as there are this many, because every lookup must search each of them.

Batches also wait while a merge is in progress. Together they have at most (WAIT_BATCHES - 1) * WAIT_ROWS = 300 rows,
which weigh 900 if all of them cancel. The bound on stored rows leaves room for 1,000 extra rows."""


class _Progress(NamedTuple):
    """The progress of a merge. Each chunk creates a new object, so Ctrl-C during a chunk loses only that chunk."""

    filled: int
    at: list[int]
    left: int


class Merge:
    """A resumable merge of adjacent batches, oldest first. Times before ``since`` become ``since``."""

    def __init__(self, arrangement: Spine, inputs: Sequence[Batch]) -> None:
        self.arrangement, self.inputs = arrangement, tuple(inputs)
        layout = arrangement.layout
        self.since = arrangement.since
        # If no row has a time after since, the result does not need a line of times.
        self.timed = max(map(_latest, self.inputs)) > self.since
        self.credit = 0
        rows = 1 + layout.columns + layout.width + self.timed
        self._out = np.empty((rows, sum([batch.rows for batch in self.inputs])), dtype=np.int64)
        self._done = _Progress(0, [0] * len(self.inputs), self._out.shape[1])

    @property
    def nbytes(self) -> int:
        """The size of the output buffer in bytes."""
        return int(self._out.nbytes)

    @property
    def left(self) -> int:
        """The number of input rows that have not been merged yet."""
        return self._done.left

    def advance(self) -> None:
        """Merge as many rows as the credit pays for, once the credit reaches ``MIN_CREDIT`` or covers all rows left."""
        if self.credit < min(MIN_CREDIT, self.left):
            return
        while self.credit > 0 and self.left:
            self.credit -= self._chunk(min(self.credit, CHUNK))

    def finish(self) -> Batch:
        """Merge all rows that are left, and return the merged batch."""
        while self.left:
            self._chunk(CHUNK)
        return self.result()

    def _chunk(self, fuel: int) -> int:
        filled, start, left = self._done
        ends = [batch.rows for batch in self.inputs] if left <= fuel else self._ends(start, fuel)
        parts = zip(self.inputs, start, ends, strict=True)
        lines, order = _zip([self._slice(batch, at, end) for batch, at, end in parts if at < end])
        read = len(order)
        layout = self.arrangement.layout
        kept = loops.consolidate(lines, order, layout.columns, layout.width, self._out, filled)
        self._done = _Progress(kept, ends, left - read)
        return read

    def _ends(self, start: list[int], fuel: int) -> list[int]:
        """Return where a chunk of at most ``fuel`` rows of each input ends."""
        words = [batch.body[0] for batch in self.inputs]
        ends = [min(at + fuel, len(word)) for at, word in zip(start, words, strict=True)]
        cuts = [word[end] for word, end in zip(words, ends, strict=True) if end < len(word)]
        if not cuts:
            return ends
        # Rows with equal sort words must be consolidated together.
        cut = min(cuts)
        ends = _until(words, start, cut, "left")
        # If all these rows have the same sort word, the chunk must include every row with this word, because otherwise
        # the merge would not make any progress.
        return ends if ends != start else _until(words, start, cut, "right")

    def _slice(self, batch: Batch, start: int, stop: int) -> Words:
        part = batch.body[:, start:stop]
        if not self.timed:
            return part[:-1] if batch.timed else part
        times = part[-1] if batch.timed else np.full(stop - start, batch.lower, dtype=np.int64)
        facts = part[:-1] if batch.timed else part
        return np.concatenate([facts, np.maximum(times, self.since)[None, :]])

    def result(self) -> Batch:
        """Return the merged batch. If much of the buffer is unused, the rows are copied to a smaller one."""
        filled = self._done.filled
        body = self._out[:, :filled]
        if filled < 0.75 * self._out.shape[1] or self._out.shape[1] <= SMALL:
            body = body.copy()
        return Batch(body, self.inputs[0].lower, self.timed)


def _until(words: list[Words], start: list[int], cut: np.int64, side: Literal["left", "right"]) -> list[int]:
    return [at + int(word[at:].searchsorted(cut, side=side)) for at, word in zip(start, words, strict=True)]


def _zip(parts: Sequence[Words]) -> tuple[Words, npt.NDArray[np.intp]]:
    """Concatenate several sorted bodies. Return the concatenated lines and the order that sorts their rows."""
    if len(parts) == 1:
        return np.ascontiguousarray(parts[0]), np.arange(parts[0].shape[1])
    lines = np.concatenate(parts, axis=1)
    # NumPy's stable sort is timsort, which detects the sorted runs and merges them.
    return lines, np.argsort(lines[0], kind="stable")


def _latest(batch: Batch) -> int:
    return int(batch.body[-1].max(initial=batch.lower)) if batch.timed else batch.lower


def merge_some(arrangement: Spine, fresh: int) -> None:
    """Start a merge if one is due, and advance each merge in progress by the effort that ``fresh`` new rows pay for."""
    merges = arrangement.merges
    if not _waits(arrangement.runs):
        _start(arrangement)
    if not merges:
        return
    for merge in merges:
        merge.credit += EFFORT * fresh
    at, done = 0, False
    while at < len(merges):
        merge = merges[at]
        merge.advance()
        if merge.left:
            at += 1
            continue
        done = True
        _replace(arrangement, merge)
        # Batches that arrived during this merge may already be due. Their merge gets the credit that is left.
        _start(arrangement, max(merge.credit, 0))
    if done:
        _drop_empty(arrangement)


def _waits(runs: Sequence[Batch]) -> bool:
    """Return whether the newest batches are few and small enough to wait for more batches of their size."""
    waiting, most = 0, min(WAIT_BATCHES, len(runs))
    while waiting < most and runs[-1 - waiting].rows <= WAIT_ROWS:
        waiting += 1
    if not 0 < waiting < WAIT_BATCHES:
        return False
    return runs[0].rows > WAIT_BESIDE or sum([batch.rows for batch in runs]) > WAIT_BESIDE


def finish_merges(arrangement: Spine) -> None:
    """Finish all merges in progress."""
    for merge in list(arrangement.merges):
        merge.finish()
        _replace(arrangement, merge)


def compact(arrangement: Spine) -> None:
    """Merge all batches into one. Epochs from ``since`` on stay readable."""
    finish_merges(arrangement)
    fold_times(arrangement)
    if len(arrangement.runs) > 1:
        arrangement.runs[:] = [Merge(arrangement, arrangement.runs).finish()]
    _trim(arrangement)


def fold_times(arrangement: Spine) -> None:
    """Rewrite the batches in which times can be replaced with ``since``, then complete all merges that are due."""
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
    """Start a merge of the oldest batch that is due and all newer ones."""
    runs, merges = arrangement.runs, arrangement.merges
    busy = {id(batch) for merge in merges for batch in merge.inputs} if merges else ()
    due, newer = len(runs), runs[-1].rows if runs else 0
    for at in range(len(runs) - 2, -1, -1):
        rows = runs[at].rows
        heavy = newer >= 2 * rows if at else _outweighed(runs, newer, 1 + arrangement.layout.columns)
        if (heavy or newer + rows <= SMALL) and not (busy and id(runs[at]) in busy):
            due = at
        newer += rows
    if due < len(runs):
        merge = Merge(arrangement, runs[due:])
        merge.credit = merge.left if merge.left <= SMALL else credit
        taken = {id(batch) for batch in merge.inputs}
        merges[:] = [*(m for m in merges if id(m.inputs[0]) not in taken), merge]


def _outweighed(runs: Sequence[Batch], newer: int, line: int) -> bool:
    """Return whether the ``newer`` rows weigh at least two thirds as much as the oldest batch.

    ``line`` is the line of a body that contains the diffs.
    """
    rows = runs[0].rows
    if 9 * newer < 2 * rows:
        return False  # not even if every newer row cancels; most epochs return here without counting retractions
    minus = sum([batch.retractions(line) for batch in runs[1:]])
    cancel = minus + min(newer - minus, runs[0].retractions(line))
    return 3 * (newer + 2 * cancel) >= 2 * rows


def _replace(arrangement: Spine, merge: Merge) -> None:
    at = next(i for i, batch in enumerate(arrangement.runs) if batch is merge.inputs[0])
    result = merge.result()
    # In this order, Ctrl-C between the two lines can lose a merge but not a batch.
    arrangement.merges.remove(merge)
    arrangement.runs[at : at + len(merge.inputs)] = [result]


def _drop_empty(arrangement: Spine) -> None:
    # A batch stores only its lower bound, so when an empty batch is removed, the one before it covers its epochs.
    if 0 not in [batch.rows for batch in arrangement.runs]:
        return
    busy = {id(batch) for merge in arrangement.merges for batch in merge.inputs}
    arrangement.runs[:] = [b for b in arrangement.runs if b.rows or id(b) in busy]


def _trim(arrangement: Spine) -> None:
    _drop_empty(arrangement)
    for at, batch in enumerate(arrangement.runs):
        if batch.nbytes > batch.body.size * 8:
            arrangement.runs[at] = Batch(batch.body.copy(), batch.lower, batch.timed)
