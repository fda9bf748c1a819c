"""An arrangement: a changing relation kept as a short list of immutable, sorted batches.

Holds the batches, their order in time, and who still reads them at which time; the
merging itself is in :mod:`.spine`. Refuses a read outside ``since <= t < upper``.

A batch covers the epochs ``[lower, upper)``; batches are contiguous, so together they
are the relation's whole history, and the contents at time t are the sum of the diffs
of all rows with time <= t. ``since`` is how far readers let the past be folded: times
at or before it are no longer told apart. With no :class:`TraceHandle` open, since
follows the last epoch. The design is the shared arrangement (McSherry et al., VLDB
2020) over a log-structured spine (O'Neil et al., 1996).

An epoch's batch is appended by :meth:`Arrangement.insert` and takes part in merges once
:meth:`Arrangement.commit` has sealed the epoch. Batches are immutable, so to undo an
epoch is to go back to a list (:meth:`Arrangement.mark`, :meth:`Arrangement.rollback`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from ..errors import TimeError, is_integer, shorten
from ..plan.nodes import Type
from . import spine
from .batch import LOW_BITS, Batch, Delta, Diffs, Layout, concat, gather, ranges
from .encoding import NULL, Strings, Words
from .multiplicity import LIMIT, add_up, too_many


@dataclass(frozen=True)
class BatchInfo:
    """A batch as a reader sees it: epochs [lower, upper), its number of rows and bytes."""

    lower: int
    upper: int
    rows: int
    bytes: int


class TraceHandle:
    """A reader's hold on an arrangement: while it is open at ``time``, since does not pass it.

    A context manager; :meth:`advance` lets the past go up to a later time, :meth:`close`
    lets go of it altogether.
    """

    def __init__(self, arrangement: Arrangement, time: int) -> None:
        arrangement.check(time)
        self.arrangement, self.time, self.open = arrangement, time, True
        arrangement.handles.append(self)

    def advance(self, time: int) -> None:
        """Move to a later time of the arrangement. Raises TimeError if it is earlier, or at or past upper."""
        self.check(time)
        # What it lets go of is folded by the merges to come, so that no reader pays for the size of the state.
        self.time = time

    def check(self, time: int) -> None:
        """Raise TimeError unless it can :meth:`advance` to ``time``."""
        if not self.open:
            raise TimeError(
                f"{self.arrangement.name}: this handle is closed; take a new one with handle({shorten(time)})"
            )
        if not is_integer(time) or time < self.time or time >= self.arrangement.upper:
            raise TimeError(
                f"{self.arrangement.name}: a handle at {self.time} cannot advance to {shorten(time)}; "
                f"it moves forward only, and stays below upper={self.arrangement.upper}"
            )

    def close(self) -> None:
        """Let go; a second call does nothing."""
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
    """Rows of ``layout`` under the name ``name``, readable at any time in ``[since, upper)``."""

    def __init__(self, name: str, layout: Layout, upper: int = 1) -> None:
        self.name, self.layout = name, layout
        self.upper = upper
        self.handles: list[TraceHandle] = []
        self.runs: list[Batch] = []
        self.merges: list[spine.Merge] = []
        # Nothing before its first epoch can be told apart: an arrangement made late starts here.
        self._floor = upper - 1

    # --- what a reader sees ---------------------------------------------------

    @property
    def since(self) -> int:
        """The earliest time that can still be read."""
        return max(self._floor, min((h.time for h in self.handles), default=self.upper - 1))

    @property
    def batches(self) -> list[BatchInfo]:
        """The batches in order of time: contiguous, from epoch 0 to upper."""
        lowers = [0, *(b.lower for b in self.runs[1:])]
        uppers = [*(b.lower for b in self.runs[1:]), self.upper]
        return [BatchInfo(lo, up, len(b), b.nbytes) for lo, up, b in zip(lowers, uppers, self.runs, strict=False)]

    @property
    def rows(self) -> int:
        """Rows stored, those that a merge will cancel included."""
        return sum(map(len, self.runs))

    @property
    def nbytes(self) -> int:
        """Bytes of all live buffers, the output of running merges included."""
        return sum(b.nbytes for b in self.runs) + sum(m.nbytes for m in self.merges)

    def check(self, time: int) -> None:
        """Raise TimeError unless ``since <= time < upper``."""
        if not is_integer(time):
            raise TimeError(f"{self.name}: {shorten(time)} is no time; epochs are whole numbers")
        if time < self.since:
            raise TimeError(
                f"{self.name}: read at time {shorten(time)} is before since={self.since}; "
                f"keep a handle at {time} before the epoch that follows it"
            )
        if time >= self.upper:
            raise TimeError(
                f"{self.name}: time {shorten(time)} is not complete yet; upper={self.upper}, so read at {self.upper - 1}"
            )

    def handle(self, time: int | None = None) -> TraceHandle:
        """Hold the arrangement at ``time`` (default: the last epoch). Raises TimeError outside since and upper."""
        return TraceHandle(self, self.upper - 1 if time is None else time)

    def contents(self, at: int | None = None, strings: Strings | None = None) -> Delta:
        """The rows at a time, consolidated if ``strings`` is given. No check against since: see :meth:`check`."""
        parts = [self._visible(batch.body, batch, at) for batch in self._until(at)]
        flat = concat([Delta(p[self._columns], p[1 + self.layout.columns]) for p in parts], self.layout.columns)
        if strings is None:
            return flat
        return self.layout.delta(self.layout.body(flat.rows, flat.diffs, strings))

    def match(
        self, keys: Words, strings: Strings, at: int | None = None
    ) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]:
        """Rows whose key is one of ``keys``, int64[len(key), q], at a time (default: everything appended).

        Returns, for every match: the position in ``keys``, the rows int64[k, m], the diffs
        int64[w, m]. A row occurs once per batch that holds it; NULL matches NULL.
        """
        low = self.layout.key_words(keys, strings)
        # Searches in order walk the batch once; in disorder each one misses the processor's cache.
        turn = low.argsort()
        low, keys = low.take(turn), keys.take(turn, axis=1)
        owners, parts = [], []
        for batch in self._until(at):
            word = batch.body[0]
            start = word.searchsorted(low)
            size = word.searchsorted(low | LOW_BITS, side="right") - start
            if np.count_nonzero(size):
                index, owner = ranges(start, size)
                part, owner = self.verify(batch, index, owner, keys, at)
                owners.append(turn.take(owner))
                parts.append(part)
        return self._gathered(owners, parts)

    def verify(
        self, batch: Batch, index: npt.NDArray[np.intp], owner: npt.NDArray[np.intp], keys: Words, at: int | None = None
    ) -> tuple[Words, npt.NDArray[np.intp]]:
        """The body's columns at ``index``, less those of another key with the same hash, or of a later time."""
        part = gather(batch.body, index)
        good = (part[self.layout.key_rows] == keys.take(owner, axis=1)).all(axis=0)
        if batch.timed and at is not None:
            good &= part[-1] <= at
        return (part, owner) if good.all() else (part.compress(good, axis=1), owner.compress(good))

    def multiplicity(self, rows: Words, words: Words) -> npt.NDArray[np.int64]:
        """How often each of the rows int64[k, q], whose sort words are ``words``, is there now; int64[q]."""
        owners, parts = [], []
        for batch in self.runs:
            start = batch.body[0].searchsorted(words)
            size = batch.body[0].searchsorted(words, side="right") - start
            if np.count_nonzero(size):
                index, owner = ranges(start, size)
                owners.append(owner)
                parts.append(gather(batch.body, index))
        owner, found, diffs = self._gathered(owners, parts)
        same = (found == rows.take(owner, axis=1)).all(axis=0)
        return add_up(owner, np.where(same, diffs[0], 0), rows.shape[1])

    @property
    def _columns(self) -> slice:
        return slice(1, 1 + self.layout.columns)

    def _until(self, at: int | None) -> Iterator[Batch]:
        return (b for b in self.runs if at is None or b.lower <= at)

    @staticmethod
    def _visible(body: Words, batch: Batch, at: int | None) -> Words:
        return body.compress(body[-1] <= at, axis=1) if batch.timed and at is not None else body

    def _gathered(
        self, owners: list[npt.NDArray[np.intp]], parts: list[Words]
    ) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]:
        facts = 1 + self.layout.columns + self.layout.width
        if len(parts) == 1:
            owner, body = owners[0], parts[0]
        elif parts:
            owner, body = np.concatenate(owners), np.concatenate([p[:facts] for p in parts], axis=1)
        else:
            owner, body = np.empty(0, dtype=np.intp), np.empty((facts, 0), dtype=np.int64)
        return owner, body[self._columns], body[self.layout.diff_rows]

    # --- what the engine does -------------------------------------------------

    def insert(self, rows: Words, diffs: Diffs, strings: Strings) -> Words:
        """Append the epoch's batch at time ``upper``; returns its body. Not visible to merges before :meth:`commit`.

        Raises RowError where a row would be there 2**62 times or more.
        """
        body = self.layout.body(rows, diffs, strings)
        self.insert_body(body)
        return body

    def insert_body(self, body: Words) -> None:
        """Append a body that is sorted and consolidated already. Raises RowError as :meth:`insert` does."""
        if not body.shape[1]:
            return
        diffs = body[1 + self.layout.columns]
        if self.layout.width == 1 and diffs.max() >= LIMIT >> 22:
            # Smaller ones come to as much after millions of epochs, and would have to be of one row each time.
            at = np.flatnonzero(diffs >= LIMIT >> 22)
            there = self.multiplicity(body[self._columns].take(at, axis=1), body[0].take(at))
            if (there + diffs[at] >= LIMIT).any():
                raise too_many(self.name)
        self.runs.append(Batch(body, self.upper))

    def mark(self) -> tuple[list[Batch], list[spine.Merge], int, int]:
        """What :meth:`rollback` needs: batches are immutable, so two lists are the whole state."""
        return list(self.runs), list(self.merges), self.upper, self._floor

    def rollback(self, mark: tuple[list[Batch], list[spine.Merge], int, int]) -> None:
        """Undo everything since the mark. A merge that got further meanwhile stays valid: its inputs are the same."""
        self.runs, self.merges, self.upper, self._floor = list(mark[0]), list(mark[1]), mark[2], mark[3]

    def load(self, body: Words) -> None:
        """Start from contents that were there before this arrangement was; the past cannot be read."""
        self.runs, self.merges, self._floor = [Batch(body, 0)] if body.shape[1] else [], [], self.upper - 1

    def commit(self, upper: int) -> None:
        """Seal the epochs before ``upper``, then merge a share of work that is bounded by the rows they brought."""
        fresh = sum(map(len, takewhile(lambda b: b.lower >= self.upper, reversed(self.runs))))
        self.upper = upper
        if fresh:
            spine.merge_some(self, fresh)

    def compact(self) -> None:
        """Merge all that since allows, at once."""
        spine.compact(self)

    def recode(self, moved: Words) -> None:
        """Replace the codes of strings, ``moved`` from old to new. Hashes are of texts, so the order of rows stays."""
        spine.finish_merges(self)
        lines = [1 + i for i, kind in enumerate(self.layout.types) if kind is Type.STRING]
        for at, batch in enumerate(self.runs if lines else []):
            body = batch.body.copy()
            for line in lines:
                body[line] = np.where(body[line] == NULL, NULL, moved.take(np.maximum(body[line], 0)))
            self.runs[at] = Batch(body, batch.lower, batch.timed)

    def fold_times(self) -> None:
        """After since has moved: fold the times that it let go of, so that what they kept apart can cancel."""
        spine.fold_times(self)

    def __repr__(self) -> str:
        held = f"rows={self.rows}, batches={len(self.runs)}"
        return f"Arrangement({self.name}, since={self.since}, upper={self.upper}, {held})"
