"""Joins, as pure functions of the deltas and the stored sides of a join.

Both sides can change in the same epoch, and each pair of rows must be joined exactly once. The left delta is therefore
joined with the right side *including* this epoch's changes, and the right delta with the left side *without* them:

    d(L join R) = dL join R_new  +  L_old join dR

Applied to n inputs, the same rule results in a delta join. Source: McSherry et al., Differential dataflow, CIDR 2013,
and the delta queries of Materialize.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .. import loops
from ..plan.nodes import Type
from ..storage.arrangement import Arrangement, Run
from ..storage.batch import Delta, concat, distinct
from ..storage.encoding import NULL, Dictionary, Words
from ..storage.multiplicity import LIMIT, add_up, overflow
from .join_order import Step

Columns = tuple[tuple[int, int], ...]
"""Pairs of a column of a delta and one of its partners."""

Matches = tuple[npt.NDArray[np.intp], Words, npt.NDArray[np.int64]]
"""Three arrays for m matches: the positions of their keys, the rows, int64[k, m], and the diffs, int64[w, m]."""


class Side(Protocol):
    """One side of a join: stored rows that can be looked up by the join's key."""

    columns: int

    @property
    def stored(self) -> Arrangement | None:
        """The arrangement of the rows by the join's key, or None if only `match` can find them."""
        ...

    def match(self, keys: Words, at: int | None) -> Matches:
        """Find the rows with a key in ``keys``, int64[len(key), q], as of time ``at``.

        If ``at`` is None, the result includes this epoch's changes.
        """
        ...


class JoinedRows:
    """The rows of a delta, each joined with its partners: int64[own + others + 1, m], with the products of the diffs.

    With ``last``, the columns of the delta come after those of the partner.
    """

    def __init__(self, delta: Delta, others: int, last: bool) -> None:
        self.given, self.last = delta, last
        self.lines = np.empty((len(delta.rows) + others + 1, len(delta.diffs) + 16), dtype=np.int64)
        self.count = np.zeros(2, dtype=np.int64)

    def add(self, run: Run, wanted: Words, equal: Words) -> None:
        """Add the joined rows of a batch; see `join` in :mod:`..loops.joins`."""
        (batch, n, time_line, time), row = run, 0
        given = batch, n, wanted, *self.given, equal, time_line, time, float(LIMIT), self.last
        while (row := loops.join(*given, row, self.count, self.lines)) < 0:
            row = -1 - row
            self.lines = np.concatenate([self.lines, np.empty_like(self.lines)], axis=1)

    def delta(self) -> Delta:
        """Return the joined rows."""
        return Delta(self.lines[:-1, : self.count[0]], self.lines[-1, : self.count[0]])


def half_join(
    delta: Delta,
    keys: tuple[int, ...],
    side: Side,
    at: int | None,
    strings: Dictionary,
    checks: Columns = (),
    last: bool = False,
) -> Delta:
    """Join each row of a delta with its matches on one side as of time ``at`` (None: including this epoch's changes).

    Each of the ``checks`` is a column of the delta and one of the side that must be equal as well. Returns the columns
    of the delta and those of the side, or the other way around if ``last``. A key that contains NULL does not match.
    Raises RowError if a product of diffs reaches 2**62.
    """
    probe, stored = delta.rows[list(keys)], side.stored
    if stored is not None:
        joined = JoinedRows(delta, side.columns, last)
        equal = _columns((*zip(keys, stored.layout.key, strict=True), *checks))
        wanted, runs = stored.probe(probe, strings, at)
        for run in runs:
            joined.add(run, wanted, equal)
        if not joined.count[1]:
            return joined.delta()
    live = np.flatnonzero((probe != NULL).all(axis=0))
    owner, rows, diffs = side.match(probe.take(live, axis=1), at)
    for _ in range(2):
        # These matches are joined like a batch whose sort words contain the position of the delta's row.
        order = owner.argsort(kind="stable")
        batch = np.concatenate([live.take(owner)[None, :] << 32, rows, diffs[:1]]).take(order, axis=1)
        joined = JoinedRows(delta, side.columns, last)
        joined.add((batch, len(order), 0, 0), np.arange(len(delta.diffs)) << 32, _columns(checks))
        if not joined.count[1]:
            return joined.delta()
        # Matches that cancel can have larger diffs than their sum, and only an overflow of the sum is an error.
        owner, rows, total = net(owner, rows, diffs[0], (Type.BIGINT,) * len(rows), strings)
        diffs = total[None, :]
    raise overflow()


@cache
def _columns(columns: Columns) -> Words:
    return np.array(columns, dtype=np.int64).reshape(-1, 2).T.copy()


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
        parts.append(half_join(left, keys[0], sides[1], None, strings))
    if len(right.diffs):
        parts.append(half_join(right, keys[1], sides[0], before, strings, last=True))
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
    places = {start: range(len(delta.rows))}
    for step, side in path:
        lookup = tuple(places[other][column] for other, column in step.lookup)
        checks = tuple((places[other][place], column) for column, (other, place) in step.checks)
        at = None if step.input > start else before
        width = len(delta.rows)
        delta = half_join(delta, lookup, side, at, strings, checks)
        places[step.input] = range(width, len(delta.rows))
    return Delta(delta.rows[[line for number in sorted(places) for line in places[number]]], delta.diffs)


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
