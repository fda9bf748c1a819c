"""Joins, as pure functions of the deltas and the stored sides of a join.

Both sides can change in the same epoch, and each pair of rows must be joined exactly once. The left delta is therefore
joined with the right side *including* this epoch's changes, and the right delta with the left side *without* them:

    d(L join R) = dL join R_new  +  L_old join dR

Applied to n inputs, the same rule results in a delta join. Source: McSherry et al., Differential dataflow, CIDR 2013,
and the delta queries of Materialize.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .. import loops
from ..errors import RowError
from ..plan.nodes import Type
from ..storage.batch import Delta, concat, distinct
from ..storage.encoding import NULL, Dictionary, Words
from ..storage.multiplicity import add_up, times
from .join_order import Step

Matches = tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]
"""Three arrays for m matches: the positions of their keys, the rows, int64[k, m], and the diffs, int64[w, m]."""


class Side(Protocol):
    """One side of a join: stored rows that can be looked up by the join's key."""

    columns: int

    def match(self, keys: Words, at: int | None) -> Matches:
        """Find the rows with a key in ``keys``, int64[len(key), q], as of time ``at``.

        If ``at`` is None, the result includes this epoch's changes.
        """
        ...


def half_join(
    delta: Delta, keys: tuple[int, ...], side: Side, at: int | None, strings: Dictionary
) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]:
    """Join each row of a delta with its matches on one side as of time ``at`` (None: including this epoch's changes).

    Returns three arrays for m matches: the positions of the delta's rows, the rows found, int64[k, m], and the products
    of the diffs. A key that contains NULL does not match. Raises RowError if a product reaches 2**62.
    """
    probe = delta.rows[list(keys)]
    live = None
    if loops.outside(probe.reshape(-1), -(2**63), 2**63 - 1, NULL) >= 0:
        live = np.flatnonzero((probe != NULL).all(axis=0))
        probe = probe.take(live, axis=1)
    who, rows, found = side.match(probe, at)
    diffs = found[0]
    if live is not None:
        who = live.take(who)
    try:
        return who, rows, times(delta.diffs, who, diffs)
    except RowError:
        # Matches that cancel can have larger diffs than their sum, and only an overflow of the sum is an error.
        who, rows, diffs = net(who, rows, diffs, (Type.BIGINT,) * len(rows), strings)
        return who, rows, times(delta.diffs, who, diffs)


def join_core(
    deltas: tuple[Delta, Delta],
    sides: tuple[Side, Side],
    keys: tuple[tuple[int, ...], tuple[int, ...]],
    before: int,
    strings: Dictionary,
) -> Delta:
    """Return the change of an inner join's output, with the left columns before the right columns.

    Both sides must already store this epoch's changes. ``before`` is the previous epoch.
    """
    left, right = deltas
    parts = []
    if len(left.diffs):
        who, rows, diffs = half_join(left, keys[0], sides[1], None, strings)
        parts.append(Delta(np.concatenate([left.rows.take(who, axis=1), rows]), diffs))
    if len(right.diffs):
        who, rows, diffs = half_join(right, keys[1], sides[0], before, strings)
        parts.append(Delta(np.concatenate([rows, right.rows.take(who, axis=1)]), diffs))
    return concat(parts, sides[0].columns + sides[1].columns)


def padding(
    deltas: tuple[Delta, Delta],
    sides: tuple[Side, Side],
    keys: tuple[tuple[int, ...], tuple[int, ...]],
    types: tuple[Type, ...],
    before: int,
    strings: Dictionary,
) -> Delta:
    """Return the change of a LEFT JOIN's padded rows, which are the left rows without a match, followed by NULLs.

    Changes of left rows without a match are emitted with padding. If a key gets its first match on the right, the
    padded rows of the stored left rows are retracted. If it loses its last match, they are inserted again.
    """
    left, right = deltas
    parts = [left.take(_match_counts(left.rows[list(keys[0])], types, sides[1], None, strings) == 0)]
    probe = right.rows[list(keys[1])]
    probe = probe.compress((probe != NULL).all(axis=0), axis=1)
    if probe.shape[1]:
        first, _ = distinct(probe, types, strings)
        probe = probe.take(first, axis=1)
        had = _match_counts(probe, types, sides[1], before, strings) > 0
        has = _match_counts(probe, types, sides[1], None, strings) > 0
        turned = np.flatnonzero(had != has)
        owner, rows, diffs = sides[0].match(probe.take(turned, axis=1), before)
        sign = np.where(has[turned], -1, 1)
        parts.append(Delta(rows, diffs[0] * sign[owner]))
    out = concat(parts, sides[0].columns)
    nulls = np.full((sides[1].columns, len(out.diffs)), NULL, dtype=np.int64)
    return Delta(np.concatenate([out.rows, nulls]), out.diffs)


def _match_counts(
    probe: Words, types: tuple[Type, ...], side: Side, at: int | None, strings: Dictionary
) -> npt.NDArray[np.int64]:
    """Return, for each key, the number of rows with this key on a side. It is 0 for a key that contains NULL."""
    out = np.zeros(probe.shape[1], dtype=np.int64)
    live = np.flatnonzero((probe != NULL).all(axis=0))
    if len(live):
        some = probe.take(live, axis=1)
        first, kind = distinct(some, types, strings)
        owner, _, diffs = side.match(some.take(first, axis=1), at)
        out[live] = add_up(owner, diffs[0], len(first))[kind]
    return out


def delta_path(delta: Delta, start: int, path: Sequence[tuple[Step, Side]], before: int, strings: Dictionary) -> Delta:
    """Join the change of input number ``start`` with all other inputs, along a path of half joins.

    Inputs after ``start`` are read with this epoch's changes, and earlier inputs without them, so that each combination
    of simultaneous changes is joined exactly once. Returns the columns of all inputs, in the order of the inputs.
    """
    parts: dict[int, Words] = {start: delta.rows}
    diffs = delta.diffs
    for step, side in path:
        probe = Delta(np.stack([parts[who][column] for who, column in step.lookup]), diffs)
        at = None if step.input > start else before
        who, rows, diffs = half_join(probe, tuple(range(len(step.lookup))), side, at, strings)
        parts = {n: p.take(who, axis=1) for n, p in parts.items()}
        parts[step.input] = rows
        for column, (other, place) in step.checks:
            keep = np.flatnonzero(rows[column] == parts[other][place])
            parts, diffs = {n: p.take(keep, axis=1) for n, p in parts.items()}, diffs.take(keep)
            rows = parts[step.input]
    return Delta(np.concatenate([parts[n] for n in sorted(parts)]), diffs)


def net(
    owner: npt.NDArray[np.intp],
    rows: Words,
    diffs: npt.NDArray[np.int64],
    types: tuple[Type, ...],
    strings: Dictionary,
) -> tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]:
    """Add up the diffs of equal (owner, row) pairs, and drop pairs whose sum is 0."""
    tagged = np.concatenate([owner[None, :].astype(np.int64), rows])
    first, kind = distinct(tagged, (Type.BIGINT, *types), strings)
    total = add_up(kind, diffs, len(first))
    keep = first[total != 0]
    return owner.take(keep), rows.take(keep, axis=1), total[total != 0]
