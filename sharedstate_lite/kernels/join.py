"""Joins as pure functions over deltas and arrangements; reduce is in :mod:`.aggregate`.

Every kernel is written once and called by all strategies, in one process and on
Spark. None owns state, knows an engine, or loops over rows.

Deltas of one epoch arrive together, on both sides of a join. Each pair of rows must
meet once: the left delta sees the right side with this epoch's changes, the right
delta sees the left side without them (the bilinear rule of differential dataflow,
McSherry et al., CIDR 2013; for n inputs the same rule makes a delta query).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..plan.nodes import Type
from ..storage.batch import Delta, concat, distinct, ranges
from ..storage.encoding import NULL, Strings, Words
from ..storage.multiplicity import add_up, times
from .join_order import Step

Matches = tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]
"""For each match: the position of the key it matched, its row int64[k, m], its diffs int64[w, m]."""


class Side(Protocol):
    """One side of a join: rows that can be looked up by the join's key."""

    columns: int

    def match(self, keys: Words, at: int | None) -> Matches:
        """Rows whose key is among ``keys`` int64[len(key), q], at a time; None sees this epoch's changes too."""
        ...


def half_join(
    delta: Delta, keys: tuple[int, ...], types: tuple[Type, ...], side: Side, at: int | None, strings: Strings
) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]:
    """Each row of a delta with its partners on one side.

    Returns positions in the delta, the partners' rows int64[k, m], and the products of
    the diffs. A NULL in the key has no partner. ``at`` is what tells ``<`` (the time
    before this epoch) from ``<=`` (None).
    """
    probe = delta.rows[list(keys)]
    live = np.flatnonzero((probe != NULL).all(axis=0))
    if not len(live):
        return np.empty(0, dtype=np.intp), np.empty((side.columns, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    if len(live) < probe.shape[1]:
        probe = probe.take(live, axis=1)
    first, kind = distinct(probe, types, strings)
    owner, rows, diffs = side.match(probe.take(first, axis=1), at)
    most = float(diffs[0].max(initial=0))
    if most > 1 and most * float(np.abs(delta.diffs).max()) >= 2.0**62:
        # What went in an earlier epoch may have been there more often than what is left: let it cancel first.
        owner, rows, total = net(owner, rows, diffs[0], (Type.BIGINT,) * len(rows), strings)
        diffs = total[None, :]
    sizes = np.bincount(owner, minlength=len(first))
    if len(owner) == np.count_nonzero(sizes):
        # No key has two partners, as where that side's key is unique: each row is there once or not at all.
        place = np.empty(len(first), dtype=np.intp)
        place[owner] = np.arange(len(owner))
        who = sizes.take(kind).nonzero()[0]
        pick = place.take(kind.take(who))
    else:
        starts = sizes.cumsum() - sizes
        index, who = ranges(starts.take(kind), sizes.take(kind))
        pick = owner.argsort(kind="stable").take(index)
    who = live.take(who)
    return who, rows.take(pick, axis=1), times(delta.diffs.take(who), diffs[0].take(pick))


def join_core(
    deltas: tuple[Delta, Delta],
    sides: tuple[Side, Side],
    keys: tuple[tuple[int, ...], tuple[int, ...]],
    types: tuple[Type, ...],
    before: int,
    strings: Strings,
) -> Delta:
    """The change of an inner join: left columns, then right ones.

    ``before`` is the time before this epoch; both sides hold this epoch's changes already.
    """
    left, right = deltas
    parts = []
    if len(left.diffs):
        who, rows, diffs = half_join(left, keys[0], types, sides[1], None, strings)
        parts.append(Delta(np.concatenate([left.rows.take(who, axis=1), rows]), diffs))
    if len(right.diffs):
        who, rows, diffs = half_join(right, keys[1], types, sides[0], before, strings)
        parts.append(Delta(np.concatenate([rows, right.rows.take(who, axis=1)]), diffs))
    return concat(parts, sides[0].columns + sides[1].columns)


def padding(
    deltas: tuple[Delta, Delta],
    sides: tuple[Side, Side],
    keys: tuple[tuple[int, ...], tuple[int, ...]],
    types: tuple[Type, ...],
    before: int,
    strings: Strings,
) -> Delta:
    """The change of a LEFT JOIN's other half: left rows without a partner, padded with NULL.

    A left change without a partner now passes; where the right side gained its first
    partner for a key, or lost its last, the left rows that were there change sides.
    """
    left, right = deltas
    parts = [left.take(_partners(left.rows[list(keys[0])], types, sides[1], None, strings) == 0)]
    probe = right.rows[list(keys[1])]
    probe = probe.compress((probe != NULL).all(axis=0), axis=1)
    if probe.shape[1]:
        first, _ = distinct(probe, types, strings)
        probe = probe.take(first, axis=1)
        had = _partners(probe, types, sides[1], before, strings) > 0
        has = _partners(probe, types, sides[1], None, strings) > 0
        turned = np.flatnonzero(had != has)
        owner, rows, diffs = sides[0].match(probe.take(turned, axis=1), before)
        sign = np.where(has[turned], -1, 1)
        parts.append(Delta(rows, diffs[0] * sign[owner]))
    out = concat(parts, sides[0].columns)
    nulls = np.full((sides[1].columns, len(out.diffs)), NULL, dtype=np.int64)
    return Delta(np.concatenate([out.rows, nulls]), out.diffs)


def _partners(
    probe: Words, types: tuple[Type, ...], side: Side, at: int | None, strings: Strings
) -> npt.NDArray[np.int64]:
    """How many rows of a side have each key; 0 for a key with NULL."""
    out = np.zeros(probe.shape[1], dtype=np.int64)
    live = np.flatnonzero((probe != NULL).all(axis=0))
    if len(live):
        some = probe.take(live, axis=1)
        first, kind = distinct(some, types, strings)
        owner, _, diffs = side.match(some.take(first, axis=1), at)
        out[live] = add_up(owner, diffs[0], len(first))[kind]
    return out


def delta_path(delta: Delta, start: int, path: Sequence[tuple[Step, Side]], before: int, strings: Strings) -> Delta:
    """One input's change through a delta join: a half join with each other input in turn.

    A later input is read with this epoch's changes, an earlier one without them, so of
    simultaneous changes each combination counts once. Returns the inputs' columns in
    input order.
    """
    parts: dict[int, Words] = {start: delta.rows}
    diffs = delta.diffs
    for step, side in path:
        probe = Delta(np.stack([parts[who][column] for who, column in step.lookup]), diffs)
        at = None if step.input > start else before
        who, rows, diffs = half_join(probe, tuple(range(len(step.lookup))), step.types, side, at, strings)
        parts = {n: p.take(who, axis=1) for n, p in parts.items()}
        parts[step.input] = rows
        for column, (other, place) in step.checks:
            keep = np.flatnonzero(rows[column] == parts[other][place])
            parts, diffs = {n: p.take(keep, axis=1) for n, p in parts.items()}, diffs.take(keep)
            rows = parts[step.input]
    return Delta(np.concatenate([parts[n] for n in sorted(parts)]), diffs)


def net(
    owner: npt.NDArray[np.intp], rows: Words, diffs: npt.NDArray[np.int64], types: tuple[Type, ...], strings: Strings
) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]:
    """Add up the diffs of equal (owner, row); what cancels is left out."""
    tagged = np.concatenate([owner[None, :].astype(np.int64), rows])
    first, kind = distinct(tagged, (Type.BIGINT, *types), strings)
    total = add_up(kind, diffs, len(first))
    keep = first[total != 0]
    return owner.take(keep), rows.take(keep, axis=1), total[total != 0]
