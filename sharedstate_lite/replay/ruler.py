"""An arrangement in time, as a recording shows it: its batches, since and upper, and who reads it where."""

from __future__ import annotations

import numpy as np

from ..changelog.changes import value_order
from ..plan.nodes import Column
from ..storage.batch import Batch
from .parts import Piece, Snap, Structure
from .recording import Pin, Row, Ruler, Span
from .rows import Content, decode
from .state import History

RULED = 60
"""Rows of a batch that are given."""


class Rulers:
    """Makes the rulers of a history's arrangements."""

    def __init__(self, history: History) -> None:
        self._history, self._strings = history, history.strings

    def ruler(self, snap: Snap, s: Structure, step: int, change: Content) -> Ruler:
        """The arrangement of a piece of state after a step; ``change`` is what its message has brought so far."""
        line = self._history.lines[snap.piece.name]
        before = line.at(step - 1) if step else snap
        known = {id(b) for b in before.runs} if before is not None else set()
        lowers = [0, *(b.lower for b in snap.runs[1:])]
        uppers = [*(b.lower for b in snap.runs[1:]), snap.upper]
        own = line.since(self._history.start(step), step)
        spans = tuple(
            self._span(b, lower, upper, snap, own.get(id(b), -1), step, id(b) not in known, change)
            for b, lower, upper in zip(snap.runs, lowers, uppers, strict=False)
        )
        old = snap if before is None else before
        pins = (*self._readers(snap.piece, s, step), *_held(snap, before))
        return Ruler(spans, snap.since, snap.upper, old.since, old.upper, pins)

    def _span(
        self, batch: Batch, lower: int, upper: int, snap: Snap, came: int, step: int, fresh: bool, change: Content
    ) -> Span:
        """A batch; ``came`` is the step that brought it in this message, -1 for one that was there or was merged."""
        columns = snap.layout.columns
        rows, diffs, times = batch.body[1 : 1 + columns], batch.body[1 + columns], batch.times()
        order = value_order(tuple(Column("", t) for t in snap.layout.types), rows, self._strings)[:RULED]
        given = rows.take(order, axis=1)
        before = np.zeros(len(order), dtype=np.int64)
        if came < 0:
            # What a merge has copied is not new; what this message changed is.
            places = change.places(given, self._strings)
            before = diffs[order].copy()
            last = snap.upper - 1
            mine = (places >= 0) & ((times[order] == last) | (snap.since >= last))
            before[mine] -= change.counts[places[mine]]
        facts = zip(
            decode(given, snap.layout.types, self._strings),
            diffs[order].tolist(),
            before.tolist(),
            times[order].tolist(),
            strict=True,
        )
        told = [
            Row(v, d, b, None, came == step, False, max(t, snap.since) if t <= snap.since else t, t <= snap.since)
            for v, d, b, t in facts
        ]
        return Span(lower, upper, tuple(told), len(batch), fresh and bool(step))

    def _readers(self, piece: Piece, s: Structure, step: int) -> list[Pin]:
        """The operators that read an arrangement: at this epoch once they have acted, else at the one before."""
        readers = [b for a, b, kind in s.edges if a == piece.owner and kind == "read"]
        return [Pin(r, self._reached(r, step), self._reached(r, step - 1) if step else None) for r in readers]

    def _reached(self, operator: str, step: int) -> int:
        """The epoch up to which an operator has read."""
        chapter = self._history.chapter(step)
        if chapter is None:
            return 0
        first, last = self._history.spans[chapter.number]
        acted = any(d.operator == operator for d in self._history.drafts[first - 1 : step])
        return chapter.epoch if acted or step == last else self._reached(operator, first - 1)


def _held(snap: Snap, before: Snap | None) -> list[Pin]:
    was = dict(before.handles) if before is not None else {}
    return [Pin(reader, time, was.get(reader), True) for reader, time in snap.handles]
