"""Arrangements: a changing relation stored as a short list of immutable batches, indexed by a key.

A batch covers the epochs ``[lower, upper)``. Each batch starts at the epoch where the previous one ends, so together
they contain the history of the relation. Its contents at time t are the sum of the diffs of all rows with times up to
and including t.

``upper`` is the first epoch that is not complete. ``since`` is the earliest epoch that can be read, because rows with
earlier times may have been merged into rows at ``since``. An open `TraceHandle` keeps ``since`` from advancing past the
handle's time. Without an open handle, ``since`` is the last complete epoch.

`insert` appends the changes of an epoch as a batch. `commit` completes the epoch and merges batches (see `spine`).
Because batches are immutable, undoing an epoch only requires restoring two lists (`mark`, `rollback`).

Source: McSherry et al., Shared Arrangements, VLDB 2020; O'Neil et al., The log-structured merge-tree, 1996.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import loops
from ..errors import TimeError, is_integer, shorten
from ..loops.lookups import ALL
from ..plan.nodes import Type
from . import spine
from .batch import LOW_BITS, Batch, Delta, Diffs, Layout, concat
from .encoding import NULL, Dictionary, Words

_NO_EDGE = np.empty(0, dtype=np.int64)
Run = tuple[Words, int, int, int]
"""A batch as of a time: its buffer, its number of rows, the line of its times or 0 if all rows count, and the time."""


@dataclass(frozen=True)
class BatchInfo:
    """The epochs ``[lower, upper)`` that a batch covers, and its size in rows and bytes."""

    lower: int
    upper: int
    rows: int
    bytes: int


class FoundRows:
    """Rows that have one of the keys int64[len(key), q]: their lines, int64[1 + k + w, m], and their owners, intp[m].

    The owner of a row is the number of its key. The sort words of a row with key i are in [words[i], words[i] |
    low_bits]. The first ``kept`` elements are used.
    """

    def __init__(self, layout: Layout, keys: Words, words: Words, low_bits: int = LOW_BITS) -> None:
        self.keys, self.words, self.low_bits = keys, words, low_bits
        self.owner = np.empty(len(words) + 16, dtype=np.intp)
        self.lines = np.empty((1 + layout.columns + layout.width, len(words) + 16), dtype=np.int64)
        self.count = np.zeros(1, dtype=np.int64)

    @property
    def kept(self) -> int:
        """The number of rows."""
        return int(self.count[0])

    def grow(self) -> None:
        """Double the room."""
        self.owner = np.concatenate([self.owner, np.empty_like(self.owner)])
        self.lines = np.concatenate([self.lines, np.empty_like(self.lines)], axis=1)


class TraceHandle:
    """A handle that keeps an arrangement readable at ``time`` until the handle is closed or advanced.

    `Arrangement.handle` opens a handle, which is also a context manager. A slow reader costs memory, because changes
    after its time cannot be merged with earlier changes.
    """

    def __init__(self, arrangement: Arrangement, time: int) -> None:
        arrangement.check(time)
        self.arrangement, self.time, self.open = arrangement, time, True
        arrangement.handles.append(self)

    def advance(self, time: int) -> None:
        """Move the handle forward to ``time``, which releases earlier epochs. Raises the same errors as `check`."""
        self.check(time)
        # Later merges fold the released times, so this call does not have to scan the state.
        self.time = time

    def check(self, time: int) -> None:
        """Raise TimeError if the handle is closed, or if it cannot move to ``time``.

        A handle can only move forward, and only to an epoch that is complete.
        """
        if not self.open:
            raise TimeError(
                f"{self.arrangement.name}: this handle is closed; open a new one with handle({shorten(time)})"
            )
        if not is_integer(time) or time < self.time or time >= self.arrangement.upper:
            raise TimeError(
                f"{self.arrangement.name}: cannot advance a handle from epoch {self.time} to {shorten(time)}; "
                f"a handle only moves forward, to a complete epoch (before upper={self.arrangement.upper})"
            )

    def close(self) -> None:
        """Close the handle. Closing it again has no effect."""
        if self.open:
            self.open = False
            self.arrangement.handles.remove(self)
            if not self.arrangement.handles:
                self.arrangement.fold_times()

    def __enter__(self) -> TraceHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TraceHandle({self.arrangement.name}, time={self.time}{'' if self.open else ', closed'})"


class Arrangement:
    """A relation with the columns and the key of ``layout``, readable at any epoch in ``[since, upper)``."""

    def __init__(self, name: str, layout: Layout, upper: int = 1) -> None:
        self.name, self.layout = name, layout
        self.upper = upper
        self.handles: list[TraceHandle] = []
        self.runs: list[Batch] = []
        self.merges: list[spine.Merge] = []
        # An arrangement that is created while the engine is running has no earlier history.
        self._floor = upper - 1

    # --- reading --------------------------------------------------------------

    @property
    def since(self) -> int:
        """The earliest epoch that can be read."""
        return max(self._floor, min((h.time for h in self.handles), default=self.upper - 1))

    @property
    def batches(self) -> list[BatchInfo]:
        """The batches from oldest to newest. Together they cover the epochs ``[0, upper)`` without gaps."""
        lowers = [0, *(b.lower for b in self.runs[1:])]
        uppers = [*(b.lower for b in self.runs[1:]), self.upper]
        return [BatchInfo(lo, up, len(b), b.nbytes) for lo, up, b in zip(lowers, uppers, self.runs, strict=False)]

    @property
    def rows(self) -> int:
        """The number of stored rows, including rows that later merges will cancel."""
        return sum([batch.rows for batch in self.runs])

    @property
    def nbytes(self) -> int:
        """The size of all buffers in bytes, including the output buffers of merges in progress."""
        return sum(b.nbytes for b in self.runs) + sum(m.nbytes for m in self.merges)

    def check(self, time: int) -> None:
        """Raise TimeError unless ``since <= time < upper``."""
        if not is_integer(time):
            raise TimeError(f"{self.name}: {shorten(time)} is not an epoch; epochs are whole numbers")
        if time < self.since:
            raise TimeError(
                f"{self.name}: cannot read epoch {shorten(time)}: the earliest readable epoch is since={self.since}; "
                f"open a handle at epoch {time} before stepping past it"
            )
        if time >= self.upper:
            raise TimeError(
                f"{self.name}: epoch {shorten(time)} is not complete yet (upper={self.upper}); read at {self.upper - 1}"
            )

    def handle(self, time: int | None = None) -> TraceHandle:
        """Open a handle at ``time`` (default: the last complete epoch). Raises TimeError if it cannot be read."""
        return TraceHandle(self, self.upper - 1 if time is None else time)

    def contents(self, at: int | None = None, strings: Dictionary | None = None) -> Delta:
        """Return the rows as of epoch ``at`` (None: all rows), consolidated if ``strings`` is given.

        Does not `check` whether the epoch is readable.
        """
        parts = [self._visible(batch.body, batch, at) for batch in self._until(at)]
        flat = concat([Delta(p[self._columns], p[1 + self.layout.columns]) for p in parts], self.layout.columns)
        if strings is None:
            return flat
        return self.layout.delta(self.layout.body(flat.rows, flat.diffs, strings))

    def match(
        self, keys: Words, strings: Dictionary, at: int | None = None
    ) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]:
        """Find the rows whose key is in ``keys``, int64[len(key), q], as of epoch ``at`` (None: in all batches).

        Returns three arrays for the m rows found: for each row, the position of its key in ``keys``; the rows,
        int64[k, m]; and their diffs, int64[w, m]. A row is returned once per batch that contains it. NULL matches NULL.
        """
        rows = FoundRows(self.layout, keys, self.layout.key_words(keys, strings))
        for batch in self._until(at):
            self.read(rows, batch, at)
        kept = rows.kept
        return rows.owner[:kept], rows.lines[self._columns, :kept], rows.lines[self.layout.diff_rows, :kept]

    def probe(self, keys: Words, strings: Dictionary, at: int | None = None) -> tuple[Words, list[Run]]:
        """Return the smallest sort word of each key, and the batches as of epoch ``at``, for a loop over both."""
        runs = [(b.buffer, b.rows, *self._times(b, at)) for b in self._until(at)]
        return self.layout.key_words(keys, strings), runs

    def read(
        self,
        rows: FoundRows,
        batch: Batch,
        at: int | None,
        most: int = ALL,
        least: bool = False,
        edge: Words = _NO_EDGE,
    ) -> None:
        """Add the rows of a batch as of time ``at`` to ``rows``; see `look_up` in :mod:`..loops.lookups`."""
        how = rows.words, rows.low_bits, rows.keys, self.layout.key_columns, *self._times(batch, at), most, least, edge
        key = 0
        while (key := loops.look_up(batch.buffer, batch.rows, *how, key, rows.count, rows.owner, rows.lines)) < 0:
            key = -1 - key
            rows.grow()

    def multiplicity(self, body: Words) -> npt.NDArray[np.int64]:
        """Return how often each retracted row of a body is stored, int64[n], and 0 for the other rows."""
        have = np.zeros(body.shape[1], dtype=np.int64)
        for batch in self.runs:
            loops.stored(batch.buffer, batch.rows, body, self.layout.columns, have)
        return have

    @property
    def _columns(self) -> slice:
        return slice(1, 1 + self.layout.columns)

    def _until(self, at: int | None) -> list[Batch]:
        return self.runs if at is None else [batch for batch in self.runs if batch.lower <= at]

    @staticmethod
    def _times(batch: Batch, at: int | None) -> tuple[int, int]:
        """Return the line of the times that a loop compares with epoch ``at``, or 0 if all rows count, and ``at``."""
        return (len(batch.buffer) - 1, at) if batch.timed and at is not None else (0, 0)

    @staticmethod
    def _visible(body: Words, batch: Batch, at: int | None) -> Words:
        return body.compress(body[-1] <= at, axis=1) if batch.timed and at is not None else body

    # --- writing --------------------------------------------------------------

    def insert(self, rows: Words, diffs: Diffs, strings: Dictionary) -> Words:
        """Append the changes of epoch ``upper`` as a batch, and return the body of the batch."""
        body = self.layout.body(rows, diffs, strings)
        self.insert_body(body)
        return body

    def insert_body(self, body: Words) -> None:
        """Append a sorted, consolidated body as a batch of epoch ``upper``."""
        if not body.shape[1]:
            return
        self.runs.append(Batch(body, self.upper))

    def take(self, words: Sequence[tuple[int, int]]) -> Delta:
        """Remove the rows whose sort words are in the ranges ``[low, high]``, which do not overlap, and return them.

        The result is consolidated. Without open handles, the batches are rewritten without the rows. Otherwise, the
        rows are retracted in epoch ``upper``, so that the handles can still read them.
        """
        edges = np.array(sorted(words), dtype=np.int64).reshape(-1, 2)
        spine.finish_merges(self)
        cuts, kept = [], []
        for batch in self.runs:
            starts = batch.body[0].searchsorted(edges[:, 0])
            ends = batch.body[0].searchsorted(edges[:, 1], side="right")
            cut = [batch.body[:, a:b] for a, b in zip([0, *starts], [0, *ends], strict=True)]
            cuts.append(Batch(np.concatenate(cut, axis=1), batch.lower, batch.timed))
            rest = zip([0, *ends], [*starts, len(batch)], strict=True)
            kept.append(np.concatenate([batch.body[:, a:b] for a, b in rest], axis=1))
        if not cuts:
            return Delta.empty(self.layout.columns)
        # One epoch ahead, no time has to be kept, so equal rows of all cuts add up.
        body = spine.Merge(Arrangement(self.name, self.layout, self.upper + 1), cuts).finish().body
        if self.handles:
            gone = body.copy()
            gone[self.layout.diff_rows] *= -1
            self.insert_body(gone)
        else:
            rewritten = zip(self.runs, kept, strict=True)
            self.runs = [Batch(each, batch.lower, batch.timed) for batch, each in rewritten if each.shape[1]]
        return self.layout.delta(body)

    def mark(self) -> tuple[list[Batch], list[spine.Merge], int, int]:
        """Return a snapshot for `rollback`. Batches are immutable, so this only copies the lists that contain them."""
        return list(self.runs), list(self.merges), self.upper, self._floor

    def rollback(self, mark: tuple[list[Batch], list[spine.Merge], int, int]) -> None:
        """Undo all changes since ``mark``.

        A merge that has advanced since then stays valid, because its inputs have not changed.
        """
        self.runs, self.merges, self.upper, self._floor = list(mark[0]), list(mark[1]), mark[2], mark[3]

    def load(self, body: Words) -> None:
        """Replace the contents with ``body``, which contains the rows as of the last complete epoch."""
        self.runs, self.merges, self._floor = [Batch(body, 0)] if body.shape[1] else [], [], self.upper - 1

    def commit(self, upper: int) -> None:
        """Complete the epochs before ``upper``, then merge batches.

        The work is bounded by the number of rows that were inserted in these epochs.
        """
        fresh, at = 0, len(self.runs) - 1
        while at >= 0 and self.runs[at].lower >= self.upper:
            fresh += self.runs[at].rows
            at -= 1
        self.upper = upper
        if fresh:
            spine.merge_some(self, fresh)

    def finish_merges(self) -> None:
        """Finish all merges in progress. The work is not bounded by the rows of an epoch."""
        spine.finish_merges(self)

    def compact(self) -> None:
        """Merge all batches into one. Epochs from ``since`` on stay readable."""
        spine.compact(self)

    def recode(self, moved: Words) -> None:
        """Replace each string code ``c`` with ``moved[c]``.

        The rows stay sorted, because their hashes depend on the strings and not on the codes.
        """
        spine.finish_merges(self)
        lines = [1 + i for i, kind in enumerate(self.layout.types) if kind is Type.STRING]
        for at, batch in enumerate(self.runs if lines else []):
            body = batch.body.copy()
            for line in lines:
                body[line] = np.where(body[line] == NULL, NULL, moved.take(np.maximum(body[line], 0)))
            self.runs[at] = Batch(body, batch.lower, batch.timed)

    def fold_times(self) -> None:
        """Replace all times before ``since`` with ``since``. Rows that then have equal times can cancel."""
        spine.fold_times(self)

    def __repr__(self) -> str:
        size = f"rows={self.rows}, batches={len(self.runs)}"
        return f"Arrangement({self.name}, since={self.since}, upper={self.upper}, {size})"
